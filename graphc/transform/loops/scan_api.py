"""`gt.scan`: steps over structures of values, with early exit and checkpoints."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from graphc.control.carries import (
    call_user,
    carry_and_output,
    carry_as_before,
    condition_value,
    flatten_numbers,
    flatten_values,
    values_after_step,
)
from graphc.control.checkpoint_policy import (
    CheckpointPolicy,
    policy_of,
    recomputes_steps,
    run_until_stop,
)
from graphc.control.pytree import unflatten
from graphc.control.scan import row_variable, run_scan
from graphc.control.trip_count import steps_size
from graphc.control.weak_carries import FirstCarry, settle_types
from graphc.errors import graph_error, shortened
from graphc.ir.graph.bodies import StepFunction, StepResult
from graphc.ir.graph.build import as_size, as_value
from graphc.ir.graph.nodes import Value
from graphc.ir.integers import integer_or_none
from graphc.ir.namespace import F, public, user_op
from graphc.ir.sizes.dims import Size, equal

IsLast = Callable[[list[Value], list[Value]], Value]  # whether a step was the last


@public()
def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    init: object,
    xs: object = None,
    length: object = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    until: Callable[[Any, Any], object] | None = None,
    checkpoint: object = None,
) -> tuple[Any, Any]:
    """Run `carry, y = body(carry, x)` for each element of `xs`, like `jax.lax.scan`.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.vector("x")
    >>> total, sums = gt.scan(lambda c, v: (c + v, c + v), 0.0, x)
    >>> f = graphc.function([x], [total, sums], backend="numpy")
    >>> f(np.array([1, 2, 4], "float32"))
    [array(7., dtype=float32), array([1., 3., 7.], dtype=float32)]
    >>> _, few = gt.scan(lambda c, v: (c + v, c + v), 0.0, x, until=lambda c, y: c > 2)
    >>> graphc.function([x], few, backend="numpy")(np.array([1, 2, 4], "float32"))
    array([1., 3.], dtype=float32)

    `init`, `xs` and the results of the body are values, or lists, tuples and dicts of
    values. Returns the last carry and the `y`s stacked along a first axis. Without
    `xs`, `length` gives the number of steps. Values that do not change between steps
    are computed once. A Python number in `init` takes the dtype that a step makes of
    it, for which the body is traced once more. `unroll` is for JAX: that many steps are
    done in one iteration of its loop.

    With `until(carry, y)`, the step after which it holds is the last, as in Aesara:
    there are as many `y`s as steps, a number that depends on data like the size of `x[x
    > 0]`.

    A gradient keeps the carry before each step, or what a step reads of the carry, and
    values that take longer to recompute. `checkpoint=k` keeps only the carry before
    every k-th step, from which k steps are recomputed. "sqrt" takes the root of the
    length for k, "all" takes 1; "log" keeps at most 65 carries, at the cost of one or
    two more runs.

    Where a size within the body differs from step to step, like that of `x[x > c]`, the
    loop runs in Python, over compiled segments. Raises GraphError where a step changes
    the type of the carry or of its outputs, and where sequences have different lengths.
    """
    _check_arguments(body, reverse)
    numbers, like = flatten_numbers(init)
    rows, form = flatten_values(xs)
    count = length_of(rows, length, user_op("scan"))
    steps = UserSteps("scan", body, (like, form))
    first = steps.begin(numbers, rows)
    remembered = policy_of(checkpoint, count, "scan")
    last = partial(steps.last, until) if until else None
    loop = _loop_function(last, remembered, _checked_unroll(unroll))
    return steps.results(*loop(steps.step, first, rows, count, reverse))


def _check_arguments(body: object, reverse: object) -> None:
    if not callable(body):
        problem = "the first argument must be the body, a function"
        hint = "gt.scan(body, init, xs), as jax.lax.scan"
        raise graph_error(problem, op="scan", got=shortened(repr(body)), hint=hint)
    if not isinstance(reverse, bool):
        got = f"reverse={reverse!r}"
        raise graph_error("reverse must be True or False", op="scan", got=got)


class UserSteps:
    """Wraps the body of a user's loop as a step on lists of values.

    `forms` are the structures of the body's arguments: a carry, and a row of sequences
    if there are any. If outputs are collected, the body returns them beside the next
    carry.
    """

    def __init__(
        self,
        op: str,
        body: Callable[..., object],
        forms: Sequence[object],
        collects: bool = True,
    ) -> None:
        self._op, self._body, self._collects = op, body, collects
        self._forms, self._like = forms, forms[0]
        self._start = FirstCarry([], [], [])
        self._outputs: object = None  # the structure of what is stacked

    def begin(
        self,
        numbers: list[Value],
        rows: list[Value],
        more_outputs: Callable[[list[Value]], list[Value]] = lambda carry: [],
    ) -> list[Value]:
        """Find the carry before the first step, by a trial step on `numbers`.

        `more_outputs` gives what else each step computes from a carry.
        """

        def trial(carry: list[Value]) -> StepResult:
            carry_after, outputs = self._ask_body(carry, list(map(row_variable, rows)))
            carries = values_after_step(self._like, carry_after, self._op)
            return carries, [*more_outputs(carry), *outputs]

        self._start = settle_types(numbers, trial)
        return self._start.carries

    def _ask_body(
        self, carry: list[Value], row: list[Value]
    ) -> tuple[object, list[Value]]:
        arguments = list(map(unflatten, self._forms, (carry, row)))
        carry_after, outputs = call_user(self._body, arguments, self._op), list[Value]()
        if self._collects:
            carry_after, y = carry_and_output(carry_after, self._op)
            outputs, self._outputs = flatten_values(y)
        return carry_after, outputs

    def step(self, carry: list[Value], row: list[Value]) -> StepResult:
        """Compute the next carry, and the outputs to stack."""
        carry_after, outputs = self._ask_body(self._start.seen_by_step(carry), row)
        return carry_as_before(self._like, carry, carry_after, self._op), outputs

    def last(self, until: object, after: list[Value], outputs: list[Value]) -> Value:
        """Whether a step is the last one."""
        carry = self._start.seen_by_step(after)
        arguments = [unflatten(self._like, carry), unflatten(self._outputs, outputs)]
        test = call_user(until, arguments, self._op, "`until`")
        return condition_value(test, self._op)

    def results(self, ends: list[Value], stacked: list[Value]) -> Any:
        """Rebuild the last carry and the collected outputs in the user's structures."""
        carry = unflatten(self._like, self._start.final_carries(ends))
        return (carry, unflatten(self._outputs, stacked)) if self._collects else carry


def _loop_function(
    last: IsLast | None, remembered: CheckpointPolicy, unroll: int | bool
) -> Callable[..., StepResult]:
    """Choose the function that runs the steps: all of them, or up to the last one."""
    if last is not None:
        return partial(_run_until, last, remembered)
    return partial(run_scan, unroll=unroll, **remembered._asdict())


def run_stopping(
    step: StepFunction,
    first: Sequence[Value],
    rows: Sequence[Value],
    length: Size | None,
    remembered: CheckpointPolicy,
    going: Value,
) -> StepResult:
    """Run a forward scan with early exit; a gradient keeps carries as `remembered`."""
    chunk = remembered.chunk
    if chunk is not None and recomputes_steps(chunk) and length is None:
        return run_until_stop(step, first, chunk=chunk, going=going)
    options = remembered._asdict()
    return run_scan(step, first, rows, length, False, going=going, **options)


def _run_until(
    last: IsLast,
    remembered: CheckpointPolicy,
    step: StepFunction,
    first: Sequence[Value],
    rows: Sequence[Value],
    length: Size,
    reverse: bool,
) -> StepResult:
    """Scan with `step` up to the first step after which `last` holds."""

    def stopping(carry: list[Value], row: list[Value]) -> StepResult:
        after, outputs = step(carry, row)
        return after, [last(after, outputs), *outputs]

    rows = [F.flip(v, 0) for v in rows] if reverse else rows
    going = as_value(True)
    ends, stacked = run_stopping(stopping, first, rows, length, remembered, going)
    done = first_steps(stacked, length)
    return ends, [F.flip(v, 0) for v in done] if reverse else done


def first_steps(stacked: Sequence[Value], most: Size) -> list[Value]:
    """Cut the ys of a scan with early exit to the steps that ran."""
    steps, *outputs = stacked
    size = steps_size(steps, most)
    return [F._part(v, 0, 0, size) for v in outputs]


def _checked_unroll(unroll: object) -> int | bool:
    if isinstance(unroll, bool):
        return unroll
    steps = integer_or_none(unroll)
    if steps is not None and steps > 0:
        return steps
    problem = "unroll must be a positive number of steps, or True for all"
    raise graph_error(problem, op="scan", got=repr(unroll))


def length_of(rows: Sequence[Value], length: object, op: str) -> Size:
    """The number of steps over sequences, or the given `length`."""
    for value in rows:
        if not value.type.rank:
            raise graph_error("a sequence needs an axis", op=op, got=str(value.type))
    if length is not None:
        count = as_size(length, "the length")
        if isinstance(count, int) and count < 0:
            raise graph_error("the length is negative", op=op, got=str(count))
        return count
    if not rows:
        raise graph_error("needs sequences, or a length", op=op)
    lengths = [v.type.shape[0] for v in rows]
    for n in lengths[1:]:
        if equal(n, lengths[0]) is False:
            got = ", ".join(str(v.type) for v in rows)
            raise graph_error("sequences have different lengths", op=op, got=got)
    return lengths[0]
