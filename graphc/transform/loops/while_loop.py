"""`while_loop`: repeat a step as long as a condition holds."""

from collections.abc import Callable
from typing import Any, Literal

from graphc.control.carries import call_user, condition_value, flatten_numbers
from graphc.control.checkpoint_policy import CheckpointPolicy, policy_of
from graphc.control.pytree import unflatten
from graphc.control.scan import run_scan
from graphc.control.trip_count import counted_steps, steps_size
from graphc.errors import graph_error
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import as_size
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import Size
from graphc.transform.loops.scan_api import UserSteps, first_steps, run_stopping


@public()
def while_loop(
    cond: Callable[[Any], object],
    body: Callable[[Any], object],
    init: object,
    max_steps: object = None,
    collect: bool = False,
    on_exceeded: Literal["raise", "flag"] = "raise",
    checkpoint: object = None,
) -> Any:
    """Run `carry = body(carry)` while `cond(carry)` holds, like `jax.lax.while_loop`.

    >>> import graphc, graphc.tensor as gt
    >>> n = gt.scalar("n", "int64")
    >>> powers = gt.while_loop(lambda p: p < n, lambda p: 2 * p, 1)
    >>> f = graphc.function([n], powers, backend="numpy")
    >>> int(f(100))
    128
    >>> _, ys = gt.while_loop(lambda p: p < n, lambda p: (2 * p, p), 1, collect=True)
    >>> graphc.function([n], ys, backend="numpy")(20)
    array([ 1,  2,  4,  8, 16])

    The carry is a value, or a list, tuple or dict of values; its type stays the same.
    With `collect=True`, the body returns a pair `(carry, y)`, and the result is the
    last carry and the `y`s of all steps, stacked. There is a gradient, which may need
    the carry that each step started with.

    Values kept of all steps have no known size before the loop stops. They get room for
    some steps; when that is full, the loop goes on where it was, and if there are many
    steps it is compiled once more, for all of them. Where sizes are padded, there is as
    much room as earlier calls needed, and the loop runs again where that is too little.
    (Where the caller compiles, with `jit=False`, a first run counts the steps instead.)
    With `max_steps` there is room for that many, all stays within one compiled program,
    and the call raises if they were not enough. With `on_exceeded="flag"` it does not
    raise, and the result is a pair: the usual result, and whether the loop has come to
    its end.

    `checkpoint` says before which steps a gradient keeps the carry, as for `scan`. With
    "log" all stays within one program: at most 65 carries are kept, however many steps
    there are.
    """
    _check_arguments(max_steps, on_exceeded)
    most = None if max_steps is None else as_size(max_steps, "max_steps")
    remembered = policy_of(checkpoint, most, "while_loop")
    loop = _Loop(cond, body, init, collect, remembered)
    ends, stacked = loop.run(most)
    if most is None:
        return loop.results(ends, stacked)
    done = F.logical_not(loop.test(ends))
    if on_exceeded == "flag":
        return loop.results(ends, stacked), done
    message = f"while_loop: more than max_steps={max_steps} steps"
    # Assert on each value, as any of them may be the only one used.
    ends, stacked = ([F.assert_(done, message, v) for v in p] for p in (ends, stacked))
    return loop.results(ends, stacked)


def _check_arguments(max_steps: object, on_exceeded: object) -> None:
    if on_exceeded not in ("raise", "flag"):
        raise graph_error(
            "unknown choice of what to do after too many steps",
            op="while_loop",
            got=f"on_exceeded={on_exceeded!r}",
            expected="'raise' or 'flag'",
        )
    if on_exceeded == "flag" and max_steps is None:
        problem = "without a bound, there are never too many steps"
        raise graph_error(problem, op="while_loop", hint="give max_steps=")
    if isinstance(max_steps, int) and max_steps < 0:
        problem = "the number of steps is negative"
        raise graph_error(problem, op="while_loop", got=f"max_steps={max_steps}")


class _Loop(UserSteps):
    """Wraps a user's condition and body as functions of lists of values."""

    def __init__(
        self,
        cond: Callable[[Any], object],
        body: Callable[[Any], object],
        init: object,
        collect: bool,
        remembered: CheckpointPolicy,
    ) -> None:
        numbers, like = flatten_numbers(init)
        super().__init__("while_loop", body, [like], collect)
        self._cond, self._kept = cond, remembered
        self._first = self.begin(
            numbers, [], lambda carry: [self._ask_condition(carry)]
        )

    def _ask_condition(self, carry: list[Value]) -> Value:
        arguments = [unflatten(self._like, carry)]
        test = call_user(self._cond, arguments, "while_loop", "the condition")
        return condition_value(test, "while_loop")

    def test(self, carry: list[Value]) -> Value:
        """Whether the loop goes on from `carry`."""
        return self._ask_condition(self._start.seen_by_step(carry))

    def _step_and_test(self, carry: list[Value], row: list[Value]) -> StepResult:
        after, outputs = self.step(carry, row)
        return after, [F.logical_not(self.test(after)), *outputs]

    def _step_and_count(self, carry: list[Value], row: list[Value]) -> StepResult:
        after, flags = self._step_and_test(carry, row)
        return after, flags[:1]

    def run(self, most: Size | None) -> StepResult:
        """Run the loop; return the final carry and the collected outputs."""
        first = self._first
        if most is None and self._kept == CheckpointPolicy():
            length = counted_steps(first, self.test, lambda c: self.step(c, [])[0])
            if length is not None:
                return run_scan(self.step, first, [], length, False)
        going = self.test(first)
        if most is not None:
            step = self._step_and_test
            ends, stacked = run_stopping(step, first, [], most, self._kept, going)
            return ends, first_steps(stacked, most) if self._collects else []
        step = self._step_and_count
        remembered = CheckpointPolicy() if self._collects else self._kept
        ends, (steps,) = run_stopping(step, first, [], None, remembered, going)
        if not self._collects:
            return ends, []
        return self._run_counted(steps_size(steps, None))

    def _run_counted(self, length: Size) -> StepResult:
        options = self._kept._asdict()
        return run_scan(self.step, self._first, [], length, False, **options)
