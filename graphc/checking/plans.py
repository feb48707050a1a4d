"""Inputs and params with which each primitive may give a wanted array.

A plan states the inputs that are wanted, and gives the params once these are made,
since a value that a pattern names twice may have another type than was wanted. Params
that the pattern has `fixed` are used unchanged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphc.checking.chance import DTYPES, FLOATS, MOST_AXES, Chance, Misfit
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Size, is_one
from graphc.ir.types import BOOL, INT64, DType, dtype_of, is_integer, product


@dataclass(frozen=True)
class Want:
    """The wanted shape and dtype, and the role of the values, such as "index"."""

    shape: tuple[Size, ...]
    dtype: DType
    role: str = ""
    limit: Size = 0  # of an index
    weak: bool = False

    def of(self, *shape: Size) -> "Want":
        """The same with another shape."""
        return replace(self, shape=shape)


ParamChoices = dict[str, Any]


@dataclass(frozen=True)
class SamplePlan:
    """The inputs that are wanted, and the params for the inputs that were made."""

    inputs: Sequence[Want]
    params: Callable[[list[Value]], ParamChoices] = lambda inputs: {}


Planner = Callable[[Chance, Want, ParamChoices, int], SamplePlan]
PLANS: dict[str, Planner] = {}


def plans(*names: str) -> Callable[[Planner], Planner]:
    """Decorate the function that plans these primitives for a number of inputs."""

    def join(planner: Planner) -> Planner:
        PLANS.update(dict.fromkeys(names, planner))
        return planner

    return join


def index(shape: tuple[Size, ...], limit: Size) -> Want:
    """Indices that are positions below `limit`."""
    return Want(shape, INT64, "index", limit)


def elementwise(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    """Plan inputs of the whole shape, or of shapes that together broadcast to it."""
    how = c.pick(("alike", "alike", "beside", "across")) if n > 1 else "alike"
    if how == "alike":
        return SamplePlan([want] * n)
    if how == "beside":
        whole = c.up_to(n - 1)
        shapes = [c.thinned(want.shape) for _ in range(n)]
        shapes[whole] = want.shape
    else:
        shapes = _broadcast_parts(c, want.shape, n)
    return SamplePlan([want.of(*shape) for shape in shapes])


def _broadcast_parts(
    c: Chance, shape: tuple[Size, ...], n: int
) -> list[tuple[Size, ...]]:
    """Shapes in which each axis is whole at least once, as of a column and a row."""
    whole = [c.up_to(n - 1) for _ in shape]
    return [
        tuple(m if whole[a] == i or c.flag() else 1 for a, m in enumerate(shape))
        for i in range(n)
    ]


@plans(
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("isnan", "isinf", "isfinite", "signbit"),
)
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return elementwise(c, replace(want, dtype=c.dtype()), fixed, n)


@plans("logical_and", "logical_or", "logical_xor", "logical_not")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return elementwise(c, replace(want, dtype=BOOL), fixed, n)


@plans("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "gcd", "lcm")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    fits = is_integer(want.dtype)
    dtype = want.dtype if fits else dtype_of(c.pick(("int64", "uint8", "int32")))
    return elementwise(c, replace(want, dtype=dtype), fixed, n)


@plans("where")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    condition, x, y = elementwise(c, want, fixed, n).inputs
    return SamplePlan([replace(condition, dtype=BOOL), x, y])


@plans("convert")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    source = replace(want, dtype=dtype_of("int64") if want.weak else c.dtype())
    return SamplePlan([source], lambda xs: {"dtype": want.dtype, "weak": want.weak})


@plans("real", "imag", "absolute")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    dtype = dtype_of("complex128") if c.flag(3) else want.dtype
    return SamplePlan([replace(want, dtype=dtype)])


def _inserted(
    shape: tuple[Size, ...], axes: Sequence[int], sizes: Sequence[Size]
) -> tuple[Size, ...]:
    """Insert axes of these sizes into a shape, at `axes` of the result."""
    remaining_sizes, more = iter(shape), dict(zip(axes, sizes, strict=True))
    rank = len(shape) + len(axes)
    if any(a >= rank for a in axes):
        raise Misfit
    return tuple(more[a] if a in more else next(remaining_sizes) for a in range(rank))


def _some_of(c: Chance, rank: int, count: int) -> tuple[int, ...]:
    return tuple(sorted(c.order(rank)[:count]))


@plans("any", "all")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return _reduction(c, replace(want, dtype=BOOL), fixed, n)


@plans("sum", "prod", "max", "min")
def _reduction(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    keep = fixed["keepdims"] if "keepdims" in fixed else c.flag(3)
    rank = len(want.shape)
    if keep:
        axes = fixed.get("axes") or c.axes(rank)
        shape = tuple(c.size() if a in axes else n for a, n in enumerate(want.shape))
    else:
        more = 1 + c.up_to(max(0, MOST_AXES - rank - 1))
        axes = fixed.get("axes") or _some_of(c, rank + more, more)
        shape = _inserted(want.shape, axes, [c.size() for _ in axes])

    def params(xs: list[Value]) -> ParamChoices:
        fits = xs[0].type.rank == len(shape)
        return {"axes": axes if fits else c.axes(xs[0].type.rank), "keepdims": keep}

    return SamplePlan([want.of(*shape)], params)


@plans("max_from", "min_from")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    plan = _reduction(c, want, fixed, 1)
    return SamplePlan([*plan.inputs, want.of()], plan.params)


@plans("argmax", "argmin")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    axes = (fixed["axis"],) if "axis" in fixed else _some_of(c, len(want.shape) + 1, 1)
    operand = want.of(*_inserted(want.shape, axes, [c.size()]))
    return SamplePlan(
        [replace(operand, dtype=c.dtype())],
        lambda xs: {"axis": axes[0], "keepdims": False},
    )


@plans("count_nonzero")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return SamplePlan([Want(c.shape(), BOOL)])


def _with_axes(c: Chance, want: Want) -> Want:
    """The wanted type, or one with another shape if that is a scalar."""
    return want if want.shape else want.of(*c.shape(1))


@plans("sort", "argsort")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return SamplePlan(
        [_with_axes(c, want)], lambda xs: {"axis": c.axis(xs[0].type.rank)}
    )


@plans("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    def params(xs: list[Value]) -> ParamChoices:
        return {"axis": c.axis(xs[0].type.rank), "reverse": c.flag(3)}

    return SamplePlan([_with_axes(c, want)], params)


@plans("recurrence")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    operand = _with_axes(c, want)
    params = {"axis": c.axis(len(operand.shape)), "reverse": c.flag(3)}
    return SamplePlan([operand, operand], lambda xs: params)


@plans("fftshift")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    def params(xs: list[Value]) -> ParamChoices:
        return {"axes": c.axes(xs[0].type.rank), "back": c.flag()}

    return SamplePlan([want], params)


@plans("top_k")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    def params(xs: list[Value]) -> ParamChoices:
        return {"k": c.up_to(2), "axis": c.axis(xs[0].type.rank)}

    return SamplePlan([_with_axes(c, want)], params)


@plans("transpose")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    rank = len(want.shape)
    axes = fixed.get("axes") or c.order(rank)
    operand_shape: list[Size] = list(want.shape)
    if len(axes) == rank:
        for i, axis in enumerate(axes):
            operand_shape[axis] = want.shape[i]

    def params(xs: list[Value]) -> ParamChoices:
        fits = xs[0].type.rank == len(axes)
        return {"axes": axes if fits else c.order(xs[0].type.rank)}

    return SamplePlan([want.of(*operand_shape)], params)


@plans("reshape")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    shape = want.shape
    cut = c.up_to(len(shape))
    operand_shape = c.pick(
        (
            (product(shape),),
            shape,
            (*shape[:cut], 1, *shape[cut:]),
            (*shape[:cut], product(shape[cut:])),
            (product(shape[:cut]), *shape[cut:]),
        )
    )
    return SamplePlan(
        [want.of(*operand_shape)],
        lambda xs: {"shape": _shape_of_as_many(c, shape, xs[0])},
    )


def _shape_of_as_many(c: Chance, shape: tuple[Size, ...], x: Value) -> tuple[Size, ...]:
    """The wanted shape if it has as many elements as `x`, else another one that has."""
    if product(shape) is x.type.size or product(shape) == x.type.size:
        return shape
    return c.pick(((x.type.size,), (1, *x.type.shape), (x.type.size, 1)))


@plans("broadcast_to")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return SamplePlan(
        [want.of(*c.thinned(want.shape))], lambda xs: {"shape": want.shape}
    )


@plans("full")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return SamplePlan([want.of()], lambda xs: {"shape": want.shape})


@plans("specify_shape")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return SamplePlan([want], lambda xs: {"shape": want.shape, "kind": "stated"})


@plans("iota")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    length = want.shape[0] if want.shape else c.size()
    params = {"start": c.up_to(2), "step": 1 + c.up_to(1), "length": length}
    return SamplePlan([], lambda xs: {**params, "dtype": want.dtype})


@plans("expand_dims")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    ones = [a for a, n in enumerate(want.shape) if is_one(n)]
    axes = fixed.get("axes") or tuple(a for a in ones if c.flag())
    operand_shape = tuple(n for a, n in enumerate(want.shape) if a not in axes)

    def params(xs: list[Value]) -> ParamChoices:
        fits = axes and xs[0].type.rank == len(operand_shape)
        return {"axes": axes if fits else _some_of(c, xs[0].type.rank + 1, 1)}

    return SamplePlan([want.of(*operand_shape)], params)


@plans("squeeze")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    axes = fixed.get("axes") or _some_of(c, len(want.shape) + 1, 1)
    operand_shape = _inserted(want.shape, axes, [1] * len(axes))

    def params(xs: list[Value]) -> ParamChoices:
        if xs[0].type.rank == len(operand_shape):
            return {"axes": axes}
        sizes = enumerate(xs[0].type.shape)
        ones = tuple(a for a, n in sizes if is_one(n))
        return {"axes": ones}

    return SamplePlan([want.of(*operand_shape)], params)


@plans("concatenate")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    want = _with_axes(c, want)
    rank = len(want.shape)
    axis = fixed["axis"] if "axis" in fixed else c.axis(rank)
    shapes = [
        tuple(c.size() if a == axis else size for a, size in enumerate(want.shape))
        for _ in range(n)
    ]
    return SamplePlan([want.of(*s) for s in shapes], lambda xs: {"axis": axis})


@plans("stack")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    want = _with_axes(c, want)
    axis = fixed["axis"] if "axis" in fixed else c.axis(len(want.shape))
    part = want.of(*(size for a, size in enumerate(want.shape) if a != axis))
    return SamplePlan([part] * n, lambda xs: {"axis": axis})


@plans("pad")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    def params(xs: list[Value]) -> ParamChoices:
        widths = [(c.up_to(2), c.up_to(2)) for _ in xs[0].type.shape]
        low, high = zip(*widths, strict=True) if widths else ((), ())
        return {"low": tuple(low), "high": tuple(high)}

    return SamplePlan([want, want.of()], params)


@plans("tile")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return SamplePlan(
        [want], lambda xs: {"reps": tuple(c.up_to(2) for _ in want.shape)}
    )


@plans("repeat")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    def params(xs: list[Value]) -> ParamChoices:
        return {"repeats": c.up_to(2), "axis": c.axis(xs[0].type.rank)}

    return SamplePlan([_with_axes(c, want)], params)


@plans("stop_gradient", "barrier", "positive")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return SamplePlan([want] * n)


def any_of(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    """Plan a primitive that has no plan of its own: inputs of the wanted type."""
    return SamplePlan([want] * n)


def floating(c: Chance, want: Want) -> Want:
    """The wanted type, with a floating-point dtype if it has none."""
    fits = want.dtype.name in FLOATS or want.dtype.name not in DTYPES
    return want if fits else replace(want, dtype=dtype_of(c.pick(FLOATS)))
