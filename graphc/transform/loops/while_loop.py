"""`while_loop`: a step, done as long as a condition holds."""

from collections.abc import Callable
from typing import Any

from graphc.errors import graph_error
from graphc.ir.build import as_size, as_value, cast
from graphc.ir.graph import Value
from graphc.ir.namespace import F, public
from graphc.ir.types import BOOL
from graphc.transform.loops.carries import as_before, parts
from graphc.transform.loops.scan import Pair, run_scan
from graphc.transform.structure import unflatten


@public()
def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Any],
    init: Any,
    max_steps: Any = None,
) -> Any:
    """`carry = body(carry)` as long as `cond(carry)` holds, as `jax.lax.while_loop`.

    The carry is a value, or a list, tuple or dict of values; its type stays. With
    `max_steps` there is a gradient: so many steps are done, of which those behind the
    end change nothing, and the call raises where they were not enough.

    >>> import graphc, graphc.tensor as gt
    >>> n = gt.scalar("n", "int64")
    >>> powers = gt.while_loop(lambda p: p < n, lambda p: 2 * p, 1)
    >>> f = graphc.function([n], powers, backend="numpy")
    >>> int(f(100))
    128
    """
    first, like = parts(init)

    def test(carry: list[Value]) -> Value:
        held = as_value(cond(unflatten(like, carry)))
        if held.type.rank:
            hint = "reduce it: gt.all(...) or gt.any(...)"
            problem = "the condition must be a scalar"
            raise graph_error(problem, op="while_loop", got=str(held.type), hint=hint)
        return cast(held, BOOL)

    def step(carry: list[Value], _: list[Value]) -> Pair:
        after = as_before(like, carry, body(unflatten(like, carry)), "while_loop")
        return after, [F.logical_not(test(after))]

    most = None if max_steps is None else as_size(max_steps, "max_steps")
    ends, _ = run_scan(step, first, [], most, False, going=test(first))
    if most is not None:
        done = F.logical_not(test(ends))
        message = f"while_loop: more than max_steps={max_steps} steps"
        # Any of them may be the one used.
        ends = [F.assert_(done, message, v) for v in ends]
    return unflatten(like, ends)
