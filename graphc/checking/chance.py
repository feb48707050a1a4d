"""Draws from which a graph is made; all come from Hypothesis, which shrinks them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

from graphc.ir.sizes.dims import Size, axis
from graphc.ir.types import DType, dtype_of

T = TypeVar("T")
SIZES: tuple[Size, ...] = (2, 3, axis("n"), axis("m"), 1, 0)
DTYPES = (
    *("float64", "float32", "int64", "float64", "complex128", "bool", "float64"),
    *("int32", "float64", "uint8", "float16", "float64", "bfloat16", "complex64"),
)
FLOATS = ("float64", "float32", "complex128")
MOST_AXES = 3
MODES = ("inputs", "inputs", "constants", "mixed")  # how variables get their values


class Misfit(Exception):
    """Raised when no graph can be made from the draws so far."""


@dataclass(frozen=True)
class Chance:
    """The source of draws; the first of several options is the simplest."""

    data: Any
    dtypes: tuple[str, ...] = DTYPES
    modes: tuple[str, ...] = MODES

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        if not options:
            raise Misfit
        option: T = self.data.draw(st.sampled_from(options))
        return option

    def up_to(self, most: int) -> int:
        """Draw an integer from 0 to `most`."""
        return int(self.data.draw(st.integers(0, most)))

    def flag(self, one_in: int = 2) -> bool:
        """Draw a flag that is true once in `one_in` times."""
        return self.up_to(one_in - 1) == one_in - 1

    def dtype(self) -> DType:
        """Draw one of the dtypes to be tried."""
        return dtype_of(self.pick(self.dtypes))

    def size(self) -> Size:
        """Draw a size, which is a number or a name."""
        return self.pick(SIZES)

    def shape(self, least: int = 0, most: int = MOST_AXES) -> tuple[Size, ...]:
        """Draw a shape with a rank from `least` to `most`."""
        rank = least + self.up_to(max(most - least, 0))
        return tuple(self.size() for _ in range(rank))

    def axis(self, rank: int) -> int:
        """Draw one of `rank` axes."""
        return self.pick(range(rank))

    def axes(self, rank: int, least: int = 0) -> tuple[int, ...]:
        """Draw some of the axes, in order; at least `least`, which is 0 or 1."""
        chosen = tuple(a for a in range(rank) if self.flag())
        return chosen if len(chosen) >= least else (self.axis(rank),)

    def order(self, rank: int) -> tuple[int, ...]:
        """Draw a permutation of the axes."""
        return tuple(self.data.draw(st.permutations(range(rank))))

    def thinned(self, shape: tuple[Size, ...]) -> tuple[Size, ...]:
        """Draw a shape that broadcasts to `shape`."""
        trailing_sizes = shape[self.up_to(len(shape)) :]
        return tuple(1 if self.flag(4) else n for n in trailing_sizes)
