"""Jaxprs read as graphs: a rule for each primitive of JAX.

In: a jaxpr, and values for its inputs.
Out: values of a graph, or an error that names what cannot be read.
Begin at `reader`, then `rules` and a family of rules, such as `elementwise`.
"""
