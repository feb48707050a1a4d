"""Shardings in programs: the mesh, and where arrays lie on it.

In: a plan with sizes that are sharded.
Out: lines that define the mesh, options of `jax.jit`, helpers at the entry.
Begin at `text`, then `arrays`.
"""
