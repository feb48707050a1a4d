"""The carries that gradients keep: all, or some, from which steps are recomputed.

(Griewank and Walther, Evaluating Derivatives, 2nd ed., ch. 12.)
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from graphc.control.scan import run_scan
from graphc.errors import graph_error
from graphc.ir.graph.bodies import StepFunction, StepResult
from graphc.ir.graph.build import as_size, as_value, cast, size_value
from graphc.ir.graph.nodes import Value
from graphc.ir.integers import integer_or_none
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT32, same_size


class CheckpointPolicy(NamedTuple):
    """The steps whose carry a gradient keeps, as it is before the step.

    These are the first steps of each `chunk`, the checkpoint interval; or a `few`
    steps, however many there are; or else all. With a chunk of 1 nothing else of a step
    is kept; without a chunk, values that take longer to recompute are kept too.
    """

    chunk: Size | None = None
    few: bool = False


def policy_of(checkpoint: object, length: Size | None, op: str) -> CheckpointPolicy:
    """The policy that `checkpoint=` asks for; `length` is None if it is not known."""
    name = checkpoint if isinstance(checkpoint, str) else ""
    if checkpoint is None:
        return CheckpointPolicy()
    if name == "all":
        return CheckpointPolicy(1)
    if name == "log":
        return CheckpointPolicy(few=True)
    if name == "sqrt":
        if length is None:
            problem = 'the number of steps is not known, but "sqrt" needs its root'
            hint = 'give max_steps=, or checkpoint="log"'
            raise graph_error(problem, op=op, got=repr(checkpoint), hint=hint)
        return CheckpointPolicy(_near_root(length))
    steps = integer_or_none(checkpoint)
    if steps is None or steps < 1:
        raise graph_error(
            "`checkpoint` says how many steps apart the kept carries are",
            op=op,
            got=repr(checkpoint),
            expected='a positive integer, "sqrt", "log", "all" or None',
        )
    return CheckpointPolicy(steps)


def recomputes_steps(chunk: Size | None) -> bool:
    """Whether some carries are not kept, because the checkpoint interval exceeds 1."""
    return chunk is not None and not same_size(chunk, 1)


def _near_root(length: Size) -> Size:
    """Roughly the square root of a length, at least 1; a divisor where one is near."""
    if isinstance(length, int):
        root = max(math.isqrt(length), 1)
        lower = range(root, root // 2, -1)
        return next((k for k in lower if length % k == 0), root)
    near = F.floor(F.sqrt(F.astype(size_value(length), "float64")))
    return as_size(F.maximum(F.astype(near, "int64"), 1))


def run_until_stop(
    step: StepFunction, first: Sequence[Value], *, chunk: Size, going: Value
) -> StepResult:
    """Run a loop with early exit and no known length as a scan of scans over chunks.

    The first output of a step says whether to stop after it. The number of steps is
    returned with the carry.
    """

    def one(carry: list[Value], row: list[Value]) -> StepResult:
        after, outputs = step(carry[1:], row)
        return [F.logical_not(outputs[0]), *after], outputs[:1]

    def steps(carry: list[Value], _: list[Value]) -> StepResult:
        done, *state = carry
        ends, (more,) = run_scan(one, state, [], chunk, False, going=state[0])
        return [done + more, *ends], [F.logical_not(ends[0])]

    start = [cast(as_value(0), INT32), going, *first]
    outer = run_scan(steps, start, [], None, False, going=going, chunk=1)
    (done, _, *ends), _ = outer
    return ends, [done]
