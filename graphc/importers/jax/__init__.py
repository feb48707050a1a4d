"""Functions written for JAX, as graphs and as compiled programs.

In: a function for JAX: `graphc.jit`, `graphc.optimize` and `graphc.from_jax`.
Out: the function, compiled for many sizes at once, or its graph.
Begin at `jit_function`, which leads to `call`; `graphs` leads to `trace` and `read`.
`decorator`, which leads here and to `numpy`, is imported by itself.
"""

from graphc.importers.jax.graphs import from_jax
from graphc.importers.jax.jit_function import JitFunction
from graphc.importers.jax.optimization import optimize
from graphc.importers.jax.sizes.family import FallbackWarning

__all__ = ["FallbackWarning", "JitFunction", "from_jax", "optimize"]
