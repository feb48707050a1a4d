"""Functions written for JAX, as graphs and as compiled programs."""

from graphc.importers.jax.family import FallbackWarning
from graphc.importers.jax.from_jax import from_jax
from graphc.importers.jax.jit import JitFunction, jit

__all__ = ["FallbackWarning", "JitFunction", "from_jax", "jit"]
