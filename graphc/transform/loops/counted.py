"""`fori_loop` and `map`: scans of the simplest kinds."""

from collections.abc import Callable
from typing import Any

from graphc.errors import graph_error
from graphc.ir.build import as_size, as_value
from graphc.ir.dims import Size, maximum
from graphc.ir.graph import Value, origins
from graphc.ir.namespace import F, public
from graphc.transform.loops.carries import as_before, parts, value_of
from graphc.transform.loops.scan import run_scan, scan
from graphc.transform.structure import unflatten


@public()
def fori_loop(
    lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any
) -> Any:
    """`carry = body(i, carry)` for i from `lower` up to `upper`, without it.

    As `jax.lax.fori_loop`; bounds are integers, integer scalars or sizes, and there
    is a gradient. One compilation serves all bounds. A gradient for which each step has
    to be kept is compiled for their number, or a capacity: see `graphc.function`.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.scalar("x")
    >>> y = gt.fori_loop(0, 3, lambda i, c: c * x, 1.0)
    >>> print(graphc.function([x], graphc.grad(y, x), backend="numpy")(2.0))
    12.0
    """
    first, like = parts(init)
    start = as_value(lower)
    length: Size | None
    length = maximum(as_size(upper, "upper") - as_size(lower, "lower"), 0)
    count = None
    if origins(length):  # a number that only the program knows, and need not print
        length, count = None, as_value(F.size_value(length))

    def step(carry: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        i, *own = carry
        after = body(i, unflatten(like, own))
        return [i + 1, *as_before(like, own, after, "fori_loop")], []

    ends, _ = run_scan(step, [value_of(start), *first], [], length, False, count=count)
    return unflatten(like, ends[1:])


@public(name="map")
def map_(f: Callable[[Any], Any], xs: Any) -> Any:
    """`f` of each element of `xs` along the first axis, one after another, stacked.

    As `jax.lax.map`; `graphc.vmap` does all at once, with more memory.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.vector("x")
    >>> f = graphc.function([x], gt.map(lambda v: v * v, x), backend="numpy")
    >>> f(np.array([1, 2, 3], "float32"))
    array([1., 4., 9.], dtype=float32)
    """
    if not callable(f):
        raise graph_error("the first argument is the function", op="map", got=repr(f))
    return scan(lambda carry, x: (carry, f(x)), [], xs)[1]
