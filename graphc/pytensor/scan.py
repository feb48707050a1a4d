"""PyTensor's Scan as a scan of graphc.

PyTensor passes buffers: arrays that hold the values before the first step, with room
for those of the steps. Here a scan carries the last few values of each recurrence and
stacks the outputs of the steps; buffers are put together afterwards. Buffers that are
read and written in the middle (MIT-MOT, in gradients) are seen through a window of as
many rows as their taps reach: in each step one row enters the window, and the first one
leaves it for good.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import graphc.tensor as gt
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import as_shape
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import less_equal
from graphc.ops.arrays.stated_sizes import state_shape
from graphc.pytensor.convert import convert_graph
from graphc.pytensor.registry import rule

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op
    from pytensor.scan.op import ScanInfo


@dataclass
class _Carry:
    """The state between steps."""

    windows: list[list[Value]]  # of MIT-MOT, without the row that enters
    recent: list[list[Value]]  # of MIT-SOT and SIT-SOT, the oldest first
    untraced: list[Value]

    def flat(self) -> list[Value]:
        rows = [v for values in (*self.windows, *self.recent) for v in values]
        return [*rows, *self.untraced]

    def like(self, values: Sequence[Value]) -> "_Carry":
        """The same state with other values, given in the order of `flat`."""
        remaining = iter(values)
        windows = [_take_next(remaining, len(one)) for one in self.windows]
        recent = [_take_next(remaining, len(one)) for one in self.recent]
        return _Carry(windows, recent, list(remaining))


def _take_next(remaining: Iterator[Value], count: int) -> list[Value]:
    return list(islice(remaining, count))


@rule("Scan")
def _(op: "Op", node: "Apply", *inputs: Value) -> list[Value]:
    """The outputs in PyTensor's order: MIT-MOT, MIT-SOT, SIT-SOT, NIT-SOT, untraced."""
    outer_inputs, info = list(inputs), op.info
    steps = outer_inputs[0]
    fixed = op.outer_non_seqs(outer_inputs)
    taps = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    traced = [*op.outer_mitsot(outer_inputs), *op.outer_sitsot(outer_inputs)]
    buffers = op.outer_mitmot(outer_inputs)
    reaches = _largest_taps(info)
    first = _Carry(
        [[b[i] for i in range(n)] for b, n in zip(buffers, reaches, strict=True)],
        [[b[i] for i in range(-min(t))] for b, t in zip(traced, taps, strict=True)],
        op.outer_untraced_sit_sot(outer_inputs),
    )

    def body(flat: list[Value], row: list[Value]) -> StepResult:
        carry, entering = first.like(flat), row[: len(buffers)]
        pairs = zip(carry.windows, entering, strict=True)
        windows = [[*window, new] for window, new in pairs]
        read = [*row[len(buffers) :], *_tap_values(info, windows, carry.recent)]
        read += [*carry.untraced, *fixed]
        results = convert_graph(op.fgraph.outputs, op.fgraph.inputs, read)
        traces = _traces(op, results)
        _write(op, windows, results)
        after = _Carry(
            [window[1:] for window in windows],
            [[*old[1:], new] for old, new in zip(carry.recent, traces, strict=False)],
            op.inner_untraced_sit_sot_outs(results),
        )
        both = zip(after.flat(), flat, strict=True)
        carried = first.like([state_shape(new, old.shape) for new, old in both])
        traces[: len(carried.recent)] = [values[-1] for values in carried.recent]
        leaving = [window[0] for window in windows]
        return carried.flat(), [
            *leaving,
            *traces,
            *results[len(results) - info.as_while :],
        ]

    rows = [b[n : n + steps] for b, n in zip(buffers, reaches, strict=True)]
    rows += [s[:steps] for s in op.outer_seqs(outer_inputs)]
    until = (lambda _, results_of_step: results_of_step[-1]) if info.as_while else None
    ends, stacked = gt.scan(body, first.flat(), rows, length=steps, until=until)
    last = first.like(ends)
    parts = zip(buffers, stacked, last.windows, strict=False)
    written = [_joined_buffer(b, trace, window, steps) for b, trace, window in parts]
    stacked = stacked[len(buffers) :]
    traces = [
        _buffer(values, trace, b.shape[0], steps)
        for values, trace, b in zip(first.recent, stacked, traced, strict=False)
    ]
    plain = stacked[len(traced) : len(traced) + info.n_nit_sot]
    sizes = op.outer_nitsot(outer_inputs)
    traces += [_buffer([], y, n, steps) for y, n in zip(plain, sizes, strict=True)]
    return [*written, *traces, *last.untraced]


def _largest_taps(info: "ScanInfo") -> list[int]:
    """The largest tap of each buffer of MIT-MOT; the smallest is 0 or larger."""
    read = info.normalized_mit_mot_in_slices
    written = info.normalized_mit_mot_out_slices
    return [max(a + b) for a, b in zip(read, written, strict=True)]


def _tap_values(
    info: "ScanInfo", windows: Sequence[list[Value]], recent: Sequence[list[Value]]
) -> list[Value]:
    """The values that a step reads from windows and from recent values."""
    taps = zip(windows, info.normalized_mit_mot_in_slices, strict=True)
    read = [window[tap] for window, places in taps for tap in places]
    slices = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    for values, places in zip(recent, slices, strict=True):
        read += [values[len(values) + tap] for tap in places]
    return read


def _write(op: "Op", windows: Sequence[list[Value]], results: list[Value]) -> None:
    """Write the results of a step into the windows."""
    groups = op.inner_mitmot_outs_grouped(results)
    places = op.info.normalized_mit_mot_out_slices
    for window, values, taps in zip(windows, groups, places, strict=True):
        for value, tap in zip(values, taps, strict=True):
            window[tap] = state_shape(value, window[tap].shape)


def _joined_buffer(
    buffer: Value, trace: Value, window: list[Value], steps: Value
) -> Value:
    """A buffer after all steps: the rows that left, those in the window, the rest."""
    done = as_shape(steps)[0] + len(window)
    parts = [trace, gt.stack(window)] if window else [trace]
    if less_equal(buffer.type.shape[0], done) is not True:
        parts.append(buffer[steps + len(window) :])
    return gt.concatenate(parts)


def _traces(op: "Op", results: list[Value]) -> list[Value]:
    """The outputs of a step that are stacked: MIT-SOT, SIT-SOT, NIT-SOT."""
    inner = [op.inner_mitsot_outs, op.inner_sitsot_outs, op.inner_nitsot_outs]
    return [v for part in inner for v in part(results)]


def _buffer(before: list[Value], trace: Value, size: ArrayLike, steps: Value) -> Value:
    """The last `size` of the values before the first step and those of the steps.

    A truncated gradient has fewer steps than room; zeros fill the rest.
    """
    room_size, done = as_shape(size)[0], as_shape(steps)[0]
    if less_equal(room_size, trace.type.shape[0]) is True:
        before = []
    if before:
        trace = gt.concatenate([gt.stack(before), trace])
    if less_equal(room_size, done + len(before)) is not True:
        room = gt.maximum(size - steps - len(before), 0)
        trace = gt.concatenate([trace, gt.zeros((room, *trace.shape[1:]), trace.dtype)])
    if less_equal(trace.type.shape[0], room_size) is True:
        return trace
    return trace[gt.maximum(gt.asarray(trace.shape[0]) - size, 0) :]
