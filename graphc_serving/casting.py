"""Arguments of other dtypes: which of them are taken, and how they are converted.

These functions are also printed into programs, so they name nothing but each other and
NumPy.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np


def described(value: object) -> tuple[str, tuple[int, ...] | None]:
    """The dtype and the shape of an argument; of no array, its type and None."""
    type_name = type(value).__name__
    if isinstance(value, (int, float, complex)) and not hasattr(value, "dtype"):
        return type_name, ()
    sizes, dtype = getattr(value, "shape", None), getattr(value, "dtype", "")
    whole = isinstance(sizes, tuple) and str(dtype)
    return (str(dtype), sizes) if whole else (type_name, None)


def misfit(value: Any, dtype: str, shape: Sequence[object]) -> tuple[str, str]:
    """The fault of an argument of these dtype and static sizes, and its kind.

    Both are "" if nothing is.
    """
    got, sizes = described(value)
    if sizes is None:
        return "is no array", "argument"
    if not fits(value, dtype):
        return "has another dtype", "dtype"
    if len(sizes) != len(shape):
        return f"has {len(sizes)} axes, not {len(shape)}", "shape"
    if any(isinstance(n, int) and n != a for n, a in zip(shape, sizes, strict=True)):
        return "has another size", "shape"
    if got == "int" and dtype.strip("uint").isdigit():
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            return f"is out of range: {value} does not fit {dtype}", "range"
    return "", ""


def remedy(value: object, dtype: str) -> str:
    """Code that makes an array of this dtype, or what to give in the argument's place.

    It never makes an array of nothing: NumPy takes None for a NaN.
    """
    kind = str(getattr(value, "dtype", ""))
    if kind.startswith("key<"):
        return "jax.random.key_data(key) gives the numbers of a key"
    if kind.startswith("complex") and not dtype.startswith("complex"):
        return f'numpy.asarray(numpy.real(value), "{dtype}") drops the imaginary part'
    if kind.startswith(("<U", ">U", "|S", "datetime64", "timedelta64")):
        return "give numbers alone: these are texts or times"
    if kind == "object":
        return "give numbers alone: these are objects of Python"
    if isinstance(value, (list, tuple)):
        lengths = [len(r) if isinstance(r, (list, tuple)) else 0 for r in value]
        if len(set(lengths)) > 1:
            first = ", ".join(map(str, lengths[:8])) + ", ..." * (len(lengths) > 8)
            return f"rows of lengths {first} are no array: make them equally long"
    if not hasattr(value, "__array__") and described(value)[1] is None:
        text = isinstance(value, (str, bytes, dict))
        if text or not hasattr(value, "__iter__"):
            return "give an array or a number"
        if not isinstance(value, (list, tuple)):
            return f'numpy.asarray(list(value), "{dtype}") makes one of its items'
    return f'numpy.asarray(value, "{dtype}") converts it, if that is meant'


def castable(value: object, dtype: str, casting: str) -> bool:
    """Whether NumPy's rules of `casting` allow the value in another dtype."""
    dtype_of_value = bool if isinstance(value, bool) else getattr(value, "dtype", None)
    if casting == "exact" or dtype_of_value is None:
        return False
    try:
        return np.can_cast(dtype_of_value, dtype, casting)  # type: ignore[arg-type]
    except TypeError:  # a dtype that NumPy has not, as of a random key
        return False


def converted(value: Any, dtype: str, casting: str) -> Any:
    """The value in another dtype where that is allowed: on the host, if not traced."""
    if fits(value, dtype) or not castable(value, dtype, casting):
        return value
    if type(value).__name__.endswith("Tracer"):
        return value.astype(dtype)
    return np.asarray(value).astype(dtype)[()]


def fits(value: object, dtype: str) -> bool:
    """Whether a value is of `dtype`, or a number of no wider kind."""
    got, sizes = described(value)
    weak = sizes == () and getattr(value, "weak_type", not hasattr(value, "dtype"))
    kinds = {"uint": 1, "int": 1, "float": 2, "bfloat": 2, "complex": 3}
    kind, widest = (kinds.get(name.rstrip("0123456789"), 0) for name in (got, dtype))
    return got == dtype or (weak and 0 < kind <= widest)
