"""Arrays for the variables of a graph: ordinary numbers, and special ones."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from graphc.checking.chance import Chance
from graphc.checking.plans import Want
from graphc.ir.build import variable
from graphc.ir.dims import Dim, Symbol, evaluate, symbol_dim
from graphc.ir.graph import Value
from graphc.ir.types import TensorType, is_inexact
from graphc.ir.walk import ancestors

Array = np.ndarray[Any, Any]
Sizes = Mapping[Symbol, int]
# Hypothesis tries numbers from 100 that stand in modules: in whichever are imported.
MOST_SEED = 99
SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0)


def symbols(sizes: Iterable[Any]) -> list[Symbol]:
    """The names in sizes, each once."""
    found = {s: None for n in sizes if isinstance(n, Dim) for s in n.symbols}
    return list(found)


def draw_sizes(c: Chance, values: Iterable[Value]) -> dict[Symbol, int]:
    """A number for every name of a size in the graphs of values."""
    named = symbols(
        n
        for node in ancestors(values)
        for found in (*(v.type.shape for v in node.outputs), *node.params.values())
        for n in (found if isinstance(found, tuple) else (found,))
    )
    return {s: c.pick((2, 3, 1, 0)) for s in named if s.origin is None}


def draw_array(c: Chance, want: Want, sizes: Sizes, special: bool) -> Array:
    """An array of the wanted type; what is special in it shrinks away."""
    shape = tuple(evaluate(n, sizes) for n in want.shape)
    rng = np.random.default_rng(c.up_to(MOST_SEED))
    if want.role == "index":
        return rng.integers(0, max(evaluate(want.limit, sizes), 1), shape, want.dtype)
    array = _ordinary(rng, want, shape, special and c.flag())
    if special and array.size and want.role != "definite":
        for _ in range(c.up_to(3)):
            place = c.up_to(array.size - 1)
            array.flat[place] = _special(c, array.dtype)
    return array


def _ordinary(rng: Any, want: Want, shape: tuple[int, ...], ties: bool) -> Array:
    """Numbers of moderate size; where there may be ties, small integers."""
    if want.dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if not is_inexact(want.dtype):
        low = 0 if want.dtype.kind == "u" else -4
        return np.asarray(rng.integers(low, 5, shape)).astype(want.dtype)
    found = -rng.normal(size=shape)  # the first seed begins below zero
    if ties:
        found = np.rint(found * 2)
    if want.dtype.kind == "c":
        found = found + 1j * np.asarray(rng.normal(size=shape))
    return np.asarray(found).astype(want.dtype)


def _special(c: Chance, dtype: Any) -> Any:
    if dtype.kind == "b":
        return True
    if dtype.kind == "c":
        return complex(c.pick(SPECIAL), c.pick((0.0, *SPECIAL)))
    if is_inexact(dtype):
        return c.pick(SPECIAL)
    limits = np.iinfo(dtype)
    return c.pick((0, limits.max, limits.min))


def carriers(names: Iterable[Symbol]) -> dict[Value, Want]:
    """An input per name of a size, so that a program is told what it is."""
    made = {}
    for symbol in names:
        want = Want((symbol_dim(symbol),), np.dtype("int8"))
        made[variable(f"size_{symbol.name}", TensorType(want.dtype, want.shape))] = want
    return made
