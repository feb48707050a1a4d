"""What the gradient rules of loops and branches share."""

from collections.abc import Sequence

from graphc.control.carries import fresh
from graphc.ir.graph import Value
from graphc.ir.inner import Inner
from graphc.ir.namespace import F
from graphc.ir.replay import region_between, replayed
from graphc.transform.autodiff import pull


def pulled(
    inner: Inner,
    values: Sequence[Value],
    cotangents: Sequence[Value | None],
    wrt: Sequence[int],
) -> list[Value]:
    """The cotangents of some inputs of a body, which is computed of `values`.

    The body is computed on variables of its own, so that a value that stands for two
    inputs has a cotangent for each.
    """
    own = {i: fresh(values[i]) for i in wrt}
    outputs = inner.applied([own.get(i, v) for i, v in enumerate(values)])
    found = pull(outputs, cotangents, list(own.values()))
    given = [d for d in found if d is not None]
    region = region_between(given, list(own.values()))
    back = {variable: values[i] for i, variable in own.items()}
    made = iter(replayed(given, back, region))
    pairs = zip(found, wrt, strict=True)
    return [F.zeros_like(values[i]) if d is None else next(made) for d, i in pairs]
