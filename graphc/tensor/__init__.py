"""Symbolic arrays with NumPy's names: `import graphc.tensor as gt`.

Variables are made by `tensor` and its short forms; every other name is a function of
the op families, as `gt.sum` or `gt.where`, and is looked up when it is used.

In: a name of NumPy's.
Out: the function of that name, from the namespace `F`.
Begin at `tensor` below; the functions stand in `graphc/ops/`.
"""

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import graphc.ops  # noqa: F401  (the families join F when imported)
from graphc.errors import GraphError, graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import DeclaredShape, DTypeLike, SizeLike
from graphc.ir.graph.build import as_shape, check_shape, no_device, variable
from graphc.ir.graph.nodes import Value, origins
from graphc.ir.namespace import OTHER_NAMES, F, enroll_method
from graphc.ir.public_calls import getattr_of_space
from graphc.ir.sizes.dims import Size, fresh_axis
from graphc.ir.sizes.reader import parse
from graphc.ir.tracebacks import hide_own_frames
from graphc.ir.types import DTYPES, TensorType, dtype_of

newaxis = None
"""A new axis in an index, as `numpy.newaxis`."""

pi: float = 3.141592653589793
e: float = 2.718281828459045
inf: float = float("inf")
nan: float = float("nan")
__array_api_version__ = "2024.12"


@hide_own_frames
def tensor(name: str, dtype: DTypeLike, shape: DeclaredShape) -> Value:
    """Declare a variable of a dtype and a shape.

    >>> tensor("x", "float32", ("n", 3)).type
    TensorType(dtype=dtype('float32'), shape=(Dim(n), 3), weak=False)

    A size is an integer, a name ("n" is the same size everywhere), a formula in names
    ("2*n + 1"), or None for a size of its own. The shape may also be one text with a
    word for each size, as for `graphc.jit`: "n 3". An axis "b?" may be 1 at a call, and
    stretches then; an axis "n" never does.
    """
    if not isinstance(name, str):
        raise graph_error("the name of a variable must be text", got=repr(name))
    words = _words(shape) if isinstance(shape, str) else shape
    listed: Sequence[SizeLike | str | None] = (
        words if isinstance(words, (tuple, list)) else (cast("SizeLike | None", words),)
    )
    sizes = tuple(_axis(name, i, n) for i, n in enumerate(listed))
    return variable(name, TensorType(dtype_of(dtype), check_shape(sizes, "tensor")))


def _words(text: str) -> list[str]:
    """Split a text into sizes: one formula, or a word without spaces for each."""
    words = text.split()
    if len(words) < 2:
        return [] if words == ["()"] else [text]
    try:
        parse(text)
    except GraphError:
        return words
    return [text]


def _axis(name: str, axis: int, size: SizeLike | str | None) -> Size:
    if size is None:
        return fresh_axis(f"{name}_{axis}")
    if isinstance(size, str):
        return _named_size(size)
    n = as_shape(size)[0]
    if origins(n):
        raise graph_error(
            f"axis {axis} of a variable cannot have the size {n}, which is a value",
            hint='name the size, as in ("n", 3), and state the rest: gt.specify_shape',
        )
    return n


def _named_size(text: str) -> Size:
    try:
        return parse(text)
    except GraphError as error:
        hint = 'give a name or a formula in names, such as "n" or "2*n + 1"'
        raise graph_error(error.args[0], hint=hint, entry="size") from None


def _default_float() -> str:
    return config.float.name


@hide_own_frames
def scalar(name: str, dtype: DTypeLike | None = None) -> Value:
    """A variable of rank 0; the default float where no dtype is given.

    >>> import graphc.tensor as gt
    >>> gt.scalar("rate")
    <rate: float32[]>
    """
    return tensor(name, dtype or _default_float(), ())


@hide_own_frames
def vector(
    name: str, dtype: DTypeLike | None = None, shape: DeclaredShape = (None,)
) -> Value:
    """A variable of rank 1; the default float where no dtype is given.

    >>> import graphc.tensor as gt
    >>> gt.vector("x", shape=("n",))
    <x: float32[n]>
    """
    return tensor(name, dtype or _default_float(), shape)


@hide_own_frames
def matrix(
    name: str, dtype: DTypeLike | None = None, shape: DeclaredShape = (None, None)
) -> Value:
    """A variable of rank 2; the default float where no dtype is given.

    >>> import graphc.tensor as gt
    >>> gt.matrix("a", shape=("n", 3))
    <a: float32[n, 3]>
    """
    return tensor(name, dtype or _default_float(), shape)


@hide_own_frames
def tensor3(
    name: str, dtype: DTypeLike | None = None, shape: DeclaredShape = (None, None, None)
) -> Value:
    """A variable of rank 3; the default float where no dtype is given.

    >>> import graphc.tensor as gt
    >>> gt.tensor3("t", shape=("n", 2, 3))
    <t: float32[n, 2, 3]>
    """
    return tensor(name, dtype or _default_float(), shape)


@hide_own_frames
def iscalar(name: str) -> Value:
    """An integer variable of rank 0 (int64): usable as a size.

    >>> import graphc.tensor as gt
    >>> gt.arange(gt.iscalar("k"))
    <iota: int64[max(0, k)]>
    """
    return tensor(name, "int64", ())


@hide_own_frames
def ivector(name: str, shape: DeclaredShape = (None,)) -> Value:
    """An integer variable of rank 1 (int64).

    >>> import graphc.tensor as gt
    >>> gt.ivector("labels")
    <labels: int64[labels_0]>
    """
    return tensor(name, "int64", shape)


_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def _namespace(x: Value, /, *, api_version: str | None = None) -> ModuleType:
    """This module, as the namespace of values: `x.__array_namespace__()`."""
    if api_version not in (None, *_VERSIONS):
        raise graph_error(
            f"there is no version {api_version!r} of the Array API here",
            op="__array_namespace__",
            expected=", ".join(_VERSIONS),
        )
    return sys.modules[__name__]


def _to_device(x: Value, device: object, /, *, stream: object = None) -> Value:
    """Return the value itself, which is already on `x.device`, the only device."""
    no_device(device, "to_device")
    return x


enroll_method(_namespace, "__array_namespace__")
enroll_method(_to_device, "to_device")


if TYPE_CHECKING:
    from graphc.ir.functions import *  # noqa: F403
    from graphc.ir.functions.dtypes import *  # noqa: F403
else:
    from graphc.tensor import fft, linalg, nn, random, special  # noqa: F401

    _function = getattr_of_space()

    def __getattr__(name: str) -> Any:
        return DTYPES[name] if name in DTYPES else _function(name)


_VARIABLES = ("iscalar", "ivector", "matrix", "scalar", "tensor", "tensor3", "vector")
_CONSTANTS = ("e", "inf", "nan", "newaxis", "pi")
OTHER_NAMES.update((*_VARIABLES, *_CONSTANTS, *DTYPES))


def __dir__() -> list[str]:
    return sorted({*_VARIABLES, *_CONSTANTS, *DTYPES, *dir(F)})
