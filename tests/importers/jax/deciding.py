"""Random functions of JAX, as text, that decide by the sizes of their arguments.

A function asks questions in several places: directly, in inner functions, in rules of
derivatives, in bodies of loops. It is compiled from text as a user's is, with lines.
"""

import functools
import linecache
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from tests.importers.jax.questions import NAMES, QUESTIONS, RESULTS, SIZES, STEPS

LARGEST = 30  # the largest number that sizes are compared with


def cached_question() -> Callable[[int, int], bool]:
    """A question that caches its answers, made anew for each function."""
    return functools.cache(lambda n, k: n % 3 == k % 3)


def cached_question_of_shapes() -> Callable[[Any], bool]:
    """A caching question about a shape."""
    return functools.lru_cache(lambda shape: shape[0] % 5 in (1, 2))


class Deciding:
    """A function that records the answers to the questions of its last trace."""

    def __init__(self, seed: int, steps: list[str] = STEPS) -> None:
        self._rng = np.random.default_rng((29, seed))
        self.traces = 0
        self.answers: list[bool] = []
        self.text = self._written(steps)
        names = {**NAMES, "cached": cached_question(), "noted": self._noted}
        names["cached_shape"] = cached_question_of_shapes()
        file = f"<deciding {seed}>"
        lines = self.text.splitlines(keepends=True)
        linecache.cache[file] = len(self.text), None, lines, file
        exec(compile(self.text, file, "exec"), names)
        self._function = names["function"]

    def __call__(self, x: Any, other: Any) -> Any:
        self.traces += 1
        self.answers = []
        return self._function(x, other)

    def _noted(self, answer: Any) -> bool:
        self.answers.append(bool(answer))
        return self.answers[-1]

    def _one_of(self, lines: list[str]) -> str:
        return lines[self._rng.integers(len(lines))].strip()

    def _question(self) -> str:
        size = self._one_of(SIZES).format(self._number(), self._number())
        asked = self._one_of(QUESTIONS).format(self._number(), self._number())
        return f"noted((lambda n: {asked})({size}))"

    def _number(self) -> int:
        return int(self._rng.integers(2, LARGEST))

    def _written(self, steps: list[str]) -> str:
        lines = ["def function(x, other):", "    y = x"]
        names = count()
        for _ in range(self._rng.integers(1, 4)):
            lines += self._asking(next(names))
            lines.append("    " + self._one_of(steps))
        lines += self._asking(next(names))
        return "\n".join([*lines, "    return " + self._one_of(RESULTS), ""])

    def _asking(self, i: int) -> list[str]:
        """The text of the functions by which a step asks about its array."""
        first, second = (int(k) for k in self._rng.permutation(4)[:2])
        chosen = f"{first}.0 if {self._question()} else {second}.0"
        return [
            f"    def ask(y): return {self._question()}",
            f"    def decide(y): return {chosen}",
        ]


def sizes_of(seed: int, number: int) -> list[tuple[int, int]]:
    """The sizes of two arrays for each call; the second one varies less."""
    rng = np.random.default_rng((30, seed))
    first = rng.integers(0, LARGEST + 4, size=number)
    second = rng.choice([3, 4, 9, 12], size=number)
    if rng.random() < 0.6:
        second[:] = 5
    return [(int(n), int(m)) for n, m in zip(first, second, strict=True)]


def arrays_of(n: int, m: int) -> tuple[Any, Any]:
    """Two arrays of these sizes, whose elements are exact in a few bits."""
    return np.arange(n, dtype="float32") / 4 - 1, np.arange(m, dtype="float32")
