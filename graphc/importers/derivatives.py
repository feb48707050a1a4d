"""`grad` and `value_and_grad` of values of a graph, and of Python functions of JAX."""

import importlib
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from graphc.transform import gradients
from graphc.transform.gradients import Disconnected

Numbers = int | tuple[int, ...]


class Differentiated:
    """The gradient of a function written for JAX, with the value where it is wanted.

    Under `graphc.jit` the graph of the function is differentiated; called by itself,
    it is JAX's own.
    """

    def __init__(
        self, function: Callable[..., Any], argnums: Numbers, aux: bool, value: bool
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.argnums = argnums
        self.has_aux = aux
        self.with_value = value

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The result of `jax.grad` or `jax.value_and_grad` of the function."""
        jax = importlib.import_module("jax")
        how = jax.value_and_grad if self.with_value else jax.grad
        function = how(self.function, argnums=self.argnums, has_aux=self.has_aux)
        return function(*args, **named)


def grad(
    cost: Any,
    wrt: Any = None,
    *,
    disconnected: Disconnected = "raise",
    argnums: Numbers = 0,
    has_aux: bool = False,
) -> Any:
    """The gradient of a real scalar in `wrt`: a value, or a list or dict of values.

    Gives the same structure back, each value with the dtype and shape of what it is
    the gradient in. `wrt` may hold any values of the graph, not only its inputs. In a
    complex value z = x + iy it is d/dx - i d/dy, as in JAX. Raises GraphError where
    `cost` is no real scalar, where an op on the way has no gradient, and, unless
    `disconnected="zero"`, where `cost` does not depend smoothly on a value.

    Of a Python function written for JAX, without `wrt`, it is a function like
    `jax.grad(cost, argnums, has_aux)`; given to `graphc.jit`, the function's graph is
    differentiated, by the rules here.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.vector("x")
    >>> f = graphc.function([x], graphc.grad(gt.sum(x**3), x), backend="numpy")
    >>> f(np.array([1, 2], "float32"))
    array([ 3., 12.], dtype=float32)
    >>> slope = graphc.jit(graphc.grad(lambda x: (x**3).sum()))
    >>> print(slope(np.array([1, 2], "float32")))
    [ 3. 12.]
    """
    if wrt is None and callable(cost):
        return Differentiated(cost, argnums, has_aux, value=False)
    return gradients.grad(cost, wrt, disconnected=disconnected)


def value_and_grad(
    cost: Any,
    wrt: Any = None,
    *,
    disconnected: Disconnected = "raise",
    argnums: Numbers = 0,
    has_aux: bool = False,
) -> Any:
    """`(cost, grad(cost, wrt))`; of a Python function, as `jax.value_and_grad`."""
    if wrt is None and callable(cost):
        return Differentiated(cost, argnums, has_aux, value=True)
    return gradients.value_and_grad(cost, wrt, disconnected=disconnected)
