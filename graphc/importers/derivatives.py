"""Derivatives of values of a graph, and of Python functions written for JAX."""

import importlib
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Literal, TypeVar, overload

from graphc.importers.decorated_function import DecoratedFunction
from graphc.ir.graph.nodes import Value
from graphc.ir.tracebacks import hide_own_frames
from graphc.transform.derivatives import gradients
from graphc.transform.derivatives.gradients import Disconnected

Numbers = int | tuple[int, ...]
WrtT = TypeVar("WrtT")  # a value, or a structure of values
Derivative = Literal["grad", "value_and_grad", "jacobian", "hessian"]
_NAMES_IN_JAX = {"jacobian": "jacrev"}  # names that differ there


class Differentiated(DecoratedFunction):
    """A derivative of a function written for JAX, with respect to some arguments.

    Under `graphc.jit` the graph of the function is differentiated; called by itself, it
    is the derivative of JAX.
    """

    def __init__(
        self,
        function: Callable[..., object],
        argnums: Numbers,
        has_aux: bool,
        derivative: Derivative,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.argnums = argnums
        self.has_aux = has_aux
        self.derivative = derivative

    def _parts(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.function, (self.argnums, self.has_aux, self.derivative)

    def __call__(self, *args: object, **named: object) -> object:
        """Transform the function with JAX, and return the result of calling that."""
        jax = importlib.import_module("jax")
        how = getattr(jax, _NAMES_IN_JAX.get(self.derivative, self.derivative))
        function = how(self.function, argnums=self.argnums, has_aux=self.has_aux)
        return function(*args, **named)


def _argument_positions(
    function: object, wrt: object, argnums: Numbers
) -> Numbers | None:
    """The positions of a function's arguments, which may come second, as in JAX.

    None if `function` is none, or if `wrt` are values.
    """
    if not callable(function):
        return None
    if wrt is None:
        return argnums
    if isinstance(wrt, int):
        return wrt
    listed = wrt if isinstance(wrt, (list, tuple)) else (None,)
    positions = tuple(n for n in listed if isinstance(n, int))
    return positions if len(positions) == len(listed) else None


@overload
def grad(cost: Value, wrt: WrtT, *, disconnected: Disconnected = ...) -> WrtT: ...
@overload
def grad(
    cost: Callable[..., object],
    wrt: Numbers | None = None,
    *,
    argnums: Numbers = ...,
    has_aux: bool = ...,
) -> Callable[..., Any]: ...
@hide_own_frames
def grad(
    cost: Any,
    wrt: object = None,
    *,
    disconnected: Disconnected = "raise",
    argnums: Numbers = 0,
    has_aux: bool = False,
) -> Any:
    """The gradient of a real scalar in `wrt`: a value, or a list or dict of values.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.vector("x")
    >>> f = graphc.function([x], graphc.grad(gt.sum(x**3), x), backend="numpy")
    >>> f(np.array([1, 2], "float32"))
    array([ 3., 12.], dtype=float32)
    >>> slope = graphc.jit(graphc.grad(lambda x: (x**3).sum()))
    >>> print(slope(np.array([1, 2], "float32")))
    [ 3. 12.]

    Returns the same structure, in which each gradient has the dtype and shape of the
    value it is taken in. `wrt` may hold any values of the graph, not only its inputs.
    The gradient in a complex value z = x + iy is d/dx - i d/dy, as in JAX. Raises
    GraphError if `cost` is no real scalar, if an op on the way has no gradient, and,
    unless `disconnected="zero"`, if `cost` does not depend smoothly on a value.

    For a Python function written for JAX, returns a function like
    `jax.grad(cost, argnums, has_aux)`; passed to `graphc.jit`, the function's graph is
    differentiated, by the rules here.
    """
    numbers = _argument_positions(cost, wrt, argnums)
    if numbers is not None:
        return Differentiated(cost, numbers, has_aux, "grad")
    return gradients.grad(cost, wrt, disconnected=disconnected)


@overload
def value_and_grad(
    cost: Value, wrt: WrtT, *, disconnected: Disconnected = ...
) -> tuple[Value, WrtT]: ...
@overload
def value_and_grad(
    cost: Callable[..., object],
    wrt: Numbers | None = None,
    *,
    argnums: Numbers = ...,
    has_aux: bool = ...,
) -> Callable[..., Any]: ...
@hide_own_frames
def value_and_grad(
    cost: Any,
    wrt: object = None,
    *,
    disconnected: Disconnected = "raise",
    argnums: Numbers = 0,
    has_aux: bool = False,
) -> Any:
    """`(cost, grad(cost, wrt))`; of a Python function, like `jax.value_and_grad`.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x = gt.tensor("x", "float32", (2,))
    >>> f = graphc.function([x], graphc.value_and_grad(gt.sum(x**2), x))
    >>> value, slope = f(np.array([1, 2], "float32"))
    >>> float(value), slope.tolist()
    (5.0, [2.0, 4.0])
    """
    numbers = _argument_positions(cost, wrt, argnums)
    if numbers is not None:
        return Differentiated(cost, numbers, has_aux, "value_and_grad")
    return gradients.value_and_grad(cost, wrt, disconnected=disconnected)


@hide_own_frames
def jacobian(
    outputs: Any,
    wrt: object = None,
    *,
    disconnected: Disconnected = "raise",
    argnums: Numbers = 0,
    has_aux: bool = False,
) -> Any:
    """The derivatives of every element of `outputs` in every element of `wrt`.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x = gt.tensor("x", "float32", (2,))
    >>> f = graphc.function([x], graphc.jacobian(x**2, x))
    >>> f(np.array([1, 2], "float32")).tolist()
    [[2.0, 0.0], [0.0, 4.0]]

    The Jacobian of a value of shape s in one of shape t has the shape (*s, *t). Reverse
    mode computes it for all elements of the value at once, which takes the memory of
    one sweep times the number of elements. For structures, the result has, for each
    output, the structure of `wrt`.

    For a Python function written for JAX, it is like `jax.jacrev`.
    """
    numbers = _argument_positions(outputs, wrt, argnums)
    if numbers is not None:
        return Differentiated(outputs, numbers, has_aux, "jacobian")
    return gradients.jacobian(outputs, wrt, disconnected=disconnected)


@hide_own_frames
def hessian(
    cost: Any, wrt: object = None, *, argnums: Numbers = 0, has_aux: bool = False
) -> Any:
    """The second derivatives of a real scalar: the Jacobian of its gradient.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x = gt.tensor("x", "float32", (2,))
    >>> f = graphc.function([x], graphc.hessian(gt.sum(x**3), x))
    >>> f(np.array([1, 2], "float32")).tolist()
    [[6.0, 0.0], [0.0, 12.0]]

    For structures, the result has for each value of `wrt` a structure of blocks, one
    for each of the values.

    For a Python function written for JAX, it is like `jax.hessian`.
    """
    numbers = _argument_positions(cost, wrt, argnums)
    if numbers is not None:
        return Differentiated(cost, numbers, has_aux, "hessian")
    return gradients.hessian(cost, wrt)
