"""Clean-up: remove ops that change nothing, minding NaN, infinities and -0.0."""

from collections.abc import Callable

import numpy as np

from graphc.ir.graph.build import cast, constant, literal_of
from graphc.ir.graph.nodes import Value, origins
from graphc.ir.namespace import F
from graphc.ir.types import DType, is_inexact, same_shape
from graphc.ops.common.monoids import Element, least, most
from graphc.rewriting.engine.rule import Rule, Rules, rewrite
from graphc.rewriting.match.pattern import one_of, p, v
from graphc.rewriting.match.sizes import STRETCHED, asks_late, unstretched, with_guards


def _if_same_type(x: Value, of: Value) -> Value | None:
    """Return `x` in place of an equal value, if it has the same type."""
    return x if x.type.same(of.type) else None


def _is_zero(x: Value, *, negative: bool) -> bool:
    """Whether a value is a constant of zeros that all have this sign."""
    array = literal_of(x)
    if array is None or array.any():
        return False
    parts = (array.real, array.imag) if x.dtype.kind == "c" else (array,)
    signs = [np.signbit(part) == negative for part in parts if is_inexact(part.dtype)]
    return all(map(np.all, signs))


@rewrite(v.y(p.multiply(v.x, 1)), exact=True)
def times_one(x: Value, y: Value) -> Value | None:
    """x * 1 is x; not for complex numbers, whose infinities times 1 + 0j have NaN."""
    return _if_same_type(x, y) if x.dtype.kind != "c" else None


@rewrite(v.y(p.true_divide(v.x, 1)), exact=True)
def over_one(x: Value, y: Value) -> Value | None:
    """x / 1 is x; not for complex numbers."""
    return _if_same_type(x, y) if x.dtype.kind != "c" else None


@rewrite(v.y(p.subtract(v.x, v.zero(p.constant()))), exact=True)
def minus_zero(x: Value, zero: Value, y: Value) -> Value | None:
    """x - 0 is x: also -0.0 - 0.0 is -0.0."""
    return _if_same_type(x, y) if _is_zero(zero, negative=False) else None


@rewrite(v.y(p.add(v.x, v.zero(p.constant()))), exact=True)
def plus_zero(x: Value, zero: Value, y: Value) -> Value | None:
    """x + 0 is x for integers; for floats only x + -0.0 is, since -0.0 + 0.0 is 0.0."""
    return _if_same_type(x, y) if _is_zero(zero, negative=True) else None


@rewrite(v.y(p.power(v.x, 1)), exact=True)
def to_the_one(x: Value, y: Value) -> Value | None:
    """x ** 1 is x; not for complex numbers, which JAX takes the logarithm of."""
    return _if_same_type(x, y) if x.dtype.kind != "c" else None


@rewrite(p.negative(p.negative(v.x)), exact=True)
def double_negative(x: Value) -> Value | None:
    """-(-x) is x."""
    return x


@rewrite(p.logical_not(p.logical_not(v.x)), exact=True)
def double_not(x: Value) -> Value | None:
    """not not x is x, for bools."""
    return x if x.dtype.kind == "b" else None


@rewrite(v.y(p.where(v.condition, v.x, v.x)), exact=True)
def where_both_same(x: Value, y: Value) -> Value | None:
    """where(c, x, x) is x."""
    return _if_same_type(x, y)


@rewrite(v.y(p.where(v.condition(p.constant()), v.a, v.b)), exact=True)
def where_known(condition: Value, a: Value, b: Value, y: Value) -> Value | None:
    """where with a constant condition takes its branch."""
    array = literal_of(condition)
    if array is None or not array.size or array.any() != array.all():
        return None
    if asks_late(y.node):
        return None
    return F.broadcast_to(a if array.all() else b, y.type.shape)


@rewrite(v.y(p.where(v.condition, v.a(p.constant()), v.b(p.constant()))), exact=True)
def where_of_bools(condition: Value, a: Value, b: Value, y: Value) -> Value | None:
    """where(c, True, False) is c, and where(c, False, True) is not c."""
    first, second = literal_of(a), literal_of(b)
    if y.dtype.kind != "b" or first is None or second is None:
        return None
    if first.all() and not second.any():
        return _if_same_type(condition, y)
    if second.all() and not first.any():
        return _if_same_type(F.logical_not(condition), y)
    return None


def _neutral_operand(op: str, neutral: Callable[[DType], Element]) -> Rule:
    @rewrite(
        v.y(getattr(p, op)(v.x, v.end(p.constant()))), exact=True, name=f"neutral_{op}"
    )
    def rule(x: Value, end: Value, y: Value) -> Value | None:
        """The extreme of x and the first or last number of all is x, also for NaN."""
        array = literal_of(end)
        if y.dtype.kind == "c" or array is None or (array != neutral(y.dtype)).any():
            return None
        return _if_same_type(x, y)

    return rule


def _holds(narrow: DType, wide: DType) -> bool:
    """Whether a dtype holds every number of another, so that a cast back loses none."""
    # NumPy calls casts of int64 to float64 safe, though they round.
    rounds = narrow.kind in "iu" and narrow.itemsize == 8 and is_inexact(wide)
    return np.can_cast(narrow, wide, "safe") and not rounds


@rewrite(v.y(p.convert(p.convert(v.x))), exact=True)
def cast_there_and_back(x: Value, y: Value) -> Value | None:
    """A cast to a wider dtype and on to another is one cast, or none."""
    middle = y.node.inputs[0]
    weak = x.type.weak or y.type.weak or middle.type.weak
    if weak or not _holds(x.dtype, middle.dtype):
        return None
    # Integers too large for another dtype wrap; floats do what the library does.
    is_cut = is_inexact(middle.dtype) and y.dtype.kind in "iu"
    return None if is_cut and not _holds(x.dtype, y.dtype) else cast(x, y.dtype)


@rewrite(v.y(p.reshape(p.reshape(v.x))), exact=True)
def reshape_twice(x: Value, y: Value) -> Value | None:
    """The first of two reshapes goes, but for one that tests computed sizes."""
    first = y.node.inputs[0].node
    if any(origins(g.left) or origins(g.right) for g in first.guards):
        return None  # see lifting.py
    return with_guards(F.reshape(x, y.type.shape), first)


@rewrite(v.y(p.transpose(p.transpose(v.x, axes=v.first), axes=v.second)), exact=True)
def transpose_twice(
    x: Value, first: tuple[int, ...], second: tuple[int, ...]
) -> Value | None:
    """Two transposes are one."""
    return F.transpose(x, tuple(first[a] for a in second))


@rewrite(v.y(p.broadcast_to(p.broadcast_to(v.x))), exact=True)
def broadcast_twice(x: Value, y: Value) -> Value | None:
    """The first of two broadcasts goes."""
    return F.broadcast_to(x, y.type.shape)


@rewrite(v.y(p.broadcast_to(p.full(v.x))), exact=True)
def broadcast_full(x: Value, y: Value) -> Value | None:
    """A broadcast of equal elements is a fill of its size."""
    return F.full(y.type.shape, x)


@rewrite(v.y(p.squeeze(p.expand_dims(v.x, axes=v.axes), axes=v.axes)), exact=True)
def squeeze_expanded(x: Value) -> Value | None:
    """Inserting axes and removing them again changes nothing."""
    return x


@rewrite(v.y(p.expand_dims(p.squeeze(v.x, axes=v.axes), axes=v.axes)), exact=True)
def expand_squeezed(x: Value, y: Value) -> Value | None:
    """Removing axes and inserting them again changes nothing."""
    return _if_same_type(x, y)


BINARY = (
    *("add", "subtract", "multiply", "true_divide", "power", "maximum", "minimum"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    *("logical_and", "logical_or", "arctan2", "hypot", "logaddexp"),
)


def _broadcast_operand(op: str) -> Rule:
    stretched = one_of((op,), over=[primitive.name for primitive in STRETCHED])

    @rewrite(v.y(stretched), exact=True, name=f"broadcast_in_{op}")
    def rule(y: Value) -> Value | None:
        """A broadcast beside an array of its size is not needed: the op does it."""
        if asks_late(y.node):
            return None
        a, b = y.node.inputs
        thin_a, thin_b = unstretched(a), unstretched(b)
        if thin_a is not a and same_shape(b.type.shape, y.type.shape):
            return y.node.primitive(thin_a, b)
        if thin_b is not b and same_shape(a.type.shape, y.type.shape):
            return y.node.primitive(a, thin_b)
        return None

    return rule


def _fold(op: str) -> Rule:
    function = getattr(np, op)
    numbers = [p.constant()] * function.nin

    @rewrite(v.y(getattr(p, op)(*numbers)), exact=True, name=f"fold_{op}")
    def rule(y: Value) -> Value | None:
        """An op on constant numbers is a constant."""
        arrays = [literal_of(x) for x in y.node.inputs]
        if any(a is None or a.ndim for a in arrays) or y.type.weak:
            return None
        with np.errstate(all="ignore"):
            number = function(*arrays)
        return constant(number) if number.dtype == y.dtype else None

    return rule


FOLDED = (
    *("add", "subtract", "multiply", "true_divide", "negative", "sqrt", "square"),
    *("maximum", "minimum"),
)

CLEANUP = Rules(
    (
        times_one,
        over_one,
        minus_zero,
        plus_zero,
        to_the_one,
        double_negative,
        double_not,
        where_both_same,
        where_known,
        where_of_bools,
        _neutral_operand("maximum", least),
        _neutral_operand("minimum", most),
        cast_there_and_back,
        reshape_twice,
        transpose_twice,
        broadcast_twice,
        broadcast_full,
        squeeze_expanded,
        expand_squeezed,
        *map(_fold, FOLDED),
        *map(_broadcast_operand, BINARY),
    )
)
