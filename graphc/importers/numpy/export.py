"""Export functions of `graphc.jit(frontend="numpy")` as models in files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from graphc.errors import GraphError, graph_error
from graphc.importers.jax.call.ahead import NamedSizes, sizes_of_examples
from graphc.importers.jax.call.exact_export import ExportRequest
from graphc.importers.jax.call.export import (
    compile_for_export,
    error_for_small_sizes,
    struct_spec,
)
from graphc.importers.jax.sizes.family import CHECKED
from graphc.importers.jax.sizes.pattern import (
    SizePattern,
    shapes_of,
    text_of_sizes,
)
from graphc.importers.jax.trace.arguments import JaxCall
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
    pattern, trace = _trace(request, calls)
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
    request: ExportRequest, calls: Sequence[Mapping[str, int]]
) -> tuple[SizePattern, NumpyTrace]:
    """Trace the function at named sizes, or at the numbers of a single call.

    Returns the pattern too. Raises GraphError if neither way works, and for small sizes
    among others.
    """
    least = request.pattern.least
    small = any(n < least for call in calls for n in call.values())
    unlike = [call for call in calls if call != calls[0]]
    if small and unlike:
        raise error_for_small_sizes(
            least, calls, "export such a size to a file of its own"
        )
    fixed = SizePattern(tuple(tuple(s.shape) for s in request.at(calls[0])))
    patterns = (
        [fixed] if small else [request.pattern] if unlike else [request.pattern, fixed]
    )
    for pattern in patterns[:-1]:
        try:
            return pattern, _traced(request, pattern)
        except GraphError:  # from Python code that decides by a size
            continue
    try:
        return patterns[-1], _traced(request, patterns[-1])
    except GraphError as error:
        if unlike:
            hint = "export each size to a file of its own, if Python decides by it"
            error.args = (f"{error}\n  hint: {hint}",)
        raise


def _traced(request: ExportRequest, pattern: SizePattern) -> NumpyTrace:
    call = request.subject.call
    return trace_function(request.function, call, pattern, request.specs, request.names)


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
