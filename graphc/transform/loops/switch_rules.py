"""The gradient rule and the batching rule of `cond` and `switch`."""

from collections.abc import Sequence
from typing import Any

from graphc.control.carries import variable_like
from graphc.control.switch import SWITCH, Branch, run_switch
from graphc.ir.graph.bodies import Body
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.replay import rebuilt
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size
from graphc.ops.common.batching import Batched, where_each, with_batch
from graphc.transform.derivatives.autodiff import pull
from graphc.transform.derivatives.vectorize import vmap


@SWITCH.vjp
def _(
    g: Value | tuple[Value | None, ...],
    index: Value,
    *values: Value,
    needed: list[bool],
    **params: Any,
) -> tuple[Value | None, ...]:
    bodies: tuple[Body, ...] = params["branches"].content
    cotangents = list(g) if isinstance(g, tuple) else [g]
    seeds = [c for c in cotangents if c is not None]
    asked = [i for i in range(len(values)) if needed[i + 1]]

    def back(body: Body) -> Branch:
        def slopes(taken: list[Value]) -> list[Value]:
            arguments, remaining = taken[: len(values)], iter(taken[len(values) :])
            of_outputs = [None if c is None else next(remaining) for c in cotangents]
            derivatives = _pull_through_body(
                body, params["sizes"], arguments, of_outputs, asked
            )
            # Sizes that one branch needs equal may differ in the others.
            pairs = zip(derivatives, asked, strict=True)
            return [F.specify_shape(d, arguments[i].type.shape) for d, i in pairs]

        return slopes

    gradients = run_switch(index, [back(body) for body in bodies], [*values, *seeds])
    result: list[Value | None] = [None] * len(values)
    for i, d in zip(asked, gradients, strict=True):
        result[i] = d
    return (None, *result)


def _pull_through_body(
    body: Body,
    size_args: Sequence[Size],
    values: Sequence[Value],
    cotangents: Sequence[Value | None],
    wrt: Sequence[int],
) -> list[Value]:
    """The cotangents of the inputs `wrt` of a body that is computed on `values`.

    The body is computed on variables of its own, so that a value that is passed for two
    inputs has a cotangent for each.
    """
    variables = {i: variable_like(values[i]) for i in wrt}
    arguments = [variables.get(i, v) for i, v in enumerate(values)]
    outputs = body.call(arguments, size_args)
    gradients = pull(outputs, cotangents, list(variables.values()))
    slopes = [d for d in gradients if d is not None]
    back = {variable: values[i] for i, variable in variables.items()}
    replayed_slopes = iter(rebuilt(slopes, back))
    pairs = zip(gradients, wrt, strict=True)
    return [
        F.zeros_like(values[i]) if d is None else next(replayed_slopes)
        for d, i in pairs
    ]


@SWITCH.batch
def _(
    n: Size, batched: Batched, index: Value, *values: Value, **params: Any
) -> tuple[Value, ...]:
    """Compute all branches where each example chooses its own."""
    bodies: tuple[Body, ...] = params["branches"].content
    sizes = params["sizes"]
    many = [with_batch(n, b, v) for b, v in zip(batched[1:], values, strict=True)]

    def mapped(body: Body) -> Branch:
        return lambda taken: list(vmap(lambda *one: body.call(one, sizes))(*taken))

    if not batched[0]:
        return tuple(run_switch(index, [mapped(body) for body in bodies], many))
    by_branch = [mapped(body)(many) for body in bodies]
    results = by_branch[-1]
    for k in range(len(bodies) - 2, -1, -1):
        chosen = index <= k
        results = [
            where_each(chosen, new, old)
            for new, old in zip(by_branch[k], results, strict=True)
        ]
    return tuple(results)
