"""Indexing for writing: `x.at[index].set(v)` and the like, as functional updates.

An update out of bounds writes nothing, on both backends, unless the function is
compiled with `check=True`, which raises.
"""

from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import INPUT, as_value, cast, is_body_input, size_value
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op, type_error
from graphc.ir.namespace import F, enroll
from graphc.ir.params.kinds import AxesParam, Param
from graphc.ir.sizes.dims import Size, equal
from graphc.ir.types import JaxArray, NDArray, TensorType, product
from graphc.ops.common.batching import Batched, with_batch
from graphc.ops.common.broadcasting import require_stretchable, summed_to
from graphc.ops.common.conditions import BOUNDS, BoundsRule
from graphc.ops.common.known_integers import KnownSizes, is_symbolic, scattered_sizes
from graphc.ops.common.spread import nan_kept, target_text
from graphc.ops.indexing.basic import BASIC_INDEX, after_batch, static_items, subscript
from graphc.ops.indexing.by_rows import print_by_rows
from graphc.ops.indexing.counting_indices import counters
from graphc.ops.indexing.gather import (
    GATHER,
    advanced_items,
    axes_maybe_empty,
    clamped,
    gathered_shape,
    is_within,
    stray_checks,
    with_row_indices,
)
from graphc.ops.indexing.overlaps import (
    joined_jax,
    reads_other_places,
    row_apart_jax,
    updated_jax,
)
from graphc.ops.indexing.parse import (
    Bounds,
    Kinds,
    UpdateKind,
    first_of_points,
    is_adjacent,
)
from graphc.ops.indexing.row_access import is_row
from graphc.ops.indexing.uniqueness import is_without_repeats


@op()
def _scatter(
    x: Array,
    v: Array,
    *indices: Array,
    axes: AxesParam,
    how: UpdateKind,
    inside: tuple[bool, ...],
) -> TensorType:
    """`x` with `v` written at integer positions; a repeated one counts each time.

    `inside` tells which arrays cannot leave their axis; nothing is written outside.
    """
    _fits(v, gathered_shape(x, indices, axes, inside), x)
    return x.type.like()


def _fits(v: Value, shape: tuple[Size, ...], x: Value) -> None:
    if v.dtype != x.dtype:
        raise type_error("the update has another dtype than the array")
    extra = len(shape) - v.type.rank
    if extra < 0:
        raise type_error("the update has more axes than the part it is written to")
    for n, room in zip(v.type.shape, shape[extra:], strict=True):
        require_stretchable(n, room, "the update does not fit")


def scatter_numpy(
    x: NDArray, v: NDArray, indices: Sequence[NDArray], axes: Sequence[int], how: str
) -> NDArray:
    """Printed into NumPy programs: updates at `indices`, dropped out of bounds."""
    y = x.copy()
    indices = np.broadcast_arrays(*indices)
    sizes = [x.shape[a] for a in axes]
    inside = np.logical_and.reduce(
        [(i >= -n) & (i < n) for i, n in zip(indices, sizes)]  # noqa: B905
    )
    adjacent = tuple(axes) == tuple(range(axes[0], axes[0] + len(axes)))
    at = axes[0] if adjacent else 0
    shape = [n for a, n in enumerate(x.shape) if a not in axes]
    v = np.broadcast_to(v, (*shape[:at], *inside.shape, *shape[at:]))
    v = np.moveaxis(v, range(at, at + inside.ndim), range(inside.ndim))
    rows = np.moveaxis(y, axes, range(len(axes)))
    where = tuple(i[inside] for i in indices)
    if how == "set":
        rows[where] = v[inside]
    else:
        names = {"min": "minimum", "max": "maximum"}
        getattr(np, names.get(how, how)).at(rows, where, v[inside])
    return y


def _print_scatter_numpy(p: Printing) -> str:
    x, v, *indices = p.inputs
    axes, how = p.node.params["axes"], repr(p.node.params["how"])
    return p.call(scatter_numpy, x, v, f"[{', '.join(indices)}]", axes, how)


def _print_scatter_jax(p: Printing) -> str:
    x = p.inputs[0]
    if reads_other_places(p.node):
        text = _apart_write_text(p)
    else:
        text = _row_write_text(p) if is_row(p.node) else _positions_text(p)
    if all(i.type.rank == 0 for i in p.node.inputs[2:]):  # JAX refuses empty axes
        sizes = [f"{x}.shape[{axis}]" for axis in axes_maybe_empty(p.node)]
        if sizes:
            return f"{text} if {' and '.join(sizes)} else {x}"
    return text


def _row_write_text(p: Printing) -> str:
    (axis,) = p.node.params["axes"]
    inputs = target_text(p), *p.inputs[1:]
    return f"jax.lax.dynamic_update_index_in_dim({', '.join(inputs)}, {axis})"


def _apart_write_text(p: Printing) -> str:
    """Print the write of a row that is computed from what it overwrites."""
    params, name = p.node.params, p.helper(row_apart_jax)
    indices, axes = ", ".join(clamped(p, 2, beyond=True)), params["axes"]
    at = first_of_points(axes)

    def text(x: str, v: str, how: str) -> str:
        return f"{name}(jnp, {x}, {v}, [{indices}], {axes}, {at}, {how!r})"

    x, v, how = target_text(p), p.inputs[1], params["how"]
    if how not in ("max", "min"):
        return text(x, v, how)
    has_nan = text(f"jnp.isnan({p.inputs[0]})", f"jnp.isnan({v})", "max")
    return nan_kept(p, text(x, v, how), has_nan)


def _positions_text(p: Printing) -> str:
    x, v = target_text(p), p.inputs[1]
    mode = "promise_in_bounds" if all(p.node.params["inside"]) else "drop"
    items = advanced_items(p, clamped(p, 2, beyond=True))
    how = p.node.params["how"]
    text = f'{x}.at[{items}].{how}({v}, mode="{mode}")'
    if how not in ("max", "min"):
        return text
    has_nan = f'jnp.isnan({x}).at[{items}].max(jnp.isnan({v}), mode="{mode}")'
    return nan_kept(p, text, has_nan)


_scatter.beside = counters
_scatter.rounding = "stored"
_scatter.emit(
    numpy=_print_scatter_numpy, jax=lambda p: print_by_rows(p, _print_scatter_jax)
)
_scatter.picks = True
BOUNDS.define(_scatter, BoundsRule(stray_checks))
_scatter.sizes = scattered_sizes
SCATTER = enroll(_scatter, "_scatter")


@_scatter.vjp
def _(
    g: Value,
    x: Value,
    v: Value,
    *indices: Value,
    axes: tuple[int, ...],
    how: str,
    inside: tuple[bool, ...],
) -> tuple[Value | None, ...]:
    written = _ScatterSite(x, v, indices, axes, inside)
    gradients = _SCATTERED[how](written, g)
    share = F.where(written.inside_mask(), gradients[1], F.zeros_like(gradients[1]))
    return gradients[0], summed_to(share, v.type.shape), *[None] * len(indices)


class _ScatterSite:
    """The written elements and positions of a scatter, for its derivatives."""

    def __init__(
        self,
        x: Value,
        v: Value,
        indices: tuple[Value, ...],
        axes: tuple[int, ...],
        inside: tuple[bool, ...],
    ) -> None:
        self.x, self.axes, self.inside, self.indices = x, axes, inside, indices
        self.shape = self.read(x).type.shape
        self.v = F.broadcast_to(v, self.shape)

    def read(self, x: Value) -> Value:
        """The elements of `x` at the written positions."""
        return GATHER(x, *self.indices, axes=self.axes, inside=self.inside)

    def write(self, x: Value, v: ArrayLike, how: str) -> Value:
        """`x` with `v` written at these positions."""
        new = cast(as_value(v), x.dtype)
        params = {"axes": self.axes, "how": how, "inside": self.inside}
        return _scatter(x, new, *self.indices, **params)

    def inside_mask(self) -> Value:
        """Whether each update lies within `x`."""
        whole = as_value(np.True_)
        for i, axis, known in zip(self.indices, self.axes, self.inside, strict=True):
            if not known:
                whole = F.logical_and(whole, is_within(i, self.x.shape[axis]))
        behind = len(self.shape) - whole.type.rank
        if whole.type.rank and is_adjacent(self.axes):
            behind = self.x.type.rank - self.axes[-1] - 1
        fitted = F.expand_dims(whole, tuple(range(-behind, 0)))
        return F.broadcast_to(fitted, self.shape)

    def is_distinct(self) -> bool:
        """Whether it is known that no element is written twice."""
        sizes = [self.x.type.shape[a] for a in self.axes]
        return is_without_repeats(self.indices, sizes)

    def lasting_updates(self) -> Value | None:
        """Whether each update stays if several set one element; None if all stay.

        To find out, the numbers of the updates are set in the same way.
        """
        if self.is_distinct():
            return None
        numbers = F.reshape(F.arange(size_value(product(self.shape))), self.shape)
        blank = F.zeros(self.x.type.shape, numbers.dtype)
        return F.equal(self.read(self.write(blank, numbers, "set")), numbers)


IndexPair = tuple[Value, Value]


def _vjp_set(written: _ScatterSite, g: Value) -> IndexPair:
    share, won = written.read(g), written.lasting_updates()
    if won is not None:
        share = F.where(won, share, F.zeros_like(share))
    return written.write(g, 0, "set"), share


def _vjp_add(written: _ScatterSite, g: Value) -> IndexPair:
    return g, written.read(g)


def _vjp_multiply(written: _ScatterSite, g: Value) -> IndexPair:
    share = written.read(g) * written.read(written.x)
    share = share if written.is_distinct() else share * _other_factors(written)
    return written.write(g, written.v, "multiply"), share


def _other_factors(written: _ScatterSite) -> Value:
    """For each update, the product of the other updates of the same element."""
    x = written.x
    numbers = F.reshape(F.arange(x.size), x.shape)
    target = F.where(written.inside_mask(), written.read(numbers), x.size)
    others = F._product_of_others(F.ravel(written.v), F.ravel(target))
    return F.reshape(others, written.shape)


def _vjp_extreme(how: str) -> Callable[[_ScatterSite, Value], IndexPair]:
    """The rule of "min" or "max": tied elements and updates share alike, as in JAX."""

    def rule(written: _ScatterSite, g: Value) -> IndexPair:
        x, v = written.x, written.v
        if written.is_distinct():
            old, share = written.read(x), written.read(g)
            share_of_old, shown = _split_cotangent(how, share, old, v)
            return written.write(g, share_of_old, "set"), shown
        result = written.write(x, v, how)
        stays, hits = F.equal(x, result), F.equal(v, written.read(result))
        one = cast(as_value(1), g.dtype)
        ties = written.write(cast(stays, g.dtype), cast(hits, g.dtype), "add")
        share = g / F.maximum(ties, one)
        read = written.read(share)
        return (
            F.where(stays, share, F.zeros_like(share)),
            F.where(hits, read, F.zeros_like(read)),
        )

    return rule


_SCATTERED: dict[str, Callable[[_ScatterSite, Value], IndexPair]] = {
    "set": _vjp_set,
    "add": _vjp_add,
    "multiply": _vjp_multiply,
    "min": _vjp_extreme("min"),
    "max": _vjp_extreme("max"),
}


@_scatter.batch
def _(
    n: Size,
    batched: Batched,
    x: Value,
    v: Value,
    *indices: Value,
    axes: tuple[int, ...],
    how: str,
    inside: tuple[bool, ...],
) -> Value:
    pairs = zip(indices, batched[2:], strict=True)
    points = max(i.type.rank - b for i, b in pairs)
    rank = points + x.type.rank - batched[0] - len(axes)
    v = _with_rank(v, rank, batched[1])
    many = with_batch(n, batched[0], x)
    places, later = with_row_indices(many, batched[2:], indices, axes)
    if len(later) == len(axes):
        if not is_adjacent(axes):
            v = F.moveaxis(v, 0, points)
        return _scatter(many, v, *places, axes=later, how=how, inside=inside)
    at = first_of_points(axes)
    here, there = (tuple(range(i, i + points)) for i in (1 + at, 1))
    v = F.moveaxis(v, here, there)
    return _scatter(many, v, *places, axes=later, how=how, inside=(True, *inside))


def _with_rank(v: Value, rank: int, batched: bool) -> Value:
    """Give an update a batch axis, perhaps of size 1, and `rank` axes after it."""
    missing = rank - v.type.rank + batched
    return F.expand_dims(v, tuple(range(batched, missing + 1)))


@op()
def _slice_update(
    x: Array, v: Array, *, how: UpdateKind, kinds: Kinds, starts: Bounds, stops: Bounds,
    steps: Bounds,
) -> TensorType:
    """`x` with `v` written to a basic index."""
    region = BASIC_INDEX.infer(
        x, kinds=kinds, starts=starts, stops=stops, steps=steps
    )
    assert isinstance(region, TensorType)
    _fits(v, region.shape, x)
    return x.type.like()


def slice_update_numpy(
    x: NDArray, v: NDArray, items: tuple[int | slice | None, ...], how: str
) -> NDArray:
    """Printed into NumPy programs: a copy of `x` with the slice `items` updated."""
    y = np.array(x)  # makes a NumPy scalar writable
    names = {"min": "minimum", "max": "maximum", "add": "add", "multiply": "multiply"}
    y[items] = v if how == "set" else getattr(np, names[how])(y[items], v)
    return y


def _print_slice_update_numpy(p: Printing) -> str:
    items, how = f"np.s_[{subscript(p)}]", repr(p.node.params["how"])
    return p.call(slice_update_numpy, *p.inputs, items, how)


def _sizes_of_update(
    x: KnownSizes, v: KnownSizes, *, how: str, kinds: str,
    starts: Bounds, stops: Bounds, steps: Bounds,
) -> KnownSizes:
    if how != "set" or is_symbolic((*starts, *stops, *steps)):
        return None
    new = x.copy()
    new[static_items(tuple(zip(kinds, starts, stops, steps, strict=True)))] = v[()]
    return new


_slice_update.sizes = _sizes_of_update


def slice_update_jax(
    jnp: ModuleType, x: JaxArray, v: JaxArray, items: object, how: str
) -> JaxArray:
    """Printed into JAX programs: `x` updated by a slice that may be all of the array.

    XLA aborts where such a scatter into one number, repeated, is reversed.
    """
    part = x[items]
    if part.size != x.size:
        return getattr(x.at[items], how)(v)
    new = updated_jax(jnp, part, v, how).reshape(x.shape)
    listed = items if type(items) is tuple else (items,)
    back = slice(None, None, -1)
    kept_axes = [i for i in listed if i is not None and i is not ...]
    turned = [type(i) is slice and (i.step or 1) < 0 for i in kept_axes]
    return new[tuple(back if one else slice(None) for one in turned)]


def _print_slice_update_jax(p: Printing) -> str:
    """Print as users write if part of an array or an argument is written to."""
    x, items, how = p.node.inputs[0], subscript(p), p.node.params["how"]
    if reads_other_places(p.node):
        name, arguments = p.helper(joined_jax), f"{target_text(p)}, {p.inputs[1]}"
        return f"{name}(jnp, {arguments}, np.s_[{items}], {how!r})"
    region = BASIC_INDEX.infer(x, **{k: p.node.params[k] for k in _ITEMS})
    assert isinstance(region, TensorType)
    partial = equal(product(region.shape), product(x.type.shape)) is False
    if partial or (x.node.primitive is INPUT and not is_body_input(x.node)):
        return f"{target_text(p)}.at[{items}].{how}({p.inputs[1]})"
    name, arguments = p.helper(slice_update_jax), f"{target_text(p)}, {p.inputs[1]}"
    return f"{name}(jnp, {arguments}, np.s_[{items}], {how!r})"


_ITEMS = ("kinds", "starts", "stops", "steps")
_slice_update.emit(numpy=_print_slice_update_numpy, jax=_print_slice_update_jax)
_slice_update.picks = True
SLICE_UPDATE = enroll(_slice_update, "_slice_update")


@_slice_update.vjp
def _(g: Value, x: Value, v: Value, *, how: str, **items: Param) -> IndexPair:
    def write(to: Value, part: Value, by: str) -> Value:
        return _slice_update(to, part, how=by, **items)

    old, share = BASIC_INDEX(x, **items), BASIC_INDEX(g, **items)
    if how == "set":
        gradients = write(g, cast(as_value(0), g.dtype), "set"), share
    elif how == "add":
        gradients = g, share
    elif how == "multiply":
        gradients = write(g, v, "multiply"), share * old
    else:
        old_share, shown = _split_cotangent(how, share, old, v)
        gradients = write(g, old_share, "set"), shown
    return gradients[0], summed_to(gradients[1], v.type.shape)


def _split_cotangent(how: str, share: Value, old: Value, v: Value) -> IndexPair:
    """Split a cotangent between elements and updates, whose "min" or "max" stays."""
    larger = F.greater if how == "max" else F.less
    tied = F.where(F.equal(old, v), 0.5 * share, F.zeros_like(share))
    return F.where(larger(old, v), share, tied), F.where(larger(v, old), share, tied)


@_slice_update.batch
def _(
    n: Size, batched: Batched, x: Value, v: Value, *, how: str, **items: Param
) -> Value:
    many, later = with_batch(n, batched[0], x), after_batch(items)
    if batched[1]:
        v = _with_rank(v, BASIC_INDEX(many, **later).type.rank - 1, True)
    return _slice_update(many, v, how=how, **later)
