"""Calls on arrays of NumPy, which are copied before JAX has them.

XLA reads an array of NumPy where it lies, if it is aligned, and may do so after the
call: who writes to it then, changes results. A program shall not depend on that, nor on
how an array happens to be aligned. A copy of a small one takes 0.15 us, and any two
lines of Python as long; shapes are looked up by JAX.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.ir.types import DType
from graphc_serving.arguments import SMALL, copy

Run = Callable[..., Any]


def are_small(args: Iterable[object], dtypes: Iterable[DType]) -> bool:
    """Whether all are arrays of NumPy of little size, of the very dtypes."""
    pairs = zip(args, dtypes, strict=True)
    return all(
        type(a) is np.ndarray and a.dtype is d and a.nbytes < SMALL for a, d in pairs
    )


def on_copies(
    run: Run, dtypes: Sequence[DType], plain: Container[type], otherwise: Run
) -> Run:
    """`run` on copies of arguments that are arrays of NumPy, of which there is one.

    Other arguments must be of kinds that are `plain`, and stay as they are. All other
    calls are for `otherwise`.
    """
    count = len(dtypes)

    def called(*args: Any, **named: object) -> object:
        operands, copied = [], False
        for a, dtype in zip(args, dtypes, strict=False):
            kind = type(a)
            if kind is np.ndarray and a.dtype == dtype:
                operands.append(copy(a))
                copied = True
            elif kind in plain:
                operands.append(a)
        if named or not copied or not len(operands) == len(args) == count:
            return otherwise(*args, **named)
        return run(*operands)

    return called


def on_small_copies(run: Run, dtypes: Sequence[DType], otherwise: Run) -> Run:
    """The same at the least cost, for small arrays of NumPy alone."""
    is_one = "type({0}) is array and {0}.dtype is d{0} and {0}.nbytes < small"
    return _unrolled(len(dtypes), is_one, "{0}.copy()")(run, dtypes, otherwise)


def on_borrowed(run: Run, dtypes: Sequence[DType], otherwise: Run) -> Run:
    """`run` on arrays of these dtypes as they are; `otherwise` for others."""
    is_one = "getattr({0}, 'dtype', None) is d{0}"
    return _unrolled(len(dtypes), is_one, "{0}")(run, dtypes, otherwise)


@lru_cache(64)
def _unrolled(count: int, is_one: str, operand: str) -> Run:
    """A maker of functions of so many arguments, without a loop.

    They run on the operands where each argument is one that fits.
    """
    names = [f"a{i}" for i in range(count)]
    lines = [
        "def make(run, dtypes, otherwise):",
        f"    [{', '.join([f'd{a}' for a in names])}] = dtypes",
        "    def called(*args, **named):",
        f"        if len(args) == {count} and not named:",
        f"            [{', '.join(names)}] = args",
        f"            if {' and '.join(map(is_one.format, names)) or True}:",
        f"                return run({', '.join(map(operand.format, names))})",
        "        return otherwise(*args, **named)",
        "    return called",
    ]
    scope: dict[str, Any] = {"array": np.ndarray, "small": SMALL}
    exec(compile("\n".join(lines), __file__, "exec"), scope)  # no line of the user's
    make: Run = scope["make"]
    return make
