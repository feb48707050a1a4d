"""NumPy as its newest version is, for expected values.

Older versions lack some functions, or have bugs that were fixed since. With the newest
one, everything here is NumPy's own.
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

IS_OLD = np.lib.NumpyVersion(np.__version__) < "2.4.0"


class Newest:
    """A namespace of NumPy in which some functions replace older ones."""

    def __init__(self, module: ModuleType, put_right: Mapping[str, Any]) -> None:
        self._module, self._put_right = module, put_right if IS_OLD else {}

    def __getattr__(self, name: str) -> Any:
        if name in self._put_right:
            return self._put_right[name]
        return getattr(self._module, name)


def _cumulative(running: Callable[..., Any], start: int) -> Callable[..., Any]:
    def function(x, axis=None, dtype=None, include_initial=False):
        at = 0 if axis is None else axis
        result = running(x, at, dtype)
        if not include_initial:
            return result
        first = np.full_like(result.take([0], at), start)
        return np.concatenate([first, result], at)

    return function


def _unstack(x, axis=0):
    return tuple(np.moveaxis(np.asarray(x), axis, 0))


def _matvec(x, y):
    return np.squeeze(x @ y[..., None], -1)


def _vecmat(x, y):
    return np.squeeze(np.conj(x)[..., None, :] @ y, -2)


def _pad(x, pad_width, *args, **options):
    """Widths may be a dict by axis."""
    if isinstance(pad_width, dict):
        widths = [(0, 0)] * np.ndim(x)
        for axis, width in pad_width.items():
            widths[axis] = (width, width) if isinstance(width, int) else width
        pad_width = widths
    return np.pad(x, pad_width, *args, **options)


def _insert(x, places, values, axis=None):
    """Bools are a mask; older versions took them for 0 and 1."""
    if np.asarray(places).dtype == bool:
        places = np.flatnonzero(places)
    return np.insert(x, places, values, axis)


def _nonzero(x):
    """Arrays without axes are refused; older versions only deprecate them."""
    if np.ndim(x) == 0:
        raise ValueError("nonzero of an array without axes")
    return np.nonzero(x)


def _size(x, axis=None):
    """The axis may be several axes."""
    if isinstance(axis, (list, tuple)):
        return int(np.prod([np.size(x, one) for one in axis]))
    return np.size(x, axis)


def _sinc(x):
    """Older versions give NaN at 0 in float16, which lacks so small a number."""
    array = np.asarray(x)
    if array.dtype != "float16":
        return np.sinc(array)
    return np.sinc(array.astype("float32")).astype("float16")


def _of_nothing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The norm of no elements is 0, like that of one 0; older versions refuse it."""

    def norm(x, *args, **options):
        try:
            return function(x, *args, **options)
        except ValueError as error:
            if "reduction operation maximum" not in str(error):
                raise
        widths = [(0, int(n == 0)) for n in np.shape(x)]
        return function(np.pad(x, widths), *args, **options)

    return norm


_NORMS = "cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"
_LINALG = {name: _of_nothing(getattr(np.linalg, name)) for name in _NORMS}
numpy = Newest(
    np,
    {
        "cumulative_prod": _cumulative(np.cumprod, 1),
        "cumulative_sum": _cumulative(np.cumsum, 0),
        "insert": _insert,
        "linalg": Newest(np.linalg, _LINALG),
        "matvec": _matvec,
        "nonzero": _nonzero,
        "pad": _pad,
        "sinc": _sinc,
        "size": _size,
        "unstack": _unstack,
        "vecmat": _vecmat,
    },
)
