"""Whether two graphs compute the same, judged by their structure."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import zip_longest

from graphc.control.scan import SCAN, scan_inputs
from graphc.control.switch import SWITCH
from graphc.importers.jax.read.foreign import JaxFunction
from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Graph, Node, Value, known_sizes
from graphc.ir.graph.structure import GraphReading, Structure
from graphc.ir.namespace import F
from graphc.ir.types import same_shape
from graphc.ops.effects.foreign import FOREIGN
from graphc.ops.indexing.basic import basic, items_of
from graphc.ops.indexing.parse import FULL_ITEM, BasicItem
from graphc.rewriting.engine.fixpoint import rewritten
from graphc.rewriting.engine.rule import rewrite
from graphc.rewriting.match.pattern import p, v
from graphc.rewriting.rules.cleanup import CLEANUP


@rewrite(v.y(p.scatter(v.x(p.broadcast_to(v.fill)), v.w, v.place)), exact=True)
def row_alone(y: Value, x: Value, fill: Value, w: Value, place: Value) -> Value | None:
    """Replace a row written into an array of equal elements by that row, padded.

    JAX takes `x[-1]` as a slice if sizes are numbers, and as a read at a computed place
    otherwise. The derivative of the slice pads the row; that of the read writes it.
    """
    sizes = known_sizes(place)
    if sizes is None or sizes.ndim or fill.type.rank or y.node.params["how"] != "set":
        return None
    (axis,) = y.node.params["axes"]
    shape, at = x.type.shape, sizes[()]
    n = shape[axis]
    is_one = same_shape(w.type.shape, shape[:axis] + shape[axis + 1 :])
    if not (is_one and isinstance(at, int) and isinstance(n, int) and 0 <= at < n):
        return None
    around = [(0, 0)] * x.type.rank
    around[axis] = at, n - 1 - at
    padded: Value = F.pad(F.expand_dims(w, axis), around, constant_values=fill)
    return padded


@rewrite(v.y(p.slice_update(v.x(p.broadcast_to(v.fill)), v.w)), exact=True)
def block_alone(y: Value, x: Value, fill: Value, w: Value) -> Value | None:
    """Replace a block written into an array of equal elements by that block, padded.

    Such a block is the derivative of `x[-1, 0]`, as for `row_alone`.
    """
    bounds = _known_bounds(x, items_of(y.node))
    if bounds is None or fill.type.rank or y.node.params["how"] != "set":
        return None
    pairs = zip(bounds, x.type.shape, strict=True)
    around = [(low, n - high) for (low, high), n in pairs]
    padded: Value = F.pad(w, around, constant_values=fill)
    return padded


@rewrite(v.y(p.basic_index(v.x(p.basic_index(v.whole)))), exact=True)
def part_of_part(y: Value, x: Value, whole: Value) -> Value | None:
    """Take a slice of a slice at once, as JAX does for `x[-1, 0]` of known sizes."""
    outer = _known_bounds(whole, items_of(x.node))
    inner = _known_bounds(x, items_of(y.node))
    if outer is None or inner is None:
        return None
    items: list[BasicItem] = []
    for n, (first, _), (low, high) in zip(whole.type.shape, outer, inner, strict=True):
        low, high = first + low, first + high
        items.append(FULL_ITEM if (low, high) == (0, n) else ("s", low, high, None))
    return basic(whole, tuple(items))


def _known_bounds(x: Value, items: Sequence[BasicItem]) -> list[tuple[int, int]] | None:
    """The bounds of a slice along each axis of `x`; None if they are not all known."""
    bounds = []
    for n, item in zip_longest(x.type.shape, items, fillvalue=FULL_ITEM):
        kind, start, stop, step = item
        is_known = all(end is None or isinstance(end, int) for end in (start, stop))
        if kind != "s" or step is not None or not is_known or not isinstance(n, int):
            return None
        low, high, _ = slice(start, stop).indices(n)
        bounds.append((low, max(low, high)))
    return bounds


_NORMALISING = CLEANUP.exact() + row_alone + block_alone + part_of_part
_NO_MATTER = {"unroll"}  # params that change no value


def are_alike(a: Graph, b: Graph) -> bool:
    """Whether two graphs are proved to compute the same from the same inputs.

    They are if their outputs are the same nodes, either as they stand or after both are
    rewritten by rules that change no value.
    """
    return _are_same(a, b) or _are_same(
        *(rewritten(graph, _NORMALISING).graph for graph in (a, b))
    )


def _are_same(a: Graph, b: Graph) -> bool:
    return _RESULTS.of(a.inputs, a.outputs) == _RESULTS.of(b.inputs, b.outputs)


class _ResultStructure(Structure):
    """The structure that results depend on, once gradients have been taken."""

    def params(self, node: Node, reading: GraphReading) -> Hashable:
        """The params of a node; a function that JAX runs counts as described there."""
        called = _called_function(node)
        if called is None:
            items = node.params.items()
            return tuple([reading.param(p) for k, p in items if k not in _NO_MATTER])
        function, sizes = called
        return function.described(sizes), node.params["shapes"]

    def passed_on(self, node: Node) -> Sequence[Value]:
        """The inputs that a node made only for gradients passes on as its outputs."""
        return node.inputs if node.primitive.for_gradients else ()

    def literals(self, node: Node) -> Mapping[int, int]:
        """The literals that bodies capture, since these may be inside bodies too."""
        return _captured_literals(node)

    def opaque(self, content: object) -> Hashable:
        """A key for a param; nodes are all alike, since no value depends on them."""
        return "a node" if isinstance(content, Node) else content


_RESULTS = _ResultStructure()


def _captured_literals(node: Node) -> dict[int, int]:
    """The places of literals among the values that the bodies of a node capture.

    Each place among the inputs of the node is mapped to that among the bodies' inputs.
    """
    if node.primitive is SCAN:
        parts = scan_inputs(node.inputs, node.params)
        first, shift = len(parts.first) + len(parts.rows), 0
        last = first + len(parts.captures)
    elif node.primitive is SWITCH:
        first, last, shift = 1, len(node.inputs), 1
    else:
        return {}
    inputs = node.inputs
    places = [i for i in range(first, last) if literal_of(inputs[i]) is not None]
    return {i: i - shift for i in places}


def _called_function(node: Node) -> tuple[JaxFunction, tuple[int, ...]] | None:
    """The function that JAX runs in a node, and the numbers of its sizes; else None."""
    if node.primitive is not FOREIGN:
        return None
    function, sizes = node.params["function"].content, node.params["sizes"]
    known = isinstance(function, JaxFunction) and all(type(n) is int for n in sizes)
    return (function, sizes) if known else None
