"""Sample calls as functions of their arrays, to try derivatives and `vmap` on.

Unlike in `sampling`, each array of a call is a variable of its own.
"""

import warnings
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir.graph.build import as_value, strong
from graphc.ir.graph.nodes import Value
from tests.ops.sampling import REFUSALS, applied, arrays_in, flat, shown
from tests.samples.spec import VALUES, Array, Call, Sample

# Kinds of values that cannot be moved by small steps, and kinds that can.
AWKWARD = {"special", "across", "ties", "holes", "large"}
SMOOTH = {"mixed", "positive", "unit", "share", "square", "definite", "ordered"}


def _jittered(spec: Array, found: np.ndarray, rng: Any) -> np.ndarray:
    """The values moved a little, so that none are equal or multiples of each other."""
    if found.dtype.kind not in "fc" or spec.values not in SMOOTH:
        return found
    moved = found + rng.uniform(-1, 1, found.shape) / 600
    if spec.values == "ordered" and spec.shape:
        moved = np.sort(moved, axis=-1)
    return moved.astype("float32").astype(found.dtype) if _real(found) else moved


def _real(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


def array_for(spec: Array, dtype: str, which: int) -> np.ndarray:
    """An array as `spec` describes it; each `which` gives another one."""
    to = np.dtype(spec.dtype or dtype)
    seed = zlib.crc32(repr((spec.shape, spec.values, which)).encode())
    rng = np.random.default_rng(seed)
    found = np.asarray(VALUES[spec.values](rng, to, spec.shape)).astype(to)
    return _jittered(spec, found.reshape(spec.shape), rng)


DOMAINS = (  # maps of the reals to where a function may be defined
    lambda x: x,
    np.abs,
    lambda x: 0.5 + 0.49 * np.tanh(x),
    lambda x: 1.1 + np.abs(x),
)


@dataclass(eq=False)
class Point:
    """One call of one sample with one dtype."""

    sample: Sample
    call: Call
    dtype: str
    example: int = 0  # which of several arrays of each description to take

    @cached_property
    def specs(self) -> list[Array]:
        """The described arrays, in order."""
        return arrays_in(self.call)

    @cached_property
    def awkward(self) -> bool:
        """Whether some arrays are of a kind that cannot be moved by small steps."""
        return any(s.values in AWKWARD for s in self.specs)

    @property
    def random(self) -> bool:
        """Whether JAX, which is slow, is the reference; none of these calls raises."""
        return self.sample.name.startswith("random.")

    @cached_property
    def arrays(self) -> list[np.ndarray]:
        """Arrays at which the results are finite, if such arrays are found."""
        made = [
            array_for(s, self.dtype, 100 * self.example + i)
            for i, s in enumerate(self.specs)
        ]
        if self.awkward or self.random:
            return made
        for domain in DOMAINS:
            pairs = zip(self.specs, made, strict=True)
            moved = [self._moved(domain, *pair) for pair in pairs]
            if self._finite(moved):
                return moved
        return made

    def _moved(self, domain: Any, spec: Array, array: np.ndarray) -> np.ndarray:
        if not _real(array) or spec.values != "mixed":
            return array
        return domain(array).astype(array.dtype)

    def _finite(self, arrays: list[np.ndarray]) -> bool:
        found = self.reference(arrays)
        kinds = [np.asarray(r) for r in flat(found)]
        return all(np.isfinite(r).all() for r in kinds if r.dtype.kind in "fc")

    def reference(self, arrays: list[np.ndarray]) -> Any:
        """NumPy's result for other arrays."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return self.applied(self.sample.reference(), arrays)

    def applied(self, function: Any, arrays: Iterable[Any]) -> Any:
        """Call `function` with other arrays, or values, in place of the call's own."""
        rest = iter(list(arrays))
        return applied(function, self.call, lambda _: next(rest))

    @cached_property
    def refused(self) -> bool:
        """Whether NumPy refuses the call."""
        if self.random:
            return False
        try:
            self.reference(self.arrays)
        except REFUSALS:
            return True
        return False

    def variables(self, symbolic: bool = False, prefix: str = "x") -> list[Value]:
        """New variables, one per array."""
        alone = len(self.specs) == 1

        def size(n: int) -> int | str:
            return f"size{n}" if symbolic and (n != 1 or alone) else n

        return [
            gt.tensor(f"{prefix}_{i}", s.dtype or self.dtype, list(map(size, s.shape)))
            for i, s in enumerate(self.specs)
        ]

    def outputs(self, variables: Iterable[Value]) -> list[Value]:
        """The results of our function for these variables."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = self.applied(self.sample.function(), variables)
        return [strong(as_value(v)) for v in flat(made)]

    def __str__(self) -> str:
        return shown(self.sample, self.call, self.dtype)


def points(samples: Iterable[Sample], dtype: str, like: str = "") -> list[Point]:
    """All calls of samples that are tried with `dtype`, or with `like` in its place."""
    made = [
        Point(s, c, dtype)
        for s in samples
        for c in s.calls
        if dtype in s.dtypes or like in s.dtypes
    ]
    return [p for p in made if p.specs and not p.refused]
