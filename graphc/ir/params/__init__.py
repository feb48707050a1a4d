"""The params of nodes: which objects they may be, and numbers that must be known.

In: the annotations of a primitive, and the params that a node is built with.
Out: the same params, checked; an error where a value is used as a number.
Begin at `kinds`, then `concrete`.
"""
