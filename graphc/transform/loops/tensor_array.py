"""`TensorArray`: rows that are appended, written and read by number, as in TensorFlow.

A `TensorArray` is a buffer with room for a number of rows, and a count of its rows.
Both are values, so it can stand wherever values can: in carries, branches and
arguments.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.control.pytree import Compound
from graphc.errors import graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike, ShapeLike, SizeLike
from graphc.ir.graph.build import as_size, as_strong_value, as_value, cast, size_value
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT32, INT64, dtype_of, is_integer
from graphc.ops.effects.assertions import asserted


@public()
class TensorArray(Compound):
    """Up to `capacity` rows of one type, none at first.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.scalar("x")
    >>> def step(i, powers):
    ...     return powers.append(powers[-1] * x)
    >>> powers = gt.fori_loop(0, 3, step, gt.TensorArray(8).append(1.0))
    >>> slope = graphc.grad(gt.sum(powers.stack()), x)
    >>> graphc.function([x], [powers, slope], backend="numpy")(2.0)
    [array([1., 2., 4., 8.], dtype=float32), array(17., dtype=float32)]

    A `TensorArray` never changes: its methods return a new one, and the writes are done
    in place in compiled loops. It may stand in the carry of `gt.scan`, `gt.while_loop`
    and `gt.fori_loop`, in what branches return, and in lists and dicts there. As an
    output of a function it counts as `stack()`. `shape` and `dtype` are those of a row;
    `like` is a row given in their place.

    `array[i]` and `write(i, x)` count from the end where `i` is negative. The call
    raises where there is no room for a row, and where a row is read that does not
    exist. Gradients go through all of it: they are those of `stack()`, or of `buffer`,
    which has the full capacity, with zeros in place of missing rows.
    """

    def __init__(
        self,
        capacity: SizeLike,
        shape: ShapeLike = (),
        dtype: DTypeLike | None = None,
        *,
        like: ArrayLike | None = None,
    ) -> None:
        size = as_size(capacity, "the capacity")
        if isinstance(size, int) and size < 0:
            problem = "the capacity is negative"
            raise graph_error(problem, op="TensorArray", got=str(size))
        row = None if like is None else as_strong_value(like)
        if row is not None:
            shape, dtype = row.type.shape, row.dtype if dtype is None else dtype
        kind = config.float if dtype is None else dtype_of(dtype)
        axes: Any = shape if isinstance(shape, (tuple, list)) else (shape,)
        self._buffer: Value = F.zeros((size, *axes), kind)
        self._count = cast(as_value(0), INT32)

    @property
    def buffer(self) -> Value:
        """The rows at full capacity, with zeros after them."""
        return self._buffer

    @property
    def count(self) -> Value:
        """The number of rows so far."""
        return self._count

    @property
    def capacity(self) -> Size:
        """The largest number of rows there is room for."""
        return self._buffer.type.shape[0]

    def append(self, x: ArrayLike) -> "TensorArray":
        """Return an array with one more row, at the end."""
        return self._written(self._count, self._count + 1, x)

    def write(self, i: ArrayLike, x: ArrayLike) -> "TensorArray":
        """Return an array with `x` as row `i`; beyond the end, zeros fill the gap."""
        place = self._place(i)
        count = cast(F.maximum(self._count, place + 1), INT32)
        return self._written(place, count, x)

    def read(self, i: ArrayLike) -> Value:
        """The row at `i`."""
        self._need_one()
        place = self._place(i)
        there = F.logical_and(place >= 0, place < self._count)
        message = "TensorArray: a row is read that is not there"
        return self._buffer[asserted(place, there, message, "index")]

    set = write
    __getitem__ = read

    def stack(self) -> Value:
        """The rows, as one array."""
        self._need_one()
        return self._buffer[: self._count]

    def _written(self, place: Value, count: Value, x: ArrayLike) -> "TensorArray":
        self._need_one()
        row = self._row(x)
        room = F.logical_and(place >= 0, place < size_value(self.capacity))
        message = f"TensorArray: no room for a row beyond capacity={self.capacity}"
        place = asserted(place, room, message, "index")
        return self.with_parts([self._buffer.at[place].set(row), count])

    def _row(self, x: ArrayLike) -> Value:
        """Convert `x` to the type of the rows; Python numbers take their dtype."""
        shape, value = self._buffer.type.shape[1:], as_value(x)
        row = cast(value, self._buffer.dtype) if value.type.weak else value
        expected = self._buffer.type.like(shape)
        if not row.type.may_equal(expected):
            raise graph_error(
                "a row does not have the type of the other rows",
                op="TensorArray",
                got=str(value.type),
                expected=str(expected),
            )
        return F.specify_shape(row, shape)

    def _place(self, i: ArrayLike) -> Value:
        """Check the number of a row, and count it from the first row."""
        value = as_value(i)
        if value.type.rank or not is_integer(value.dtype):
            raise graph_error(
                "the number of a row must be an integer scalar",
                op="TensorArray",
                got=str(value.type) if isinstance(i, Value) else repr(i),
                hint="use stack() or buffer for other parts",
            )
        # A wide index stays wide, so that none wraps to a row that exists.
        narrow = np.can_cast(value.dtype, INT32)
        place = cast(value, INT32 if narrow else INT64)
        return F.where(place < 0, place + self._count, place)

    def _need_one(self) -> None:
        if self._count.type.rank:
            raise graph_error(
                "these are many arrays, made by graphc.vmap",
                op="TensorArray",
                got=f"count: {self._count.type}",
                hint="use their .buffer and .count, or pass them to vmap again",
            )

    def parts(self) -> dict[str, object]:
        """The values that the array consists of."""
        return {"buffer": self._buffer, "count": self._count}

    def with_parts(self, parts: Sequence[Any]) -> "TensorArray":
        """Return another array, made of `parts`."""
        other = object.__new__(type(self))
        other._buffer, other._count = parts
        return other

    def result(self) -> Value:
        """The value that the array counts as in outputs: all its rows."""
        return self.stack()

    def __repr__(self) -> str:
        row = self._buffer.type.like(self._buffer.type.shape[1:])
        return f"TensorArray(capacity={self.capacity}, rows={row})"
