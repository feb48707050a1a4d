"""`fori_loop` and `map`: the simplest kinds of scans."""

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.control.carries import (
    call_user,
    carry_as_before,
    flatten_numbers,
    flatten_values,
    values_after_step,
)
from graphc.control.checkpoint_policy import policy_of, recomputes_steps
from graphc.control.pytree import unflatten
from graphc.control.scan import run_scan
from graphc.control.weak_carries import settle_types
from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import as_size, as_value, cast, set_lower_bound
from graphc.ir.graph.nodes import Value, origins
from graphc.ir.integers import as_integer
from graphc.ir.namespace import F, public
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Size, bounds, maximum
from graphc.ops.common.batching import Batched
from graphc.ops.effects.host_calls import HOST_CALL
from graphc.transform.derivatives.vectorize import vmap
from graphc.transform.loops.checkpointing.nesting import run_in_chunks
from graphc.transform.loops.scan_api import length_of, scan


@public()
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body: Callable[[Any, Any], object],
    init: object,
    checkpoint: object = None,
) -> Any:
    """Run `carry = body(i, carry)` for i from `lower` up to but excluding `upper`.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.scalar("x")
    >>> y = gt.fori_loop(0, 3, lambda i, c: c * x, 1.0)
    >>> print(graphc.function([x], graphc.grad(y, x), backend="numpy")(2.0))
    12.0

    Like `jax.lax.fori_loop`, with bounds that are integers, integer scalars or sizes,
    and with a gradient. One compilation serves all bounds. Only a gradient that must
    keep each step is compiled for the number of steps, or for a capacity: see
    `graphc.function`. `checkpoint` says which steps the gradient keeps, as for `scan`.
    """
    numbers, like = flatten_numbers(init)
    length: Size | None
    length = maximum(as_size(upper, "upper") - as_size(lower, "lower"), 0)
    remembered = policy_of(checkpoint, length, "fori_loop")
    count: Value | None = None
    # A length computed from integers can stay a value: no size has to be known for it.
    is_one_scan = not recomputes_steps(remembered.chunk)
    if is_one_scan and origins(length):
        count, length = as_value(F.size_value(length)), None

    def ask_body(i: Value, carry: list[Value]) -> object:
        return call_user(body, [i, unflatten(like, carry)], "fori_loop")

    def trial(carry: list[Value]) -> StepResult:
        i, *carries = carry
        return [i + 1, *values_after_step(like, ask_body(i, carries), "fori_loop")], []

    def step(carry: list[Value], _: list[Value]) -> StepResult:
        set_lower_bound(carry[0], least)
        i, *carries = start.seen_by_step(carry)
        results = ask_body(i, carries)
        carries_after = carry_as_before(like, carry[1:], results, "fori_loop")
        return [carry[0] + 1, *carries_after], []

    start = settle_types([_first_counter(lower, upper), *numbers], trial)
    carry = start.carries
    least = bounds(as_size(lower))[0]
    if is_one_scan:
        options = remembered._asdict()
        ends, _ = run_scan(step, carry, [], length, False, count=count, **options)
    else:
        assert length is not None and remembered.chunk is not None
        ends, _ = run_in_chunks(step, carry, [], length, remembered.chunk)
    return unflatten(like, start.final_carries(ends)[1:])


def _first_counter(lower: ArrayLike, upper: ArrayLike) -> Value:
    """`lower`, in a dtype that counts up to `upper`."""
    first, end, most = as_value(lower), as_value(upper), bounds(as_size(upper))[1]
    if first.type.weak:
        return first
    is_narrow = first.dtype.itemsize < 4
    if most is None and (is_narrow or not end.type.weak):
        most = np.iinfo(end.dtype).max
    longest = np.iinfo(np.int64).max
    if most is None or min(most, longest) <= np.iinfo(first.dtype).max:
        return first
    dtype = np.promote_types(first.dtype, end.dtype)
    return cast(first, dtype if dtype.kind in "iu" else np.dtype("int64"))


@public(name="map")
def map_(f: Callable[[Any], object], xs: object, batch_size: int | None = None) -> Any:
    """Apply `f` to the elements along axis 0 of `xs` one by one, and stack the results.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.vector("x")
    >>> f = graphc.function([x], gt.map(lambda v: v * v, x), backend="numpy")
    >>> f(np.array([1, 2, 3], "float32"))
    array([1., 4., 9.], dtype=float32)

    Like `jax.lax.map`; `graphc.vmap` does all elements at once, with more memory. With
    `batch_size`, that many elements are done at a time, and the remaining ones at the
    end.
    """
    if not callable(f):
        problem = "the first argument must be a function"
        raise graph_error(problem, op="map", got=repr(f))
    if batch_size is None:
        return scan(lambda carry, x: (carry, _ask_function(f, x)), [], xs)[1]
    size = as_integer(batch_size, "the size of a batch must be an integer", "map")
    if size < 1:
        got = f"batch_size={size}"
        raise graph_error("a batch must have at least one element", op="map", got=got)
    return _map_in_batches(f, xs, size)


def _ask_function(f: Callable[..., object], x: Value) -> object:
    return call_user(f, [x], "map", "the function")


def _map_in_batches(f: Callable[..., object], xs: object, size: int) -> object:
    rows, form = flatten_values(xs)
    length = length_of(rows, None, "map")
    forms: list[Any] = []

    def one(*row: Value) -> list[Value]:
        outputs, like = flatten_values(_ask_function(f, unflatten(form, list(row))))
        forms.append(like)
        return outputs

    def step(_: list[Value], batches: list[Value]) -> StepResult:
        return [], list(vmap(one)(*batches))

    count = length // size
    done = count * size
    firsts = [
        F.reshape(F._part(v, 0, 0, done), (count, size, *v.type.shape[1:]))
        for v in rows
    ]
    _, stacked = run_scan(step, [], firsts, count, False)
    whole = [F.reshape(v, (done, *v.type.shape[2:])) for v in stacked]
    last = vmap(one)(*[F._part(v, 0, done, length) for v in rows])
    pairs = zip(whole, last, strict=True)
    joined = [
        F.specify_shape(F.concatenate([a, b]), (length, *a.type.shape[1:]))
        for a, b in pairs
    ]
    return unflatten(forms[0], joined)


@HOST_CALL.batch
def _(n: Size, batched: Batched, *values: Value, **params: Param) -> tuple[Value, ...]:
    """Call the function once per example, one call after another."""

    def one(rows: list[Value]) -> list[Value]:
        remaining = iter(rows)
        pairs = zip(values, batched, strict=True)
        arguments = tuple(next(remaining) if each else v for v, each in pairs)
        return list(HOST_CALL.bind(arguments, params).outputs)

    many = [v for v, each in zip(values, batched, strict=True) if each]
    return tuple(map_(one, many))
