"""Random programs over parts of arrays: the rows that a mask or a number keeps.

A program is the text of a scalar made of `x` (n), `y` (m), `a` (n, m) and the number
`k`; its `F` holds either symbolic functions or NumPy's. The axes of its arrays have a
few lengths: `n`, `m`, `k` (the first rows), `s` (the selected rows) and `r` (the
repeated rows, 2 m).
"""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special

import graphc.tensor as gt

LENGTHS = "nmksr"
ROWS = {
    "n": ["x"],
    "m": ["y"],
    "k": ["x[:k]", "F.sort(x)[:k]"],
    "s": ["x[x > 0.3]", "F.abs(x)[F.nonzero(x > 0.3)[0]]", "F.compress(x > 0.3, x)"],
    "r": ["F.repeat(y, 2)", "F.concatenate([y, y])", "F.stack([y, y * 2]).reshape(-1)"],
}
MATRICES = {"nm": "a", "mn": "a.T", "sm": "a[x > 0.3]", "km": "a[:k]"}
SAME_SHAPE = [
    "F.tanh({})",
    "F.exp(-F.square({}))",
    "F.sqrt(F.abs({}) + 1)",
    "F.where(({0}) > 0, ({0}) * 1.5, 0.1)",
    "F.maximum({}, 0.2)",
    "F.clip({}, -0.5, 0.7)",
    "F.cumsum({}, axis=-1)",
    "F.sort({}, axis=-1)",
    "({})[..., ::-1]",
    "F.roll({}, 1, axis=-1)",
    "F.cummax({}, axis=-1)",
    "F.softmax({}, axis=-1)",
    "({0}) - 0.5 * F.mean({0}, axis=-1, keepdims=True)",  # 1.0 leaves rounding in sums
    "({0}) / (1 + F.max(F.abs({0}), axis=-1, keepdims=True, initial=0.0))",
]


def product(left: str, right: str) -> str:
    return f"({left}) @ ({right})"


class Writer:
    """Writes texts of random programs, at most `depth` operations deep."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def length(self) -> str:
        return self.random.choice(LENGTHS)

    def vector(self, depth: int, length: str) -> str:
        if depth <= 0:
            return self.random.choice(ROWS[length])
        other, less = self.length(), depth - 1
        forms = [
            lambda: self.random.choice(ROWS[length]),
            lambda: self.random.choice(SAME_SHAPE).format(self.vector(less, length)),
            lambda: f"F.steps({self.vector(less, length)})",
            lambda: f"({self.vector(less, length)}) * ({self.vector(less, length)})",
            lambda: f"({self.vector(less, length)}) - ({self.vector(less, length)})",
            lambda: f"F.sum({self.matrix(less, length, other)}, axis=1)",
            lambda: f"F.max({self.matrix(less, other, length)}, axis=0, initial=-3.0)",
            lambda: product(self.matrix(less, length, other), self.vector(less, other)),
            lambda: f"({self.scalar(less)}) * ({self.vector(less, length)})",
        ]
        if length == "s":
            forms.append(lambda: f"({self.vector(less, 'n')})[x > 0.3]")
        if length == "n":
            forms.append(lambda: f"F.add_at(x, x > 0.3, {self.vector(less, 's')})")
            forms.append(lambda: f"F.add_first(x, k, {self.vector(less, 'k')})")
        return self.random.choice(forms)()

    def matrix(self, depth: int, rows: str, columns: str) -> str:
        less, other = depth - 1, self.length()
        forms = [
            lambda: (
                f"({self.vector(less, rows)})[:, None] * ({self.vector(less, columns)})"
            ),
            lambda: (
                f"({self.vector(less, rows)})[:, None] - ({self.vector(less, columns)})"
            ),
        ]
        if rows + columns in MATRICES:
            forms.append(lambda: MATRICES[rows + columns])
        if depth > 0:
            forms += [
                lambda: self.random.choice(SAME_SHAPE).format(
                    self.matrix(less, rows, columns)
                ),
                lambda: product(
                    self.matrix(less, rows, other), self.matrix(less, other, columns)
                ),
            ]
        return self.random.choice(forms)()

    def scalar(self, depth: int) -> str:
        less, length = depth - 1, self.length()
        forms = [
            lambda: f"F.sum({self.vector(less, length)})",
            lambda: f"F.max({self.vector(less, length)}, initial=-1.0)",
            lambda: product(self.vector(less, length), self.vector(less, length)),
            lambda: f"F.sum({self.matrix(less, length, self.length())}) / 7",
            lambda: (
                f"F.logsumexp(F.concatenate([{self.vector(less, length)}, F.zeros(1)]))"
            ),
        ]
        return self.random.choice(forms)()


def text_of(seed: int, depth: int = 4, longest: int = 900) -> str:
    """The program of a seed: the first text drawn that is not too long."""
    writer = Writer(seed)
    while len(text := writer.scalar(depth)) > longest:
        pass
    return text


def _functions_of(names: str, module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


_SHARED = (
    "sort abs nonzero compress repeat concatenate stack tanh exp square sqrt where"
)
_SHARED += " maximum clip cumsum roll mean max sum"

SYMBOLS = SimpleNamespace(
    **_functions_of(_SHARED, gt),
    cummax=gt.cummax,
    softmax=gt.nn.softmax,
    logsumexp=gt.nn.logsumexp,
    zeros=lambda size: gt.zeros(size, "float64"),
    steps=lambda rows: gt.scan(
        lambda carry, row: (carry * 0.5 + row, carry * row), 0.0 * gt.sum(rows), rows
    )[1],
    add_at=lambda x, mask, rows: x.at[mask].add(rows),
    add_first=lambda x, k, rows: x.at[:k].add(rows),
)


def _steps(rows: np.ndarray) -> np.ndarray:
    carry, results = 0.0, np.zeros_like(rows)
    for i, row in enumerate(rows):
        carry, results[i] = carry * 0.5 + row, carry * row
    return results


def _add_at(x: np.ndarray, where: Any, rows: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[where] += rows
    return x


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Softmax that accepts arrays without elements, as SciPy's does not."""
    return scipy.special.softmax(x, axis=axis) if x.size else x


NUMBERS = SimpleNamespace(
    **_functions_of(_SHARED, np),
    cummax=np.maximum.accumulate,
    softmax=_softmax,
    logsumexp=scipy.special.logsumexp,
    zeros=np.zeros,
    steps=_steps,
    add_at=_add_at,
    add_first=lambda x, k, rows: _add_at(x, slice(k), rows),
)
