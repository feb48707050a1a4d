"""PyTensor's Scan as a scan of graphc.

PyTensor passes buffers: arrays that hold what came before the first step, with room for
the steps. Here a scan carries the last few values of each recurrence and stacks what
the steps give; buffers are put together afterwards. Only those that are read and
written in the middle (MIT-MOT, of gradients) are carried as they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import graphc.tensor as gt
from graphc.ir.build import as_shape
from graphc.ir.dims import less_equal
from graphc.ir.graph import Value
from graphc.pytensor.convert import converted
from graphc.pytensor.registry import rule


@dataclass
class _Carry:
    """The state between steps."""

    buffers: list[Value]  # MIT-MOT, as they are
    recent: list[list[Value]]  # of MIT-SOT and SIT-SOT, the oldest first
    untraced: list[Value]

    def flat(self) -> list[Value]:
        rows = [v for values in self.recent for v in values]
        return [*self.buffers, *rows, *self.untraced]

    def like(self, values: Sequence[Value]) -> "_Carry":
        """The same with other values, given in the order of `flat`."""
        left = iter(values)
        buffers = _next(left, len(self.buffers))
        recent = [_next(left, len(one)) for one in self.recent]
        return _Carry(buffers, recent, list(left))


def _next(left: Iterator[Value], count: int) -> list[Value]:
    return list(islice(left, count))


@rule("Scan")
def _(op: Any, node: Any, *inputs: Value) -> list[Value]:
    """The outputs in PyTensor's order: MIT-MOT, MIT-SOT, SIT-SOT, NIT-SOT, untraced."""
    given, info = list(inputs), op.info
    steps = given[0]
    fixed = op.outer_non_seqs(given)
    taps = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    traced = [*op.outer_mitsot(given), *op.outer_sitsot(given)]
    first = _Carry(
        op.outer_mitmot(given),
        [[b[i] for i in range(-min(t))] for b, t in zip(traced, taps, strict=True)],
        op.outer_untraced_sit_sot(given),
    )

    def body(flat: list[Value], row: list[Value]) -> tuple[list[Value], list[Value]]:
        carry, i = first.like(flat), row[-1]
        read = [*row[:-1], *_tapped(op, carry, i), *carry.untraced, *fixed]
        made = converted(op.fgraph.outputs, op.fgraph.inputs, read)
        traces = _traces(op, made)
        after = _Carry(
            _written(op, carry.buffers, i, made),
            [[*old[1:], new] for old, new in zip(carry.recent, traces, strict=False)],
            op.inner_untraced_sit_sot_outs(made),
        )
        pairs = zip(after.flat(), flat, strict=True)
        kept = first.like([gt.specify_shape(new, old.shape) for new, old in pairs])
        traces[: len(kept.recent)] = [values[-1] for values in kept.recent]
        return kept.flat(), [*traces, *made[len(made) - info.as_while :]]

    rows = [*(s[:steps] for s in op.outer_seqs(given)), gt.arange(steps)]
    until = (lambda _, made: made[-1]) if info.as_while else None
    ends, stacked = gt.scan(body, first.flat(), rows, length=steps, until=until)
    last = first.like(ends)
    traces = [
        _buffer(values, trace, b.shape[0], steps)
        for values, trace, b in zip(first.recent, stacked, traced, strict=False)
    ]
    plain = stacked[len(traced) : len(traced) + info.n_nit_sot]
    sizes = op.outer_nitsot(given)
    traces += [_buffer([], y, n, steps) for y, n in zip(plain, sizes, strict=True)]
    return [*last.buffers, *traces, *last.untraced]


def _tapped(op: Any, carry: _Carry, i: Value) -> list[Value]:
    """The values that a step reads of buffers and of recent values."""
    info = op.info
    found = [
        buffer[i + tap]
        for buffer, taps in zip(
            carry.buffers, info.normalized_mit_mot_in_slices, strict=True
        )
        for tap in taps
    ]
    slices = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    for values, taps in zip(carry.recent, slices, strict=True):
        found += [values[len(values) + tap] for tap in taps]
    return found


def _written(
    op: Any, buffers: Sequence[Value], i: Value, made: list[Value]
) -> list[Value]:
    """The buffers with what a step writes into them."""
    groups = op.inner_mitmot_outs_grouped(made)
    places = op.info.normalized_mit_mot_out_slices
    results = []
    for buffer, values, taps in zip(buffers, groups, places, strict=True):
        for value, tap in zip(values, taps, strict=True):
            buffer = buffer.at[i + tap].set(value)
        results.append(buffer)
    return results


def _traces(op: Any, made: list[Value]) -> list[Value]:
    """The outputs of a step that are stacked: MIT-SOT, SIT-SOT, NIT-SOT."""
    inner = [op.inner_mitsot_outs, op.inner_sitsot_outs, op.inner_nitsot_outs]
    return [v for part in inner for v in part(made)]


def _buffer(before: list[Value], trace: Value, size: Any, steps: Value) -> Value:
    """The last `size` of the values before the first step and those of the steps.

    Of a truncated gradient there are fewer steps than room: zeros follow.
    """
    wanted, done = as_shape(size)[0], as_shape(steps)[0]
    if less_equal(wanted, trace.type.shape[0]) is True:
        before = []
    if before:
        trace = gt.concatenate([gt.stack(before), trace])
    if less_equal(wanted, done + len(before)) is not True:
        room = gt.maximum(size - steps - len(before), 0)
        trace = gt.concatenate([trace, gt.zeros((room, *trace.shape[1:]), trace.dtype)])
    if less_equal(trace.type.shape[0], wanted) is True:
        return trace
    return trace[gt.maximum(gt.asarray(trace.shape[0]) - size, 0) :]
