"""Functions written for JAX, as graphs and as compiled programs."""

from graphc.importers.jax.graphs import from_jax
from graphc.importers.jax.jit_function import JitFunction, jit
from graphc.importers.jax.optimized import optimize
from graphc.importers.jax.sizes.family import FallbackWarning

__all__ = ["FallbackWarning", "JitFunction", "from_jax", "jit", "optimize"]
