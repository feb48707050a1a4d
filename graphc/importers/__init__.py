"""Programs of other libraries, read as graphs.

In: functions of arrays, as users write them for JAX or NumPy.
Out: graphs, and compiled functions that are called as before.
Begin at `functions`, then `jax` and `numpy`.
"""
