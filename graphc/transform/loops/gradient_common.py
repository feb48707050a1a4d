"""The common part of the gradient rules of loops and branches."""

from collections.abc import Sequence

from graphc.control.carries import variable_like
from graphc.ir.graph.bodies import Body
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.replay import rebuilt
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size
from graphc.transform.derivatives.autodiff import pull


def pull_through_body(
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
