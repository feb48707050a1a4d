"""Calls that JAX dispatches by itself, in C++, and how many of them there were.

A jitted function of JAX keeps what is compiled for each signature of a call: shapes,
dtypes, placements, kinds of arguments, settings of JAX. It runs such a call without a
line of Python, and asks a Python function, its cache miss, about all other calls.
`private_jax.dispatched` makes such an object with a function of ours in that place. All
that a call needs besides its run, such as admitting NumPy arrays or explaining errors,
is done there, and C++ keeps only the calls that need none of it.

This leaves no place to count calls. So `Route` counts how often its function was asked
for: `__call__` of a class is a property that acquires the function, in C as well. Who
looks the attribute up without calling it is counted too; `callable` does not look it
up.
"""

import sys
from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature
from itertools import repeat
from operator import length_hint, methodcaller
from typing import Any

from graphc.ir.forks import call_in_forked_children, fork_error, jax_is_lost

Run = Callable[..., Any]
CALL = """Run the program.

Raises CallError where the arguments do not fit, or what an `assert_` asks for; nothing
is changed then. `__call__` is the function that runs the next call, which is counted.
"""
LEND = """Run the program on what nobody writes to before the results are read.

Arrays of NumPy of the right dtypes are handed to JAX as they are, at less cost.
"""
ANY = Signature(
    [
        Parameter("args", Parameter.VAR_POSITIONAL),
        Parameter("named", Parameter.VAR_KEYWORD),
    ]
)
_MOST = sys.maxsize


class Route:
    """A function to call, and how often it was acquired: once before each call."""

    def __init__(self, function: Run) -> None:
        self._left = repeat(function, _MOST)
        self.acquire: Callable[[], Run] = self._left.__next__

    @property
    def calls(self) -> int:
        """How often the function was acquired."""
        return _MOST - length_hint(self._left)


class _Acquiring(property):
    """A `__call__` that acquires the route of the next call.

    In a forked child that has lost JAX, each class gets another `__call__`, so that no
    call ever has to ask whether it runs in one.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        call_in_forked_children(partial(self._refuse, owner, name))

    def _refuse(self, owner: type, name: str) -> None:
        if jax_is_lost():
            setattr(owner, name, property(self._unless_on_jax, doc=self.__doc__))

    def _unless_on_jax(self, function: Callable[..., object]) -> Run:
        if getattr(function, "backend", "jax") == "jax":
            return _refuse_call
        run: Run = self.__get__(function)
        return run


def _refuse_call(*_: object, **__: object) -> object:
    raise fork_error("call")


def acquiring(doc: str, acquire: str = "_acquire") -> object:
    """Make a `__call__` for a class whose attribute `acquire` gets the next route."""
    return _Acquiring(methodcaller(acquire), doc=doc)
