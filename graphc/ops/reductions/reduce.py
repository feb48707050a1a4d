"""Reductions over axes."""

import math
from collections.abc import Callable

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike
from graphc.ir.graph.build import (
    as_strong_value,
    as_value,
    cast,
    literal_of,
    normal_axes,
)
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import (
    Array,
    Cotangents,
    NamedRange,
    Primitive,
    Printing,
    op,
    require_at_most,
    type_error,
)
from graphc.ir.namespace import FUNCTIONS, F, enroll, public
from graphc.ir.params.kinds import AxesParam
from graphc.ir.sizes.dims import Size, bounds
from graphc.ir.sizes.truths import both, either
from graphc.ir.types import BOOL, INT64, UINT64, DType, TensorType, dtype_of, is_integer
from graphc.ops.common.axes import AxisArgument, inverse_order, other_axes
from graphc.ops.common.batching import Batched, batch_with_axes, shifted, with_batch
from graphc.ops.common.known_integers import by_fold, by_item, maxima, minima
from graphc.ops.common.monoids import MONOIDS, Monoid, least, most, one, scalar, zero
from graphc.ops.common.padding import PaddedValue, Padding, kept
from graphc.ops.common.spread import extreme_along
from graphc.ops.reductions.filling import extreme_of_complex, filled_to_reduce


def kept_shape(x: Value, axes: tuple[int, ...], keepdims: bool) -> tuple[Size, ...]:
    """The shape of a reduction over `axes`."""
    shape = x.type.shape
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def _print_reduction(function: str) -> Callable[[Printing], str]:
    """Return a printer of calls such as `jnp.sum(x, axis=0, initial=y)`."""

    def printed(p: Printing) -> str:
        axes = p.node.params["axes"]
        whole = len(axes) == p.node.inputs[0].type.rank
        named = "" if whole else f", axis={axes[0] if len(axes) == 1 else axes}"
        named += ", keepdims=True" if p.node.params["keepdims"] else ""
        if function in ("max", "min"):
            options = named.removeprefix(", ")
            return extreme_along(p, function, axes, options, *p.inputs[1:])
        named += "".join(f", initial={start}" for start in p.inputs[1:])
        text = f"{p.xp}.{function}({p.inputs[0]}{named}"
        return f"{text}{same_dtype_text(p) if function in ('sum', 'prod') else ''})"

    return printed


def same_dtype_text(p: Printing) -> str:
    """Return the text `, dtype="int32"`: libraries sum small integers in wider ones."""
    dtype = p.node.outputs[0].dtype
    small = dtype.kind in "biu" and dtype.itemsize < 8
    return f', dtype="{dtype.name}"' if small else ""


def _reduction(
    name: str, *, nonempty: bool = False, sizes: Callable[..., object] | None = None
) -> Primitive:
    """Make a primitive that reduces over `axes` and keeps the dtype."""

    def infer(x: Array, *, axes: AxesParam, keepdims: bool) -> TensorType:
        if nonempty:
            for axis in axes:
                reason = f"axis {axis} has no element to reduce"
                require_at_most(1, x.type.shape[axis], reason)
        return x.type.like(kept_shape(x, axes, keepdims))

    rule = None
    if sizes is not None:
        rule = lambda x, *, axes, keepdims: sizes(x, axis=axes, keepdims=keepdims)  # noqa: E731
    return Primitive(name, infer, sizes=rule, wraps=True).emit(_print_reduction(name))


def _reduction_from(name: str) -> Primitive:
    """Make a primitive that reduces `initial` and the elements over `axes`."""

    def infer(
        x: Array, initial: Array, *, axes: AxesParam, keepdims: bool
    ) -> TensorType:
        if initial.type.rank or initial.dtype != x.dtype:
            raise type_error("needs a scalar of the same dtype to start from")
        return x.type.like(kept_shape(x, axes, keepdims))

    primitive = Primitive(f"{name}_from", infer, literals="beside")
    primitive.__doc__ = f"The {name} of `initial` and what there is over `axes`."
    primitive.range = lambda node: _range_from(name, node)
    return primitive.emit(_print_reduction(name))


def _range_from(name: str, node: Node) -> NamedRange:
    """Name a size after its variable or the reduction; `initial` bounds it."""
    sizes = node.inputs[1].sizes
    low, high = (None, None) if sizes is None else bounds(sizes.item())
    named = node.place.assigned or name
    return (named, low, None) if name == "max" else (named, None, high)


def _stretch_back(g: Value, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Stretch the cotangent `g` of a reduction over the axes that were reduced."""
    return F.broadcast_to(g if keepdims else F.expand_dims(g, axes), x.type.shape)


_sum = _reduction("sum", sizes=np.sum)
_prod = _reduction("prod", sizes=np.prod)
_max = _reduction("max", nonempty=True)
_min = _reduction("min", nonempty=True)
_max.sizes, _min.sizes = by_fold(maxima), by_fold(minima)
_max_from = _reduction_from("max")
_min_from = _reduction_from("min")
_any = _reduction("any").no_gradient("its results are bools")
_all = _reduction("all").no_gradient("its results are bools")
_any.sizes, _all.sizes = by_fold(by_item(either, 2)), by_fold(by_item(both, 2))
_sum.linear = True
for _primitive in (_max, _min, _max_from, _min_from):
    _primitive.rounding = "none"
MONOIDS.define(_sum, Monoid("add", zero, widened=True))
MONOIDS.define(_prod, Monoid("multiply", one, widened=True))
MONOIDS.define(_any, Monoid("logical_or", zero))
MONOIDS.define(_all, Monoid("logical_and", one))
for _primitive in (_max, _max_from):
    MONOIDS.define(_primitive, Monoid("maximum", least, ordered=True))
for _primitive in (_min, _min_from):
    MONOIDS.define(_primitive, Monoid("minimum", most, ordered=True))
for _primitive in (_sum, _prod, _max, _min, _any, _all):
    batch_with_axes(_primitive, "axes")


@_sum.vjp
def _(g: Value, x: Value, *, axes: tuple[int, ...], keepdims: bool) -> tuple[Value]:
    return (_stretch_back(g, x, axes, keepdims),)


@_prod.vjp
def _(g: Value, x: Value, *, axes: tuple[int, ...], keepdims: bool) -> tuple[Value]:
    others = other_axes(x.type.rank, axes)
    order = (*others, *axes)
    moved = F.transpose(x, order)
    together = math.prod(x.type.shape[a] for a in axes)
    rows = F.reshape(moved, (*(x.type.shape[a] for a in others), together))
    products = F.reshape(_product_of_others(rows), moved.type.shape)
    back = inverse_order(order)
    return (_stretch_back(g, x, axes, keepdims) * F.transpose(products, back),)


def _product_of_others(rows: Value) -> Value:
    """For each element, the product of the others in its last axis; zeros may occur."""
    ends = ((0, 0),) * (rows.type.rank - 1)
    before = F.cumprod(F.pad(rows, (*ends, (1, 0)), constant_values=1), axis=-1)
    backwards = F.pad(F.flip(rows, -1), (*ends, (1, 0)), constant_values=1)
    behind = F.flip(F.cumprod(backwards, axis=-1), -1)
    return before[..., :-1] * behind[..., 1:]


def _extreme_vjp(primitive: Primitive) -> None:
    """Define the gradient: elements that tie for the extreme share it, as in JAX."""
    primitive.picks = True

    @primitive.vjp
    def _(g: Value, x: Value, *, axes: tuple[int, ...], keepdims: bool) -> Cotangents:
        extremes = _stretch_back(primitive(x, axes=axes, keepdims=True), x, axes, True)
        ties = F.equal(x, extremes)
        count = F.sum(F.astype(ties, x.dtype), axis=axes, keepdims=True)
        share = (g if keepdims else F.expand_dims(g, axes)) / count
        return (F.where(ties, share, F.zeros_like(x)),)


def _extreme_from_rules(primitive: Primitive, pairwise: str) -> None:
    """Define the gradient and batching of an extreme that starts from `initial`."""
    primitive.picks = True

    @primitive.vjp
    def _(
        g: Value, x: Value, start: Value, *, axes: tuple[int, ...], keepdims: bool
    ) -> Cotangents:
        extremes = primitive(x, start, axes=axes, keepdims=True)
        ties, first = F.equal(x, extremes), F.equal(start, extremes)
        count = F.sum(F.astype(ties, x.dtype), axis=axes, keepdims=True)
        share = (g if keepdims else F.expand_dims(g, axes)) / (count + first)
        zero = cast(as_value(0), x.dtype)
        return F.where(ties, share, zero), F.sum(F.where(first, share, zero))

    @primitive.batch
    def _(n: Size, batched: Batched, x: Value, start: Value, **params: object) -> Value:
        axes, keepdims = params["axes"], params["keepdims"]
        if not batched[1]:
            return primitive(x, start, axes=shifted(axes), keepdims=keepdims)
        many = with_batch(n, batched[0], x)
        front = F.expand_dims(start, tuple(range(1, many.type.rank)))
        neutral = MONOIDS.rules[primitive].neutral(x.dtype)
        start = scalar(neutral, x.dtype)
        extremes = primitive(many, start, axes=shifted(axes), keepdims=True)
        joined = FUNCTIONS[pairwise](extremes, front)
        return joined if keepdims else F.squeeze(joined, shifted(axes))


_extreme_vjp(_max)
_extreme_vjp(_min)
_extreme_from_rules(_max_from, "maximum")
_extreme_from_rules(_min_from, "minimum")


def padded_reduction(primitive: Primitive) -> None:
    """Declare the mask rule: the padding of reduced axes holds the neutral element."""
    neutral = MONOIDS.rules[primitive].neutral

    @primitive.padding
    def _(
        pad: Padding, x: PaddedValue, *, axes: tuple[int, ...], keepdims: bool
    ) -> PaddedValue:
        number = neutral(x.value.dtype)
        filled = filled_to_reduce(pad, x, axes, MONOIDS.rules[primitive])
        if primitive in _FROM and x.ragged(axes):  # an expression may be of no size
            start = scalar(number, x.value.dtype)
            result = _FROM[primitive](filled, start, axes=axes, keepdims=keepdims)
        else:
            result = primitive(filled, axes=axes, keepdims=keepdims)
        fill = {a: n for a, n in kept(x.fill, axes, keepdims).items() if n == number}
        return pad.result(result, fill)


def _padded_reduction_from(primitive: Primitive) -> None:
    @primitive.padding
    def _(
        pad: Padding,
        x: PaddedValue,
        start: PaddedValue,
        *,
        axes: tuple[int, ...],
        keepdims: bool,
    ) -> Value:
        filled = filled_to_reduce(pad, x, axes, MONOIDS.rules[primitive])
        return primitive(filled, start.value, axes=axes, keepdims=keepdims)


_FROM = {_max: _max_from, _min: _min_from}
for _primitive in (_sum, _prod, _max, _min, _any, _all):
    padded_reduction(_primitive)
_padded_reduction_from(_max_from)
_padded_reduction_from(_min_from)


def numpy_sum_dtype(dtype: DType) -> DType:
    """The dtype in which NumPy adds up: small integers and bools widen."""
    if dtype.kind == "b" or (dtype.kind == "i" and dtype.itemsize < 8):
        return INT64
    if dtype.kind == "u":
        return UINT64
    return dtype


def where_mask(where: ArrayLike, x: Value, name: str) -> Value | None:
    """The `where` argument in the shape of `x`; None where all elements count."""
    if where is True:
        return None
    mask = as_strong_value(where)
    if mask.dtype != BOOL and not isinstance(where, (list, tuple)):
        raise graph_error("`where` must be a bool array", op=name, got=str(mask.type))
    return F.broadcast_to(cast(mask, BOOL), x.type.shape)


def _mask(x: Value, where: ArrayLike, fill: object, name: str) -> Value:
    """`x` with `fill` where the mask is False."""
    mask = where_mask(where, x, name)
    return x if mask is None else F.where(mask, x, cast(as_value(fill), x.dtype))


def _apply(primitive: Primitive, x: Value, axis: AxisArgument, keepdims: bool) -> Value:
    axes = normal_axes(axis, x.type.rank, primitive.name)
    return primitive(x, axes=axes, keepdims=keepdims)


def _initial(initial: ArrayLike, dtype: DType, name: str) -> Value:
    first = as_value(initial)
    if first.type.rank:
        raise graph_error("`initial` must be a scalar", op=name, got=str(first.type))
    number = literal_of(first) if first.type.weak else None
    if number is not None and number.dtype.kind == "f" and is_integer(dtype):
        if not np.isfinite(number):
            problem = f"`initial` is {number}, which {dtype.name} cannot hold"
            raise graph_error(problem, op=name, hint="give an integer")
        first = as_value(int(number))  # as NumPy, which then asks whether it fits
    return cast(first, dtype)


def _accumulate(
    primitive: Primitive,
    x: ArrayLike,
    axis: AxisArgument,
    dtype: DTypeLike | None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike,
) -> Value:
    value = as_strong_value(x)
    to = numpy_sum_dtype(value.dtype) if dtype is None else dtype_of(dtype)
    name, add = primitive.name, primitive is _sum
    if to == BOOL:  # asked for: then bools are added and multiplied, as in NumPy
        primitive = _any if add else _all
    value = _mask(cast(value, to), where, 0 if add else 1, name)
    result = _apply(primitive, value, axis, keepdims)
    if initial is None:
        return result
    return (F.add if add else F.multiply)(result, _initial(initial, to, name))


@public(name="sum", method=True)
def sum_(
    x: ArrayLike,
    /,
    axis: AxisArgument = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    *,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Value:
    """The sum over `axis` (all axes by default), as `numpy.sum`.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.matrix("x")
    >>> f = graphc.function([x], gt.sum(x, axis=0), backend="numpy")
    >>> f(np.array([[1, 2], [3, 4]], "float32"))
    array([4., 6.], dtype=float32)

    The result has the other axes of `x`; with `keepdims`, it keeps the summed ones with
    size 1. Only elements where the bool array `where` holds count, and `initial` is
    added. Without `dtype`, bools and short integers are added up in 64 bits, as in
    NumPy. Raises GraphError for an axis that `x` does not have.
    """
    return _accumulate(_sum, x, axis, dtype, keepdims, initial, where)


@public(method=True)
def prod(
    x: ArrayLike,
    /,
    axis: AxisArgument = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    *,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Value:
    """The product over `axis` (all axes by default), as `numpy.prod`.

    Only elements where the bool array `where` holds count, and `initial`. Where some
    factors overflow and another is 0, the order decides whether the result is 0 or NaN;
    the backend chooses that order, and it depends on the shape.
    """
    return _accumulate(_prod, x, axis, dtype, keepdims, initial, where)


def extreme(
    name: str,
    x: ArrayLike,
    axis: AxisArgument,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike,
) -> Value:
    """The largest or smallest element over `axis`, with the arguments of `max`."""
    value = as_strong_value(x)
    plain, start = (_max, _max_from) if name == "max" else (_min, _min_from)
    if initial is None and where is not True:
        problem = "a mask may leave no element, so `initial` is needed"
        raise graph_error(problem, op=name, got=str(value.type))
    first = None if initial is None else _initial(initial, value.dtype, name)
    if first is not None:
        value = _mask(value, where, first, name)
    if value.dtype.kind == "c":
        axes = normal_axes(axis, value.type.rank, name)
        return extreme_of_complex(plain, start, value, first, axes, keepdims)
    if first is None:
        return _apply(plain, value, axis, keepdims)
    axes = normal_axes(axis, value.type.rank, name)
    return start(value, first, axes=axes, keepdims=keepdims)


def _declare_extreme(name: str, element: str) -> Callable[..., Value]:
    doc = f"""The {element} element over `axis`; NaN where one is NaN.

    Of no elements it is `initial`, and an error where that is not given. Only
    elements where the bool array `where` holds count.
    """

    @public(name=name, method=True, doc=doc)
    def function(
        x: ArrayLike,
        /,
        axis: AxisArgument = None,
        keepdims: bool = False,
        *,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Value:
        return extreme(name, x, axis, keepdims, initial, where)

    return enroll(function, f"a{name}")


max_: Callable[..., Value] = _declare_extreme("max", "largest")
min_: Callable[..., Value] = _declare_extreme("min", "smallest")


def _declare_test(primitive: Primitive, doc: str) -> None:
    name, of_none = primitive.name, MONOIDS.rules[primitive].neutral(BOOL)

    @public(name=name, method=True, doc=doc)
    def function(
        x: ArrayLike,
        /,
        axis: AxisArgument = None,
        keepdims: bool = False,
        *,
        where: ArrayLike = True,
    ) -> Value:
        value = _mask(cast(as_strong_value(x), BOOL), where, of_none, name)
        return _apply(primitive, value, axis, keepdims)


_declare_test(
    _any, "Whether some element over `axis` (of those under `where`) is true (nonzero)."
)
_declare_test(
    _all,
    "Whether all elements over `axis` (of those under `where`) are true (nonzero).",
)


@op()
def _count_nonzero(x: Array) -> TensorType:
    """How many elements are true: an integer between 0 and the size."""
    return TensorType(INT64, ())


_count_nonzero.emit(
    numpy="np.count_nonzero({x})", jax='jnp.count_nonzero({x}).astype("int64")'
)


def _count_range(node: Node) -> NamedRange:
    """Name a count after the selection: for `kept = x[x > 0]` it is kept_count."""
    assigned = node.place.assigned
    name = f"{assigned}_count" if assigned else "count"
    return name, 0, node.inputs[0].type.size


_count_nonzero.range = _count_range
_count_nonzero.no_gradient("its results are integers")


@_count_nonzero.padding
def _(pad: Padding, x: PaddedValue) -> Value:
    return _count_nonzero(pad.filled(x, x.axes, 0))


@_count_nonzero.batch
def _(n: int | Value, batched: Batched, x: Value) -> Value:
    return sum_(cast(x, BOOL), axis=tuple(range(1, x.type.rank)))


@public()
def count_nonzero(
    x: ArrayLike, /, axis: AxisArgument = None, keepdims: bool = False
) -> Value:
    """How many elements over `axis` are nonzero, as int64."""
    value = cast(as_strong_value(x), BOOL)
    if axis is None and not keepdims:
        return _count_nonzero(value)
    return sum_(value, axis, keepdims=keepdims)


@public()
def ptp(x: ArrayLike, axis: AxisArgument = None, keepdims: bool = False) -> Value:
    """The range of values over `axis`: largest minus smallest."""
    return max_(x, axis, keepdims) - min_(x, axis, keepdims)
