"""custom_vjp: a user's own gradient rule for a function, as in JAX."""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from graphc.control.pytree import flatten, unflatten
from graphc.errors import check_function, graph_error, shortened
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import INPUT, as_strong_value, as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Opaque, op
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Size
from graphc.ir.types import TensorType, is_inexact
from graphc.ops.common.batching import Batched, with_batch
from graphc.ops.common.padding import first_values
from graphc.transform.derivatives.autodiff import zeros_for_missing
from graphc.transform.derivatives.vectorize import vmap

SizeTuple = tuple[Size, ...]
# Takes the arguments, the cotangents of the outputs, which arguments need a cotangent,
# and the sizes that the node holds for the rule. Returns the cotangents of the
# arguments.
Backward = Callable[
    [list[Value], list[Value], list[bool], SizeTuple], list[Value | None]
]


@op()
def _custom_vjp(
    *values: Array, count: int, rule: Opaque, sizes: tuple[Size, ...]
) -> tuple[TensorType, ...]:
    """The first `count` values, of which `rule` is the gradient in the other values.

    `sizes` are what the rule needs to know, in terms of the graph that the node is in.
    """
    return tuple(v.type for v in values[:count])


_custom_vjp.passes_on = True
_custom_vjp.emit("{values}")
_custom_vjp.selective = True


@_custom_vjp.vjp
def _(
    g: Value | tuple[Value | None, ...],
    *values: Value,
    count: int,
    rule: Opaque,
    sizes: SizeTuple,
    needed: list[bool],
) -> tuple[Value | None, ...]:
    parts = g if isinstance(g, tuple) else (g,)
    cotangents = zeros_for_missing(parts, values[:count])
    gradients = rule.content(list(values[count:]), cotangents, needed[count:], sizes)
    return (*[None] * count, *gradients)


@_custom_vjp.batch
def _(
    n: Size,
    batched: Batched,
    *values: Value,
    count: int,
    rule: Opaque,
    sizes: SizeTuple,
) -> tuple[Value, ...]:
    def many(
        arguments: list[Value],
        cotangents: list[Value],
        needed: list[bool],
        sizes: SizeTuple,
    ) -> list[Value | None]:
        def one(parts: list[Value]) -> list[Value]:
            primals, slopes = parts[: len(arguments)], parts[len(arguments) :]
            gradients = rule.content(primals, slopes, needed, sizes)
            return zeros_for_missing(gradients, primals)

        return vmap(one)([*arguments, *cotangents])

    spread_out = [with_batch(n, b, v) for b, v in zip(batched, values, strict=True)]
    outputs, arguments = spread_out[:count], spread_out[count:]
    return with_gradient_rule(outputs, arguments, many, rule.name, sizes)


_custom_vjp.padding(first_values)
_custom_vjp.for_gradients = True


class CustomVjp:
    """A function of values that has a gradient rule of its own; see `custom_vjp`."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        check_function(function, "custom_vjp")
        update_wrapper(self, function)

    def defvjp(
        self, forward: Callable[..., object], backward: Callable[..., object]
    ) -> "CustomVjp":
        """Define the gradient by a forward and a backward rule.

        `forward(*arguments)` gives `(outputs, residuals)`, where residuals are whatever
        the backward rule needs; `backward(residuals, cotangents)` gives a tuple with
        the cotangent of each argument, None for zero. It must be linear in the
        cotangents.
        """
        self._forward, self._backward = forward, backward
        return self

    def __call__(self, *args: object) -> Any:
        """Return the result of the function, which has this gradient.

        Raises GraphError where the rule is missing, or the function uses a variable
        that is no argument.
        """
        if self._forward is None:
            hint = "give one with defvjp(forward, backward)"
            raise graph_error("has no rule yet", op="custom_vjp", hint=hint)
        arguments, form = flatten(list(args), leaf=as_strong_value)
        result = self._function(*unflatten(form, arguments))
        outputs, like = flatten(result, leaf=as_strong_value)
        _require_all_arguments(outputs, arguments)
        name = getattr(self._function, "__name__", "function")
        ruled = with_gradient_rule(outputs, arguments, self._rule(form, like), name)
        return unflatten(like, list(ruled))

    def _rule(self, form: object, like: object) -> Backward:
        forward, backward = self._forward, self._backward

        def rule(
            arguments: list[Value],
            cotangents: list[Value],
            needed: list[bool],
            sizes: SizeTuple,
        ) -> list[Value | None]:
            assert forward is not None and backward is not None
            ahead = forward(*unflatten(form, arguments))
            if not isinstance(ahead, (tuple, list)) or len(ahead) != 2:
                raise graph_error(
                    "the forward rule must return a pair: outputs and residuals",
                    op="custom_vjp",
                    got=shortened(repr(ahead)),
                    hint="return outputs, residuals",
                )
            slopes = backward(ahead[1], unflatten(like, cotangents))
            return _cotangents_of_rule(slopes, form, arguments)

        return rule


def _cotangents_of_rule(
    answer: ArrayLike, form: Any, arguments: list[Value]
) -> list[Value | None]:
    """Return the cotangents of a user's rule, one per argument and of its type."""
    if not isinstance(answer, (tuple, list)) or len(answer) != len(form):
        raise graph_error(
            "the rule must return one cotangent per argument, in a tuple",
            op="custom_vjp",
            got=repr(answer),
            expected=f"{len(form)} of them, None for zero",
        )
    gradients: list[Value | None] = []
    remaining = iter(arguments)
    for part, argument in zip(answer, form, strict=True):
        its_values = [next(remaining) for _ in flatten(argument, leaf=as_value)[0]]
        values = [None] * len(its_values) if part is None else _leaves(part)
        if len(values) != len(its_values):
            raise graph_error(
                "a cotangent does not have the structure of its argument",
                op="custom_vjp",
                got=f"{len(values)} values",
                expected=f"{len(its_values)}",
            )
        for d, value in zip(values, its_values, strict=True):
            gradients.append(None if d is None else _cotangent_of_type(d, value))
    return gradients


def _leaves(part: object) -> list[object]:
    leaves: list[Any] = flatten(part, leaf=lambda v: v)[0]
    return leaves


def _cotangent_of_type(d: object, value: Value) -> Value | None:
    if not is_inexact(value.dtype):
        return None
    converted = cast(as_value(d), value.dtype)
    if converted.type.rank != value.type.rank:
        raise graph_error(
            "a cotangent does not have the shape of its argument",
            op="custom_vjp",
            got=str(converted.type),
            expected=str(value.type),
        )
    return F.specify_shape(converted, value.type.shape)


def _require_all_arguments(outputs: list[Value], arguments: list[Value]) -> None:
    """Raise GraphError for a variable from outside, which would get zero silently."""
    argument_nodes = set(ancestors(arguments))
    for node in ancestors(outputs):
        if node.primitive is INPUT and node not in argument_nodes:
            name = node.outputs[0].name
            raise graph_error(
                f"the function uses {name}, which is not one of its arguments",
                op="custom_vjp",
                hint=f"pass {name} to it, so that the rule can give its cotangent",
            )


def with_gradient_rule(
    outputs: Sequence[Value],
    arguments: Sequence[Value],
    rule: Backward,
    name: str,
    sizes: SizeTuple = (),
) -> tuple[Value, ...]:
    """Return `outputs` with a gradient in `arguments` by a rule on lists of values.

    The rule must hold no sizes of the graph: those that it needs, `sizes`, are passed
    to it.
    """
    params: dict[str, Param] = {
        "count": len(outputs),
        "rule": Opaque(name, rule),
        "sizes": sizes,
    }
    return _custom_vjp.bind((*outputs, *arguments), params).outputs


def custom_vjp(function: Callable[..., object]) -> CustomVjp:
    """Give `function` a gradient rule of its own, which `defvjp` defines.

    >>> import graphc, graphc.tensor as gt
    >>> @graphc.custom_vjp
    ... def clipped(x):  # the identity, whose gradient is kept within -1..1
    ...     return x
    >>> clipped = clipped.defvjp(
    ...     lambda x: (x, None), lambda _, g: (gt.clip(g, -1, 1),))
    >>> x = gt.scalar("x")
    >>> g = graphc.grad(clipped(x) ** 3, x)
    >>> print(graphc.function([x], g, backend="numpy")(2.0))
    1.0
    """
    return CustomVjp(function)
