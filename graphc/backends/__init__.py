"""Plans printed as the source text of one Python module each.

In: a plan.
Out: the text of a module that imports NumPy or JAX only, and the lines it stems from.
Begin at `jax` (segments and driver) or `linear` (one function), then `source`.
"""
