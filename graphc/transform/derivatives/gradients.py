"""Derivatives as users ask for them: gradients, products, Jacobians, Hessians."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from graphc.control.pytree import flatten, function_error, unflatten, weak_numbers_in
from graphc.errors import graph_error
from graphc.ir.garbage import only_young_garbage
from graphc.ir.graph.build import as_value, cast, variable
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import F
from graphc.ir.types import is_float, is_inexact
from graphc.transform.derivatives.autodiff import pull, zeros_for_missing
from graphc.transform.derivatives.checkpoint import without_waiting
from graphc.transform.derivatives.rolled_gradients import (
    pull_through_loops,
    with_gradients_of_blocks,
)
from graphc.transform.derivatives.vectorize import vmap

Disconnected = Literal["raise", "zero"]
Pull = Callable[
    [Sequence[Value], Sequence[Value | None], Sequence[Value]], list[Value | None]
]


def grad(
    cost: object, wrt: object = None, *, disconnected: Disconnected = "raise"
) -> Any:
    """The gradient of a real scalar in `wrt`: a value, or a list or dict of values.

    The result has the structure of `wrt`, and each gradient the dtype and shape of its
    value. `wrt` may hold any values of the graph, not only its inputs. In a complex
    value z = x + iy, the gradient is d/dx - i d/dy, as in JAX. Raises GraphError where
    `cost` is no real scalar, where an op on the way has no gradient, and, unless
    `disconnected="zero"`, where `cost` does not depend smoothly on a value.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.vector("x")
    >>> f = graphc.function([x], graphc.grad(gt.sum(x**3), x), backend="numpy")
    >>> f(np.array([1, 2], "float32"))
    array([ 3., 12.], dtype=float32)
    """
    require_values("grad", cost, wrt)
    return _grad(cost, wrt, disconnected, pull_through_loops)


def _grad(cost: object, wrt: object, disconnected: Disconnected, pull: Pull) -> object:
    seed = cast(as_value(1), _real_scalar(cost).dtype)
    return _pull_structure("grad", [as_value(cost)], [seed], wrt, disconnected, pull)


def value_and_grad(
    cost: object, wrt: object = None, *, disconnected: Disconnected = "raise"
) -> tuple[Value, Any]:
    """Return `(cost, grad(cost, wrt))`."""
    require_values("value_and_grad", cost, wrt)
    return as_value(cost), grad(cost, wrt, disconnected=disconnected)


def vjp(
    outputs: object,
    wrt: object = None,
    cotangents: object = None,
    *,
    disconnected: Disconnected = "raise",
) -> object:
    """The product of `cotangents` with the Jacobian of `outputs` in `wrt`.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x, v = gt.tensor("x", "float32", (2,)), gt.tensor("v", "float32", (2,))
    >>> f = graphc.function([x, v], graphc.vjp(x**2, x, v))
    >>> f(np.array([1, 2], "float32"), np.ones(2, "float32")).tolist()
    [2.0, 4.0]

    `cotangents` has the structure and shapes of `outputs`; the result has the structure
    of `wrt`. `pullback` is another name of this function.
    """
    require_values("vjp", outputs, wrt, cotangents)
    values, _ = flatten(outputs)
    seeds = _matching_values(cotangents, values, "vjp", "cotangent")
    return _pull_structure("vjp", values, seeds, wrt, disconnected, pull_through_loops)


def jvp(outputs: object, wrt: object = None, tangents: object = None) -> Any:
    """The product of the Jacobian of `outputs` in `wrt` with `tangents`.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x, v = gt.tensor("x", "float32", (2,)), gt.tensor("v", "float32", (2,))
    >>> f = graphc.function([x, v], graphc.jvp(x**2, x, v))
    >>> f(np.array([1, 2], "float32"), np.ones(2, "float32")).tolist()
    [2.0, 4.0]

    `tangents` has the structure and shapes of `wrt`; the result has the structure of
    `outputs`. It is computed as the transpose of the transpose, so that one rule per op
    serves both: the vector-Jacobian product is linear in its cotangents, and its own
    gradient in them is the product asked for (Townsend, 2017, "A new trick for
    calculating Jacobian vector products"). `pushforward` is another name of this
    function.
    """
    require_values("jvp", outputs, wrt, tangents)
    targets, like = flatten(outputs)
    targets = with_gradients_of_blocks(targets)
    values, _ = flatten(wrt)
    directions = _matching_values(tangents, values, "jvp", "tangent")
    seeds = [variable("cotangent", v.type) for v in targets]
    with without_waiting():
        pulled_back = zip(pull(targets, seeds, values), directions, strict=True)
        pairs = [(p, t) for p, t in pulled_back if p is not None]
        pushed = pull([p for p, _ in pairs], [t for _, t in pairs], seeds)
    results = zeros_for_missing(pushed, targets)
    return unflatten(like, _without_seeds(results, seeds))


pullback = vjp
pushforward = jvp


def jacobian(
    outputs: object, wrt: object = None, *, disconnected: Disconnected = "raise"
) -> Any:
    """The derivatives of every element of `outputs` in every element of `wrt`.

    For an output of shape s and a value of shape t, they have the shape (*s, *t).
    Reverse mode computes them for all elements of the output at once, which takes the
    memory of as many sweeps. Structures give, for each output, the structure of `wrt`.
    """
    require_values("jacobian", outputs, wrt)
    values, like = flatten(outputs)
    derivatives = [_jacobian_of(v, wrt, disconnected) for v in values]
    return unflatten(like, derivatives)


def _jacobian_of(output: Value, wrt: object, disconnected: Disconnected) -> object:
    if not is_inexact(output.dtype):
        raise graph_error("needs floats", op="jacobian", got=str(output.type))
    shape = output.type.shape
    n = output.type.size
    basis = F.reshape(F.eye(n, dtype=output.dtype), (n, *shape))
    written = with_gradients_of_blocks([output])

    def row(g: Value) -> object:
        return _pull_structure("jacobian", written, [g], wrt, disconnected, pull)

    rows = vmap(row)(basis)
    values, like = flatten(rows)
    return unflatten(like, [F.reshape(v, (*shape, *v.type.shape[1:])) for v in values])


def hessian(cost: object, wrt: object = None) -> Any:
    """The second derivatives of a real scalar: the Jacobian of its gradient.

    With structures, each value of `wrt` has a structure of blocks, one against each
    value.
    """
    require_values("hessian", cost, wrt)
    return jacobian(_grad(cost, wrt, "raise", pull), wrt, disconnected="zero")


def _without_seeds(results: list[Value], seeds: list[Value]) -> list[Value]:
    """Return the results, which depend on the seeds only if a rule is not linear.

    Raises GraphError in that case.
    """
    if {v.node for v in seeds}.intersection(ancestors(results)):
        raise graph_error(
            "a gradient rule of the graph is not linear in its cotangents",
            op="jvp",
            hint="correct the rule given to graphc.custom_vjp",
        )
    return results


def hvp(cost: object, wrt: object = None, vectors: object = None) -> Any:
    """The product of the Hessian of a real scalar in `wrt` with `vectors`.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x, v = gt.tensor("x", "float32", (2,)), gt.tensor("v", "float32", (2,))
    >>> f = graphc.function([x, v], graphc.hvp(gt.sum(x**3), x, v))
    >>> f(np.array([1, 2], "float32"), np.ones(2, "float32")).tolist()
    [6.0, 12.0]

    `vectors` and the result have the structure and shapes of `wrt`.
    """
    require_values("hvp", cost, wrt, vectors)
    gradient = _grad(cost, wrt, "zero", pull)
    return jvp(gradient, wrt, vectors)


def require_values(op: str, of: object, *more: object) -> None:
    """Raise GraphError for a Python function, and for missing arguments."""
    more_names = ("x", "v")[: len(more)]
    if callable(of):
        raise function_error(op, of, f"graphc.{op}({{}}, {', '.join(more_names)})")
    if any(m is None for m in more):
        usage = f"graphc.{op}(y, {', '.join(more_names)})"
        raise graph_error("an argument is missing", op=op, expected=usage)


def _real_scalar(cost: object) -> Value:
    value = as_value(cost)
    problem = hint = ""
    if value.type.rank:
        problem, hint = "the cost is not a scalar", "reduce it: gt.sum(cost)"
    elif value.dtype.kind == "c":
        problem = "the cost is complex, and its gradient is not defined"
        hint = "take gt.real(cost) or gt.abs(cost), or use graphc.vjp"
    elif not is_float(value.dtype):
        problem, hint = "the cost is not a float", 'convert it: cost.astype("float32")'
    if problem:
        raise graph_error(problem, op="grad", got=str(value.type), hint=hint)
    return value


def _matching_values(
    structure: object, values: list[Value], op: str, what: str
) -> list[Value]:
    """Return one value for each of `values`, of its dtype and shape."""
    parts = [as_value(v) for v in flatten(structure, leaf=as_value)[0]]
    if len(parts) != len(values):
        raise graph_error(f"{len(parts)} {what}s for {len(values)} values", op=op)
    converted = []
    for g, value in zip(parts, values, strict=True):
        g = cast(g, value.dtype) if g.type.weak else g
        if g.dtype != value.dtype or g.type.rank != value.type.rank:
            raise graph_error(
                f"a {what} does not have the type of its value",
                op=op,
                got=str(g.type),
                expected=str(value.type),
            )
        converted.append(F.specify_shape(g, value.type.shape))
    return converted


def _pull_structure(
    op: str,
    outputs: list[Value],
    cotangents: list[Value],
    wrt: object,
    disconnected: Disconnected,
    pull: Pull,
) -> object:
    if disconnected not in ("raise", "zero"):
        raise graph_error(
            "`disconnected` says how to treat values that the cost does not depend on",
            op=op,
            got=repr(disconnected),
            expected='"raise" or "zero"',
        )
    values, like = flatten(wrt)
    numbers = weak_numbers_in(wrt)  # as many rows of a gradient as there are
    if disconnected == "raise":
        _require_connected(op, outputs, [v for v in values if v not in numbers])
    with only_young_garbage():
        gradients = pull(outputs, cotangents, values)
    pairs = zip(gradients, values, strict=True)
    return unflatten(like, [v if v in numbers else _or_zeros(g, v) for g, v in pairs])


def _or_zeros(g: Value | None, value: Value) -> Value:
    if g is not None:
        return g
    return F.zeros(value.type.shape, value.dtype if is_inexact(value.dtype) else None)


def _require_connected(op: str, outputs: list[Value], values: list[Value]) -> None:
    smooth = _smooth_ancestors(outputs)
    for value in values:
        if value not in smooth:
            raise graph_error(
                f"the cost does not depend smoothly on {_name_of(value)}: "
                f"{_why_disconnected(outputs, value)}",
                op=op,
                got=f"{_name_of(value)}: {value.type}",
                hint='leave it out, or ask for zeros: disconnected="zero"',
            )


def _name_of(value: Value) -> str:
    return value.name or _node_text(value.node)


def _smooth_ancestors(outputs: Sequence[Value]) -> set[Value]:
    """Return the values that `outputs` depend on through inexact values alone."""
    stack = [v for v in outputs if is_inexact(v.dtype)]
    smooth = set(stack)
    while stack:
        for value in stack.pop().node.inputs:
            if is_inexact(value.dtype) and value not in smooth:
                smooth.add(value)
                stack.append(value)
    return smooth


def _why_disconnected(outputs: list[Value], value: Value) -> str:
    if not is_inexact(value.dtype):
        return f"it is {value.dtype.name}, and only floats have gradients"
    reached: set[Value] = {value}
    for node in ancestors(outputs):
        if not any(v in reached for v in node.inputs):
            continue
        if all(not is_inexact(v.dtype) for v in node.outputs):
            return f"{_node_text(node)} gives {node.outputs[0].dtype.name}"
        reached.update(node.outputs)
    return "nothing in the cost is computed from it"


def _node_text(node: Node) -> str:
    return f"{node.primitive.name} ({node.place})"
