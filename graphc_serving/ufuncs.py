"""The functions of NumPy that steps of a file compute with, element by element."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc_serving.kinds import Kind


def _power(x: Any, y: Any) -> Any:
    """A power of numbers, as C has it.

    NumPy computes those of arrays by code of its own: `27 ** (1 / 3)` is less than 3.
    """
    return x[()] ** y[()]


UFUNCS: Mapping[str, Callable[..., Any]] = {
    **{
        name: function
        for name, function in vars(np).items()
        if isinstance(function, np.ufunc)
        and function.nout == 1
        and function.signature is None
    },
    "power": _power,
}


def on_numbers(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The result of a function, an array; NaN and infinities are no warnings.

    Raises ValueError where shapes do not broadcast.
    """
    with np.errstate(all="ignore"):
        return np.asarray(function(*map(np.asarray, operands)))


def result_of(name: str, operands: Sequence[Kind]) -> str:
    """The dtype that a function gives for elements of just these dtypes.

    Raises ValueError where it takes others, or another number of them.
    """
    ufunc: np.ufunc = getattr(np, name)
    dtypes = [np.dtype(kind.dtype) for kind in operands]
    if len(dtypes) != ufunc.nin:
        raise ValueError(f"{name} takes {ufunc.nin} operands")
    try:
        *taken, result = ufunc.resolve_dtypes((*dtypes, None))
    except TypeError:
        taken, result = [], dtypes[0]
    if taken != dtypes:
        names = " and ".join([kind.dtype for kind in operands])
        raise ValueError(f"{name} takes no {names}")
    if name == "power" and (any(k.rank for k in operands) or result.kind != "f"):
        raise ValueError("a power is one of two floats without axes")
    return str(result)
