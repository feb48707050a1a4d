"""Passes from a whole graph to a whole graph, or to a plan.

In: a graph, and what is to be done about each size.
Out: gradients, batches, padded graphs, plans.
Begin at `policies`, then `derivatives`, `padding` and `planning`.
"""
