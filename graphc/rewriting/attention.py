"""Attention: softmax(query key) value, which accelerators have one op for."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from graphc.analysis.cost import CPU, DeviceCosts
from graphc.ir.build import literal_of
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.types import is_float, product, same_size
from graphc.ops.nn.fused_attention import FUSED_ATTENTION
from graphc.rewriting.loops.producers import UsersOf
from graphc.rewriting.loops.scan_view import Late, with_made
from graphc.rewriting.rule import Replaced, Rule, whole_graph


class _Attention(NamedTuple):
    """The operands of softmax(scale query key) value; key is (..., rows, width)."""

    query: Value
    key: Value
    value: Value
    scale: float


def attending(costs: DeviceCosts = CPU) -> Rule:
    """The rule that gives attention to the kernel of the device."""

    @whole_graph(
        over=("matmul",),
        exact=False,
        name="fused_attention",
        late=True,
        tuned=attending,
    )
    def rule(graph: Graph) -> Replaced | None:
        """softmax(q k.T) v is `jax.nn.dot_product_attention`, on accelerators."""
        if not costs.launches:
            return None
        nodes, late = graph.nodes, dict[Value, Late]()
        uses = UsersOf(nodes, graph)
        for node in nodes:
            found = _attention(node, uses)
            if found is not None and _fits(found, costs):
                late[node.outputs[0]] = partial(_fused, found)
        return with_made(graph, nodes, {}, late) if late else None

    return rule


def _fits(found: _Attention, costs: DeviceCosts) -> bool:
    """Whether the device may keep all pairs; else they are made in blocks."""
    q, k, v = (x.type.shape for x in found[:3])
    pairs = product((*q[:-1], k[-2]))
    if not isinstance(pairs, int) or pairs * 4 > costs.temporary:
        return False
    lead = zip(q[:-2], k[:-2], v[:-2], strict=True)
    same = all(same_size(a, b) and same_size(a, c) for a, b, c in lead)
    dtypes = {x.dtype for x in found[:3]}
    wide = max(dtype.itemsize for dtype in dtypes) > 4  # of which it would lose digits
    return same and same_size(q[-1], v[-1]) and len(dtypes) == 1 and not wide


def _fused(found: _Attention, known: Callable[[Value], Value]) -> Value:
    """The op, on what is `known` for its operands; axes before the last two are one."""
    operands = list(map(known, found[:3]))
    shape = operands[0].type.shape
    batch = product(shape[:-2])
    given = [
        F.reshape(x, (batch, x.type.shape[-2], 1, x.type.shape[-1])) for x in operands
    ]
    made: Value = F.reshape(FUSED_ATTENTION(*given, scale=found.scale), shape)
    return made


def _attention(node: Node, uses: UsersOf) -> _Attention | None:
    """Attention, where a product is just that and nothing else needs its parts."""
    if node.primitive is not OP.matmul:
        return None
    weights, value = node.inputs
    parts = _softmax(_converted(weights))
    if parts is None:
        return None
    logits, exps = parts
    scale, products = _scaled(_converted(logits))
    if products.node.primitive is not OP.matmul:
        return None
    query, turned = map(_converted, products.node.inputs)
    key = _turned(turned)
    ranks = {query.type.rank, value.type.rank, turned.type.rank}
    if key is None or len(ranks) > 1:
        return None
    inside = _between(node, products.node)
    own = weights, _converted(weights), exps, logits, _converted(logits), products
    if not all(uses.are_among(v, inside) for v in own):
        return None
    return _Attention(query, _narrow(key), value, scale)


def _between(last: Node, first: Node) -> set[Node]:
    """The nodes that one is computed by, down to another."""
    found, stack = {last}, [last]
    while stack:
        node = stack.pop()
        before = [v.node for v in node.inputs if v.node.serial >= first.serial]
        stack += [n for n in before if n not in found]
        found.update(before)
    return found


def _converted(value: Value) -> Value:
    """The value before it was converted from one float to another, if it was."""
    node = value.node
    if node.primitive is OP.convert and is_float(node.inputs[0].dtype):
        return node.inputs[0]
    return value


def _narrow(value: Value) -> Value:
    """The value before it was converted, and given axes after that perhaps."""
    node = value.node
    if node.primitive is not OP.expand_dims:
        return _converted(value)
    found: Value = F.expand_dims(_converted(node.inputs[0]), node.params["axes"])
    return found


def _softmax(value: Value) -> tuple[Value, Value] | None:
    """The logits of a softmax along the last axis, and their exponentials."""
    if value.node.primitive is not OP.true_divide:
        return None
    exps, total = value.node.inputs
    last = (exps.type.rank - 1,)
    if total.node.primitive is not OP.sum or total.node.inputs[0] is not exps:
        return None
    if total.node.params["axes"] != last or not total.node.params["keepdims"]:
        return None
    if exps.node.primitive is not OP.exp:
        return None
    shifted = exps.node.inputs[0]
    if shifted.node.primitive is not OP.subtract:
        return None
    logits, peak = shifted.node.inputs
    return (logits, exps) if _is_peak(peak, logits, last) else None


def _is_peak(peak: Value, logits: Value, axes: Sequence[int]) -> bool:
    """Whether a value is the largest of the logits, or 0 where that is infinite."""
    while peak.node.primitive in (OP.stop_gradient, OP.where):
        chosen = peak.node.primitive is OP.where
        peak = peak.node.inputs[1 if chosen else 0]
    found = peak.node
    if found.primitive is not OP.max or found.inputs[0] is not logits:
        return False
    return found.params["axes"] == tuple(axes) and bool(found.params["keepdims"])


def _scaled(logits: Value) -> tuple[float, Value]:
    """The number that products are multiplied by, and these."""
    node = logits.node
    if node.primitive not in (OP.multiply, OP.true_divide):
        return 1.0, logits
    products, by = node.inputs
    if node.primitive is OP.multiply and literal_of(by) is None:
        products, by = by, products
    found = literal_of(by)
    if found is None or found.ndim or not is_float(found.dtype) or not found:
        return 1.0, logits
    number = float(found)
    return (number if node.primitive is OP.multiply else 1 / number), products


def _turned(value: Value) -> Value | None:
    """The operand of a transpose of the last two axes."""
    node, rank = value.node, value.type.rank
    if node.primitive is not OP.transpose:
        return None
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return node.inputs[0] if node.params["axes"] == swapped else None
