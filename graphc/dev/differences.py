"""The text of docs/differences.md: where NumPy and JAX differ at special values.

Run `python -m graphc.dev regenerate differences` after adding an elementwise op; a test
finds functions that differ but are not in the file.
"""

import inspect
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import jax
import numpy as np

import graphc
import graphc.tensor as gt
from graphc.dev.clone import ROOT
from graphc.ir.graph.build import as_value
from graphc.ir.graph.op import EMISSION, PRIMITIVES, Primitive
from graphc.ir.namespace import FUNCTIONS
from graphc.ir.types import NDArray

PAGE = ROOT / "docs" / "differences.md"
SPECIAL = (0.0, -0.0, 0.5, -2.5, 1.0, -1.0, np.inf, -np.inf, np.nan)
MOST = 3  # examples per row of the table
CLOSE = 1e-6  # smaller differences are rounding
HEAD = f"""\
# Where the backends differ at special values

Written by `python -m graphc.dev regenerate differences`, with JAX {jax.__version__}
on a CPU.

Every elementwise function, and every one of `special` with one or two arguments, was
called with all combinations of {", ".join(map(str, SPECIAL))}, in
float64 and as real and imaginary parts in complex128. NumPy programs give what NumPy
and SciPy give. Where JAX programs give something else, beyond rounding, it stands here;
other versions of JAX may differ in fewer places.

| function | dtype | calls that differ | examples |
|---|---|---|---|
"""
NEXT = "\n## "  # the text after the table is written by hand


class Difference(NamedTuple):
    """A function whose results differ between the backends, with examples."""

    name: str
    dtype: str
    differing: int
    calls: int
    examples: list[str]

    def row(self) -> str:
        """The line of the table for this function."""
        share, examples = f"{self.differing} of {self.calls}", "; ".join(self.examples)
        return f"| `{self.name}` | {self.dtype} | {share} | {examples} |"


def _is_refused(primitive: Primitive) -> bool:
    return any(primitive in table.reasons for table in EMISSION.values())


def functions(dtype: str) -> Iterator[tuple[str, int]]:
    """Yield elementwise functions that take a dtype on both backends, with arity."""
    for name in sorted(FUNCTIONS):
        arities = (1, 2) if name.startswith("special.") else _arities(name)
        arity = next((n for n in arities if _is_elementwise(name, n, dtype)), None)
        if arity is not None:
            yield name, arity


def _arities(name: str) -> Sequence[int]:
    """The number of inputs of the public elementwise primitive `name`, if 2 or less."""
    primitive = PRIMITIVES.get(name)
    if primitive is None or not primitive.elementwise or _is_refused(primitive):
        return ()
    arity = len(inspect.signature(primitive.infer).parameters)
    return () if arity > 2 or name.startswith("_") else (arity,)


def _is_elementwise(name: str, arity: int, dtype: str) -> bool:
    """Whether a function takes `arity` arrays of a shape and returns arrays of it."""
    try:
        results = FUNCTIONS[name](*[gt.tensor("x", dtype, (2,))] * arity)
    except (graphc.GraphError, TypeError):
        return False
    several = results if isinstance(results, tuple) else (results,)
    return all(as_value(result).type.shape == (2,) for result in several)


def arguments(dtype: str, arity: int) -> list[NDArray]:
    """All combinations of special values, as one array per argument."""
    numbers: list[complex] = [np.float64(x) for x in SPECIAL]
    if dtype == "complex128":
        numbers = [complex(x, y) for x, y in product(SPECIAL, SPECIAL)]
        if arity == 2:  # 81 numbers squared would only repeat themselves
            numbers = numbers[::7]
    calls = list(product(numbers, repeat=arity))
    return [np.array(column, dtype) for column in zip(*calls, strict=True)]


def differences() -> Iterator[Difference]:
    """Yield the functions whose results differ, each with examples."""
    for dtype, arity in product(("float64", "complex128"), (1, 2)):
        names = [name for name, n in functions(dtype) if n == arity]
        arrays = arguments(dtype, arity)
        inputs = [gt.tensor(f"x{i}", dtype, a.shape) for i, a in enumerate(arrays)]
        outputs = [gt.asarray(FUNCTIONS[name](*inputs)) for name in names]
        by_backend = []
        for backend in ("numpy", "jax"):
            f = graphc.function(inputs, outputs, backend=backend, dims="specialize")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                by_backend.append([np.asarray(x) for x in f(*arrays)])
        for name, ours, theirs in zip(names, *by_backend, strict=True):
            where = np.flatnonzero(~mark_agreement(ours, theirs))
            examples = [
                f"at {', '.join(number_text(a[i]) for a in arrays)}: "
                f"{number_text(ours[i])}, JAX {number_text(theirs[i])}"
                for i in where[:MOST]
            ]
            if examples:
                yield Difference(name, dtype, len(where), len(ours), examples)


def mark_agreement(x: NDArray, y: NDArray) -> NDArray:
    """Mark where two results agree up to rounding; signs of zeros count."""
    if x.dtype.kind == "c":
        parts = mark_agreement(x.real, y.real) & mark_agreement(x.imag, y.imag)
        with np.errstate(invalid="ignore", over="ignore"):
            return parts | (x != y) & (abs(x - y) <= CLOSE * abs(y))
    if x.dtype.kind != "f":
        return x == y
    with np.errstate(invalid="ignore"):
        close = np.isclose(x, y, rtol=CLOSE, atol=0, equal_nan=True)
    zeros = (x == 0) & (y == 0)
    return close & (~zeros | (np.signbit(x) == np.signbit(y)))


def number_text(x: object) -> str:
    """A number in four significant digits."""
    return f"{x:.4g}"


def text() -> str:
    """The whole text of docs/differences.md, with a new table."""
    _, heading, after = PAGE.read_text(encoding="utf-8").partition(NEXT)
    return HEAD + "".join(d.row() + "\n" for d in differences()) + heading + after
