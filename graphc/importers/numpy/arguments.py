"""Arguments of functions for NumPy: arrays and Python numbers, in NumPy's dtypes."""

from collections.abc import Callable, Sequence

import jax
import numpy as np

from graphc.errors import graph_error
from graphc.importers.jax.trace.arguments import JaxCall
from graphc.importers.jax.trace.tracing import Spec
from graphc.ir.types import DTYPES, ConcreteArray

PYTHON: dict[type, str] = {int: "int64", float: "float64", complex: "complex128"}


def specs_of(call: JaxCall, function: Callable[..., object]) -> list[Spec]:
    """The types of the leaves. Raises TypeError for a leaf that is not an array."""
    specs = [_spec(leaf) for leaf in call.leaves]
    if None not in specs:
        return specs  # type: ignore[return-value]
    at = specs.index(None)
    name = getattr(function, "__name__", "the function")
    leaf = call.leaves[at]
    what = f"of type {type(leaf).__name__}, which is neither an array nor a number"
    if hasattr(leaf, "dtype"):
        what = f"an array of dtype {leaf.dtype}, which programs do not have"
    raise TypeError(
        f"{_path(call, at)} of {name} is {what}; use static_argnums or static_argnames "
        "for an argument that stays as it is"
    )


def _spec(leaf: ConcreteArray) -> Spec | None:
    """The type of an array or a Python number; None for anything else.

    Raises GraphError for arrays of special classes.
    """
    if type(leaf) in PYTHON:
        return Spec((), np.dtype(PYTHON[type(leaf)]), True)
    _require_plain(leaf)
    dtype = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
    if getattr(dtype, "name", "") not in DTYPES:
        return None
    numpy_dtype = np.dtype(dtype)
    native = numpy_dtype if numpy_dtype.isnative else numpy_dtype.newbyteorder("=")
    return Spec(np.shape(leaf), native)


def _require_plain(leaf: object) -> None:
    """Raise GraphError for arrays of classes that may compute in their own way."""
    if not isinstance(leaf, np.ndarray) or type(leaf) in (np.ndarray, np.memmap):
        return
    name = type(leaf).__name__
    problem = f"arrays of the class {name} may compute in a way of their own"
    hint = "np.asarray(a) is a plain array"
    if isinstance(leaf, np.ma.MaskedArray):
        problem = "a masked array would lose its mask"
        hint = "np.ma.filled(a, value) is a plain array"
    raise graph_error(problem, op="jit", got=name, hint=hint)


def _path(call: JaxCall, number: int) -> str:
    """Show how a leaf is reached: `args[0]['x']`, `named['y']`."""
    paths = call.paths()
    if paths is None:
        return "a part of the arguments"
    start, *keys = paths[number]
    kind = "named" if start == jax.tree_util.SequenceKey(1) else "args"
    return kind + jax.tree_util.keystr(tuple(keys))


def arrays_of(leaves: Sequence[object], specs: Sequence[Spec]) -> list[object]:
    """The leaves of a call as arrays.

    Python numbers get the dtypes that NumPy gives them. Arrays in a different byte
    order are converted, since programs have no such arrays.
    """
    pairs = zip(leaves, specs, strict=True)
    return [
        x if getattr(x, "dtype", None) == s.dtype else np.asarray(x, s.dtype)
        for x, s in pairs
    ]
