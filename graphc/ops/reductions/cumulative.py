"""Running sums, products and extremes along an axis, and differences.

Elements that tie for a running maximum or minimum share its derivative equally, as they
do for `max`; JAX halves it at each step of its parallel scan. In the running logarithm
of a sum of exponentials, two equal infinities count for 1/2 each; JAX gives NaN there.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike
from graphc.ir.graph.build import (
    as_strong_value,
    as_value,
    cast,
    normal_axis,
    size_value,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Primitive, Printing, op, require_equal, type_error
from graphc.ir.integers import as_integer
from graphc.ir.namespace import F, enroll, public
from graphc.ir.params.kinds import AxisParam
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.types import BOOL, INT32, DType, JaxArray, NDArray, TensorType, dtype_of
from graphc.ops.common.axes import at_axis, on_axis, with_size
from graphc.ops.common.batching import Batched, batch_with_axes, with_batch
from graphc.ops.common.broadcasting import loop_dtypes, promoted_as_arrays
from graphc.ops.common.known_integers import by_scan, maxima, minima
from graphc.ops.common.monoids import Element, least, most, one, zero
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.reductions.reduce import numpy_sum_dtype, same_dtype_text


def _printer(numpy: str, jax: str) -> Callable[[Printing], str]:
    """Return a printer of calls of either library's function.

    To run backwards, functions of `jax.lax` take `reverse`; for others, the array is
    flipped before and after.
    """

    def printed(p: Printing) -> str:
        axis, reverse = p.node.params["axis"], p.node.params["reverse"]
        x, function = p.inputs[0], numpy if p.xp == "np" else jax
        if p.xp == "jnp" and function.startswith("jax"):
            backwards = ", reverse=True" if reverse else ""
            return f"{function}({x}, axis={axis}{backwards})"
        small = same_dtype_text(p) if function.endswith(("cumsum", "cumprod")) else ""
        if not reverse:
            return f"{function}({x}, axis={axis}{small})"
        turned = f"{p.xp}.flip({x}, {axis})"
        return f"{p.xp}.flip({function}({turned}, axis={axis}{small}), {axis})"

    return printed


def running_extreme_jax(
    jax: ModuleType, x: JaxArray, axis: int, reverse: bool, largest: bool
) -> JaxArray:
    """Printed into JAX programs: running extremes of complex numbers; NaN stays."""
    jnp = jax.numpy

    def joined(a: JaxArray, b: JaxArray) -> JaxArray:
        first, second = (a, b) if largest else (b, a)
        higher = (first.real > second.real) | (
            (first.real == second.real) & (first.imag >= second.imag)
        )
        return jnp.where(jnp.isnan(a) | (higher & ~jnp.isnan(b)), a, b)

    return jax.lax.associative_scan(joined, x, reverse=reverse, axis=axis)


def _print_extreme(numpy: str, jax: str, largest: bool) -> Callable[[Printing], str]:
    """Return a printer of running extremes; JAX needs a helper for complex numbers.

    XLA skips NaN in complex numbers, and none of them is the least in its order.
    """
    plain = _printer(numpy, jax)

    def printed(p: Printing) -> str:
        if p.xp == "np" or p.node.inputs[0].dtype.kind != "c":
            return plain(p)
        how = map(p.code, p.node.params.values())
        return p.call(running_extreme_jax, "jax", p.inputs[0], *how, largest)

    return printed


def _cumulative(
    name: str, printed: Callable[[Printing], str], sizes: Any = None
) -> Primitive:
    def infer(x: Array, *, axis: AxisParam, reverse: bool) -> TensorType:
        if x.dtype == BOOL:
            raise type_error("needs numbers")
        return x.type.like()

    def rule(x: NDArray, *, axis: int, reverse: bool) -> NDArray:
        turned = np.flip(x, axis) if reverse else x
        running = sizes(turned, axis)
        return np.flip(running, axis) if reverse else running

    primitive = Primitive(name, infer, sizes=rule if sizes else None, wraps=True)
    return primitive.emit(printed)


_cumsum = _cumulative("cumsum", _printer("np.cumsum", "jnp.cumsum"), np.cumsum)
_cumprod = _cumulative("cumprod", _printer("np.cumprod", "jnp.cumprod"), np.cumprod)
_cummax = _cumulative(
    "cummax",
    _print_extreme("np.maximum.accumulate", "jax.lax.cummax", True),
    by_scan(maxima),
)
_cummin = _cumulative(
    "cummin",
    _print_extreme("np.minimum.accumulate", "jax.lax.cummin", False),
    by_scan(minima),
)
_cumlogsumexp = _cumulative(
    "cumlogsumexp", _printer("np.logaddexp.accumulate", "jax.lax.cumlogsumexp")
)

_cummax.rounding = _cummin.rounding = "none"


def _padded_running(primitive: Primitive, neutral: Callable[[DType], Element]) -> None:
    """Declare the mask rule: run backwards, padding holds the neutral element.

    Run forwards, the padding comes after everything that counts.
    """

    @primitive.padding
    def _(pad: Padding, x: PaddedValue, *, axis: int, reverse: bool) -> Value:
        axes = (axis,) if reverse else ()
        filled = pad.filled(x, axes, neutral(x.value.dtype))
        running: Value = primitive(filled, axis=axis, reverse=reverse)
        return running


for _primitive, _neutral in (
    (_cumsum, zero),
    (_cumprod, one),
    (_cummax, least),
    (_cummin, most),
    (_cumlogsumexp, lambda dtype: -np.inf),
):
    _padded_running(_primitive, _neutral)


@op()
def _recurrence(
    factor: Array, term: Array, *, axis: AxisParam, reverse: bool
) -> TensorType:
    """h[t] = factor[t] h[t - 1] + term[t] along `axis`; h before the first is 0."""
    pairs = zip(factor.type.shape, term.type.shape, strict=True)
    shape = [require_equal(n, m, "one factor per term") for n, m in pairs]
    if factor.dtype != term.dtype:
        raise type_error("needs factors and terms of one dtype")
    return term.type.like(shape)


def recurrence_numpy(
    factor: NDArray, term: NDArray, axis: int, reverse: bool
) -> NDArray:
    """Printed into NumPy programs: `y[t] = factor[t] * y[t - 1] + term[t]` from 0."""
    factor, term = np.moveaxis(factor, axis, 0), np.moveaxis(term, axis, 0)
    out, last = np.empty_like(term), np.zeros_like(term[:1].sum(0))
    for t in range(len(term))[:: -1 if reverse else 1]:
        out[t] = last = factor[t] * last + term[t]
    return np.moveaxis(out, 0, axis)


def recurrence_jax(
    jax: ModuleType, factor: JaxArray, term: JaxArray, axis: int, reverse: bool
) -> JaxArray:
    """Printed into JAX programs: `y[t] = factor[t] * y[t - 1] + term[t]` from 0."""

    def combine(early: Value, late: Value) -> object:
        return early[0] * late[0], early[1] * late[0] + late[1]

    pair = factor, term
    return jax.lax.associative_scan(combine, pair, reverse=reverse, axis=axis)[1]


def _print_recurrence(p: Printing) -> str:
    arguments = [*p.inputs, *map(p.code, p.node.params.values())]
    if p.xp == "np":
        return p.call(recurrence_numpy, *arguments)
    return p.call(recurrence_jax, "jax", *arguments)


_recurrence.emit(_print_recurrence)
enroll(_recurrence, "_recurrence")


@_recurrence.padding
def _(
    pad: Padding, factor: PaddedValue, term: PaddedValue, *, axis: int, reverse: bool
) -> Value:
    both, size = [factor.value, term.value], term.type.shape[axis]
    ragged = reverse and axis in factor.axes | term.axes
    if ragged:  # no fill would do: combined in parts, infinity meets the zero behind it
        both = [_move_to_end(pad, size, x, axis, 1) for x in both]
    states: Value = _recurrence(*both, axis=axis, reverse=reverse)
    return _move_to_end(pad, size, states, axis, -1) if ragged else states


def _move_to_end(pad: Padding, n: Size, x: Value, axis: int, sign: int) -> Value:
    """Move the elements to the end of the axis, or back again if `sign` is -1."""
    room = as_value(F.size_value(pad.stored(n)))
    places = pad.positions(n) - sign * cast(room - pad.length(n), INT32)
    turned: Value = F._gather(
        x, places % cast(room, INT32), axes=(axis,), inside=(True,)
    )
    return turned


@_recurrence.vjp
def _(
    g: Value, factor: Value, term: Value, *, axis: int, reverse: bool
) -> tuple[Value, Value]:
    later = _previous(factor, axis, not reverse)
    share = _recurrence(later, g, axis=axis, reverse=not reverse)
    states = _recurrence(factor, term, axis=axis, reverse=reverse)
    return share * _previous(states, axis, reverse), share


def _previous(x: Value, axis: int, reverse: bool) -> Value:
    """The element before each one in running order, and 0 for the first."""
    n = x.type.shape[axis]
    shifted = F._part(x, axis, 1, n) if reverse else F._part(x, axis, 0, n - 1)
    some = dims.minimum(n, 1)
    width: list[Any] = [(0, 0)] * x.type.rank
    width[axis] = (0, size_value(some)) if reverse else (size_value(some), 0)
    return F.specify_shape(F.pad(shifted, width), x.type.shape)


def _is_first(x: Value, axis: int, reverse: bool) -> Value:
    """A mask of the elements that are first in running order, in the shape of `x`."""
    return F.equal(_previous(F.ones_like(x), axis, reverse), 0)


for _primitive in (_cumsum, _cumprod, _cummax, _cummin, _cumlogsumexp):
    batch_with_axes(_primitive, "axis")
_cumsum.linear = True


@_recurrence.batch
def _(n: Size, batched: Batched, *pair: Value, axis: int, reverse: bool) -> Value:
    both = map(with_batch, [n] * 2, batched, pair)
    return _recurrence(*both, axis=axis + 1, reverse=reverse)


@_cumsum.vjp
def _(g: Value, x: Value, *, axis: int, reverse: bool) -> tuple[Value]:
    return (_cumsum(g, axis=axis, reverse=not reverse),)


@_cumprod.vjp
def _(g: Value, x: Value, *, axis: int, reverse: bool) -> tuple[Value]:
    # The product before an element is a factor of all results from it on: no division.
    products = _cumprod(x, axis=axis, reverse=reverse)
    before = _previous(products, axis, reverse)
    factor = F.where(_is_first(x, axis, reverse), F.ones_like(x), before)
    later = _previous(x, axis, not reverse)
    return (factor * _recurrence(later, g, axis=axis, reverse=not reverse),)


@_cumlogsumexp.vjp
def _(g: Value, x: Value, *, axis: int, reverse: bool) -> tuple[Value]:
    logs = _cumlogsumexp(x, axis=axis, reverse=reverse)
    first = _is_first(x, axis, reverse)
    before = F.where(first, logs, _previous(logs, axis, reverse))
    same = F.logical_and(F.isinf(x), F.equal(x, before))
    same = F.logical_and(same, F.logical_not(first))

    def weight(part: Value) -> Value:
        """The derivative of the logarithm of a sum in the logarithm of one part."""
        equal = F.equal(part, logs)
        ratio = F.exp(F.where(equal, F.zeros_like(part), part - logs))
        return F.where(same, cast(as_value(0.5), x.dtype), ratio)

    later = _previous(weight(before), axis, not reverse)
    share = _recurrence(later, g, axis=axis, reverse=not reverse)
    return (share * weight(x),)


def _extreme_vjp(primitive: Primitive) -> None:
    """Define the gradient: elements that tie for the extreme so far share it alike."""
    primitive.picks = True

    @primitive.vjp
    def _(g: Value, x: Value, *, axis: int, reverse: bool) -> tuple[Value]:
        running = primitive(x, axis=axis, reverse=reverse)
        hits, one = F.equal(x, running), cast(as_value(1), x.dtype)
        # `same`: 1 where the extreme so far stays, 0 where an element changes it.
        same = F.equal(_previous(running, axis, reverse), running)
        later = F.logical_not(_is_first(x, axis, reverse))
        same = cast(F.logical_and(same, later), x.dtype)
        ties = _recurrence(same, cast(hits, x.dtype), axis=axis, reverse=reverse)
        later = _previous(same, axis, not reverse)
        share = g / F.maximum(ties, one)
        share = _recurrence(later, share, axis=axis, reverse=not reverse)
        return (F.where(hits, share, F.zeros_like(share)),)


_extreme_vjp(_cummax)
_extreme_vjp(_cummin)


def _running(
    primitive: Primitive,
    x: ArrayLike,
    axis: int | None,
    dtype: DTypeLike | None,
    reverse: bool,
) -> Value:
    value, chosen = on_axis(x, axis, primitive.name)
    to = value.dtype if dtype is None else dtype_of(dtype)
    if to == BOOL:  # running any and all are maxima and minima of 0 and 1
        small = cast(cast(value, BOOL), dtype_of("uint8"))
        return cast(primitive(small, axis=chosen, reverse=reverse), BOOL)
    return primitive(cast(value, to), axis=chosen, reverse=reverse)


def _sum_dtype(x: ArrayLike, dtype: DTypeLike | None) -> DTypeLike:
    return numpy_sum_dtype(as_strong_value(x).dtype) if dtype is None else dtype


def _running_total(
    name: str, totals: str, primitive: Primitive, of_bools: Primitive
) -> Callable[..., Value]:
    doc = f"""Running {totals} along `axis` (of the flattened array by default).

    With `reverse`, from the last element to the first.
    """

    @public(name=name, method=True, doc=doc)
    def function(
        x: ArrayLike,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Value:
        to = _sum_dtype(x, dtype)
        bools = dtype_of(to) == BOOL
        return _running(of_bools if bools else primitive, x, axis, to, reverse)

    return function


cumsum: Callable[..., Value] = _running_total("cumsum", "sums", _cumsum, _cummax)
cumprod: Callable[..., Value] = _running_total("cumprod", "products", _cumprod, _cummin)


def _running_extreme(name: str, element: str, primitive: Primitive) -> None:
    elements = f"The {element} element so far along `axis` (flattened by default)"

    @public(name=name, doc=f"{elements}; NaN stays.")
    def function(
        x: ArrayLike, axis: int | None = None, *, reverse: bool = False
    ) -> Value:
        return _running(primitive, x, axis, None, reverse)


_running_extreme("cummax", "largest", _cummax)
_running_extreme("cummin", "smallest", _cummin)


@public()
def cumlogsumexp(
    x: ArrayLike, axis: int | None = None, *, reverse: bool = False
) -> Value:
    """`log(cumsum(exp(x)))` along `axis` (flattened by default), without overflow."""
    value = as_strong_value(x)
    loop = loop_dtypes(np.logaddexp, (value.dtype, value.dtype))
    if loop is None:
        got = str(value.type)
        raise graph_error("needs real numbers", op="cumlogsumexp", got=got)
    return _running(_cumlogsumexp, value, axis, loop[0], reverse)


def _from_initial(
    name: str, total: Callable[..., Value], initial: int, doc: str
) -> None:
    """Declare a running total as the Array API defines it."""

    @public(name=name, doc=doc)
    def function(
        x: ArrayLike,
        /,
        *,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        include_initial: bool = False,
    ) -> Value:
        value = F.atleast_1d(x)
        if axis is None and value.type.rank > 1:
            got = str(value.type)
            problem = "needs `axis`, since the array has more than one"
            raise graph_error(problem, op=name, got=got)
        at = normal_axis(0 if axis is None else axis, value.type.rank, name)
        running = total(value, at, dtype)
        if not include_initial:
            return running
        shape = with_size(running.type.shape, at, 1)
        first = F.full(shape, initial, running.dtype)
        return F.concatenate([first, running], axis=at)


_from_initial(
    "cumulative_sum",
    cumsum,
    0,
    "Running sums along `axis`, of vectors their own; `include_initial`: 0 first.",
)
_from_initial(
    "cumulative_prod",
    cumprod,
    1,
    "Running products along `axis`; where `include_initial`, a 1 comes first.",
)


def _end_slice(part: ArrayLike, like: Value, axis: int) -> Value:
    """The slice to put before or after `like`; a scalar fills one slice.

    As in NumPy, a Python number becomes an array first, so its dtype counts.
    """
    value = promoted_as_arrays(like, part)[1]
    if value.type.rank:
        return value
    return F.broadcast_to(value, with_size(like.type.shape, axis, 1))


@public()
def diff(
    x: ArrayLike,
    /,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Value:
    """Differences of neighbours along `axis`, taken `n` times, as `numpy.diff`.

    `prepend` and `append` are put on the axis first.
    """
    n = as_integer(n, "the order must be an integer", "diff")
    value = as_strong_value(x)
    if n < 0:
        raise graph_error(f"the order {n} is negative", op="diff")
    at = normal_axis(axis, value.type.rank, "diff")
    parts = [value]
    if n and prepend is not None:
        parts.insert(0, _end_slice(prepend, value, at))
    if n and append is not None:
        parts.append(_end_slice(append, value, at))
    value = F.concatenate(parts, axis=at)
    for _ in range(n):
        late = value[at_axis(at, slice(1, None))]
        early = value[at_axis(at, slice(None, -1))]
        bools = value.dtype == BOOL
        value = F.not_equal(late, early) if bools else late - early
    return value


@public()
def ediff1d(
    x: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Value:
    """Differences of neighbours of the flattened array, with given ends."""
    value = F.ravel(as_strong_value(x))
    parts = [value[1:] - value[:-1]]
    if to_begin is not None:
        parts.insert(0, _end_elements(to_begin, value, "to_begin"))
    if to_end is not None:
        parts.append(_end_elements(to_end, value, "to_end"))
    return F.concatenate(parts)


def _end_elements(part: object, like: Value, name: str) -> Value:
    value = F.ravel(as_value(part))
    if not np.can_cast(value.dtype, like.dtype, "same_kind"):
        got = f"{name} {value.type} with {like.type}"
        problem = "the ends must have a dtype of the kind of the array"
        raise graph_error(problem, op="ediff1d", got=got)
    return cast(value, like.dtype)
