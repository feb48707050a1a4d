"""Names of functions and methods of NumPy by their way with memory.

Others give new arrays, or numbers where there are no axes.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.importers.numpy.memory import copies_always
from graphc.ir.types import DType

READ_ONLY = "NumPy gives a view here that cannot be written"
REARRANGING = frozenset(  # functions and methods that give views
    [
        "transpose", "swapaxes", "moveaxis", "rollaxis", "squeeze",
        "expand_dims", "flip", "fliplr", "flipud", "rot90", "atleast_1d",
        "atleast_2d", "atleast_3d", "diagonal", "broadcast_to", "split",
        "array_split", "hsplit", "vsplit", "dsplit", "matrix_transpose",
        "permute_dims", "unstack", "sliding_window_view",
    ]
)
RESHAPING = frozenset(["reshape", "ravel"])
KEEPING = {  # functions that may give the array itself
    *("array", "astype", "asarray", "asanyarray", "ascontiguousarray"),
    *("asfortranarray", "copy"),
}
WRITING = frozenset(  # functions that write into their first array
    ["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"]
)
PARTS = frozenset(["real", "imag"])
OF_NO_AXES = frozenset(  # functions that give arrays where most give numbers
    [
        "apply_along_axis", "array", "asanyarray", "asarray", "astype", "block",
        "broadcast_to", "copy", "cov", "empty_like", "expand_dims", "full",
        "full_like", "i0", "ones_like", "pad", "piecewise", "real_if_close", "resize",
        "roll", "select", "tensordot", "tile", "unique", "unique_all",
        "unique_inverse", "where", "zeros_like",
    ]
)
FIXED = dict.fromkeys(["diagonal", "broadcast_to", "sliding_window_view"], READ_ONLY)
FIXED |= dict.fromkeys(PARTS, "parts of complex numbers are not written here")


@lru_cache(maxsize=512)
def place_of_out(function: Callable[..., object]) -> int:
    """Which argument of a function is `out` where it is not named; -1 for none."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C
        return 2 if function.__name__ == "dot" else -1
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return names.index("out") if "out" in names else -1


def taken_out(
    function: Callable[..., object],
    args: tuple[object, ...],
    options: dict[str, object],
) -> tuple[object, tuple[object, ...]]:
    """The argument `out`, and those before it; those after it join the options."""
    place = place_of_out(function)
    if not 0 <= place < len(args):
        return options.pop("out", None), args
    if len(args) > place + 1:
        names = list(inspect.signature(function).parameters)[place + 1 :]
        options.update(zip(names, args[place + 1 :], strict=False))
    return args[place], args[:place]


def may_give_itself(
    name: str, dtype: DType, args: tuple[Any, ...], options: Mapping[str, Any]
) -> bool:
    """Whether a function gives the array that it gets, if its layout allows it."""
    copies = copies_always(options.get("copy", name in ("array", "astype", "copy")))
    other = args[1] if len(args) > 1 else options.get("dtype")
    is_same = other is None or np.dtype(other) == dtype
    return is_same and not copies and not options.get("ndmin")


def gives_arguments(
    name: str, args: Sequence[object], options: Mapping[str, object]
) -> bool:
    """Whether a function gives arrays that it got, or views of them, in some cases."""
    if name == "meshgrid":
        return options.get("copy") is False
    if name in ("diff", "matrix_power"):
        count = args[1] if len(args) > 1 else options.get("n", 1)
        return count == (name == "matrix_power")
    return name in ("ix_", "histogram", "histogram_bin_edges")
