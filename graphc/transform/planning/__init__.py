"""The plan: which nodes are compiled together, and what runs in between.

In: a graph with a policy for each size, and the costs of a device.
Out: segments and glue as plain data, each with its reason and its remedy.
Begin at `partition`, then `facts`, `grouping`, `plan` and `driver`.
"""
