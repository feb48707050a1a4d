"""Functions written for JAX, as graphs and as compiled programs."""

from graphc.importers.jax.from_jax import from_jax

__all__ = ["from_jax"]
