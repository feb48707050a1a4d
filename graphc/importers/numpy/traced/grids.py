"""`np.r_`, `np.c_`, `np.mgrid` and `np.ogrid` for slices whose sizes may be symbolic.

The user may write into the resulting arrays as into any other, so they are traced.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from graphc.errors import called_by_user, graph_error
from graphc.importers.numpy.traced.arrays import content_of
from graphc.importers.numpy.traced.memory import is_symbolic
from graphc.ir.types import DType, NDArray

Writable = Callable[[object], object]  # makes arrays that the user may write into


class _BySlices(ABC):
    """An object of NumPy that makes arrays from the slices that it is indexed with."""

    def __init__(self, plain: Any, as_users: Writable) -> None:
        self._plain, self._as_users = plain, as_users

    def __len__(self) -> int:
        return len(self._plain)

    def __getitem__(self, items: object) -> object:
        listed = items if isinstance(items, tuple) else (items,)
        if is_symbolic(content_of(listed)):
            return self._symbolic(items)
        plain = self._plain[items]
        return self._as_users(plain) if called_by_user() else plain

    @abstractmethod
    def _symbolic(self, items: object) -> object:
        """The arrays for slices of symbolic sizes."""


class Joining(_BySlices):
    """`np.r_`, or `np.c_`, which joins columns."""

    def __init__(self, plain: Any, as_users: Writable, columns: bool = False) -> None:
        super().__init__(plain, as_users)
        self._columns = columns

    def _symbolic(self, items: object) -> object:
        listed = items if isinstance(items, tuple) else (items,)
        parts = [cast("NDArray", _part(item)) for item in listed]
        dtype = np.result_type(*parts)  # Python's numbers take the dtype of the others
        arrays = [self._array(part, dtype) for part in parts]
        return np.concatenate(arrays, axis=-1 if self._columns else 0)

    def _array(self, part: NDArray, dtype: DType) -> NDArray:
        array = np.atleast_1d(np.asarray(part, dtype))
        return array[:, None] if self._columns and array.ndim == 1 else array


class Grid(_BySlices):
    """`np.mgrid`, or `np.ogrid`, whose arrays each vary along one axis only."""

    def _symbolic(self, items: object) -> object:
        if isinstance(items, slice):
            return _numbers(items)
        listed = items if isinstance(items, tuple) else (items,)
        axes = [_numbers(cast("slice", item)) for item in listed]
        dtype = np.result_type(*(axis.dtype for axis in axes))
        sparse = self._plain.sparse
        grids = np.meshgrid(
            *(axis.astype(dtype) for axis in axes), indexing="ij", sparse=sparse
        )
        return tuple(grids) if sparse else np.stack(grids)


def _part(item: object) -> object:
    """The array, or the number, that an item of `np.r_` stands for."""
    if isinstance(item, str):
        hint = "use numpy.concatenate, stack or column_stack"
        raise graph_error("takes no directives", op="r_", got=item, hint=hint)
    if isinstance(item, slice):
        return _numbers(item)
    array = np.asarray(item)
    return array if array.ndim else item


def _numbers(item: slice) -> NDArray:
    """The numbers of a slice, as `arange`; as `linspace` for an imaginary step."""
    start, step = item.start or 0, 1 if item.step is None else item.step
    if isinstance(step, complex):
        return np.linspace(start, item.stop, int(abs(step)))
    return np.arange(start, item.stop, step)
