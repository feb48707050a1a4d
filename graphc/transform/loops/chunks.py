"""Loops in chunks, so that gradients keep what is carried at the start of each only.

A chunk is a scan inside of a scan. The gradient of the outer one keeps the carry before
each of its steps, and computes a step, which is a chunk, again on the way back.
(Griewank and Walther, Evaluating Derivatives, 2nd ed., ch. 12.)
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from graphc.errors import graph_error
from graphc.ir.build import as_size, as_value, cast, size_value
from graphc.ir.dims import Size
from graphc.ir.graph import Value
from graphc.ir.namespace import F
from graphc.ir.types import INT32

Pair = tuple[list[Value], list[Value]]
Step = Callable[[list[Value], list[Value]], Pair]


class Kept(NamedTuple):
    """Before which steps a gradient keeps the carry.

    That is before each first one of a `chunk`; or a `few` of them, however many steps
    there are; else all.
    """

    chunk: Size | None = None
    few: bool = False


def kept_carries(checkpoint: Any, length: Size | None, op: str) -> Kept:
    """What a user says about them, for a loop of a length that may not be known."""
    name = checkpoint if isinstance(checkpoint, str) else ""
    if checkpoint is None or name == "all":
        return Kept()
    if name == "log":
        return Kept(few=True)
    if name == "sqrt":
        if length is None:
            problem = 'the root of the number of steps is not known: "sqrt" needs it'
            hint = 'say max_steps=, or checkpoint="log"'
            raise graph_error(problem, op=op, got=repr(checkpoint), hint=hint)
        return Kept(_root(length))
    whole = isinstance(checkpoint, int) and not isinstance(checkpoint, bool)
    if not whole or checkpoint < 1:
        raise graph_error(
            "`checkpoint` says how many steps apart what is carried is kept",
            op=op,
            got=repr(checkpoint),
            expected='a positive integer, "sqrt", "log", "all" or None',
        )
    return Kept(int(checkpoint) if checkpoint > 1 else None)


def _root(length: Size) -> Size:
    """About the square root of a length, at least 1; a divisor where one is near."""
    if isinstance(length, int):
        root = max(math.isqrt(length), 1)
        near = range(root, root // 2, -1)
        return next((k for k in near if length % k == 0), root)
    root = F.floor(F.sqrt(F.astype(size_value(length), "float64")))
    return as_size(F.astype(F.maximum(root, 1.0), "int64"), "chunk")


def in_chunks(
    step: Step,
    first: Sequence[Value],
    rows: Sequence[Value],
    length: Size,
    reverse: bool,
    *,
    chunk: Size,
    unroll: int | bool = 1,
) -> Pair:
    """The scan of a step: of whole chunks, then of the steps that are left."""
    split = _Split(length, chunk, reverse)

    def steps(carry: list[Value], part: list[Value]) -> Pair:
        found: Pair = F._run_scan(step, carry, part, chunk, reverse, unroll=unroll)
        return found

    ends, stacked = F._run_scan(steps, first, split.parts(rows), split.whole, reverse)
    if split.even:
        return ends, split.joined(stacked, None)
    ends, more = F._run_scan(step, ends, split.others(rows), split.left, reverse)
    return ends, split.joined(stacked, more)


def stopping_in_chunks(
    step: Step,
    first: Sequence[Value],
    rows: Sequence[Value],
    length: Size | None,
    *,
    chunk: Size,
    going: Value,
) -> Pair:
    """The same of a scan that stops; without a length, it has no rows.

    The first of what a step gives is whether to stop behind it, and the first that is
    returned with the stacked ones how many steps were done.
    """

    def one(carry: list[Value], row: list[Value]) -> Pair:
        after, given = step(carry[1:], row)
        return [F.logical_not(given[0]), *after], given

    def steps(carry: list[Value], part: list[Value]) -> Pair:
        done, *state = carry
        ends, (more, *given) = F._run_scan(
            one, state, part, chunk, False, going=state[0]
        )
        return [done + more, *ends], [F.logical_not(ends[0]), *given]

    start = [cast(as_value(0), INT32), going, *first]
    if length is None:
        (done, _, *ends), _ = F._run_scan(steps, start, [], None, False, going=going)
        return ends, [done]
    split = _Split(length, chunk, False)
    parts = split.parts(rows)
    ends, (_, *stacked) = F._run_scan(
        steps, start, parts, split.whole, False, going=going
    )
    done, *state = ends
    if split.even:
        return state[1:], [done, *split.joined(stacked, None)]
    others = split.others(rows)
    ends, (last, *more) = F._run_scan(
        one, state, others, split.left, False, going=state[0]
    )
    return ends[1:], [done + last, *split.joined(stacked, more)]


class _Split:
    """A number of steps as that of whole chunks, and of steps that are left."""

    def __init__(self, length: Size, chunk: Size, reverse: bool) -> None:
        self.length, self.chunk, self.reverse = length, chunk, reverse
        self.whole = length // chunk
        self.done = self.whole * chunk
        self.left = length - self.done
        self.even = isinstance(self.left, int) and self.left == 0

    def parts(self, rows: Sequence[Value]) -> list[Value]:
        """The rows of whole chunks, in these."""
        start = self.left if self.reverse else 0
        cut = [self._cut(x, start, self.done) for x in rows]
        shapes = [(self.whole, self.chunk, *x.type.shape[1:]) for x in rows]
        return [F.reshape(x, shape) for x, shape in zip(cut, shapes, strict=True)]

    def others(self, rows: Sequence[Value]) -> list[Value]:
        """The rows of the steps that are left."""
        start = 0 if self.reverse else self.done
        return [self._cut(x, start, self.left) for x in rows]

    def _cut(self, x: Value, start: Size, count: Size) -> Value:
        taken = x if count is self.length else F._part(x, 0, start, start + count)
        found: Value = F.specify_shape(taken, (count, *x.type.shape[1:]))
        return found

    def joined(
        self, stacked: Sequence[Value], more: Sequence[Value] | None
    ) -> list[Value]:
        """What chunks stack, and what the steps that are left do, in order."""
        flat = [F.reshape(x, (self.done, *x.type.shape[2:])) for x in stacked]
        if more is None:
            return flat
        order = (more, flat) if self.reverse else (flat, more)
        joined = [F.concatenate(pair) for pair in zip(*order, strict=True)]
        shapes = [(self.length, *x.type.shape[1:]) for x in joined]
        pairs = zip(joined, shapes, strict=True)
        return [F.specify_shape(x, shape) for x, shape in pairs]
