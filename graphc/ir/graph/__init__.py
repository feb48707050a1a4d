"""Values, the nodes that compute them, and primitives, which nodes apply.

In: arrays, numbers and values of a user.
Out: immutable graphs, each node interned, with its type and its guards.
Begin at `nodes`, then `op` (a primitive) and `build` (from arguments to values).
"""
