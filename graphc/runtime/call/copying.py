"""Calls on NumPy arrays, which are copied before JAX gets them.

XLA reads an aligned NumPy array where it lies, and may do so after the call: whoever
writes to the array then changes the results. A program must not depend on that, nor on
how an array happens to be aligned. Copying a small array takes 0.15 us, as long as any
two lines of Python, so nothing here compares shapes: JAX looks them up.
"""

from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.ir.types import DType
from graphc.runtime.call.dispatch import Run
from graphc_serving.arguments import SMALL, copy


def are_small(args: Iterable[object], dtypes: Iterable[DType]) -> bool:
    """Whether all arguments are small NumPy arrays of exactly these dtypes."""
    pairs = zip(args, dtypes, strict=True)
    return all(
        type(a) is np.ndarray and a.dtype is d and a.nbytes < SMALL for a, d in pairs
    )


def on_copies(
    run: Run, dtypes: Sequence[DType], plain: Container[type], otherwise: Run
) -> Run:
    """Return a function that calls `run` with copies of its NumPy arguments.

    At least one argument must be a NumPy array, and NumPy arrays must have the dtypes
    of their inputs. Other arguments must be of `plain` types, and are passed as they
    are. All other calls go to `otherwise`.
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
    """Return a function that calls `run` with copies of small NumPy arrays, cheaply.

    Calls with any other argument go to `otherwise`.
    """
    is_one = "type({0}) is array and {0}.dtype is d{0} and {0}.nbytes < small"
    return _unrolled(len(dtypes), is_one, "{0}.copy()")(run, dtypes, otherwise)


def on_borrowed(run: Run, dtypes: Sequence[DType], otherwise: Run) -> Run:
    """Return a function that passes arrays of these dtypes to `run` as they are.

    Calls with other arguments go to `otherwise`.
    """
    is_one = "getattr({0}, 'dtype', None) is d{0}"
    return _unrolled(len(dtypes), is_one, "{0}")(run, dtypes, otherwise)


@lru_cache(64)
def _unrolled(count: int, is_one: str, operand: str) -> Run:
    """Return a maker of functions of `count` arguments, written out without a loop.

    Such a function calls `run` with its operands if every argument passes the test
    `is_one`, and `otherwise` if not.
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
