"""`jax.lax.associative_scan` along an axis whose size is a symbol.

JAX halves the axis in Python until one element is left: its steps depend on the size.
In a trace for many sizes, doubling steps stand in its place (Hillis and Steele, Data
parallel algorithms, 1986): one loop for all of them, in which each element is combined
with the one 1, 2, 4 ... before it. The derivative follows the results one by one:
`y[i] = fn(y[i - 1], x[i])`, a scan that JAX can transpose.
"""

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.importers.jax.read.jaxprs import is_array_type, is_key, opened
from graphc.importers.jax.trace.dimensions import DIMENSION
from graphc.importers.jax.trace.recorder import recorder_of
from graphc.ir.types import ConcreteArray, JaxArray

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

Elements = Sequence[Any]


class _SizesOfThread(threading.local):
    is_for_many = False  # sizes that are numbers here are those of one call of many


_THREAD = _SizesOfThread()


@contextmanager
def for_many_sizes() -> Iterator[None]:
    """Trace here at numbers as at symbols: the trace is compared with one of these."""
    outer = _THREAD.is_for_many
    _THREAD.is_for_many = True
    try:
        yield
    finally:
        _THREAD.is_for_many = outer


@dataclass(frozen=True)
class _Combine:
    """The function that combines elements: `jaxpr` is that of one slice of each array.

    The size of its axis is 1. Values from outside of the function come first.
    """

    jaxpr: Any
    axis: int

    def of_slices(
        self, outside: Elements, before: Elements, after: Elements
    ) -> list[ConcreteArray]:
        """The combined slices, whose axis is left out."""
        inner, _ = opened(self.jaxpr)
        single = [jnp.expand_dims(x, self.axis) for x in (*before, *after)]
        combined = jax.core.eval_jaxpr(inner, outside, *single)
        return [jnp.squeeze(x, self.axis) for x in combined]

    def of_rows(
        self, outside: Elements, before: Elements, after: Elements
    ) -> list[ConcreteArray]:
        """The combined elements of arrays whose first axis is that of the scan."""
        each = jax.vmap(self.of_slices, (None, 0, 0))
        return list(each(list(outside), list(before), list(after)))


def _running(combine: _Combine, outside: Elements, x: Elements) -> list[JaxArray]:
    """All running results along the first axis."""
    index = jnp.arange(x[0].shape[0], dtype="int32")
    size = jnp.asarray(x[0].shape[0], "int32")

    def is_left(carry: tuple[JaxArray, list[JaxArray]]) -> JaxArray:
        return carry[0] < size

    def step(carry: tuple[JaxArray, list[JaxArray]]) -> tuple[JaxArray, list[JaxArray]]:
        distance, now = carry
        at = jnp.maximum(index - distance, 0)
        before = [jnp.take(v, at, axis=0, mode="clip") for v in now]
        combined = combine.of_rows(outside, before, now)
        is_late = index >= distance
        pairs = zip(combined, now, strict=True)
        after = [jnp.where(_rows(is_late, v), new, v) for new, v in pairs]
        return distance * 2, after

    return list(lax.while_loop(is_left, step, (jnp.int32(1), list(x)))[1])


def _rows(mask: JaxArray, like: ConcreteArray) -> JaxArray:
    return jnp.expand_dims(mask, tuple(range(1, like.ndim)))


def _tangents(
    combine: _Combine,
    primals: tuple[Elements, Elements],
    tangents: tuple[Elements, Elements],
    y: Elements,
) -> list[object]:
    """The tangents of running results, by those of what they are made of."""
    (outside, x), (d_outside, d_x) = primals, tangents
    floats = [jnp.issubdtype(v.dtype, jnp.inexact) for v in x]

    def chosen(values: Elements) -> list[JaxArray]:
        return [v for v, is_float in zip(values, floats, strict=True) if is_float]

    def all_of(values: Elements, like: Elements) -> list[object]:
        remaining = iter(values)
        pairs = zip(like, floats, strict=True)
        return [next(remaining) if f else _no_tangent(v) for v, f in pairs]

    def step(
        carry: list[JaxArray], row: tuple[list[JaxArray], ...]
    ) -> tuple[list[JaxArray], list[JaxArray]]:
        before, after, d_after = row
        at = list(outside), before, after
        slopes = list(d_outside), all_of(carry, before), all_of(d_after, after)
        _, tangents = jax.jvp(combine.of_slices, at, slopes)
        return chosen(tangents), chosen(tangents)

    first = [lax.slice_in_dim(v, 0, 1) for v in chosen(d_x)]
    start = [lax.squeeze(v, (0,)) for v in first]
    n = x[0].shape[0]
    earlier = [lax.slice_in_dim(v, 0, n - 1) for v in y]
    here, d_here = ([lax.slice_in_dim(v, 1, n) for v in vs] for vs in (x, chosen(d_x)))
    _, later = lax.scan(step, start, (earlier, here, d_here))
    joined = [jnp.concatenate(parts) for parts in zip(first, later, strict=True)]
    return all_of(joined, y)


def _no_tangent(value: JaxArray) -> object:
    return np.zeros(value.shape, jax.dtypes.float0)


def _differentiable(combine: _Combine) -> Callable[[Elements, Elements], Elements]:
    """The running results, with their derivative."""

    @jax.custom_jvp
    def running(outside: Elements, x: Elements) -> Elements:
        return _running(combine, outside, x)

    @running.defjvp
    def _(
        primals: tuple[Elements, Elements], tangents: tuple[Elements, Elements]
    ) -> tuple[Elements, Elements]:
        y = running(*primals)
        return y, _tangents(combine, primals, tangents, y)

    return running


def _combine(
    fn: Callable[..., object], tree: "PyTreeDef", x: Elements, axis: int
) -> _Combine | None:
    """The function of single slices; None where it does not keep their types."""

    def flat(*slices: object) -> list[ConcreteArray]:
        halves = slices[: len(x)], slices[len(x) :]
        return jax.tree.leaves(fn(*(tree.unflatten(half) for half in halves)))

    make: Any = jax.ShapeDtypeStruct
    single = [
        make((*v.shape[:axis], 1, *v.shape[axis + 1 :]), v.dtype) for v in x
    ]
    jaxpr = jax.make_jaxpr(flat)(*single, *single)
    keeps_types = _types(jaxpr.out_avals) == _types(single)
    if (
        jaxpr.effects
        or not keeps_types
        or _types(jax.eval_shape(flat, *x, *x)) != _types(x)
    ):
        return None
    return _Combine(jaxpr, axis)


def _types(arrays: Elements) -> list[tuple[object, object]]:
    return [(v.shape, v.dtype) for v in arrays]


def _is_plain(x: object) -> bool:
    """Whether it is an array that loops carry as it is."""
    aval = jax.typeof(x)
    return is_array_type(aval) and not (is_key(aval.dtype) or aval.weak_type)


def _size(x: Elements, axis: int) -> object:
    """The size of the axis, where all have it; None otherwise."""
    if not x or not all(map(_is_plain, x)) or axis not in range(-x[0].ndim, x[0].ndim):
        return None
    axis %= x[0].ndim
    sizes = [v.shape[axis] for v in x if v.ndim > axis]
    alike = len(sizes) == len(x) and all(n is sizes[0] or n == sizes[0] for n in sizes)
    return sizes[0] if alike else None


def _is_of_many(size: object) -> bool:
    """Whether there are to be the same steps for this size as for others."""
    if isinstance(size, DIMENSION):
        return recorder_of(size) is not None
    return _THREAD.is_for_many and type(size) is int and size > 1


def scanned(
    fn: Callable[..., object], elems: object, reverse: bool = False, axis: int = 0
) -> object:
    """`jax.lax.associative_scan`: in a trace for many sizes, the same steps for all."""
    tree: Any
    x, tree = jax.tree.flatten(elems)
    known = callable(fn) and all(isinstance(v, jax.Array) for v in x)
    if known and _is_of_many(_size(x, axis)):
        axis %= x[0].ndim
        combine = _combine(fn, tree, x, axis)
        if combine is not None:
            return tree.unflatten(_of_many(combine, x, reverse))
    return _BY_JAX(fn, elems, reverse, axis)


def _of_many(combine: _Combine, x: Elements, reverse: bool) -> list[ConcreteArray]:
    rows = [jnp.moveaxis(v, combine.axis, 0) for v in x]
    rows = [jnp.flip(v, 0) for v in rows] if reverse else rows
    combined = _differentiable(combine)(list(opened(combine.jaxpr)[1]), rows)
    combined = [jnp.flip(v, 0) for v in combined] if reverse else combined
    return [jnp.moveaxis(v, 0, combine.axis) for v in combined]


# Code that takes the place of that of JAX, so that it is found by whatever name it was
# imported. It sees the names of JAX's module, and no others.
def _instead(
    fn: Callable[..., object], elems: object, reverse: "bool" = False, axis: "int" = 0
) -> object:
    ours = __import__("graphc.importers.jax.trace.associative", fromlist=["scanned"])
    return ours.scanned(fn, elems, reverse, axis)


def _replaced() -> Callable[..., object]:
    """JAX's own function, whose name means ours from now on.

    One with other arguments, of another JAX, is left as it is.
    """
    public: Any = lax.associative_scan
    original: Any = inspect.unwrap(public)
    names = [inspect.getfullargspec(function).args for function in (original, _instead)]
    if (
        not isinstance(original, FunctionType)
        or original.__closure__
        or names[0] != names[1]
    ):
        return original
    copy = FunctionType(
        original.__code__,
        original.__globals__,
        original.__name__,
        original.__defaults__,
    )
    original.__code__ = _instead.__code__
    return copy


_BY_JAX = _replaced()
