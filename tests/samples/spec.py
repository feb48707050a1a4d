"""Samples: a function of `graphc.tensor`, calls of it, and NumPy's equivalent.

Arrays are described, not given: `a(2, 3)` is made anew for each dtype of a sample.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import graphc.tensor as gt
from tests import newest_numpy as newest

INTEGERS = ["int8", "int32", "int64", "uint8"]
FLOATS = ["float16", "float32", "float64"]
INEXACT = [*FLOATS, "complex64"]
NUMBERS = [*INTEGERS, *FLOATS]
REAL = ["bool", *NUMBERS]
ALL = [*REAL, "complex64"]


@dataclass(frozen=True)
class Array:
    """A description of an array: shape, kind of values, and dtype if it is fixed."""

    shape: tuple[int, ...]
    values: str = "mixed"
    dtype: str | None = None

    def make(self, dtype: str) -> np.ndarray:
        """Make the array; it is the same each time."""
        to = np.dtype(self.dtype or dtype)
        seed = zlib.crc32(repr((self.shape, self.values)).encode())
        found = VALUES[self.values](np.random.default_rng(seed), to, self.shape)
        return np.ascontiguousarray(found).astype(to).reshape(self.shape)


def a(*shape: int, values: str = "mixed", dtype: str | None = None) -> Array:
    """Describe an array of the dtype that a sample is tried with, or of its own."""
    return Array(shape, values, dtype)


def i(*shape: int, values: str = "index") -> Array:
    """Describe an int64 array, by default of the numbers 0, 1 and 2."""
    return Array(shape, values, "int64")


def _mixed(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Small numbers of both signs without 0; complex ones with both parts."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape)
    if dtype.kind in "iu":
        size = rng.integers(1, 8, shape)
        return size if dtype.kind == "u" else size * rng.choice([-1, 1], shape)
    found = np.round(rng.uniform(-3, 3, shape) * 64 + 1) / 64
    if dtype.kind != "c":
        return found
    return found + 1j * np.round(rng.uniform(-3, 3, shape) * 64 + 1) / 64


SPECIAL = {
    "b": [False, True],
    "u": [0, 1, 2, 7, 8, 100, 254, 255],
    "i": [0, 1, -1, 2, -2, 7, -7, 100, 127, -128],
    "f": [0.0, -0.0, 1, -1, 0.5, -2.5, 3.5, 100, np.nan, np.inf, -np.inf, 1e-3],
    "c": [0, 1, -1, 1j, 0.25 - 2j, 0.5 + 2j, -1.5 - 0.25j, 2.5 - 1j],
}


def _special(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    found = list(SPECIAL[dtype.kind])
    if dtype.kind == "i":
        found += [np.iinfo(dtype).max, np.iinfo(dtype).min]
    return np.resize(np.array(found, dtype), shape)


def _across(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """The special numbers down the columns, so that each meets each of `special`."""
    return np.ascontiguousarray(_special(rng, dtype, shape[::-1]).T)


def _large(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers whose squares or exponentials overflow; special ones for integers."""
    if dtype.kind != "f":
        return _special(rng, dtype, shape)
    most = float(np.finfo(dtype).max)
    sizes = np.array([6, 20, 90, 1000, most**0.5 * 4, most / 2, most, most**-0.4])
    return np.resize(np.concatenate([sizes, -sizes]), shape)


def _of(low: float, high: float) -> Callable[..., np.ndarray]:
    def make(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        if dtype.kind in "biu":
            return rng.integers(int(np.ceil(low)), int(high) + 1, shape)
        return np.round(rng.uniform(low, high, shape) * 256) / 256

    return make


def _ties(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 3, shape)


def _ordered(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    found = _of(0, 9)(rng, dtype, shape)
    return np.sort(found.astype(dtype), axis=-1) if shape else found


def _holes(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Mixed numbers; for inexact dtypes, some of them are NaN."""
    found = _mixed(rng, dtype, shape)
    if dtype.kind in "fc" and found.size:
        found = np.where(rng.uniform(size=shape) < 0.3, np.nan, found)
    return found


def _square(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Well-conditioned matrices."""
    return _mixed(rng, dtype, shape) / 4 + 3 * np.eye(*shape[-2:])


def _definite(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Hermitian matrices with positive eigenvalues."""
    half = _mixed(rng, dtype, shape) / 2
    return half @ np.conj(np.swapaxes(half, -1, -2)) + np.eye(shape[-1])


VALUES: dict[str, Callable[..., np.ndarray]] = {
    "mixed": _mixed,
    "special": _special,
    "across": _across,
    "large": _large,
    "ties": _ties,
    "index": _of(0, 2),
    "small": _of(0, 4),
    "positive": _of(0.25, 6),
    "unit": _of(-0.99, 0.99),
    "share": _of(0.01, 0.99),
    "ordered": _ordered,
    "holes": _holes,
    "square": _square,
    "definite": _definite,
    "ones": lambda rng, dtype, shape: np.ones(shape, dtype),
    "steps": lambda rng, dtype, shape: np.arange(np.prod(shape)).reshape(shape),
}


@dataclass(frozen=True)
class Call:
    """The arguments of one call; arrays in them, also in lists, are descriptions."""

    args: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


def call(*args: Any, **options: Any) -> Call:
    """Return a call with these arguments."""
    return Call(args, options)


@dataclass(frozen=True)
class Sample:
    """A function of `graphc.tensor` by name, calls of it, and its expected results.

    `numpy` is called with the same arguments; by default, it is NumPy's function of
    that name. `ours` replaces our function where the name alone cannot be called like
    that. `dtypes` are tried in turn; where NumPy raises, ours must raise too. `ulps` is
    the rounding allowed, and `looser` overrides it for a backend. `differs` tells why a
    backend's values differ; `exact_dtype=False` says that the dtype may. `refused` is
    the reason that a backend gives for not running a call, which a JAX program then
    runs on NumPy. With `static`, sizes must be numbers when the graph is built. `like`
    gives arrays of the shape and dtype of `numpy`'s results, for values that are not
    compared.
    """

    name: str
    calls: tuple[Call, ...]
    numpy: Callable[..., Any] | None = None
    ours: Callable[..., Any] | None = None
    dtypes: tuple[str, ...] = tuple(ALL)
    ulps: float = 8
    looser: dict[str, float] = field(default_factory=dict)  # backend: ulps
    differs: dict[str, str] = field(default_factory=dict)  # backend: why
    refused: dict[str, str] = field(default_factory=dict)  # backend: reason
    exact_dtype: bool = True
    static: bool = False
    like: Callable[..., Any] | None = None

    def function(self) -> Callable[..., Any]:
        """Our function."""
        if self.ours is not None:
            return self.ours
        found: Any = gt
        for part in self.name.split("."):
            found = getattr(found, part)
        return found

    def reference(self, backend: str = "") -> Callable[..., Any]:
        """NumPy's function, to compare a backend with."""
        if self.like is not None and backend in self.differs:
            return self.like
        if self.numpy is not None:
            return self.numpy
        found: Any = newest.numpy
        for part in self.name.split("."):
            found = getattr(found, part)
        return found


def sample(name: str, *calls: Call, **options: Any) -> Sample:
    """Return a sample; families list these."""
    if "dtypes" in options:
        options["dtypes"] = tuple(options["dtypes"])
    return Sample(name, calls, **options)
