"""Run each program: compiled once per backend, called with all data of its case."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax
import numpy as np

import graphc
import graphc.tensor as gt

from .cases import CASES, Case
from .programs import PROGRAMS

CHECKED = {"check_oob_take", "check_cholesky_not_pd"}  # compiled with check=True
SEEDS = range(1, 3)  # seeds of further data for programs whose counts depend on data
Arguments = tuple[Any, ...]


_built = 0


def _count(event: str, *_: Any, **__: Any) -> None:
    global _built
    _built += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_count)


@dataclass
class Call:
    """One call: its arguments, its outcome, and what it compiled."""

    arguments: Arguments
    expected: tuple[Any, ...]
    raises: bool
    results: list[Any] | None = None
    error: graphc.GraphError | None = None
    compiled: list[Any] = field(default_factory=list)  # what `stats` lists
    built: int = 0  # how often XLA ran

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(np.shape(a) for a in self.arguments)

    def contents(self, positions: Iterable[int] | None = None) -> tuple[bytes, ...]:
        """The bytes of all arguments, or of those at some positions."""
        chosen = range(len(self.arguments)) if positions is None else positions
        return tuple(np.asarray(self.arguments[i]).tobytes() for i in chosen)


@dataclass
class Run:
    """A compiled program and all of its calls, in order."""

    case: Case
    function: Any
    calls: list[Call]


def compiled(id: str, backend: str, dims: str = "specialize") -> Any:
    """Compile the program of a case as one function that returns a list.

    Sizes are specialized by default; test_padding.py runs the cases under other
    policies.
    """
    inputs = [gt.tensor(*declared) for declared in CASES[id].inputs]
    outputs = PROGRAMS[id](*inputs)
    several = list(outputs) if isinstance(outputs, tuple) else [outputs]
    return graphc.function(
        inputs, several, backend=backend, check=id in CHECKED, dims=dims
    )


@cache
def run(id: str, backend: str) -> Run:
    """Call the one function with every variant twice, then with further data."""
    case, function = CASES[id], compiled(id, backend)
    calls = [_call(function, planned) for planned in planned_calls(case)]
    return Run(case, function, calls)


@np.errstate(all="ignore")
def planned_calls(case: Case) -> list[Call]:
    """Each variant, each variant once more, then crossed sizes and other contents."""
    variants = case.make(np.random.default_rng(0))
    raising = len(variants) - 1 if case.check == "raises" else len(variants)
    calls = [
        Call(v, case.ref(*v), i == raising) for i, v in enumerate(variants)
    ] * 2
    calls = [Call(c.arguments, c.expected, c.raises) for c in calls]
    if case.kind in "VBM":
        calls += _where_defined(case.ref, crossed(variants))
    if case.kind in "MD":
        further = (v for s in SEEDS for v in case.make(np.random.default_rng(s)))
        calls += _where_defined(case.ref, further)
    return calls


def crossed(variants: list[Arguments]) -> Iterable[Arguments]:
    """Yield the arrays of one variant with the integer scalars of another."""
    for arrays in variants:
        for numbers in variants:
            pairs = zip(arrays, numbers, strict=True)
            if arrays is not numbers:
                yield tuple(n if _is_integer(n) else a for a, n in pairs)


def _is_integer(argument: Any) -> bool:
    array = np.asarray(argument)
    return array.ndim == 0 and array.dtype.kind == "i"


def _where_defined(
    ref: Callable[..., tuple[Any, ...]], arguments: Iterable[Arguments]
) -> list[Call]:
    """Return the calls with these arguments, leaving out those that NumPy refuses."""
    calls = []
    for given in arguments:
        try:
            calls.append(Call(given, ref(*given), False))
        except (ValueError, IndexError):
            continue
    return calls


def _call(function: Any, call: Call) -> Call:
    before, built = len(function.stats().compilations), _built
    try:
        call.results = function(*call.arguments)
    except graphc.GraphError as error:
        call.error = error
    call.compiled = function.stats().compilations[before:]
    call.built = _built - built
    return call
