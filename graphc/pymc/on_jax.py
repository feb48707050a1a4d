"""The log density of a model for samplers on JAX, such as BlackJAX and NumPyro."""

from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.types import ConcreteArray, NDArray
from graphc.pymc.posterior import Expansion
from graphc.pymc.shared_densities import density_of

if TYPE_CHECKING:
    from pymc import Model


class JaxDensity:
    """The log density as plain JAX: a function of one vector that returns a scalar.

    Its gradient is that of graphc's graph, so `jax.value_and_grad` of it is one
    program; `jax.jit` and `jax.vmap` take it too. Its data are those of the model when
    it was made, and its vector is that of `graphc.pymc.logp_and_grad`.
    """

    def __init__(self, model: "Model") -> None:
        density = density_of(model)
        self._density, self._model = density.jax_density, model
        self.names, self.initial = density.names, density.initial
        self.value_and_grad = density.jax_callable

    def __call__(self, values: ConcreteArray) -> Any:
        """The log density at a vector of free values."""
        if np.shape(values) != self.initial.shape:
            raise graph_error(
                "the free values must be one vector",
                op="jax_density",
                got=f"shape {np.shape(values)}",
                expected=f"{len(self.initial)} numbers: {', '.join(self.names)}",
                hint="density.initial is such a vector; jax.vmap takes several",
            )
        return self._density(values)

    def variables(self, draws: NDArray) -> dict[str, NDArray]:
        """The variables of the model, by name, for an array (chain, draw, value)."""
        if np.ndim(draws) != 3 or np.shape(draws)[2:] != self.initial.shape:
            raise graph_error(
                "draws have three axes: chain, draw, value",
                op="variables",
                got=f"shape {np.shape(draws)}",
                expected=f"(chains, draws, {len(self.initial)})",
            )
        return Expansion(self._model).of_draws(draws)


def jax_density(model: "Model") -> JaxDensity:
    """The log density of a PyMC model as a JAX function of a flat vector.

    density = graphc.pymc.jax_density(model)
    sampler = blackjax.nuts(density, ...)
    kernel = numpyro.infer.NUTS(potential_fn=lambda values: -density(values))

    Draws stay on the device; `density.initial` is where PyMC starts, and
    `density.variables(draws)` gives the variables of the model for draws.
    """
    return JaxDensity(model)
