"""The data of a model: shared variables of PyTensor, and the sizes they have now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from graphc.ir.types import ConcreteArray
from graphc.pytensor.convert import shared_variables


@dataclass(frozen=True)
class ModelData:
    """Shared variables, in order; their values are read when they are asked for."""

    variables: tuple[Any, ...]

    @classmethod
    def of(cls, outputs: Sequence[Variable], inputs: Sequence[Variable]) -> "ModelData":
        """The data that `outputs` depend on besides `inputs`."""
        return cls(tuple(shared_variables(outputs, inputs)))

    def current_values(self) -> list[Any]:
        """The current values, not copied."""
        return [store[0] for store in self.stores]

    @property
    def stores(self) -> list[list[object]]:
        """The lists in which PyTensor keeps the values, each as the only element."""
        return [v.container.storage for v in self.variables]

    def current_copies(self) -> list[Any]:
        """Copies of the current values, independent of changes to the arrays."""
        return [np.array(v) for v in self.current_values()]

    def with_named(self, updates: Mapping[str, object]) -> list[object]:
        """The current values, except for those that `updates` gives by name."""
        pairs = zip(self.variables, self.current_values(), strict=True)
        return [
            np.asarray(updates[v.name], v.dtype) if v.name in updates else value
            for v, value in pairs
        ]


@dataclass(frozen=True)
class FixedSizes:
    """The sizes of data at some moment: shapes, and integers that may be sizes."""

    shapes: tuple[tuple[int, ...], ...]
    integers: dict[int, int]  # by the positions of variables

    @classmethod
    def of(cls, values: Sequence[Any]) -> "FixedSizes":
        """The sizes of data that have the values `values`."""
        shapes = tuple(np.shape(v) for v in values)
        return cls(shapes, {i: int(v) for i, v in enumerate(values) if _is_integer(v)})

    def fixed(self, data: ModelData, outputs: object) -> Any:
        """Return the graphs `outputs` with the integers as constants."""
        variables = data.variables
        known = {
            variables[i]: pt.constant(n, dtype=variables[i].dtype)
            for i, n in self.integers.items()
        }
        return graph_replace(outputs, known, strict=False) if known else outputs


def _is_integer(value: Any) -> bool:
    return np.shape(value) == () and np.asarray(value).dtype.kind in "iu"


def same_objects(a: Sequence[ConcreteArray], b: Sequence[ConcreteArray]) -> bool:
    """Whether two lists hold the very same objects."""
    return len(a) == len(b) and all(map(is_, a, b))


class SeenValue(NamedTuple):
    """A value of the data at some moment, with its contents if they were copied."""

    store: list[Any]
    value: Any
    array: Any  # compares with the contents
    contents: bytearray | None

    @classmethod
    def of(cls, store: list[Any], copied: bool) -> "SeenValue":
        """Record the current value, and its contents if it is `copied`."""
        value = store[0]
        if not copied or not isinstance(value, np.ndarray):
            return cls(store, value, None, None)
        array = _comparable(value)
        return cls(store, value, array, bytearray(array.tobytes()))


@dataclass(frozen=True)
class SeenData:
    """The data of a model at some moment, to notice that they have changed.

    Arrays may be changed in place, unnoticed, where PyTensor lends its own by
    `get_value(borrow=True)`. This matters to callers that hold copies.
    """

    parts: tuple[SeenValue, ...]

    @classmethod
    def of(cls, data: ModelData, copied: bool) -> "SeenData":
        """Record the current data; `copied` if the caller holds copies of them."""
        return cls(tuple(SeenValue.of(store, copied) for store in data.stores))

    @property
    def values(self) -> list[Any]:
        """The values at that moment."""
        return [part.value for part in self.parts]

    def is_unchanged(self) -> bool:
        """Whether the data are the same objects, with the same contents."""
        for store, value, array, contents in self.parts:
            # A bytearray compares with the memory of another object without copying it.
            if store[0] is not value or contents != array:
                return False
        return True


class _Strided:
    """An array that is not contiguous in memory, to be compared with bytes."""

    def __init__(self, array: ConcreteArray) -> None:
        self._array = array

    def tobytes(self) -> Any:
        """The current contents."""
        return self._array.tobytes()

    def __eq__(self, contents: object) -> bool:
        return bool(contents == self.tobytes())

    __hash__ = None  # type: ignore[assignment]


def _comparable(array: Any) -> Any:
    """Return the array for a comparison with bytes, in the order in memory."""
    if array.flags.c_contiguous:
        return array
    return array.T if array.flags.f_contiguous else _Strided(array)
