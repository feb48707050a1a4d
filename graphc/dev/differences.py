"""The text of docs/differences.md: where NumPy and JAX differ at special values.

Run `python -m graphc.dev regenerate differences` after adding an elementwise op; a
test finds functions that differ and are not in the file.
"""

import inspect
import warnings
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import jax
import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir.graph.op import EMISSION, PRIMITIVES, Primitive
from graphc.ir.namespace import FUNCTIONS
from graphc.ir.types import NDArray

SPECIAL = (0.0, -0.0, 0.5, -2.5, 1.0, -1.0, np.inf, -np.inf, np.nan)
MOST = 3  # examples in a row
CLOSE = 1e-6  # what is left is rounding
HEAD = f"""\
# Where the backends differ at special values

Written by `python -m graphc.dev regenerate differences`, with JAX {jax.__version__}
on a CPU.

Every elementwise function was called with all combinations of {", ".join(
    map(str, SPECIAL)
)}, in float64 and as real and imaginary parts in complex128. NumPy programs give what
NumPy gives. Where JAX programs give something else, beyond rounding, it stands here;
other versions of JAX may differ in fewer places.

| function | dtype | calls that differ | examples |
|---|---|---|---|
"""
TAIL = """
## Where an order or an algorithm decides

- `prod` and `nanprod`: JAX multiplies in an order that depends on the shape, at
  capacities in that of these. Where a part of the factors overflows and another one is
  0, one order gives 0 and another NaN. In complex numbers infinity times 1 has NaN as
  its other part, and padding multiplies by 1.
- Gradients of `cumprod`: JAX takes them in parts, so that infinity may meet a 0 that
  stands behind it, and gives NaN where step by step there is none.
- `sort` and `argsort`: equal elements keep their order, as NumPy's do with
  `kind="stable"`. `partition` and `argpartition` sort both parts, where NumPy leaves
  them in the order of its algorithm; `unique_values` are in ascending order, where
  NumPy's have that of its hash table. In `interp`, points that do not ascend give
  other numbers than NumPy's search happens to find.
- `x - max(x, axis)` of 8-bit integers: XLA for CPUs (of JAX 0.10.2 and 0.12.0) gives
  wrong numbers for rows of 64 and of 128 elements, also under `jax.jit`. Shorter rows
  that are padded to these capacities meet that too; `x.astype("int32")` does not.
- `max` and `min` of complex numbers: where each real part is the infinity that loses,
  JAX gives 0 as imaginary part.
- 0.0 and -0.0 are equal: of both, `max` and `min` give either one, `sort` puts them in
  any order in NumPy programs, and the sums of -0.0 by `sum`, by JAX, and by a padded
  `cumsum(reverse=True)` are 0.0.
- `linalg.svd`: vectors of singular values that are equal or 0 are any that fit.
  Of a matrix with infinity all values are NaN; its vectors are so too in padded JAX
  programs, and what LAPACK leaves in others.
- Of infinity, `linalg.solve`, `qr`, `det` and Fourier transforms give NaN or infinity
  by the order of their steps. Padded programs have other steps: padded Fourier
  transforms give NaN everywhere, as infinity meets zeros of padding.
- `nn.conv`: zeros put beside an array meet NaN in a kernel, or add nothing, by the
  algorithm that XLA chooses. Kernels of padded lengths, and single vectors in NumPy
  programs, meet none of them, as in `numpy.convolve`.
"""


class Difference(NamedTuple):
    """A function whose results differ between the backends, and examples of it."""

    name: str
    dtype: str
    differing: int
    calls: int
    examples: list[str]

    def row(self) -> str:
        """One line of the table."""
        share, examples = f"{self.differing} of {self.calls}", "; ".join(self.examples)
        return f"| `{self.name}` | {self.dtype} | {share} | {examples} |"


def _refused(primitive: Primitive) -> bool:
    return any(primitive in table.reasons for table in EMISSION.values())


def functions(dtype: str) -> Iterator[tuple[str, int]]:
    """The elementwise functions that take this dtype on both backends, by arity."""
    for name in sorted(FUNCTIONS):
        primitive = PRIMITIVES.get(name.replace(".", "_")) or PRIMITIVES.get(name)
        if primitive is None or not primitive.elementwise or _refused(primitive):
            continue
        arity = len(inspect.signature(primitive.infer).parameters)
        if arity <= 2 and not name.startswith("_") and _takes(name, arity, dtype):
            yield name, arity


def _takes(name: str, arity: int, dtype: str) -> bool:
    try:
        FUNCTIONS[name](*[gt.tensor("x", dtype, (2,))] * arity)
    except (graphc.GraphError, TypeError):
        return False
    return True


def arguments(dtype: str, arity: int) -> list[NDArray]:
    """All combinations of special values, one array per argument."""
    numbers: list[complex] = [np.float64(x) for x in SPECIAL]
    if dtype == "complex128":
        numbers = [complex(x, y) for x, y in product(SPECIAL, SPECIAL)]
        if arity == 2:  # 81 numbers squared would say the same more often
            numbers = numbers[::7]
    calls = list(product(numbers, repeat=arity))
    return [np.array(column, dtype) for column in zip(*calls, strict=True)]


def differences() -> Iterator[Difference]:
    """The functions that differ, each with examples."""
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
            where = np.flatnonzero(~agree(ours, theirs))
            examples = [
                f"at {', '.join(shown(a[i]) for a in arrays)}: "
                f"{shown(ours[i])}, JAX {shown(theirs[i])}"
                for i in where[:MOST]
            ]
            if examples:
                yield Difference(name, dtype, len(where), len(ours), examples)


def agree(x: NDArray, y: NDArray) -> NDArray:
    """Where two results are one, up to rounding; signs of zeros count."""
    if x.dtype.kind == "c":
        parts = agree(x.real, y.real) & agree(x.imag, y.imag)
        with np.errstate(invalid="ignore", over="ignore"):
            return parts | (x != y) & (abs(x - y) <= CLOSE * abs(y))
    if x.dtype.kind != "f":
        return x == y
    with np.errstate(invalid="ignore"):
        close = np.isclose(x, y, rtol=CLOSE, atol=0, equal_nan=True)
    zeros = (x == 0) & (y == 0)
    return close & (~zeros | (np.signbit(x) == np.signbit(y)))


def shown(x: object) -> str:
    """A number as people write it."""
    return f"{x:.4g}"


def text() -> str:
    """The whole text of docs/differences.md."""
    return HEAD + "".join(d.row() + "\n" for d in differences()) + TAIL
