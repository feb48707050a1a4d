"""Cancel changes of shape with their inverse, so that a size is no longer needed.

`x.reshape(k, -1)` needs to know k before it can be compiled, and nodes after it are
compiled for each k. If only elementwise functions follow, and then a reshape to the
old shape or a reduction of all reshaped axes, the result is computed without k:

    tanh(x.reshape(k, -1)).reshape(-1)    is    tanh(x)
    sum(exp(x.reshape(k, -1)))            is    sum(exp(x))

In between there may also be reductions, indices, concatenations and transpositions of
other axes. A reshape moves towards the inputs only for this purpose. Elsewhere it would
not pay: XLA fuses it wherever it stands, and the ops that it moves in front of would be
compiled anew for each size. Transpositions, which need no size, are left to XLA; in
NumPy they are views. A broadcast moves the other way, after elementwise functions, so
that these are computed once and not once per copy, to where the copies are indexed or
reduced and need not be made.

The size that is no longer needed was checked too: k must not be negative and must
divide the size of x. This check stays. Where the program computes k, or k is an
argument, it is made on the host.
"""

from collections import Counter
from collections.abc import Sequence

from graphc.ir.graph.build import Shape
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import PRIMITIVES
from graphc.ir.graph.walk import operands
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Size, equal, is_one
from graphc.ir.types import product, same_shape, same_size
from graphc.ops.common.axes import with_rank
from graphc.ops.indexing.basic import basic
from graphc.ops.indexing.parse import FULL_ITEM
from graphc.rewriting.engine.rule import Rule, Rules, rewrite
from graphc.rewriting.match.pattern import CountUses, once, one_of, p, v
from graphc.rewriting.match.sizes import (
    Axes,
    asks_late,
    at_most,
    origins_of,
    unstretched,
    varies,
    with_tests,
)
from graphc.rewriting.rules.selection import index_operand, items_of_axes

EXACT = ("max", "min", "any", "all", "max_from", "min_from")
ROUNDING = ("sum", "prod")
SHAPING = ("reshape", "squeeze", "expand_dims")
ELEMENTWISE = tuple(name for name, op in PRIMITIVES.items() if op.elementwise)
COPIES = ("broadcast_to", "full")
MOST_OPS = 40  # for a change of shape to move through


class Move:
    """Resizes axes of a value, rebuilding its producers up to one with these sizes."""

    def __init__(self, root: Value, uses: CountUses, through: tuple[str, ...]) -> None:
        self._root = root  # used by the replaced node
        self._uses = uses
        # Reductions of other axes.
        self._through = {PRIMITIVES[name] for name in through}
        self._made: dict[Value, tuple[int, int, Value | None]] = {}
        self._inside: dict[Node, None] = {}
        self.cancelled: list[Node] = []  # changes of shape that cancel
        self.all_cancel: bool = True  # whether all of them meet their inverse
        self.asked: set[Value] = set()  # integers that are still needed if not

    def is_alone(self) -> bool:
        """Whether nothing else uses the rebuilt producers, so none is duplicated."""
        within = Counter(x for node in self._inside for x in operands(node))
        within[self._root] += 1
        return all(
            self._uses(x) <= within[x] for node in self._inside for x in node.outputs
        )

    def to(self, x: Value, lo: int, hi: int, sizes: Shape) -> Value | None:
        """Return `x` with `sizes` for the axes from `lo` to `hi`, or None."""
        if x not in self._made:
            self._made[x] = lo, hi, self._moved(x, lo, hi, sizes)
        before = self._made[x]
        return before[2] if before[:2] == (lo, hi) else None

    def _moved(self, x: Value, lo: int, hi: int, sizes: Shape) -> Value | None:
        node, op = x.node, x.node.primitive
        shape = x.type.shape[:lo] + sizes + x.type.shape[hi:]
        if op in (OP.reshape, OP.squeeze, OP.expand_dims):
            return self._merged(node, shape)
        if op is OP.full:
            return F.full(shape, node.inputs[0])
        if len(self._inside) > MOST_OPS or len(node.outputs) > 1:
            return None
        self._inside[node] = None
        if op.elementwise:
            return self._elementwise(x, lo, hi, sizes)
        if op in self._through:
            return self._reduction(x, lo, hi, sizes)
        others = {
            OP.concatenate: self._concatenation,
            OP.transpose: self._transposition,
            OP.basic_index: self._index,
        }
        return others[op](x, lo, hi, sizes) if op in others else None

    def _merged(self, node: Node, shape: Shape) -> Value | None:
        (x,) = node.inputs
        before = node.outputs[0].type
        known = origins_of(x.type.shape) | origins_of(before.shape)
        if not origins_of(shape) <= known:
            return None
        self.cancelled.append(node)
        reshaped = _reshaped(x, shape, node)
        if reshaped is not x:
            self.all_cancel = False
            self.asked |= origins_of(shape) & origins_of(reshaped.type.shape)
        return reshaped

    def _elementwise(self, y: Value, lo: int, hi: int, sizes: Shape) -> Value | None:
        inputs = []
        for x in y.node.inputs:
            operand = self._operand(x, y, (lo, hi), sizes)
            if operand is None:
                return None
            inputs.append(operand)
        return y.node.primitive(*inputs, **y.node.params)

    def _operand(
        self, x: Value, y: Value, span: tuple[int, int], sizes: Shape
    ) -> Value | None:
        """Resize an operand that is broadcast to an elementwise result."""
        missing = y.type.rank - x.type.rank
        lo, hi = (a - missing for a in span)
        if missing and hi <= 0:  # it has none of these axes
            return x
        resized_axes = x.type.shape[max(lo, 0) : hi]
        if lo >= 0 and same_shape(resized_axes, y.type.shape[slice(*span)]):
            return self.to(x, lo, hi, sizes)
        if not all(map(is_one, resized_axes)):
            return None
        ones = (1,) * len(sizes) if lo >= 0 else ()
        return F.reshape(x, x.type.shape[: max(lo, 0)] + ones + x.type.shape[hi:])

    def _reduction(self, y: Value, lo: int, hi: int, sizes: Shape) -> Value | None:
        x, params = y.node.inputs[0], y.node.params
        axes, keepdims = params["axes"], params["keepdims"]
        places = [a for a in range(x.type.rank) if keepdims or a not in axes]
        span = _span(places[lo:hi])
        if span is None or set(axes) & set(range(*span)):
            return None
        operand = self.to(x, *span, sizes)
        if operand is None:
            return None
        reduced_axes = tuple(_shifted(a, span, sizes) for a in axes)
        other_inputs = y.node.inputs[1:]
        return y.node.primitive(
            operand, *other_inputs, axes=reduced_axes, keepdims=keepdims
        )

    def _concatenation(self, y: Value, lo: int, hi: int, sizes: Shape) -> Value | None:
        axis, parts = y.node.params["axis"], []
        if lo <= axis < hi:
            return None
        for x in y.node.inputs:
            alike = same_shape(x.type.shape[lo:hi], y.type.shape[lo:hi])
            part = self.to(x, lo, hi, sizes) if alike else None
            if part is None:
                return None
            parts.append(part)
        return F.concatenate(parts, axis=_shifted(axis, (lo, hi), sizes))

    def _transposition(self, y: Value, lo: int, hi: int, sizes: Shape) -> Value | None:
        (x,), order = y.node.inputs, y.node.params["axes"]
        span = _span(order[lo:hi])
        resized = None if span is None else self.to(x, *span, sizes)
        if span is None or resized is None:
            return None
        first, last = order[:lo], order[hi:]
        ordered = [_shifted(a, span, sizes) for a in first]
        ordered += range(span[0], span[0] + len(sizes))
        ordered += [_shifted(a, span, sizes) for a in last]
        return F.transpose(resized, tuple(ordered))

    def _index(self, y: Value, lo: int, hi: int, sizes: Shape) -> Value | None:
        (x,) = y.node.inputs
        items = items_of_axes(y, x.type.rank)
        if items is None:
            return None
        span = _span([a for a, item in enumerate(items) if item[0] != "i"][lo:hi])
        if span is None or any(item != FULL_ITEM for item in items[slice(*span)]):
            return None
        resized = self.to(x, *span, sizes)
        if resized is None:
            return None
        return basic(
            resized, (*items[: span[0]], *[FULL_ITEM] * len(sizes), *items[span[1] :])
        )


def _span(axes: Sequence[int]) -> tuple[int, int] | None:
    """Return start and stop of the range of axes; None if they are not adjacent."""
    if not axes or list(axes) != list(range(axes[0], axes[0] + len(axes))):
        return None
    return axes[0], axes[-1] + 1


def _shifted(axis: int, span: tuple[int, int], sizes: Shape) -> int:
    """Renumber an axis outside of a span whose axes are replaced by `sizes`."""
    return axis if axis < span[0] else axis + len(sizes) - (span[1] - span[0])


def _reshaped(x: Value, shape: Shape, node: Node) -> Value:
    """Reshape `x`, which `node` reshapes, reading fewer integers where possible.

    The size of one axis, as for the -1 of a reshape, may be derived from `x` itself.
    """
    if same_shape(x.type.shape, shape):
        return x
    size = node.outputs[0].type.size
    for i, n in enumerate(shape):
        before, after = shape[:i], shape[i + 1 :]
        others = product(before + after)
        known_zero = isinstance(others, int) and others == 0
        if isinstance(n, Dim) and not known_zero and n is size // others:
            candidate: Value = F.reshape(x, (*before, -1, *after))
            derived = candidate.type.shape[i]
            if not at_most(1, others) and not _same_number(derived, n, [node]):
                continue
            if candidate is x or origins_of(candidate.type.shape) < origins_of(shape):
                return candidate
    return F.reshape(x, shape)


def _same_number(a: Size, b: Size, checking: Sequence[Node]) -> bool:
    """Whether two sizes are equal, by proof or by a check of one of these nodes."""
    if equal(a, b) is True:
        return True
    checks = [g for node in checking for g in node.guards if g.relation == "=="]
    return any(same_size(g.left - g.right, n) for g in checks for n in (a - b, b - a))


def _changed_range(before: Shape, after: Shape) -> tuple[int, int, int]:
    """Return the range of axes that differ: start, stop, and the stop in `after`."""
    most = min(len(before), len(after))
    lo = 0
    while lo < most and same_size(before[lo], after[lo]):
        lo += 1
    tail = 0
    while tail < most - lo and same_size(before[-1 - tail], after[-1 - tail]):
        tail += 1
    return lo, len(before) - tail, len(after) - tail


def _may_replace(before: Shape, after: Shape) -> bool:
    """Whether sizes may replace others: their products must not surely differ.

    Shapes such as (0,) and (0, 3) have equal products, but the sizes in which they
    differ, none and 3, do not.
    """
    return equal(product(before), product(after)) is not False


def _checks_no_more(
    move: Move, before: Shape, after: Shape, lo: int, hi: int, end: int
) -> bool:
    """Whether new reshapes require no more than the ones that they replace.

    The old ones check the products of all sizes. Beside an axis without elements this
    checks nothing about the other sizes: (0, 2, 3) can be reshaped to (0, 5).
    """
    if move.all_cancel or at_most(1, product(before[:lo] + before[hi:])):
        return True
    return _same_number(product(before[lo:hi]), product(after[lo:end]), move.cancelled)


def _move_reshape(move: Move, x: Value, shape: Shape) -> Value | None:
    """Return `x` in another shape, from producers that have it, or None."""
    before = x.type.shape
    lo, hi, end = _changed_range(before, shape)
    if not _may_replace(before[lo:hi], shape[lo:end]):
        return None
    moved = move.to(x, lo, hi, shape[lo:end])
    if moved is None or not move.is_alone():
        return None
    return moved if _checks_no_more(move, before, shape, lo, hi, end) else None


def _reshape(
    x: Value, y: Value, uses: CountUses, through: tuple[str, ...]
) -> Value | None:
    """Replace `y`, which changes the shape of `x`, by producers that have its shape."""
    move = Move(x, uses, through)
    moved = _move_reshape(move, x, y.type.shape)
    if moved is None or not move.cancelled:
        return None
    nodes = [y.node, *move.cancelled]
    reshapes = all(node.primitive is OP.reshape for node in nodes)
    if not move.all_cancel and (move.asked or not reshapes):
        return None
    return with_tests(moved, move.cancelled if move.all_cancel and reshapes else nodes)


def _reshape_rule(op: str) -> Rule:
    @rewrite(
        v.y(getattr(p, op)(once(v.x))),
        exact=True,
        checks=True,
        name=f"{op}_of_reshaped",
    )
    def rule(x: Value, y: Value, uses: CountUses) -> Value | None:
        """A change of shape goes where an earlier one is its inverse."""
        return _reshape(x, y, uses, EXACT)

    return rule


@rewrite(v.y(p.reshape(once(v.x))), exact=False, checks=True)
def reshape_of_sums(x: Value, y: Value, uses: CountUses) -> Value | None:
    """A reshape after sums over other axes cancels with its inverse before them."""
    return _reshape(x, y, uses, EXACT + ROUNDING)


def _reshape_above(x: Value) -> Node | None:
    """Return the first reshape found above elementwise functions, or None."""
    shape, stack, seen = x.type.shape, [x], {x}
    while stack and len(seen) <= MOST_OPS:
        node = stack.pop().node
        if node.primitive is OP.reshape:
            return node
        for operand in node.inputs if node.primitive.elementwise else ():
            if operand not in seen and same_shape(operand.type.shape, shape):
                seen.add(operand)
                stack.append(operand)
    return None


def _reduction_rule(op: str) -> Rule:
    inputs = (v.start,) if op.endswith("_from") else ()

    @rewrite(
        v.y(getattr(p, op)(once(v.x), *inputs, axes=v.axes, keepdims=v.keepdims)),
        exact=op in EXACT,
        checks=True,
        name=f"{op}_of_all_reshaped",
    )
    def rule(
        x: Value, y: Value, axes: Axes, keepdims: bool, uses: CountUses
    ) -> Value | None:
        """A reduction over all axes made by a reshape takes the axes before it."""
        node = _reshape_above(x)
        if node is None:
            return None
        before = node.inputs[0].type.shape
        lo, hi, end = _changed_range(x.type.shape, before)
        move = Move(x, uses, EXACT)
        if not set(range(lo, hi)) <= set(axes) or end == lo:
            return None
        moved = _move_reshape(move, x, before)
        if moved is None:
            return None
        more = end - hi
        reduced_axes = (*(a for a in axes if a < lo), *range(lo, end))
        reduced_axes += tuple(a + more for a in axes if a >= hi)
        result = y.node.primitive(
            moved, *y.node.inputs[1:], axes=reduced_axes, keepdims=False
        )
        result = F.expand_dims(result, axes) if keepdims else result
        return with_tests(result, move.cancelled)

    return rule


@rewrite(v.y(one_of(ELEMENTWISE, over=COPIES)), exact=True)
def elementwise_of_copies(y: Value) -> Value | None:
    """An elementwise function is computed before its operands are copied."""
    if len(y.node.outputs) > 1 or asks_late(y.node):
        return None
    thin = y.node.primitive(*map(unstretched, y.node.inputs), **y.node.params)
    if thin.dtype != y.dtype or thin.type.weak != y.type.weak:
        return None
    if not thin.type.rank:
        return F.full(y.type.shape, thin)
    return F.broadcast_to(thin, y.type.shape)


def _nodes_forgotten(y: Value, nodes: list[Node]) -> list[Node]:
    """Return the nodes whose guards need integers that the shape of `y` does not."""
    in_shape = origins_of(y.type.shape)
    return [
        node
        for node in nodes
        if any(not origins_of((g.left, g.right)) <= in_shape for g in node.guards)
    ]


@rewrite(v.y(p.basic_index(v.x(p.broadcast_to(v.thin)))), exact=True, checks=True)
def index_of_copies(x: Value, thin: Value, y: Value) -> Value | None:
    """The operand of a broadcast is indexed, instead of the copies."""
    items = items_of_axes(y, x.type.rank)
    if items is None:
        return None
    copies = F.broadcast_to(index_operand(thin, x, items), y.type.shape)
    return with_tests(copies, _nodes_forgotten(y, [y.node, x.node]))


def _extreme_of_copies(op: str) -> Rule:
    whole = v.x(p.broadcast_to(v.thin))

    @rewrite(
        v.y(getattr(p, op)(whole, axes=v.axes, keepdims=v.keepdims)),
        exact=True,
        checks=True,
        name=f"{op}_of_copies",
    )
    def rule(
        x: Value, thin: Value, y: Value, axes: Axes, keepdims: bool
    ) -> Value | None:
        """The extreme of copies, if there is at least one, is that of a single copy."""
        rank, shape = x.type.rank, x.type.shape
        if x.dtype.kind == "c":
            return None  # JAX alters infinities
        copies = tuple(
            a
            for a in axes
            if not varies(thin, rank, a)
            and not is_one(shape[a])
            and (op in ("max", "min") or at_most(1, shape[a]))
        )
        if not copies:
            return None
        less = tuple(1 if a in copies else n for a, n in enumerate(shape))
        other_axes = tuple(a for a in axes if a not in copies)
        result = F.broadcast_to(with_rank(thin, rank), less)
        if other_axes:
            result = y.node.primitive(result, axes=other_axes, keepdims=True)
        result = result if keepdims else F.squeeze(result, axes)
        return with_tests(result, _nodes_forgotten(y, [y.node, x.node]))

    return rule


LIFTING = Rules(
    (
        *map(_reshape_rule, SHAPING),
        reshape_of_sums,
        *map(_reduction_rule, ROUNDING + EXACT),
        elementwise_of_copies,
        index_of_copies,
        *map(_extreme_of_copies, ("max", "min", "any", "all")),
    )
)
