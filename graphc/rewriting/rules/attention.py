"""Attention: softmax(query key + bias) value, which accelerators have one op for.

The products may be written as `matmul` or as `einsum`. Numbers that are added to them
are a bias, and a `where` with one number for what is hidden is a mask. The rule applies
only where nothing else needs the weights: if a gradient kept them for the way back,
they would be computed twice.
"""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial, reduce
from typing import NamedTuple

import numpy as np

from graphc.analysis.cost import CPU, DeviceCosts
from graphc.ir.graph.build import literal_of, size_value
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import Replaced
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, is_one
from graphc.ir.types import is_float, product, same_shape, same_size
from graphc.ops.common.axes import with_rank
from graphc.ops.nn.fused_attention import FUSED_ATTENTION, HIDDEN
from graphc.rewriting.engine.rule import Rule, whole_graph
from graphc.rewriting.loops.find.producers import UsersOf
from graphc.rewriting.loops.find.scan_view import Late, with_replacements
from graphc.rewriting.match.sizes import at_most
from graphc.rewriting.rules.products import (
    Arranged,
    Product,
    scores_of,
    weighted_sum_of,
)
from graphc.rewriting.rules.softmaxes import (
    Softmax,
    is_causal,
    number_of,
    shown_count,
    shown_lengths,
    softmax_of,
    unconverted,
)

_LEAST_HIDDEN = -1e3  # keys with a larger logit than this may have a weight


class _Logits(NamedTuple):
    """Logits: where(masks, scale products + biases, hidden)."""

    products: Value
    scale: float
    biases: tuple[Value, ...]
    masks: tuple[tuple[Value, bool], ...]  # each with the bool that shows a key
    hidden: float
    shown: Value | None  # the mask of keys that exist; None: all


class _Attention(NamedTuple):
    """Attention on operands (..., rows, width); `order` is of the axes of its result.

    From some axis on, the leading axes of the key may be 1: its heads are shared.
    """

    query: Arranged
    key: Arranged
    value: Arranged
    order: tuple[int, ...]
    logits: _Logits


def attention_rule(costs: DeviceCosts = CPU) -> Rule:
    """Make the rule that gives attention to the kernel of the device."""

    @whole_graph(
        over=("matmul", "einsum"),
        exact=False,
        name="fused_attention",
        late=True,
        tuned=attention_rule,
    )
    def rule(graph: Graph) -> Replaced | None:
        """softmax(q k.T + bias) v, also with a mask, is one op, on accelerators."""
        if not costs.launches:
            return None
        nodes, late = graph.nodes, dict[Value, Late]()
        uses = UsersOf(nodes, graph)
        for node in nodes:
            attention = _match_attention(node, uses)
            if attention is not None and _is_accepted(attention):
                late[node.outputs[0]] = partial(_build_op, attention, costs)
        return with_replacements(graph, nodes, {}, late) if late else None

    return rule


def _match_attention(node: Node, uses: UsersOf) -> _Attention | None:
    """Recognise attention in its last product, if nothing else needs its parts."""
    for weighted in weighted_sum_of(node):
        softmax = softmax_of(weighted.left.value)
        half = weighted.right.value.dtype.itemsize == 2
        logits = None if softmax is None else _match_logits(softmax, half)
        if logits is None:
            continue
        scores = scores_of(logits.products.node)
        if scores is None or not _serves_only(node, weighted, logits, uses):
            continue
        dtype = weighted.right.value.dtype
        query, key = (x.unconverted(dtype) for x in (scores.left, scores.right))
        return _Attention(query, key, weighted.right, weighted.order, logits)
    return None


def _serves_only(node: Node, weighted: Product, logits: _Logits, uses: UsersOf) -> bool:
    """Whether all nodes from the products to the last serve the attention only."""
    first = logits.products.node
    operands = {weighted.right.value, *first.inputs, *logits.biases}
    operands.update(mask for mask, _ in logits.masks)
    if logits.shown is not None:
        operands.add(logits.shown)
    inside = _nodes_between(node, first, operands)
    values = [v for n in inside if n is not node for v in n.outputs]
    return all(uses.are_among(v, inside) for v in values)


def _nodes_between(last: Node, first: Node, operands: Collection[Value]) -> set[Node]:
    """Return the nodes that compute `last`, back to `first` and to the operands."""
    nodes, stack = {last}, [last]
    while stack:
        inputs = [v for v in stack.pop().inputs if v not in operands]
        before = {v.node for v in inputs if v.node.serial >= first.serial} - nodes
        before = {n for n in before if n.primitive is not OP.constant}
        stack += before
        nodes |= before
    return nodes


def _match_logits(softmax: Softmax, half: bool) -> _Logits | None:
    """Split logits into their parts, if the op can hide the same keys."""
    value, shown = softmax
    shape = value.type.shape
    value, masks, hidden = _unmasked(unconverted(value))
    value, biases = _unbiased(unconverted(value))
    scale, products = _scale_and_product(value)
    if products.node.primitive not in (OP.matmul, OP.einsum):
        return None
    if not same_shape(products.type.shape, shape):
        return None
    hides = hidden <= _LEAST_HIDDEN if half else _hides_alike(hidden, bool(biases))
    if not hides or (shown is not None and not half):
        return None
    return _Logits(products, scale, tuple(biases), tuple(masks), hidden, shown)


def _hides_alike(hidden: float, biased: bool) -> bool:
    """Whether keys that a program hides by this number are those that JAX hides.

    A number above JAX's may be larger than the logits of visible keys, where these are
    all very small; and a bias may be as small as a number below JAX's. In half
    precision the op looks at how small the logits are.
    """
    return hidden in (HIDDEN, -math.inf) or (hidden < HIDDEN and not biased)


def _unmasked(value: Value) -> tuple[Value, list[tuple[Value, bool]], float]:
    """Strip masks that hide by one number; return the value, the masks, the number."""
    masks: list[tuple[Value, bool]] = []
    hidden = HIDDEN
    while value.node.primitive is OP.where:
        shows, *both = value.node.inputs
        numbers = list(map(_number_of, both))
        at = 1 if numbers[0] is None else 0
        number = numbers[at]
        if number is None or (masks and number != hidden):
            break
        hidden = number
        masks.append((shows, at == 1))
        value = unconverted(both[1 - at])
    return value, masks, hidden


def _number_of(value: Value) -> float | None:
    """Return the float of a constant, or HIDDEN if it is the same as a float32."""
    number = number_of(value)
    is_hidden = number is not None and np.float32(number) == np.float32(HIDDEN)
    return HIDDEN if is_hidden else number


def _unbiased(value: Value) -> tuple[Value, list[Value]]:
    """Split logits into products, perhaps scaled, and the values added to them."""
    biases: list[Value] = []
    while value.node.primitive is OP.add:
        both = list(value.node.inputs)
        at = next((i for i in (0, 1) if _is_product(both[i])), None)
        if at is None:
            at = 0 if unconverted(both[0]).node.primitive is OP.add else 1
        value = unconverted(both[at])
        biases.append(both[1 - at])
    return value, biases


def _is_product(value: Value) -> bool:
    _, products = _scale_and_product(unconverted(value))
    return products.node.primitive in (OP.matmul, OP.einsum)


def _scale_and_product(logits: Value) -> tuple[float, Value]:
    """Return the number that products are multiplied by, and the products."""
    node = logits.node
    if node.primitive not in (OP.multiply, OP.true_divide):
        return 1.0, logits
    products, scale = node.inputs
    if node.primitive is OP.multiply and literal_of(scale) is None:
        products, scale = scale, products
    literal = literal_of(scale)
    if literal is None or literal.ndim or not is_float(literal.dtype) or not literal:
        return 1.0, logits
    number = float(literal)
    return (number if node.primitive is OP.multiply else 1 / number), products


def _is_accepted(attention: _Attention) -> bool:
    """Whether the op takes this attention."""
    types = [x.type for x in (attention.query, attention.key, attention.value)]
    q, k, v = (t.shape for t in types)
    # JAX's sums are of float32, in which a wider dtype would lose digits.
    narrow = [t.dtype for t in types] + [b.dtype for b in attention.logits.biases]
    narrow.append(attention.logits.products.dtype)
    if len({t.dtype for t in types}) > 1 or any(d.itemsize > 4 for d in narrow):
        return False
    if not all(is_float(d) for d in narrow) or not same_size(q[-1], v[-1]):
        return False
    if len(q) != len(k) or not same_shape(k, v):
        return False  # nor are sizes taken that only turn out to fit in a call
    if _shared_axes(q[:-2], k[:-2]) is None:
        return False
    return _adds_to(attention, (*q[:-1], k[-2]))


def _shared_axes(leading: Sequence[Size], of_key: Sequence[Size]) -> int | None:
    """Return how many leading axes are shared, if the key has 1 in the others."""
    count = 0
    while count < len(leading) and same_size(leading[count], of_key[count]):
        count += 1
    return count if all(map(is_one, of_key[count:])) else None


def _adds_to(attention: _Attention, shape: Sequence[Size]) -> bool:
    """Whether biases and masks have each axis of the logits, or 1 there."""
    logits = attention.logits
    for value in (*logits.biases, *(mask for mask, _ in logits.masks)):
        along = zip(reversed(value.type.shape), reversed(shape), strict=False)
        if not all(is_one(n) or same_size(n, m) for n, m in along):
            return False
    return True


class _Heads(NamedTuple):
    """Which leading axes are of the batch: the first `batch`; the others are heads."""

    batch: int
    shape: tuple[Size, ...]  # of the logits

    @property
    def rows_first(self) -> tuple[int, ...]:
        """The axes of (batch ..., heads ..., rows, width) with rows before heads."""
        last = len(self.shape) - 1
        return *range(self.batch), last - 1, *range(self.batch, last - 1), last

    def join_heads(self, x: Value) -> Value:
        """Reshape (..., rows, width) to (batch, rows, heads, width)."""
        shape = x.type.shape
        heads = product(shape[self.batch : -2])
        target = product(shape[: self.batch]), shape[-2], heads, shape[-1]
        return F.reshape(Arranged(x).transposed(self.rows_first).rebuilt(), target)

    def split_heads(self, x: Value, order: Sequence[int]) -> Value:
        """Split (batch, rows, heads, width), with axes in the order of a result."""
        leading = self.shape[:-2]
        heads = leading[self.batch :]
        rows, width = x.type.shape[1], x.type.shape[3]
        x = F.reshape(x, (*leading[: self.batch], rows, *heads, width))
        back = [self.rows_first.index(a) for a in range(len(self.rows_first))]
        return Arranged(x).transposed(back).transposed(order).rebuilt()

    def number_per_item(self, x: Value) -> Value | None:
        """Return one number per item of the batch; None if other axes have more."""
        x = self.reshape_bias(x)
        if not all(map(is_one, x.type.shape[1:])):
            return None
        batch = product(self.shape[: self.batch])
        return F.broadcast_to(F.reshape(x, x.type.shape[:1]), (batch,))

    def reshape_bias(self, x: Value) -> Value:
        """Reshape a bias or mask to (batch, heads, rows, keys), where each may be 1."""
        rank, last = len(self.shape), len(self.shape) - 2
        x = with_rank(x, rank)
        have, sizes = list(x.type.shape), list[Size]()
        for axes in (range(self.batch), range(self.batch, last)):
            if not all(is_one(have[a]) for a in axes):
                for a in axes:
                    have[a] = self.shape[a]
            sizes.append(product([have[a] for a in axes]))
        x = F.broadcast_to(x, tuple(have))
        return F.reshape(x, (*sizes, *have[last:]))


def _build_op(
    attention: _Attention, costs: DeviceCosts, known: Callable[[Value], Value]
) -> Value:
    """Build the op on the values that are `known` for its operands."""
    q, k, v = (
        x.rebuilt(known) for x in (attention.query, attention.key, attention.value)
    )
    leading = q.type.shape[:-2]
    shared = _shared_axes(leading, k.type.shape[:-2])
    batch = 1 if shared and len(leading) else 0
    shape = (*q.type.shape[:-1], k.type.shape[-2])
    heads = _Heads(batch, shape)
    logits = attention.logits
    half = q.dtype.itemsize == 2
    hiding = _match_hiding(logits, heads, known, half)
    bias = [heads.reshape_bias(known(b)) for b in logits.biases]
    added = [reduce(F.add, bias)] if bias else []
    added += [] if hiding.mask is None else [hiding.mask]
    pairs = product(shape)
    fit = isinstance(pairs, int) and pairs * 4 <= costs.whole
    counts = [x for x in (hiding.lengths, hiding.first) if x is not None]
    hides = half and (hiding.causal or hiding.mask is not None or bool(counts))
    result: Value = FUSED_ATTENTION(
        *(heads.join_heads(x) for x in (q, k, v)),
        *added,
        *counts,
        scale=logits.scale,
        bias=bool(bias),
        mask=hiding.mask is not None,
        lengths=hiding.lengths is not None,
        count=hiding.first is not None,
        causal=hiding.causal,
        hidden=logits.hidden if half else HIDDEN,
        most=0 if fit and not hides else costs.whole,
    )
    if logits.hidden == -math.inf and hiding.mask is not None:
        result = _undefined_without_keys(result, added, shape[-1], hiding.first)
    return heads.split_heads(result, attention.order)


class _Hiding(NamedTuple):
    """The visible keys: by a mask, or by lengths and order, among the `first` ones."""

    mask: Value | None
    lengths: Value | None = None
    causal: bool = False
    first: Value | None = None


def _match_hiding(
    logits: _Logits, heads: _Heads, known: Callable[[Value], Value], half: bool
) -> _Hiding:
    """Find how keys are hidden; order and lengths are for half precision."""
    first = None if logits.shown is None else shown_count(known(logits.shown))
    masks = [(known(m), shows) for m, shows in logits.masks]
    others, lengths = list[Value](), list[Value]()
    pairs = masks if half else []
    parts = [(m, shows) for pair in pairs for m, shows in _mask_parts(*pair)]
    for mask, shows in parts:
        length = shown_lengths(mask, shows)
        by_item = None if length is None else heads.number_per_item(length)
        if by_item is not None:
            lengths.append(by_item)
        elif not is_causal(mask, shows):
            others.append(mask)
    if half and not others:
        shortest = reduce(F.minimum, lengths) if lengths else None
        return _Hiding(None, shortest, len(parts) > len(lengths), first)
    shown = [heads.reshape_bias(_as_shown(m, shows)) for m, shows in masks]
    return _Hiding(reduce(F.logical_and, shown) if shown else None, first=first)


def _mask_parts(mask: Value, shows: bool) -> list[tuple[Value, bool]]:
    """Split a mask that joins others: keys are shown where each part shows them."""
    joins = OP.logical_and, OP.bitwise_and
    if not shows:
        joins = OP.logical_or, OP.bitwise_or
    parts, stack = list[tuple[Value, bool]](), [mask]
    while stack:
        mask = stack.pop()
        joined = mask.node.primitive in joins
        stack += mask.node.inputs if joined else []
        parts += [] if joined else [(mask, shows)]
    return parts


def _as_shown(mask: Value, shows: bool) -> Value:
    return mask if shows else F.logical_not(mask)


def _undefined_without_keys(
    attended: Value, added: list[Value], keys: Size, count: Value | None
) -> Value:
    """Put NaN in rows that see no key, as a softmax of logits of -inf gives it.

    Results of no keys at all are 0.
    """
    *bias, mask = added
    seen = reduce(F.logical_and, [mask, *(F.greater(b, HIDDEN) for b in bias)])
    if count is not None:
        seen = F.logical_and(seen, F.less(F.arange(keys, dtype=count.dtype), count))
    rows = F.any(seen, axis=-1, keepdims=True)
    if count is not None:
        rows = F.logical_or(rows, F.equal(count, 0))
    elif not at_most(1, keys):
        rows = F.logical_or(rows, F.equal(size_value(keys), 0))
    return F.where(F.transpose(rows, (0, 2, 1, 3)), attended, math.nan)
