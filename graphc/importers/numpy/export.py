"""Export functions of `graphc.jit(frontend="numpy")` as models in files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from graphc.errors import GraphError, graph_error
from graphc.importers.jax.call.ahead import NamedSizes, sizes_of_examples
from graphc.importers.jax.call.exact_export import ExportRequest
from graphc.importers.jax.call.export import (
    ONE_BY_ONE,
    compile_for_export,
    error_for_small_sizes,
    has_small,
    no_graph_error,
    struct_spec,
)
from graphc.importers.jax.sizes.family import CHECKED
from graphc.importers.jax.sizes.pattern import (
    SizePattern,
    shapes_of,
    text_of_sizes,
)
from graphc.importers.jax.trace.arguments import JaxCall
from graphc.importers.jax.trace.decisions import Decisions
from graphc.importers.jax.trace.tracing import Spec
from graphc.importers.numpy.arguments import specs_of
from graphc.importers.numpy.tracing import NumpyTrace, trace_function
from graphc.ir.graph.nodes import Graph
from graphc.runtime.save.export import Contents
from graphc.transform.planning.forecast import sizes_of_calls


def numpy_specs(call: JaxCall, function: Callable[..., object]) -> list[Spec]:
    """The types of the leaves in NumPy's dtypes. Raises GraphError for other leaves."""
    specs = [struct_spec(leaf) for leaf in call.leaves]
    pairs = zip(call.leaves, specs, strict=True)
    examples = [x if spec is None else np.zeros((), spec.dtype) for x, spec in pairs]
    try:
        of_examples = specs_of(replace(call, leaves=examples), function)
    except TypeError as error:
        raise graph_error(f"{error}", op="export") from None
    return [a if b is None else b for a, b in zip(of_examples, specs, strict=True)]


def contents_of_file(
    request: ExportRequest, sizes: NamedSizes, platforms: Sequence[str], graph: bool
) -> tuple[Contents, Graph | None]:
    """Return the contents of a function's file, and its graph if `graph` is set."""
    known = sizes_of_examples(request.call, request.pattern) | dict(sizes)
    axis_sizes = {name: n for name, n in known.items() if name in request.pattern.names}
    calls = sizes_of_calls(request.pattern.names, axis_sizes, "export")
    padded = request.options.dims not in ONE_BY_ONE
    why = f"dims={request.options.dims!r}" if padded else "graph=True" * graph
    pattern, trace = _trace(request, calls, why)
    if not pattern.names:
        known = {k: n for k, n in known.items() if k not in request.pattern.names}
    _require_types(request, trace, calls)
    f = compile_for_export(trace.checked(request.options.check), request.options)
    file_contents = f.contents(_integers(request, trace, known) | known, platforms)
    request.dress(file_contents, trace.tree)
    file_contents.inputs = request.inputs()
    file_contents.least = pattern.least if pattern.names else 0
    return file_contents, trace.graph if graph else None


def _trace(
    request: ExportRequest, calls: Sequence[Mapping[str, int]], why: str
) -> tuple[SizePattern, NumpyTrace]:
    """Trace the function at named sizes, or at the numbers of a single call.

    Returns the pattern too. Raises GraphError if neither way works, and for small sizes
    among others. `why` names what needs a program for other sizes, too, or is "".
    """
    fixed = SizePattern(tuple(tuple(s.shape) for s in request.at(calls[0])))
    unlike = any(call != calls[0] for call in calls)
    small = [call for call in calls if has_small(request, call)]
    if small and unlike:
        raise error_for_small_sizes(
            request.pattern.least, small, "export such a size to a file of its own"
        )
    if small:
        return fixed, _traced(request, fixed)
    try:
        trace = _traced(request, request.pattern, calls[0])
    except GraphError as error:  # from Python code that needs a size as a number
        if not unlike:
            return fixed, _traced(request, fixed)
        hint = "export each size to a file of its own, if Python decides by it"
        error.args = (f"{error.args[0]}\n  hint: {hint}", *error.args[1:])
        raise
    if trace.decisions.taken and not unlike:
        return fixed, _traced(request, fixed)
    _require_same_decisions(trace.decisions, calls, why)
    return request.pattern, trace


def _require_same_decisions(
    decisions: Decisions, calls: Sequence[Mapping[str, int]], why: str
) -> None:
    """Raise GraphError unless one program serves all calls, and others for `why`."""
    by_sizes = "a function that decides by sizes"
    if why and decisions.taken:
        fact = decisions.described(decisions.taken)[0]
        then = "the sizes that you list have a program, if it decides alike at them"
        raise no_graph_error(why, f"{by_sizes}: {fact}", then)
    for call in calls:
        for fact in decisions.described(decisions.differing(call)):
            unlike = f"not so for {text_of_sizes(call)}"
            raise graph_error(
                "one program is to serve all sizes of a file",
                op="export",
                got=f"{by_sizes}: {fact}, {unlike}",
                hint="export the sizes of each answer to a file of their own",
            )


def _traced(
    request: ExportRequest,
    pattern: SizePattern,
    sizes: Mapping[str, int] | None = None,
) -> NumpyTrace:
    """The trace for a pattern, with the decisions of the function at `sizes`."""
    call, words = request.subject.call, pattern.axes(request.names)
    return trace_function(
        request.function, call, pattern, request.specs, request.names, sizes, words
    )


def _require_types(
    request: ExportRequest, trace: NumpyTrace, calls: Sequence[Mapping[str, int]]
) -> None:
    """Raise GraphError if results have different types at the first few sizes."""
    for sizes in calls[:CHECKED]:
        shapes = shapes_of(request.at(sizes))
        if _traced(request, SizePattern(shapes)).types != trace.types:
            got = f"different ones for {text_of_sizes(sizes)}"
            problem = "a file holds results of one structure, dtype and rank"
            raise graph_error(problem, op="export", got=got)


def _integers(
    request: ExportRequest, trace: NumpyTrace, known: NamedSizes
) -> dict[str, int]:
    """The integers that are sizes, taken from the examples of arguments."""
    unknown = {s.name for s in trace.graph.argument_symbols} - known.keys()
    pairs = zip(request.names, request.call.leaves, strict=True)
    return {n: int(x) for n, x in pairs if n in unknown and struct_spec(x) is None}
