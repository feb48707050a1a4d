"""PyMC on graphc: log densities with gradients, and samplers that run on them.

`logp_and_grad(model)` gives the log density of a model and its gradient at NumPy
vectors; `jax_density(model)` gives the same for samplers on JAX, `nutpie(model)` for
nutpie. `sample(model)` draws from the posterior by the sampler that is installed.
`pm.sample(..., compile_kwargs={"mode": "GRAPHC"})` only needs this package imported.

In: models of PyMC.
Out: functions of their free values, and draws from their posteriors.
Begin at `density`, then `sampling`.
"""

try:
    import pymc  # noqa: F401
except ImportError:
    raise ImportError(
        "graphc.pymc needs PyMC, which is not installed: pip install 'graphc[pymc]'"
    ) from None

from graphc.pymc.density import LogDensity, logp_and_grad
from graphc.pymc.on_jax import JaxDensity, jax_density
from graphc.pymc.on_nutpie import nutpie
from graphc.pymc.sampling import sample

__all__ = [
    "JaxDensity",
    "LogDensity",
    "jax_density",
    "logp_and_grad",
    "nutpie",
    "sample",
]


def __dir__() -> list[str]:
    return sorted(__all__)
