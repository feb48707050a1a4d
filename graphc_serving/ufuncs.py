"""The functions of NumPy that steps of a file compute with, element by element."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graphc_serving.kinds import FLOATS, Kind, NDArray

Computes = Callable[..., object]  # from arrays of NumPy
MOST_BITS = 64


def _power(x: NDArray, y: NDArray) -> object:
    """Compute a power of floats as C does, or a power of Python integers.

    NumPy computes powers of arrays by code of its own: `27 ** (1 / 3)` is less than 3.
    """
    if x.dtype.kind == "f":
        return x[()] ** y[()]
    base, exponent = int(x), int(y)
    if abs(base) <= 1:
        exponent = min(exponent, 2 + exponent % 2)  # as even or odd as before
    return _of_64_bits(pow, base, exponent)


def _shift(x: NDArray, bits: NDArray) -> np.int64:
    """Shift a Python integer left by `bits`."""
    return _of_64_bits(lambda base, exponent: base << exponent, int(x), int(bits))


def _of_64_bits(
    computes: Callable[[int, int], int | float], base: int, exponent: int
) -> np.int64:
    """Compute an integer; raise ValueError where it has more bits."""
    result = computes(base, exponent) if 0 <= exponent <= MOST_BITS else 2**MOST_BITS
    if not -(2**63) <= result < 2**63:
        raise ValueError(f"{base} and {exponent} give an integer of over 64 bits")
    return np.int64(result)


UFUNCS: Mapping[str, Computes] = {
    **{
        name: function
        for name, function in vars(np).items()
        if isinstance(function, np.ufunc)
        and function.nout == 1
        and function.signature is None
    },
    "power": _power,
    "shift": _shift,
}
OF_NUMBERS = {
    "power": (np.power, (*FLOATS, "int64")),
    "shift": (np.left_shift, ("int64",)),
}


def on_numbers(function: Computes, operands: Sequence[object]) -> NDArray:
    """Apply a function, without warnings for NaN and infinities; return an array.

    Raises ValueError where shapes do not broadcast.
    """
    with np.errstate(all="ignore"):
        return np.asarray(function(*map(np.asarray, operands)))


def result_of(name: str, operands: Sequence[Kind]) -> str:
    """The dtype that a function gives for elements of exactly these dtypes.

    Raises ValueError where the function takes other dtypes, or another number of
    operands.
    """
    ufunc, of_numbers = OF_NUMBERS.get(name) or (getattr(np, name), ())
    dtypes = [np.dtype(kind.dtype) for kind in operands]
    if len(dtypes) != ufunc.nin:
        raise ValueError(f"{name} takes {ufunc.nin} operands")
    try:
        *taken, result = ufunc.resolve_dtypes((*dtypes, None))
    except TypeError:
        taken, result = [], dtypes[0]
    if taken != dtypes:
        names = " and ".join([kind.dtype for kind in operands])
        raise ValueError(f"{name} does not take {names}")
    has_axes = any(kind.rank for kind in operands)
    if of_numbers and (has_axes or result.name not in of_numbers):
        raise ValueError(f"{name} takes numbers alone, of {' or '.join(of_numbers)}")
    return str(result)
