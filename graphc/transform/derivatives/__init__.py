"""Gradients, and functions of many examples at once.

In: values, and the inputs that they depend on.
Out: further values of the same graph: products, Jacobians, batched results.
Begin at `autodiff` (reverse mode), then `gradients` and `vectorize`.
"""
