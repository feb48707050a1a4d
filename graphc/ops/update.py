"""Indexing for writing: `x.at[index].set(v)` and its like, as functional updates.

An update out of bounds writes nothing, on both backends, unless the function is
compiled with `check=True`, which raises.
"""

from typing import Any

import numpy as np

from graphc.ir.build import as_value, cast, strong
from graphc.ir.dims import Size
from graphc.ir.graph import Value
from graphc.ir.namespace import FUNCTIONS, F, enroll
from graphc.ir.op import Array, Printing, op, require_equal, type_error
from graphc.ir.types import TensorType
from graphc.ops.index import (
    BASIC_INDEX,
    GATHER,
    advanced_items,
    axis_before,
    basic,
    clamped,
    contained,
    gathered,
    sliced,
    stray_checks,
    subscript,
)
from graphc.ops.subscript import Bounds, Index, as_item, is_mask, parse_index


@op()
def _scatter(
    x: Array,
    v: Array,
    *indices: Array,
    axes: tuple[int, ...],
    how: str,
    inside: tuple[bool, ...],
) -> TensorType:
    """`x` with `v` written at integer positions; a repeated one counts each time.

    `inside`: which arrays cannot leave their axis; nothing is written out there.
    """
    _fits(v, gathered(x, indices, axes, inside), x)
    return x.type.like()


def _fits(v: Value, shape: tuple[Size, ...], x: Value) -> None:
    if v.dtype != x.dtype:
        raise type_error("the update has another dtype")
    extra = len(shape) - v.type.rank
    if extra < 0:
        raise type_error("the update has more axes than what it is written to")
    for n, wanted in zip(v.type.shape, shape[extra:], strict=True):
        if not (isinstance(n, int) and n == 1):
            require_equal(n, wanted, "the update does not fit")


def scatter_numpy(x: Any, v: Any, indices: Any, axes: Any, how: Any) -> Any:
    """Printed into NumPy programs. Updates out of bounds are dropped."""
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
    params = p.node.params
    name, items = p.helper(scatter_numpy), ", ".join(indices)
    return f"{name}({x}, {v}, [{items}], {params['axes']}, {params['how']!r})"


def _print_scatter_jax(p: Printing) -> str:
    x, v = p.inputs[:2]
    mode = "promise_in_bounds" if all(p.node.params["inside"]) else "drop"
    items = advanced_items(p, clamped(p, 2, beyond=True))
    return f'{x}.at[{items}].{p.node.params["how"]}({v}, mode="{mode}")'


_scatter.emit(numpy=_print_scatter_numpy, jax=_print_scatter_jax)


_scatter.bounds_check = stray_checks
enroll(_scatter, "_scatter")


@op()
def _slice_update(
    x: Array,
    v: Array,
    *,
    how: str,
    kinds: str,
    starts: Bounds,
    stops: Bounds,
    steps: Bounds,
) -> TensorType:
    """`x` with `v` written to a basic index."""
    region = BASIC_INDEX.infer(
        x, kinds=kinds, starts=starts, stops=stops, steps=steps
    )
    assert isinstance(region, TensorType)
    _fits(v, region.shape, x)
    return x.type.like()


def slice_update_numpy(x: Any, v: Any, items: Any, how: Any) -> Any:
    """Printed into NumPy programs."""
    y = x.copy()
    names = {"min": "minimum", "max": "maximum", "add": "add", "multiply": "multiply"}
    y[items] = v if how == "set" else getattr(np, names[how])(y[items], v)
    return y


def _print_slice_update_numpy(p: Printing) -> str:
    name, how = p.helper(slice_update_numpy), p.node.params["how"]
    return f"{name}({', '.join(p.inputs)}, np.s_[{subscript(p)}], {how!r})"


_slice_update.emit(
    numpy=_print_slice_update_numpy,
    jax=lambda p: f"{p.inputs[0]}.at[{subscript(p)}]."
    f"{p.node.params['how']}({p.inputs[1]})",
)


class Updates:
    """`x.at`: functional updates of part of an array."""

    def __init__(self, x: Value) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> "Update":
        return Update(self._x, index)


class Update:
    """`x.at[index]`: a new array, changed there by `set`, `add` and so on.

    Values are cast to the dtype of `x`, as in NumPy's assignment.
    """

    def __init__(self, x: Value, index: Any) -> None:
        self._x = x
        self._index = index

    def set(self, value: Any) -> Value:
        """The elements replaced; which one wins at a repeated index is not said."""
        return self._update("set", value)

    def add(self, value: Any) -> Value:
        """The values added; at a repeated index, all of them (`numpy.add.at`)."""
        return self._update("add", value)

    def multiply(self, value: Any) -> Value:
        """Multiplied by the values; at a repeated index, by all of them."""
        return self._update("multiply", value)

    def min(self, value: Any) -> Value:
        """The smaller of element and value."""
        return self._update("min", value)

    def max(self, value: Any) -> Value:
        """The larger of element and value."""
        return self._update("max", value)

    def _update(self, how: str, given: Any) -> Value:
        x = strong(as_value(self._x))
        value = cast(strong(as_value(given)), x.dtype)
        masked = _whole_mask(x, self._index)
        if masked is not None and value.type.rank == 0:
            return F.where(masked, _combine(how, x, value), x)
        return _write(x, value, parse_index(x, self._index), how)


def _whole_mask(x: Value, index: Any) -> Value | None:
    """A single bool mask, broadcast behind: `x.at[mask].set(scalar)` is a where."""
    items = index if isinstance(index, tuple) else (index,)
    if len(items) != 1:
        return None
    item = as_item(items[0])
    if not is_mask(item) or item.type.rank > x.type.rank:
        return None
    fitted = F.specify_shape(item, x.type.shape[: item.type.rank])
    behind = x.type.rank - item.type.rank
    return F.expand_dims(fitted, tuple(range(-behind, 0))) if behind else fitted


def _combine(how: str, x: Value, value: Value) -> Value:
    if how == "set":
        return value
    names = {"min": "minimum", "max": "maximum"}
    return FUNCTIONS[names.get(how, how)](x, value)


def _write(x: Value, value: Value, parsed: Index, how: str) -> Value:
    if not parsed.arrays and not parsed.dynamic:
        kinds, starts, stops, steps = (
            zip(*parsed.items, strict=True) if parsed.items else ((), (), (), ())
        )
        return _slice_update(
            x, value, how=how, kinds="".join(kinds), starts=starts, stops=stops,
            steps=steps,
        )
    plain = all(i == ("s", None, None, None) for i in parsed.items)
    if plain and not parsed.dynamic:
        return _scatter(
            x, value, *parsed.arrays, axes=parsed.axes, how=how,
            inside=parsed.inside,
        )
    return _write_through_positions(x, value, parsed, how)


def _write_through_positions(x: Value, value: Value, parsed: Index, how: str) -> Value:
    """Any other index: the flat positions it selects, then one scatter of them."""
    flat_positions = F.reshape(F.arange(x.size), x.shape)
    region = flat_positions
    for axis, start, length in parsed.dynamic:
        region = sliced(region, axis_before(parsed, axis), start, length)
    region = basic(region, parsed.items)
    within: Value | None = None
    if parsed.arrays:
        within = _within(region, parsed)
        region = GATHER(region, *parsed.arrays, axes=parsed.axes, inside=parsed.inside)
    if within is not None:
        region = F.where(within, region, x.size)
    updates = F.broadcast_to(value, region.shape)
    written = _scatter(
        F.ravel(x), F.ravel(updates), F.ravel(region), axes=(0,), how=how,
        inside=(within is None,),
    )
    return F.reshape(written, x.shape)


def _within(region: Value, parsed: Index) -> Value | None:
    """Where every index array is inside its axis; None where that is known."""
    whole: Value | None = None
    for i, axis, known in zip(parsed.arrays, parsed.axes, parsed.inside, strict=True):
        if known:
            continue
        ok = contained(i, region.shape[axis])
        whole = ok if whole is None else F.logical_and(whole, ok)
    if whole is None:
        return None
    behind = region.type.rank - parsed.axes[-1] - 1
    adjacent = parsed.axes == tuple(
        range(parsed.axes[0], parsed.axes[0] + len(parsed.axes))
    )
    trailing = behind if adjacent else region.type.rank - len(parsed.axes)
    return F.expand_dims(whole, tuple(range(-trailing, 0)))


enroll(Updates, "updates_of")
