"""The data of a model: shared variables of PyTensor, and the sizes they have now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace

from graphc.pytensor.convert import shared_of


@dataclass(frozen=True)
class ModelData:
    """Shared variables, in order; their values are those of each moment."""

    variables: tuple[Any, ...]

    @classmethod
    def of(cls, outputs: Sequence[Any], inputs: Sequence[Any]) -> "ModelData":
        """The data on which outputs depend beside their inputs."""
        return cls(tuple(shared_of(outputs, inputs)))

    def now(self) -> list[Any]:
        """The values, not copied."""
        return [v.container.storage[0] for v in self.variables]

    def with_named(self, updates: Mapping[str, Any]) -> list[Any]:
        """The values of now, but for those that are given by name."""
        pairs = zip(self.variables, self.now(), strict=True)
        return [
            np.asarray(updates[v.name], v.dtype) if v.name in updates else value
            for v, value in pairs
        ]


@dataclass(frozen=True)
class FixedSizes:
    """The sizes of data at some moment: shapes, and integers that may be sizes."""

    shapes: tuple[tuple[int, ...], ...]
    integers: dict[int, int]  # by the places of variables

    @classmethod
    def of(cls, values: Sequence[Any]) -> "FixedSizes":
        """The sizes of data that have these values."""
        shapes = tuple(np.shape(v) for v in values)
        return cls(shapes, {i: int(v) for i, v in enumerate(values) if _is_integer(v)})

    def fixed(self, data: ModelData, outputs: Any) -> Any:
        """Graphs in which the integers are constants."""
        variables = data.variables
        known = {
            variables[i]: pt.constant(n, dtype=variables[i].dtype)
            for i, n in self.integers.items()
        }
        return graph_replace(outputs, known, strict=False) if known else outputs


def _is_integer(value: Any) -> bool:
    return np.shape(value) == () and np.asarray(value).dtype.kind in "iu"


def same_objects(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two lists hold the very same objects."""
    return len(a) == len(b) and all(map(is_, a, b))
