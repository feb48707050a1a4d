"""`vmap` and `checkpoint` of functions of values, and of arrays of JAX."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from graphc.ir.graph import Graph
from graphc.transform import checkpoint as checkpoints
from graphc.transform import vectorize


def _jax_of(arguments: Any) -> Any:
    """JAX, where arrays of its own are among the arguments, traced or not."""
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    leaves = jax.tree.leaves(arguments)
    return jax if any(isinstance(leaf, jax.Array) for leaf in leaves) else None


def vmap(
    function: Callable[..., Any] | Graph, in_axes: Any = 0, out_axes: Any = 0
) -> Callable[..., Any]:
    """`function` for each index of an axis of its arguments, all at once.

    A graph stands for the function of its inputs that gives its output, or a list of
    its outputs.

    An axis is a number, or the name of the size it has; None gives every example the
    whole argument. `in_axes` is one axis for all arguments, or a tuple or list with
    one per argument; an argument may be a list or dict of values, which share it, or
    its axes are given in the same structure. `out_axes` says where the new axis
    stands in the outputs; None where an output is the same for all examples.

    The function returned raises GraphError where the mapped axes differ in size,
    where an op cannot be batched, and where a size would differ between examples.

    Called with arrays of JAX, it is `jax.vmap` of the function.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.matrix("x")
    >>> y = graphc.vmap(lambda row: row / gt.sum(row))(x)
    >>> f = graphc.function([x], y, backend="numpy")
    >>> f(np.array([[1, 3], [2, 2]], "float32"))
    array([[0.25, 0.75],
           [0.5 , 0.5 ]], dtype=float32)
    """
    of_values = vectorize.vmap(function, in_axes, out_axes)
    if isinstance(function, Graph):
        return of_values

    @wraps(function)
    def mapped(*args: Any, **named: Any) -> Any:
        jax = _jax_of((args, named))
        if jax is None:
            return of_values(*args, **named)
        return jax.vmap(function, in_axes, out_axes)(*args, **named)

    return mapped


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose inner values are computed again where a gradient needs them.

    It trades time for memory: only the arguments, and values from outside that
    `function` uses, are kept until the backward pass. The values are the same.

    Called with arrays of JAX, it is `jax.checkpoint` of the function.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.scalar("x")
    >>> y = graphc.checkpoint(lambda x: gt.sin(gt.exp(x)))(x)
    >>> f = graphc.function([x], graphc.grad(y, x), backend="numpy")
    >>> print(round(float(f(0.0)), 6))
    0.540302
    """
    of_values = checkpoints.checkpoint(function)

    @wraps(function)
    def recomputed(*args: Any, **named: Any) -> Any:
        jax = _jax_of((args, named))
        if jax is None:
            return of_values(*args, **named)
        return jax.checkpoint(function)(*args, **named)

    return recomputed

