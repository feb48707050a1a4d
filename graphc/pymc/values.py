"""The free values of a PyMC model, as parts of one vector."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType

from graphc.errors import graph_error, shortened

if TYPE_CHECKING:
    from pymc import Model


def require_model(model: object, op: str) -> None:
    """Raise GraphError unless `model` is a model of PyMC that has free values."""
    if not isinstance(model, pymc.Model):
        hint = "with pymc.Model() as model: ..."
        got = shortened(repr(model))
        raise graph_error("needs a model of PyMC", op=op, got=got, hint=hint)
    if not model.value_vars:
        problem = "the model has no free values, so no density to follow"
        raise graph_error(problem, op=op, hint="add a variable that is not observed")


@dataclass(frozen=True)
class FreeValues:
    """The values that PyMC samples, one after the other in a vector."""

    model: Any

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the values, in order."""
        return tuple(v.name for v in self.model.value_vars)

    @cached_property
    def vector(self) -> Any:
        """The PyTensor variable that joins the values."""
        dtype = np.result_type(*[v.dtype for v in self.model.value_vars]).name
        return pt.vector("values", dtype=dtype)

    @cached_property
    def _parts(self) -> dict[object, object]:
        """The values as parts of the vector, one after the other."""
        shapes = _shapes_of(self.model)
        whole = pt.specify_shape(self.vector, sum(map(prod, shapes)))
        parts: dict[object, object] = {}
        start = 0
        for v, shape in zip(self.model.value_vars, shapes, strict=True):
            stop = start + prod(shape)
            part = whole[start:stop].reshape(shape) if shape else whole[start]
            parts[v] = part.astype(v.dtype)
            start = stop
        return parts

    def of_vector(self, outputs: object) -> Any:
        """Replace the values in graphs by parts of the vector."""
        return graph_replace(outputs, self._parts, strict=False)

    def joined(self, point: dict[str, Any]) -> Any:
        """The vector that joins the values of `point`, which has them by name."""
        return np.concatenate([np.ravel(point[name]) for name in self.names])


def discrete_names(model: "Model") -> list[str]:
    """The names of the free values that are no floats, so have no gradients."""
    return [v.name for v in model.value_vars if np.dtype(v.dtype).kind != "f"]


def _shapes_of(model: "Model") -> list[tuple[Any, ...]]:
    """The shape of each free value: integers, and sizes that follow the data."""
    shapes = [v.type.shape for v in model.value_vars]
    late = [i for i, shape in enumerate(shapes) if None in shape]
    if not late:
        return shapes
    owners = {model.rvs_to_values[rv]: rv for rv in model.free_RVs}
    sampled = [owners[model.value_vars[i]] for i in late]
    vectors = [
        _transformed_variable(rv, model.rvs_to_transforms[rv]).shape for rv in sampled
    ]
    point = model.initial_point()
    simplified = rewrite_graph(vectors, ("ShapeOpt", "canonicalize"))
    for i, shape in zip(late, simplified, strict=True):
        now = point[model.value_vars[i].name].shape
        shapes[i] = now if _is_random(shape) else _sizes(shapes[i], shape)
    return shapes


def _sizes(known: tuple[int | None, ...], shape: tuple[int, ...]) -> tuple[object, ...]:
    """The sizes in the vector `shape`, except for those that are known already."""
    return tuple(shape[i] if n is None else n for i, n in enumerate(known))


def _transformed_variable(rv: Any, transform: Any) -> Any:
    """The random variable as PyMC samples it."""
    return rv if transform is None else transform.forward(rv, *rv.owner.inputs)


def _is_random(shape: tuple[int, ...]) -> bool:
    """Whether a shape depends on draws, as far as PyTensor could find out."""
    return any(isinstance(v.type, RandomType) for v in ancestors([shape]))
