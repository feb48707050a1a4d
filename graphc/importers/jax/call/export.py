"""Export functions of `graphc.jit` as models: one program per size, or one for all.

By default each size is exported as it is compiled exactly, however Python code decides
by the size. If `dims` asks for padding, one program is exported, which has room for
more sizes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import jax
import jax.dtypes
import numpy as np

from graphc.errors import GraphError, graph_error
from graphc.importers.jax.call.ahead import NamedSizes, sizes_of_examples
from graphc.importers.jax.call.exact_export import (
    ExportRequest,
    contents_by_size,
    require_dtypes,
)
from graphc.importers.jax.call.program import FunctionRead, read_for_pattern
from graphc.importers.jax.read.jaxprs import is_key, words_of
from graphc.importers.jax.read.settings import is_wide
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.sizes.family import CHECKED
from graphc.importers.jax.sizes.pattern import shapes_of, text_of_sizes
from graphc.importers.jax.sizes.words import pattern_of_specs
from graphc.importers.jax.trace.arguments import JaxCall
from graphc.importers.jax.trace.choices import Options
from graphc.importers.jax.trace.recorder import Recorder
from graphc.importers.jax.trace.tracing import ImportedGraph, Spec, TracedFunction
from graphc.ir.graph.build import constant
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.replay import substituted
from graphc.runtime.compile import function
from graphc.runtime.function import Function
from graphc.runtime.save.export import Contents
from graphc.transform.planning.forecast import sizes_of_calls
from graphc_serving.kinds import DTYPES

ONE_BY_ONE = None, "auto", "specialize"  # dims that give each size a program
_EACH = "each of the sizes that you list then has a program"


def export_request(
    called: Callable[..., object],
    call: JaxCall,
    specs: list[Spec],
    shapes: object,
    options: Options,
) -> ExportRequest:
    """Describe a function to export; sizes are named by its types, or else by `shapes`.

    Raises GraphError for arguments of a dtype that a file cannot store.
    """
    for name, spec in zip(call.names(called), specs, strict=True):
        if getattr(spec.dtype, "name", "") not in DTYPES:
            hint = "take jax.random.key_data(key), and wrap it inside the function"
            raise graph_error(
                f"a file cannot hold arguments of this dtype: {name}",
                op="export",
                got=spec.dtype,
                hint=hint if is_key(spec.dtype) else "",
            )
    pattern = pattern_of_specs(specs, shapes, call.form)
    return ExportRequest(called, call, specs, pattern, options)


def struct_spec(leaf: object) -> Spec | None:
    """The type that a `jax.ShapeDtypeStruct` describes; None for any other leaf.

    Its sizes may be symbols of `jax.export.symbolic_shape`, or text. Raises GraphError
    for a formula in place of a name.
    """
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return None
    sizes = [n if isinstance(n, int) else str(n) for n in leaf.shape]
    for n in sizes:
        if isinstance(n, str) and not n.isidentifier():
            problem = "an axis of a type must be a number or a name"
            raise graph_error(problem, got=n)
    dtype = leaf.dtype if is_key(leaf.dtype) else np.dtype(leaf.dtype)
    return Spec(tuple(sizes), dtype, bool(leaf.weak_type))


def jax_specs(call: JaxCall, function: Callable[..., object]) -> list[Spec]:
    """The types of the leaves, as JAX takes them. Raises GraphError for any other."""
    specs = []
    for name, leaf in zip(call.names(function), call.leaves, strict=True):
        try:
            spec = struct_spec(leaf) or Spec.of(leaf)
        except TypeError:
            problem = f"the argument {name} is neither an array nor the type of one"
            hint = "use static_argnames for an argument that stays as it is"
            got = type(leaf).__name__
            raise graph_error(problem, got=got, hint=hint) from None
        wide = is_key(spec.dtype) or is_wide()
        narrow = spec.dtype if wide else jax.dtypes.canonicalize_dtype(spec.dtype)
        specs.append(replace(spec, dtype=narrow))
    return specs


def contents_of_file(
    request: ExportRequest, sizes: NamedSizes, platforms: Sequence[str], graph: bool
) -> tuple[Contents, Graph | None]:
    """Return the contents of a function's file, and its graph if `graph` is set."""
    known = sizes_of_examples(request.call, request.pattern) | dict(sizes)
    calls = sizes_of_calls(request.pattern.names, known, "export")
    if not calls:
        raise graph_error("there are no sizes", op="export", got=str(sizes))
    whole: Graph | None = None
    if request.options.dims not in ONE_BY_ONE:
        _require_no_small(request, calls)
        whole, tree = graph_of_all(request, calls, f"dims={request.options.dims!r}")
        file_contents = compile_for_export(whole, request.options).contents(
            known, platforms
        )
        request.dress(file_contents, tree)
    else:
        file_contents = contents_by_size(request, calls, platforms)
        if graph:
            whole, _ = graph_of_all(
                request, _sizes_for_one_graph(request, calls), "graph=True"
            )
    file_contents.least = request.pattern.least
    return file_contents, whole if graph else None


def has_small(request: ExportRequest, sizes: Mapping[str, int]) -> bool:
    """Whether a varying axis is too short for the program that serves all sizes."""
    least = request.pattern.least
    varying = request.pattern.varying(shapes_of(request.at(sizes)))
    return min(varying, default=least) < least


def _require_no_small(
    request: ExportRequest, calls: Sequence[Mapping[str, int]]
) -> None:
    """Raise GraphError if the model would refuse sizes that it is exported for."""
    small = [sizes for sizes in calls if has_small(request, sizes)]
    if small:
        dims = f"dims={request.options.dims!r}"
        raise error_for_small_sizes(
            request.pattern.least, small, f"leave {dims} out: {_EACH}"
        )


def _sizes_for_one_graph(
    request: ExportRequest, calls: Sequence[Mapping[str, int]]
) -> list[dict[str, int]]:
    """The sizes that one graph can serve. Raises GraphError if there are none."""
    of_many = [dict(sizes) for sizes in calls if not has_small(request, sizes)]
    if not of_many:
        raise error_for_small_sizes(
            request.pattern.least, calls, "list a larger size, too"
        )
    return of_many


def error_for_small_sizes(
    least: int, calls: Iterable[Mapping[str, int]], hint: str
) -> GraphError:
    """Return the error for sizes that the program for all sizes cannot serve."""
    problem = f"sizes below {least} are traced by themselves"
    got = "; ".join(map(text_of_sizes, calls))
    return graph_error(problem, op="export", got=got, hint=hint)


def graph_of_all(
    request: ExportRequest, calls: Sequence[Mapping[str, int]], why: str
) -> tuple[Graph, object]:
    """Return the graph that serves all sizes, and the structure of its results.

    Raises GraphError if the function decides by sizes, is traced differently for some
    of them, or cannot be read as a graph.
    """
    try:
        read = _read_for_all_sizes(request, calls[0])
    except Unsupported as error:
        raise no_graph_error(why, str(error)) from None
    decisions = read.decisions
    if decisions.taken or decisions.opaque:
        facts = decisions.described(decisions.taken) or [
            f"a question asked at {decisions.opaque}"
        ]
        raise no_graph_error(why, f"a function that decides by sizes: {facts[0]}")
    checked = calls[:CHECKED]
    traces = [_trace_that_agrees(request, read, sizes, why) for sizes in checked]
    results = request.subject.results(traces[-1], request.at(checked[-1]))
    outvars = results.inner.outvars
    require_dtypes([v.aval for v in outvars])
    return with_constant_captures(read.source, len(outvars)), results.tree


def _read_for_all_sizes(
    request: ExportRequest, sizes: Mapping[str, int]
) -> FunctionRead:
    words = request.pattern.axes(request.names)
    called = request.subject, request.pattern, request.specs, request.names
    recorder = Recorder(sizes, words, False)
    try:
        return read_for_pattern(*called, recorder)
    except Unsupported:
        if not recorder.was_silent:
            raise
    return read_for_pattern(*called, Recorder(sizes, words, True))


def _trace_that_agrees(
    request: ExportRequest, read: FunctionRead, sizes: Mapping[str, int], why: str
) -> TracedFunction:
    """Return the trace at these sizes. Raises GraphError if `read` differs from it."""
    trace = request.subject.read(request.at(sizes))
    if not read.agrees(trace, sizes):
        shown = text_of_sizes(sizes)
        raise no_graph_error(why, f"a function that is traced differently for {shown}")
    return trace


def no_graph_error(why: str, got: str, then: str = _EACH) -> GraphError:
    """Return the error for a function that is not one graph, which `why` asks for."""
    return graph_error(
        f"{why} needs one program for all sizes",
        op="export",
        got=got,
        hint=f"leave it out: {then}",
    )


def with_constant_captures(source: ImportedGraph, result_count: int) -> Graph:
    """Return a graph of the first `result_count` results, with constant captures."""
    graph, count = source.graph, len(source.graph.inputs) - len(source.captured)
    arrays = [constant(np.asarray(words_of(a))) for a in source.captured]
    new = dict(zip(graph.inputs[count:], arrays, strict=True))
    outputs = substituted(graph.outputs[:result_count], new, {})
    return Graph.of(graph.inputs[:count], outputs)


def compile_for_export(graph: Graph, how: Options) -> Function:
    """Compile a graph with the options of `jit`; it accepts what models accept."""
    return function(
        list(graph.inputs),
        list(graph.outputs),
        dims=how.dims,
        rewrites=how.rewrites,
        check=how.check,
        unused="ignore",
        casting="safe",
    )
