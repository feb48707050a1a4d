"""Values that a function captures from outside, which may change between calls.

JAX reads them when it traces a function: a program keeps the values of that time, while
a new size is traced with the current values. The same holds here.
"""

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import ref

import numpy as np

from graphc.importers.reachable import parts_by_level, reachable_objects
from graphc.ir.types import NDArray
from graphc_serving.kinds import bytes_of

_VALUES = bool, int, str, bytes, type(None)
_BY_TEXT = float, complex, np.generic  # zeros in them differ by sign
_HOLDING = list, tuple, dict, set, frozenset, deque  # their items are compared
_BUFFERS = bytearray, array
Marks = tuple[object, ...]


class _Identity:
    """An object that is compared by identity, and may be gone by then."""

    def __init__(self, item: object) -> None:
        self._item: Callable[[], object]
        try:
            self._item = ref(item)
        except TypeError:
            self._item = lambda: item

    def __eq__(self, other: object) -> bool:
        item = self._item()
        same = isinstance(other, _Identity) and other._item() is item
        return same and item is not None

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Snapshot:
    """The arrays that functions read, copies of their contents, and all names."""

    roots: tuple[object, ...]
    arrays: tuple[NDArray, ...]
    copies: tuple[NDArray, ...]
    marks: Marks

    @classmethod
    def of(cls, *roots: object) -> "Snapshot":
        """Record the current state of everything that these roots name."""
        parts = reachable_objects(*roots)
        named = [a for a in parts if isinstance(a, np.ndarray) and a.dtype != object]
        arrays = tuple(filter(_may_change, named))
        copies = tuple([a.copy() for a in arrays])
        return cls(roots, arrays, copies, _marks_of_names(*roots))

    def is_current(self) -> bool:
        """Whether no array was written since, and names mean the same objects."""
        return self.is_unwritten() and self.marks == _marks_of_names(*self.roots)

    def is_unwritten(self) -> bool:
        """Whether no array was written since."""
        return all(map(_same_contents, self.arrays, self.copies))

    def settled(self) -> "Snapshot":
        """The same snapshot, accepting names that changed while tracing.

        A count of traces, for example, is no change: the program was made from all the
        rest.
        """
        return replace(self, marks=_marks_of_names(*self.roots))


def _may_change(array: NDArray) -> bool:
    """Whether an array, or one of which it is a read-only view, can be written."""
    base: object = array
    while isinstance(base, np.ndarray) and not base.flags.writeable:
        base = base.base
    return isinstance(base, (np.ndarray, *_BUFFERS))


def _same_contents(array: NDArray, copy: NDArray) -> bool:
    return array.shape == copy.shape and np.array_equal(bytes_of(array), bytes_of(copy))


def _marks_of_names(*roots: object) -> Marks:
    """A mark for each name: the value, the number of items, or the object itself."""
    return tuple([_mark(part) for parts in parts_by_level(*roots) for part in parts])


def _mark(part: object) -> object:
    kind = type(part)
    if kind in _VALUES:
        return kind, part
    if isinstance(part, _BY_TEXT):
        return kind, repr(part)
    if isinstance(part, _BUFFERS):
        return kind, bytes(part)
    if isinstance(part, _HOLDING):
        return kind, len(part)
    return _Identity(part)
