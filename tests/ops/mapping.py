"""Compare `vmap` of sample calls with the same calls for one example after another."""

import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Value
from tests.ops.differentiating import compiled
from tests.ops.points import Point
from tests.ops.sampling import close

MOST = 80  # calls in one compiled function
REFUSALS = ("cannot be batched", "would differ between examples")


@cache
def example(point: Point, k: int) -> Point:
    """The same call with the arrays numbered `k`; equal `k` give equal arrays."""
    return replace(point, example=k) if k else point


class Mapped:
    """A call for `n` examples of some of its arrays."""

    def __init__(
        self, point: Point, key: str, n: int, only: int | None, size: int | str
    ) -> None:
        self.key = key
        self.n = n
        self.only = only  # the only mapped array; None if all are mapped
        self.examples = [example(point, k) for k in range(max(n, 1))]
        self.single = point.variables(prefix=f"s{key}")
        self.singles = point.outputs(self.single)
        self.variables = [
            gt.tensor(f"m{key}_{i}", v.dtype, (size, *v.type.shape)) if mapped else v
            for i, (v, mapped) in enumerate(zip(self.single, self.mapped, strict=True))
        ]
        axes = [0 if mapped else None for mapped in self.mapped]
        function = graphc.vmap(lambda *args: point.outputs(args), in_axes=axes)
        self.outputs = function(*self.variables)

    def __str__(self) -> str:
        which = "" if self.only is None else f" of input {self.only}"
        return f"{self.examples[0]}, vmap{which} over {self.n}"

    @property
    def mapped(self) -> list[bool]:
        """Whether each array is mapped."""
        return [self.only in (None, i) for i in range(len(self.single))]

    def arrays(self, example: int) -> list[np.ndarray]:
        """The arguments of one example; unmapped arrays are those of the first."""
        own, first = self.examples[example].arrays, self.examples[0].arrays
        triples = zip(own, first, self.mapped, strict=True)
        return [x if mapped else y for x, y, mapped in triples]

    def stacked(self) -> list[np.ndarray]:
        """The arguments of all examples, stacked where they are mapped."""
        each = [self.arrays(k) for k in range(len(self.examples))]
        parts = zip(*each, strict=True)
        return [
            np.stack(part)[: self.n] if mapped else part[0]
            for part, mapped in zip(parts, self.mapped, strict=True)
        ]


class Made(NamedTuple):
    """The mapped calls, the refusals and the errors."""

    mapped: list[Mapped]
    refused: list[tuple[str, str]]  # a function's name, and the message
    problems: list[str]


def mapped(
    points: Iterable[Point], n: int, alone: bool = False, size: str | None = None
) -> Made:
    """Map the calls over all their arrays or, with `alone`, over each array in turn."""
    made = Made([], [], [])
    for i, point in enumerate(points):
        count = len(point.specs)
        for only in range(count) if alone else [None]:
            if not alone or count > 1:
                key = f"{i}" if only is None else f"{i}of{only}"
                _make(made, point, key, n, only, n if size is None else size)
    return made


def _make(made: Made, point: Point, key: str, n: int, only: Any, size: Any) -> None:
    try:
        made.mapped.append(Mapped(point, key, n, only, size))
    except graphc.GraphError as error:
        if any(text in str(error) for text in REFUSALS):
            made.refused.append((point.sample.name, str(error)))
        else:
            made.problems.append(f"{point}, vmap of {only}: raises {error}")
    except Exception as error:
        text = f"{type(error).__name__} {error}"
        made.problems.append(f"{point}, vmap of {only}: raises {text}")


def apart(given: list[Mapped], backend: str = "numpy") -> list[str]:
    """List the calls whose mapped results are not those of one example at a time."""
    found: list[str] = []
    for start in range(0, len(given), MOST):
        found += _apart(given[start : start + MOST], backend)
    return found


def _apart(given: list[Mapped], backend: str) -> list[str]:
    try:
        return _compare(given, backend)
    except Exception as error:
        if len(given) == 1:
            return [f"{given[0]}: raises {type(error).__name__} {error}"]
        half = len(given) // 2
        return _apart(given[:half], backend) + _apart(given[half:], backend)


def _compare(given: list[Mapped], backend: str) -> list[str]:
    got = _run([m.variables for m in given], [m.outputs for m in given], backend)
    many = got([m.stacked() for m in given])
    one = _run([m.single for m in given], [m.singles for m in given], "numpy")
    most = max(len(m.examples) for m in given)
    each = [
        one([m.arrays(min(k, len(m.examples) - 1)) for m in given]) for k in range(most)
    ]
    problems = []
    for i, m in enumerate(given):
        expected = [
            np.stack(parts)[: m.n]
            for parts in zip(*[each[k][i] for k in range(len(m.examples))], strict=True)
        ]
        text = "".join(map(_difference, many[i], expected))
        if text:
            problems.append(f"{m}, {backend}: {text}")
    return problems


def _run(variables: list[list[Value]], outputs: list[list[Value]], backend: str) -> Any:
    """Compile a function from the arrays of each call to the results of each call."""
    named = {f"{i} {j}": y for i, ys in enumerate(outputs) for j, y in enumerate(ys)}
    inputs = list(dict.fromkeys(v for vs in variables for v in vs))
    run = compiled(inputs, named, backend)

    def called(arrays: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
        pairs = [
            pair
            for vs, xs in zip(variables, arrays, strict=True)
            for pair in zip(vs, xs, strict=True)
        ]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = run(*dict(pairs).values())
        return [
            [np.asarray(found[f"{i} {j}"]) for j in range(len(ys))]
            for i, ys in enumerate(outputs)
        ]

    return called


def _difference(got: np.ndarray, expected: np.ndarray) -> str:
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype}{got.shape}, not {expected.dtype}{expected.shape}; "
    if close(got, expected, ulps=2.0**14):
        return ""
    with np.errstate(all="ignore"):
        wrong = np.flatnonzero(~np.isclose(got, expected, equal_nan=True).ravel())[:4]
    return f"{got.ravel()[wrong]}, not {expected.ravel()[wrong]}, at {wrong}; "


def on_jax(given: list[Mapped]) -> list[str]:
    """List the calls whose mapped results differ in a JAX program."""
    return apart(given, "jax")
