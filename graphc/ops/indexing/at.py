"""`x.at[index].set(v)` and the like: from an index as it is written to an update."""

from typing import TYPE_CHECKING, NoReturn, TypeVar

from graphc.errors import GraphError, graph_error
from graphc.ir.graph.accepted_types import ArrayLike, IndexLike
from graphc.ir.graph.build import as_strong_value, as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.operators import Operators
from graphc.ir.namespace import FUNCTIONS, UPDATES, F, enroll
from graphc.ir.params.concrete import described_value
from graphc.ir.tracebacks import hide_frames_of_methods
from graphc.ir.types import BOOL
from graphc.ops.indexing.basic import basic
from graphc.ops.indexing.gather import GATHER, axis_before, is_within, sliced
from graphc.ops.indexing.parse import (
    FULL_ITEM,
    Index,
    as_item,
    is_adjacent,
    is_mask,
    parse_index,
)
from graphc.ops.indexing.scatter import SCATTER, SLICE_UPDATE

ClassT = TypeVar("ClassT")


def _unfinished_error(x: Value) -> GraphError:
    """The error of using `x.at` or `x.at[index]` as if it were an array."""
    return graph_error(
        "`at` is the start of an update, not an array",
        op="at",
        got=described_value(x),
        hint="write x.at[i].set(v), .add(v), .multiply(v), .min(v) or .max(v), "
        "which gives a new value; x[i] reads",
    )


def _not_an_array(self: "Updates | Update", *_: object, **__: object) -> NoReturn:
    raise _unfinished_error(self._x)


_OPERATORS = [n for n, f in vars(Operators).items() if callable(f) and n != "__hash__"]


def _as_no_array(cls: type[ClassT]) -> type[ClassT]:
    """Class decorator: operators, calls, conversions raise `_unfinished_error`."""
    for name in (*_OPERATORS, "__array__", "__jax_array__", "__iter__", "__call__"):
        if name not in vars(cls):
            setattr(cls, name, _not_an_array)
    return cls


@_as_no_array
class Updates:
    """`x.at`: functional updates of part of an array."""

    def __init__(self, x: Value) -> None:
        self._x = x

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> NoReturn:
            if name in UPDATES:
                raise _unfinished_error(self._x)
            raise AttributeError(
                f"x.at has no attribute {name!r}; write x.at[i].set(v)"
            )

    def __getitem__(self, index: IndexLike) -> "Update":
        return Update(self._x, index)

    def __setitem__(self, index: object, value: object) -> NoReturn:
        raise graph_error(
            "values are never changed",
            op="index",
            got=str(self._x.type),
            hint="write y = x.at[index].set(value), which gives a new value",
        )


@_as_no_array
@hide_frames_of_methods
class Update:
    """`x.at[index]`: `set`, `add` and so on return a new array, changed there.

    Values are cast to the dtype of `x`, as in NumPy's assignment.
    """

    def __init__(self, x: Value, index: IndexLike) -> None:
        self._x = x
        self._index = index

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> NoReturn:
            known = ", ".join(UPDATES)
            raise AttributeError(
                f"x.at[index] has no attribute {name!r}; it has {known}"
            )

    def set(self, value: ArrayLike) -> Value:
        """Replace the elements; which value wins at a repeated index is unspecified."""
        return self._update("set", value)

    def add(self, value: ArrayLike) -> Value:
        """Add the values; at a repeated index, add all of them (`numpy.add.at`)."""
        return self._update("add", value)

    def multiply(self, value: ArrayLike) -> Value:
        """Multiply by the values; at a repeated index, by all of them."""
        return self._update("multiply", value)

    def min(self, value: ArrayLike) -> Value:
        """Take the smaller of element and value."""
        return self._update("min", value)

    def max(self, value: ArrayLike) -> Value:
        """Take the larger of element and value."""
        return self._update("max", value)

    def _update(self, how: str, update: ArrayLike) -> Value:
        x = as_strong_value(self._x)
        value = cast(as_value(update), x.dtype)
        masked = _whole_mask(x, self._index, value.type.rank)
        if masked is not None:
            new = F.broadcast_to(value, x.type.shape)
            return F.where(masked, _combine(how, x, new), x)
        if x.dtype == BOOL:  # JAX adds and multiplies no bools
            how = {"add": "max", "multiply": "min"}.get(how, how)
        parsed = parse_index(x, self._index)
        if parsed.divider is not None and value.type.rank > parsed.divider:
            value = F.expand_dims(value, -parsed.divider - 1)
        return _write(x, value, parsed, how)


def _whole_mask(x: Value, index: IndexLike, rank: int) -> Value | None:
    """Return the index as a mask with the rank of `x`, or None if it is no single mask.

    `x.at[mask].set(v)` is then a `where`, provided that `v`, of this rank, is the same
    for all elements that the mask chooses.
    """
    items = index if isinstance(index, tuple) else (index,)
    if len(items) != 1:
        return None
    item = as_item(items[0])
    if not is_mask(item) or item.type.rank + rank > x.type.rank:
        return None
    fitted = F.specify_shape(item, x.type.shape[: item.type.rank])
    behind = x.type.rank - item.type.rank
    return F.expand_dims(fitted, tuple(range(-behind, 0)))


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
        return SLICE_UPDATE(
            x,
            value,
            how=how,
            kinds="".join(kinds),
            starts=starts,
            stops=stops,
            steps=steps,
        )
    plain = all(i == FULL_ITEM for i in parsed.items)
    if plain and not parsed.dynamic:
        return SCATTER(
            x,
            value,
            *parsed.arrays,
            axes=parsed.axes,
            how=how,
            inside=parsed.inside,
        )
    return _write_through_positions(x, value, parsed, how)


def _write_through_positions(x: Value, value: Value, parsed: Index, how: str) -> Value:
    """Write at any other index: scatter to the flat positions that it selects."""
    flat_positions = F.reshape(F.arange(x.size), x.shape)
    region = flat_positions
    for axis, start, length in parsed.dynamic:
        region = sliced(region, axis_before(parsed, axis), start, length)
    region = basic(region, parsed.items)
    within: Value | None = None
    if parsed.arrays:
        within = _all_within(region, parsed)
        region = GATHER(region, *parsed.arrays, axes=parsed.axes, inside=parsed.inside)
    if within is not None:
        region = F.where(within, region, x.size)
    updates = F.broadcast_to(value, region.shape)
    written = SCATTER(
        F.ravel(x),
        F.ravel(updates),
        F.ravel(region),
        axes=(0,),
        how=how,
        inside=(within is None,),
    )
    return F.reshape(written, x.shape)


def _all_within(region: Value, parsed: Index) -> Value | None:
    """Where every index array is inside its axis; None if all are known to be."""
    whole: Value | None = None
    for i, axis, known in zip(parsed.arrays, parsed.axes, parsed.inside, strict=True):
        if known:
            continue
        ok = is_within(i, region.shape[axis])
        whole = ok if whole is None else F.logical_and(whole, ok)
    if whole is None:
        return None
    axes = parsed.axes
    trailing = region.type.rank - (axes[-1] + 1 if is_adjacent(axes) else len(axes))
    return F.expand_dims(whole, tuple(range(-trailing, 0)))


enroll(Updates, "updates_of")
