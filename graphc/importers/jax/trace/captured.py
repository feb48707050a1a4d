"""Arrays that a function takes from outside of it, which may be written in between.

JAX reads them when it traces a function: a program holds for what they were then, and a
size that is new is traced for what they are. So it is here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from graphc.importers.reached import reached
from graphc.ir.types import NDArray


@dataclass(frozen=True)
class Snapshot:
    """The arrays that a function reads, and copies of what was in them."""

    arrays: tuple[NDArray, ...]
    copies: tuple[NDArray, ...]

    @classmethod
    def of(cls, function: Callable[..., object]) -> "Snapshot":
        """The arrays of NumPy that a function names, as they are now."""
        writeable = {id(a): a for a in _arrays(function) if a.flags.writeable}
        arrays = tuple(writeable.values())
        return cls(arrays, tuple([a.copy() for a in arrays]))

    def is_current(self) -> bool:
        """Whether nothing has been written since."""
        return all(map(_same, self.arrays, self.copies))


def _same(array: NDArray, copy: NDArray) -> bool:
    return array.shape == copy.shape and np.array_equal(_bytes(array), _bytes(copy))


def _bytes(array: NDArray) -> NDArray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _arrays(function: Callable[..., object]) -> Iterator[NDArray]:
    """The arrays that a function names, by other functions and by objects too."""
    for part in reached(function):
        if isinstance(part, np.ndarray) and part.dtype != object:
            yield part
