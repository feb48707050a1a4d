"""Questions of rules about shapes: broadcast axes, and provably smaller sizes."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Guard, Node, Value, origins
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Size, is_one, less_equal
from graphc.ir.types import DType, cancelled, is_integer, product
from graphc.ops.effects.assertions import asserted

STRETCHED = OP.broadcast_to, OP.full
Axes = tuple[int, ...]
Reduction = Callable[[Value, Axes], Value]


class Split(NamedTuple):
    """Axes of a result, split by which of two operands vary along them."""

    x: Axes
    y: Axes
    both: Axes  # or neither


def at_most(a: Size, b: Size) -> bool:
    """Whether a <= b is provable."""
    return less_equal(a, b) is True


def varies(x: Value, rank: int, axis: int) -> bool:
    """Whether `x`, stretched to `rank` axes, may vary along one of them."""
    at = axis - (rank - x.type.rank)
    return at >= 0 and not is_one(x.type.shape[at])


def split_axes(x: Value, y: Value, rank: int, axes: Axes) -> Split:
    """Split axes of an elementwise result by which operand varies along them."""
    of_x = {a for a in axes if varies(x, rank, a)}
    of_y = {a for a in axes if varies(y, rank, a)}
    both = tuple(a for a in axes if (a in of_x) == (a in of_y))
    only_x, only_y = of_x - of_y, of_y - of_x
    return Split(tuple(sorted(only_x)), tuple(sorted(only_y)), both)


def reduce_operand(reduction: Reduction, x: Value, rank: int, axes: Axes) -> Value:
    """Reduce `x`, taken as broadcast to `rank` axes; `axes` keep one element.

    If `x` only has axes of size 1 inserted, the operand before that is reduced.
    """
    if not axes:
        return x
    places = list(range(rank - x.type.rank, rank))  # where the axes of x are
    if x.node.primitive is OP.expand_dims:
        new = {places[a] for a in x.node.params["axes"]}
        places = [a for a in places if a not in new]
        x = x.node.inputs[0]
    own_axes = tuple(i for i, a in enumerate(places) if a in axes)
    result = reduction(x, own_axes) if own_axes else x
    remaining = [a for a in places if a not in axes]
    return F.expand_dims(result, tuple(a for a in range(rank) if a not in remaining))


def unstretched(x: Value) -> Value:
    """Return the operand of a broadcast or a fill; other values as they are."""
    return x.node.inputs[0] if x.node.primitive in STRETCHED else x


def drop_axes(x: Value, axes: Axes, keepdims: bool) -> Value:
    """Return `x`, whose `axes` have size 1, in the shape that a reduction gives."""
    return x if keepdims or not axes else F.squeeze(x, axes)


def count_elements(shape: tuple[Size, ...], axes: Axes, dtype: DType) -> Value:
    """The number of elements along some axes, as a number of a dtype."""
    return cast(as_value(size_value(product([shape[a] for a in axes]))), dtype)


def repeated(x: Value, shape: tuple[Size, ...], axes: Axes) -> Value:
    """`x` times the number of elements along some axes; 0 where there is none."""
    if not axes:
        return x
    n = product([shape[a] for a in axes])
    multiple = x * cast(as_value(size_value(n)), x.dtype)
    if at_most(1, n) or is_integer(x.dtype):
        return multiple
    return F.where(F.greater(size_value(n), 0), multiple, 0)  # where x may be NaN


def is_wide(dtype: DType) -> bool:
    """Whether sums in this dtype may be split into partial sums.

    In half precision a part may overflow where the whole does not; bools add up to
    bools.
    """
    return is_integer(dtype) or (dtype.kind in "fc" and dtype.itemsize >= 4)


def with_guards(value: Value, node: Node, but_for: Size | None = None) -> Value:
    """`value` with the size checks of a node that it replaces, but not of one size."""
    for guard in node.guards:
        if guard.right is but_for:
            continue
        left, right = size_value(guard.left), size_value(guard.right)
        reason, asking, kind = guard.reason, node.op_called, guard.kind
        value = F._at_most(left, right, reason, value, asking, kind)
        if guard.relation == "==":
            value = F._at_most(right, left, reason, value, asking, kind)
    return value


def has_limit(x: Value) -> bool:
    """Whether the sizes of a value are checked against an upper limit.

    Such a check tells the user that an array is far too large, so rules leave it alone.
    """
    return any(guard.relation == "<=" for guard in x.node.guards)


def origins_of(sizes: Iterable[Size]) -> set[Value]:
    """The integers of the program that sizes are computed from."""
    return {x for n in sizes for x in origins(n)}


def asks_late(node: Node) -> bool:
    """Whether a node checks sizes that are known only when the program runs.

    Checks that its result fits into memory do not count: a rule that replaces the node
    does not make that result.
    """
    return any(origins_of((g.left, g.right)) for g in node.guards if not g.memory)


def with_tests(value: Value, nodes: list[Node]) -> Value:
    """Return `value` with the size checks of replaced nodes, late ones on the host."""
    for node in dict.fromkeys(nodes):
        if not asks_late(node):
            value = with_guards(value, node)
            continue
        for guard in _needed_guards(node):
            test = F.equal if guard.relation == "==" else F.less_equal
            condition = test(size_value(guard.left), size_value(guard.right))
            value = asserted(value, condition, node.message_of(guard), guard.kind)
    return value


def _divisor(node: Node) -> Size:
    """The divisor for the -1 of a reshape, without common factors."""
    shape, total = node.params.get("shape", ()), node.inputs[0].type.size
    for i, n in enumerate(shape):
        others = shape[:i] + shape[i + 1 :]
        if isinstance(n, Dim) and n is total // product(others):
            return cancelled(total, others)[1]
    return 1


def _needed_guards(node: Node) -> list[Guard]:
    """Return the guards that no other implies, and one that the divisor is positive."""
    divisor, guards = _divisor(node), node.guards
    guards = tuple(g for g in guards if not any(_implies(other, g) for other in guards))
    if not isinstance(divisor, Dim):
        return list(guards)
    first = Guard("<=", 1, divisor, "the sizes beside -1 must be positive")
    return [first, *(g for g in guards if g.right is not divisor)]


def _implies(guard: Guard, other: Guard) -> bool:
    """Whether one guard limits the same size more tightly than another."""
    if not guard.relation == other.relation == "<=" or guard.left is not other.left:
        return False
    least, most = guard.right, other.right
    return isinstance(least, int) and isinstance(most, int) and least < most
