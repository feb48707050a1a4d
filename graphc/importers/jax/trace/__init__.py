"""JAX functions, traced at sizes that are numbers or symbols.

In: a function, its arguments, and which sizes vary.
Out: its graph, with the decisions that its code took by sizes.
Begin at `tracing`, then `recorder` and `decisions`.
"""
