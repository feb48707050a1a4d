"""Integers that serve only as bounds of slices, where they may be beyond any axis.

Python clips such bounds. A program may do so too before it computes sizes with them: it
clips them to 2**49, which is more elements than any axis has.
"""

from collections.abc import Callable, Iterator, Sequence

from graphc.backends.sizes import is_wide
from graphc.ir.graph.bodies import has_bodies, sized_inner_nodes, with_inner_nodes
from graphc.ir.graph.build import SIZE_OP
from graphc.ir.graph.nodes import Graph, Node, Value, entries_of
from graphc.ir.graph.walk import ancestors
from graphc.ir.params.exactness import saturates
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Symbol, clip, substitute

SLICED = (OP.basic_index, OP.slice_update)


def slice_bounds(
    graphs: Sequence[Graph], checked: Sequence[Value], resolve: Callable[[Value], Value]
) -> frozenset[Symbol]:
    """The 64-bit integers that can be clipped without changing the result of any graph.

    `checked` are further conditions that the program tests.
    """
    outputs = [*(v for graph in graphs for v in graph.outputs), *checked]
    is_single = len(graphs) == 1 and not checked
    nodes = graphs[0].nodes if is_single else ancestors(outputs)
    inner_nodes = with_inner_nodes(nodes)
    if all([v._symbol is None for node in inner_nodes for v in node.outputs]):
        return frozenset()  # no integer is a size
    numbers = {resolve(v) for v in outputs}
    sizes: dict[Dim, None] = {}
    for node, size_arguments in sized_inner_nodes(nodes):
        if node.primitive is not SIZE_OP:
            numbers.update(map(resolve, node.inputs))
        for size in _clipped_sizes(node):
            size_outside = (
                substitute(size, size_arguments) if isinstance(size, Dim) else size
            )
            if isinstance(size_outside, Dim):
                sizes[size_outside] = None
    read_symbols = [(s, size) for size in sizes for s in size.symbols if _is_read(s)]
    needed_whole = {
        s for s, size in read_symbols if s.origin in numbers or not saturates(size, s)
    }
    return frozenset(s for s, _ in read_symbols if s not in needed_whole)


def _is_read(symbol: Symbol) -> bool:
    return isinstance(symbol.origin, Value) and is_wide(symbol)


def _clipped_sizes(node: Node) -> Iterator[object]:
    """The sizes that a node depends on, with bounds of slices clipped as Python does.

    Sizes passed to a body are left out here; they count where the body depends on them.
    """
    params = dict(node.params)
    if has_bodies(node):
        del params["sizes"]
    if node.primitive in SLICED:
        starts, stops = params.pop("starts"), params.pop("stops")
        axes = iter(node.inputs[0].type.shape)
        for kind, *ends in zip(params["kinds"], starts, stops, strict=True):
            n = 1 if kind == "n" else next(axes)
            bounds = [end for end in ends if isinstance(end, Dim)]
            yield from bounds if kind == "i" else [clip(end, n) for end in bounds]
    yield from entries_of(params)
    for value in node.outputs:
        yield from value.type.shape
    for guard in node.guards:
        yield from (guard.left, guard.right)
