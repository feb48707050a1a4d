"""Arrays for the variables of a graph, with ordinary and with special numbers."""

from collections.abc import Iterable, Mapping

import numpy as np

from graphc.checking.chance import Chance
from graphc.checking.plans import Want
from graphc.ir.graph.build import variable
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.replay import symbols_of
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import Symbol, evaluate, symbol_dim
from graphc.ir.types import DType, NDArray, TensorType, is_inexact

SizeValues = Mapping[Symbol, int]
# Half of the arrays. Of numbers from 100 on, Hypothesis tries those that stand in
# modules, in whichever are imported.
ORDINARY = 50
SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0)


def draw_sizes(c: Chance, values: Iterable[Value]) -> dict[Symbol, int]:
    """Draw a number for each named size in the graphs of values."""
    symbols = dict.fromkeys(s for n in ancestors(values) for s in symbols_of(n))
    return {s: c.pick((2, 3, 1, 0)) for s in symbols if s.origin is None}


def draw_array(c: Chance, want: Want, sizes: SizeValues, special: bool) -> NDArray:
    """Draw an array of the wanted type; the first ones to be tried are ordinary.

    A single number is drawn, from which the array follows, so that to Hypothesis an
    array is as simple as a constant.
    """
    shape = tuple(evaluate(n, sizes) for n in want.shape)
    code = c.up_to(2 * ORDINARY - 1 if special else ORDINARY - 1)
    rng = np.random.default_rng(code)
    if want.role == "index":
        return rng.integers(0, max(evaluate(want.limit, sizes), 1), shape, want.dtype)
    array = _ordinary(rng, want, shape, special and code % 2 == 1)
    if code >= ORDINARY and array.size and want.role != "definite":
        for number in (*rng.integers(0, len(SPECIAL), rng.integers(0, 3)), code):
            array.flat[rng.integers(array.size)] = _special(int(number), array.dtype)
    return array


def _ordinary(
    rng: np.random.Generator, want: Want, shape: tuple[int, ...], ties: bool
) -> NDArray:
    """Numbers of moderate size, or small integers where ties are wanted."""
    if want.dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if not is_inexact(want.dtype):
        low = 0 if want.dtype.kind == "u" else -4
        return np.asarray(rng.integers(low, 5, shape)).astype(want.dtype)
    numbers = -rng.normal(size=shape)  # the first seed begins below zero
    if ties:
        numbers = np.rint(numbers * 2)
    if want.dtype.kind == "c":
        numbers = numbers + 1j * np.asarray(rng.normal(size=shape))
    return np.asarray(numbers).astype(want.dtype)


def _special(number: int, dtype: DType) -> object:
    """One of the special numbers of a dtype."""
    special = SPECIAL[number % len(SPECIAL)]
    if dtype.kind == "b":
        return True
    if dtype.kind == "c":
        return complex(special, (0.0, *SPECIAL)[number % (len(SPECIAL) + 1)])
    if is_inexact(dtype):
        return special
    limits = np.iinfo(dtype)
    return (0, limits.max, limits.min)[number % 3]


def carriers(names: Iterable[Symbol]) -> dict[Value, Want]:
    """An input for each named size, through which a program learns the size."""
    wants = {}
    for symbol in names:
        want = Want((symbol_dim(symbol),), np.dtype("int8"))
        carrier = variable(f"size_{symbol.name}", TensorType(want.dtype, want.shape))
        wants[carrier] = want
    return wants
