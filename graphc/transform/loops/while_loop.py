"""`while_loop`: a step, done as long as a condition holds."""

from collections.abc import Callable, Sequence
from typing import Any

from graphc.errors import graph_error
from graphc.ir.build import as_size, as_value, cast
from graphc.ir.dims import Size
from graphc.ir.graph import Value
from graphc.ir.inner import Inner, enclosed
from graphc.ir.namespace import F, public
from graphc.ir.op import Array, Opaque, Printing, op
from graphc.ir.types import BOOL, TensorType
from graphc.ops.batching import Batched, spread
from graphc.transform.loops.carries import as_before, fresh, parts, require_kept
from graphc.transform.loops.checks import and_held, checked, held, taken_out
from graphc.transform.loops.scan import run_scan
from graphc.transform.structure import unflatten
from graphc.transform.vectorize import vmap

UNKNOWN = (
    "how often it runs is not known, so what each step needs cannot be kept; "
    "give while_loop a max_steps"
)


@op()
def _while(
    *values: Array, test: Opaque, body: Opaque, carries: int, sizes: tuple[Size, ...]
) -> tuple[TensorType, ...]:
    """The carries when `test` of them does not hold any more."""
    first = [v.type for v in values[:carries]]
    rest = [v.type for v in values[carries:]]
    made = body.content.types([*first, *rest], sizes)
    require_kept(first, made)
    return tuple(first)


def while_numpy(test: Any, body: Any, carry: Any, rest: Any) -> Any:
    """Printed into NumPy programs."""
    while test(*carry, *rest)[0]:
        carry = body(*carry, *rest)
    return tuple(carry)


def while_jax(jax: Any, test: Any, body: Any, carry: Any, rest: Any) -> Any:
    """Printed into JAX programs."""
    return jax.lax.while_loop(
        lambda carry: test(*carry, *rest)[0],
        lambda carry: body(*carry, *rest),
        tuple(carry),
    )


def _print_while(p: Printing) -> str:
    params = p.node.params
    test, body = (p.inner(params[name].content) for name in ("test", "body"))
    carries = params["carries"]
    rest = [*p.inputs[carries:], *map(p.code, params["sizes"])]
    parts = f"[{', '.join(p.inputs[:carries])}], [{', '.join(rest)}]"
    if p.xp == "jnp":
        return f"{p.helper(while_jax)}(jax, {test}, {body}, {parts})"
    return f"{p.helper(while_numpy)}({test}, {body}, {parts})"


_while.several = True
_while.on_host = False  # a loop is no matter of glue
_while.emit(_print_while)
WHILE = _while
_while.no_gradient(UNKNOWN)
_while.no_padding("how often it runs may depend on the padding")


@_while.batch
def _(n: Size, batched: Batched, *values: Value, **params: Any) -> tuple[Value, ...]:
    """Each example stops by itself: those that have stopped are kept as they are."""
    carries = params["carries"]
    test: Inner = params["test"].content
    body: Inner = params["body"].content
    many = [spread(n, b, v) for b, v in zip(batched, values, strict=True)]
    first, rest = many[:carries], many[carries:]

    def goes_on(carry: list[Value]) -> Value:
        (found,) = vmap(lambda *one: test.applied(one))(*carry, *rest)
        held: Value = found
        return held

    def step(carry: list[Value]) -> list[Value]:
        running = goes_on(carry)
        made = vmap(lambda *one: body.applied(one))(*carry, *rest)
        return [
            F.where(_behind(running, old), new, old)
            for old, new in zip(carry, made, strict=True)
        ]

    return tuple(run_while(lambda carry: F.any(goes_on(carry)), step, first))


def _behind(mask: Value, like: Value) -> Value:
    """A mask over the first axis, on the axes of `like`."""
    axes = tuple(range(1, like.type.rank))
    found: Value = F.expand_dims(mask, axes) if axes else mask
    return found


def run_while(
    test: Callable[[list[Value]], Value],
    body: Callable[[list[Value]], list[Value]],
    first: Sequence[Value],
) -> list[Value]:
    """The loop of functions of lists of values."""
    own = [fresh(v) for v in first]
    after, checks = taken_out(body(own), own)
    flags = held(len(checks))
    first, carry = [*first, *flags], [*own, *map(fresh, flags)]
    after += and_held(carry[len(own) :], checks)
    both, captured, sizes = enclosed([*after, test(own)], carry, "while_loop")
    outputs = both.outputs
    inners = {
        "test": Inner(both.inputs, outputs[-1:], both.symbols),
        "body": Inner(both.inputs, outputs[:-1], both.symbols),
    }
    node = _while.bind(
        (*first, *captured),
        {
            **{name: Opaque(name, inner) for name, inner in inners.items()},
            "carries": len(carry),
            "sizes": tuple(sizes),
        },
    )
    ends = node.outputs[: len(own)]
    return checked(ends, node.outputs[len(own) :], checks)


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

    def step(carry: list[Value]) -> list[Value]:
        return as_before(like, carry, body(unflatten(like, carry)), "while_loop")

    if max_steps is None:
        return unflatten(like, run_while(test, step, first))
    ends = _bounded(test, step, first, max_steps)
    return unflatten(like, ends)


def _bounded(
    test: Callable[[list[Value]], Value],
    step: Callable[[list[Value]], list[Value]],
    first: list[Value],
    max_steps: Any,
) -> list[Value]:
    """At most so many steps, with a gradient; too few are an error."""

    def bounded(carry: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        running = test(carry)
        after = step(carry)
        pairs = zip(carry, after, strict=True)
        return [F.where(running, new, old) for old, new in pairs], []

    count = as_size(max_steps, "max_steps")
    ends, _ = run_scan(bounded, first, [], count, False)
    done = F.logical_not(test(ends))
    message = f"while_loop: more than max_steps={max_steps} steps"
    return [F.assert_(done, message, v) for v in ends]  # any may be the one used
