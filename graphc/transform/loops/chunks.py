"""Loops in chunks, so that gradients keep what is carried at the start of each only.

A chunk is a scan inside of a scan. The gradient of the outer one keeps the carry before
each of its steps, and computes a step, which is a chunk, again on the way back.
(Griewank and Walther, Evaluating Derivatives, 2nd ed., ch. 12.)
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from graphc.errors import graph_error
from graphc.ir.build import as_size, size_value
from graphc.ir.dims import Size
from graphc.ir.graph import Value
from graphc.ir.namespace import F

Pair = tuple[list[Value], list[Value]]
Step = Callable[[list[Value], list[Value]], Pair]


def chunk_length(checkpoint: Any, length: Size, op: str) -> Size | None:
    """The steps from one checkpoint to the next; None where each step has one."""
    if checkpoint is None or (isinstance(checkpoint, str) and checkpoint == "all"):
        return None
    if isinstance(checkpoint, str) and checkpoint == "sqrt":
        return _root(length)
    whole = isinstance(checkpoint, int) and not isinstance(checkpoint, bool)
    if not whole or checkpoint < 1:
        raise graph_error(
            "`checkpoint` says how many steps apart what is carried is kept",
            op=op,
            got=repr(checkpoint),
            expected='a positive integer, "sqrt", "all" or None',
        )
    return int(checkpoint) if checkpoint > 1 else None


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
    whole = length // chunk
    done = whole * chunk
    left = length - done
    start = left if reverse else 0

    def steps(carry: list[Value], part: list[Value]) -> Pair:
        found: Pair = F._run_scan(step, carry, part, chunk, reverse, unroll=unroll)
        return found

    def cut(x: Value, start: Size, count: Size) -> Value:
        taken = x if count is length else F._part(x, 0, start, start + count)
        return F.specify_shape(taken, (count, *x.type.shape[1:]))

    parts = [
        F.reshape(cut(x, start, done), (whole, chunk, *x.type.shape[1:])) for x in rows
    ]
    ends, stacked = F._run_scan(steps, first, parts, whole, reverse)
    stacked = [F.reshape(x, (done, *x.type.shape[2:])) for x in stacked]
    if isinstance(left, int) and left == 0:
        return ends, stacked
    others = [cut(x, 0 if reverse else done, left) for x in rows]
    ends, more = F._run_scan(step, ends, others, left, reverse)
    order = (more, stacked) if reverse else (stacked, more)
    pairs = zip(*order, strict=True)
    joined = [F.concatenate([a, b]) for a, b in pairs]
    shapes = [(length, *x.type.shape[1:]) for x in joined]
    whole_ones = zip(joined, shapes, strict=True)
    return ends, [F.specify_shape(x, shape) for x, shape in whole_ones]
