"""Errors for random numbers that a function of NumPy draws while it is traced.

The numbers drawn during a trace would become constants of the program, the same at each
call. Functions of `numpy.random` are refused where their names are looked up. Methods
of a generator made outside the function are C code that nobody can watch, so the states
of such generators are compared before and after the trace.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from graphc.errors import (
    GraphError,
    SourceLocation,
    graph_error,
    standing_at,
    user_place,
)
from graphc.importers.numpy.traced.memory import is_tracing
from graphc.importers.reachable import reachable_objects

HINT = "draw outside of the function and pass the array, or use gt.random with a key"
_PROBLEM = "random numbers would be drawn once, while the function is traced"
RandomSource = Any  # np.random.Generator, RandomState or BitGenerator
# Looked up here already, since while tracing these names give functions that refuse.
_GLOBAL_STATE, _GENERATOR = np.random.mtrand._rand, np.random.Generator
_STATES = (np.random.RandomState, np.random.BitGenerator)


class RandomNames:
    """Stand-in for the module `numpy.random`, which refuses draws during a trace."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> object:
        plain = getattr(self._module, name)
        return _RefusedDraw(plain, name) if callable(plain) else plain


class _RefusedDraw:
    """A function or a class of generators that refuses to draw during a trace."""

    def __init__(self, plain: Any, name: str) -> None:
        self._plain, self._name = plain, name

    def __call__(self, *args: object, **options: object) -> object:
        if not is_tracing():  # the user has kept it after the trace
            return self._plain(*args, **options)
        raise graph_error(_PROBLEM, op=f"numpy.random.{self._name}", hint=HINT)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._plain)


@contextmanager
def no_draws(function: Callable[..., object]) -> Generator[None]:
    """Refuse draws from generators that a function can reach.

    Raises GraphError at the end where one was drawn from, after resetting its state.
    """
    before = [(bits, bits.state) for bits in _sources(function)]
    try:
        yield
    finally:
        drawn = [(bits, old) for bits, old in before if not _same(bits.state, old)]
        for bits, state in drawn:
            bits.state = state
    if drawn:
        raise _error(function)


def _error(function: Callable[..., object]) -> GraphError:
    with standing_at(defined_at(function)):
        return graph_error(_PROBLEM, op="numpy.random", hint=HINT)


def defined_at(function: Callable[..., object]) -> SourceLocation:
    """The line where a function begins; the user's line for one without Python code."""
    code = getattr(function, "__code__", None)
    if code is None:
        return user_place()
    return SourceLocation(code.co_filename, code.co_firstlineno)


def _sources(function: Callable[..., object]) -> Iterator[RandomSource]:
    """The sources of random numbers that a function and its helpers can name."""
    for item in (_GLOBAL_STATE, *reachable_objects(function)):
        if isinstance(item, _GENERATOR):
            yield item.bit_generator
        elif isinstance(item, _STATES):
            yield getattr(item, "_bit_generator", item)


def _same(one: Any, other: Any) -> bool:
    """Whether two states, dictionaries of numbers and arrays, are equal."""
    if isinstance(one, dict):
        return all(_same(item, other[key]) for key, item in one.items())
    return bool(np.array_equal(one, other))
