"""The types that functions accept for values, sizes, indices and dtypes.

Functions convert each argument to one form on entry: see `as_value`, `as_size`,
`as_shape` and `dtype_of`. At run time each of these types is only a name, so that
`help` shows `ArrayLike` instead of a list of types.
"""

from collections.abc import Iterator, Sequence
from inspect import formatannotation
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from graphc.ir.sizes.dims import Dim
from graphc.ir.types import NDArray

NAMES = (
    "ArrayLike",
    "AxesLike",
    "DTypeLike",
    "DeclaredShape",
    "HasDLPack",
    "IndexItem",
    "IndexLike",
    "PadsLike",
    "ShapeLike",
    "SizeLike",
)

if TYPE_CHECKING:
    from graphc.ir.graph.nodes import Value
    from graphc.ir.graph.operators import Operators

    ItemT = TypeVar("ItemT", covariant=True)

    class HasArray(Protocol):
        """An array of another library that NumPy can read."""

        def __array__(self) -> NDArray: ...

    class HasDLPack(Protocol):
        """An array of another library that shares its memory by DLPack."""

        def __dlpack__(self, /, *, stream: None = ...) -> Any: ...

        def __dlpack_device__(self) -> tuple[int, int]: ...

    class StandsForValue(Protocol):
        """An object that stands for a value and can return it."""

        def __graphc_value__(self) -> Value: ...

    class Items(Protocol[ItemT]):
        """A list or a tuple: a sequence other than text."""

        def __len__(self) -> int: ...

        def __contains__(self, item: object, /) -> bool: ...

        def __iter__(self) -> Iterator[ItemT]: ...

        def __getitem__(self, index: int, /) -> ItemT: ...

    ArrayLike: TypeAlias = (
        Value
        | Operators
        | complex
        | np.generic
        | np.ndarray[Any, Any]
        | Dim
        | HasArray
        | StandsForValue
        | Items["ArrayLike"]
    )
    SizeLike: TypeAlias = Value | int | np.integer[Any] | Dim | np.ndarray[Any, Any]
    ShapeLike: TypeAlias = SizeLike | Sequence[SizeLike]
    AxesLike: TypeAlias = int | Sequence[int]
    IndexItem: TypeAlias = ArrayLike | slice[Any, Any, Any] | EllipsisType | None
    IndexLike: TypeAlias = IndexItem | tuple[object, ...]  # items of several kinds
    DeclaredShape: TypeAlias = str | SizeLike | Sequence[SizeLike | str | None] | None
    PadsLike: TypeAlias = str | SizeLike | Sequence[SizeLike | Sequence[SizeLike]]
    DTypeLike: TypeAlias = str | type[Any] | np.dtype[Any]
else:

    class _Accepted:
        """The form of an alias at run time: a name, which `help` shows."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __repr__(self) -> str:
            return self._name

        def __or__(self, other: object) -> "_Accepted":
            return _Accepted(f"{self} | {formatannotation(other)}")

        def __ror__(self, other: object) -> "_Accepted":
            return _Accepted(f"{formatannotation(other)} | {self}")

    for _name in NAMES:
        globals()[_name] = _Accepted(_name)
