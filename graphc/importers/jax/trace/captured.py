"""Values that a function takes from outside of it, which may change in between.

JAX reads them when it traces a function: a program holds for those of that time, and a
size that is new is traced for those of now. So it is here.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from weakref import ref

import numpy as np

from graphc.importers.reached import reached, spread
from graphc.ir.types import NDArray

_VALUES = bool, int, str, bytes, type(None)
_BY_TEXT = float, complex, np.generic  # in which zeros differ by their signs
_HOLDING = list, tuple, dict, set, frozenset, deque  # of which the items are compared
_BUFFERS = bytearray, array
Marks = tuple[object, ...]


class _Identity:
    """An object that is compared by being the same one; it may be gone by then."""

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
    """The arrays that functions read, copies of what was in them, and all they name."""

    roots: tuple[object, ...]
    arrays: tuple[NDArray, ...]
    copies: tuple[NDArray, ...]
    marks: Marks

    @classmethod
    def of(cls, *roots: object) -> "Snapshot":
        """The state of all that functions and static arguments name, as it is now."""
        writeable = {id(a): a for a in _arrays(*roots) if a.flags.writeable}
        arrays = tuple(writeable.values())
        return cls(roots, arrays, tuple([a.copy() for a in arrays]), _marks(*roots))

    def is_current(self) -> bool:
        """Whether nothing has been written since, and names stand for the same."""
        return self.is_unwritten() and self.marks == _marks(*self.roots)

    def is_unwritten(self) -> bool:
        """Whether nothing has been written into the arrays since."""
        return all(map(_same, self.arrays, self.copies))

    def settled(self) -> "Snapshot":
        """The same, where names have changed while the function was traced.

        A count of traces, say, is no change: the program is for all that was there.
        """
        return replace(self, marks=_marks(*self.roots))


def _same(array: NDArray, copy: NDArray) -> bool:
    return array.shape == copy.shape and np.array_equal(_bytes(array), _bytes(copy))


def _bytes(array: NDArray) -> NDArray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _arrays(*roots: object) -> Iterator[NDArray]:
    """The arrays that a function names, by other functions and by objects too."""
    for part in reached(*roots):
        if isinstance(part, np.ndarray) and part.dtype != object:
            yield part


def _marks(*roots: object) -> Marks:
    """A mark for each name: the value, the number of items, or the object behind it."""
    return tuple([_mark(part) for parts in spread(*roots) for part in parts])


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
