"""The variables that a posterior has for each draw: free ones and functions of them."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.ir.types import ConcreteArray, NDArray
from graphc.pymc.data import FixedSizes, ModelData
from graphc.pymc.values import FreeValues
from graphc.pytensor.convert import convert
from graphc.pytensor.linker import CALLED_OFTEN, mode
from graphc.pytensor.steps import shared_function
from graphc.runtime.function import Function

if TYPE_CHECKING:
    from pymc import Model


class Expansion:
    """The variables of a model, by name, as functions of a vector of free values.

    These are the free variables as the model has them, and its `Deterministic`s. The
    data are those of the model when this is made.
    """

    def __init__(self, model: "Model") -> None:
        self._free = FreeValues(model)
        variables = [*model.free_RVs, *model.deterministics]
        self.names = [v.name for v in variables]
        outputs = self._free.of_vector(model.replace_rvs_by_values(variables))
        everything = ModelData.of(outputs, [self._free.vector])
        outputs = FixedSizes.of(everything.current_values()).fixed(everything, outputs)
        self._data = ModelData.of(outputs, [self._free.vector])
        self._values = self._data.current_copies()
        rewrite = mode().optimizer.rewrite
        self._graph = convert(outputs, [self._free.vector], rewrite)

    @cached_property
    def on_numpy(self) -> Function:
        """The function on NumPy, which needs no compilation."""
        return shared_function(self._graph, {**CALLED_OFTEN, "backend": "numpy"})

    def with_data(self, updates: Mapping[str, object]) -> list[object]:
        """The current data, except for those in `updates`."""
        return self._data.with_named(updates)

    def of(
        self, values: ConcreteArray, data: Sequence[object] | None = None
    ) -> dict[str, NDArray]:
        """The variables at one vector of free values."""
        arguments = self._values if data is None else data
        results = self.on_numpy(np.asarray(values, self._free.vector.dtype), *arguments)
        return dict(zip(self.names, map(np.asarray, results), strict=True))

    def of_draws(self, draws: NDArray) -> dict[str, NDArray]:
        """Compute the variables of all draws at once on JAX.

        The axes of `draws` are chain, draw and value.
        """
        jax = import_module("jax")
        run, data = shared_function(self._graph, {}).jax_callable, self._values
        with jax.enable_x64(True):
            dtype = self._free.vector.dtype
            wide = jax.numpy.asarray(draws).astype(dtype)
            many = jax.vmap(jax.vmap(lambda values: run(values, *data)))
            variables = jax.jit(many)(wide)
        return dict(zip(self.names, map(np.asarray, variables), strict=True))


def labels(model: "Model") -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The coordinates of a model, and the dimensions of its variables, for ArviZ."""
    lengths = model.dim_lengths
    coords = {
        name: np.arange(int(lengths[name].eval()))
        if values is None
        else _labels(values)
        for name, values in model.coords.items()
    }
    dims = {name: list(axes) for name, axes in model.named_vars_to_dims.items()}
    return coords, dims


def _labels(labels: Sequence[ConcreteArray]) -> object:
    """Make an array with one axis from labels, which may be tuples."""
    if any(isinstance(label, tuple) for label in labels):
        labelled = np.empty(len(labels), dtype=object)
        labelled[:] = labels
        return labelled
    return np.asarray(labels)
