"""Scans of many examples at once."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import le, or_
from typing import Any

from graphc.control.scan import SCAN, ScanInputs, run_scan, scan_inputs
from graphc.ir.graph.bodies import Body, StepFunction, StepResult
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT32
from graphc.ops.common.batching import Batched, where_each, with_batch
from graphc.transform.derivatives.vectorize import vmap


@SCAN.batch
def _(n: Size, batched: Batched, *values: Value, **params: Any) -> tuple[Value, ...]:
    """Keep carries, captures and sequences that all examples share as single values."""
    parts = scan_inputs(values, params)
    mapped: Any = scan_inputs(tuple(batched), params)
    body: Body = params["body"].content
    sizes = params["sizes"]
    together = parts.going is None and not mapped.limit
    carried = [True] * len(mapped.first)
    if together:
        carried = _carries_per_example(
            body, list(mapped.first), [*mapped.rows, *mapped.captures]
        )
    first = [
        v if not many else with_batch(n, b, v)
        for v, b, many in zip(parts.first, mapped.first, carried, strict=True)
    ]
    rows = [
        F.swapaxes(v, 0, 1) if b else v
        for v, b in zip(parts.rows, mapped.rows, strict=True)
    ]
    flags = [*carried, *mapped.rows, *mapped.captures]
    reached = _outputs_per_example(body, flags)
    many = [*carried, *reached[len(carried) :]] if together else [True] * len(reached)

    def step(carry: list[Value], row: list[Value]) -> StepResult:
        arguments = [*carry, *row, *parts.captures]
        outputs = _body_outputs(
            n, partial(body.call, size_args=sizes), flags, arguments, many
        )
        return outputs[: len(carry)], outputs[len(carry) :]

    steps: list[Value] = []
    extent = params["length"], params["reverse"]
    options = {name: params[name] for name in ("few", "chunk")}
    if together:
        limit = parts.limit
        ends, stacked = run_scan(
            step, first, rows, *extent, count=limit, unroll=params["unroll"], **options
        )
    else:
        count, going = parts.limit, parts.going
        count = None if count is None else with_batch(n, mapped.limit, count)
        going = None if going is None else with_batch(n, mapped.going, going)
        limited = ScanInputs(tuple(first), tuple(rows), parts.captures, count, going)
        ends, stacked, steps = _scan_examples_apart(
            n, step, limited, *extent, **options
        )
    ends = list(map(with_batch, [n] * len(ends), carried, ends))
    mapped_rows = many[len(many) - len(stacked) :]
    whole = [
        F.swapaxes(v, 0, 1) if b else with_batch(n, False, v)
        for v, b in zip(stacked, mapped_rows, strict=True)
    ]
    return (*ends, *steps, *whole)


def _carries_per_example(
    body: Body, first: list[bool], others: list[bool]
) -> list[bool]:
    """Tell which carries become one per example, perhaps only after some iterations."""
    while True:
        flags_after = _outputs_per_example(body, [*first, *others])[: len(first)]
        if all(map(le, flags_after, first)):
            return first
        first = list(map(or_, first, flags_after))


def _outputs_per_example(body: Body, flags: Sequence[bool]) -> list[bool]:
    """Tell for each output of a body whether it depends on inputs with a flag."""
    reached = {v for v, flag in zip(body.inputs, flags, strict=True) if flag}
    for node in body.nodes:
        if any(v in reached for v in node.inputs):
            reached.update(node.outputs)
    return [v in reached for v in body.outputs]


def _body_outputs(
    n: Size,
    body: Callable[[Sequence[Value]], list[Value]],
    flags: Sequence[bool],
    values: Sequence[Value],
    many: Sequence[bool],
) -> list[Value]:
    """Return the outputs of a body some of whose inputs are one per example.

    `many` says for which outputs an axis of examples is wanted.
    """
    if not any(flags):
        pairs = zip(body(values), many, strict=True)
        return [with_batch(n, False, v) if b else v for v, b in pairs]
    axes, ends = ([0 if b else None for b in each] for each in (flags, many))
    outputs = vmap(lambda *one: body(one), axes, ends)(*values)
    return list(outputs)


def _scan_examples_apart(
    n: Size,
    step: StepFunction,
    parts: ScanInputs,
    length: Size | None,
    reverse: bool,
    **options: Any,
) -> tuple[list[Value], list[Value], list[Value]]:
    """Scan `n` examples, each of which has limits of its own.

    When one has ended, its carry stays and its outputs are zeros, while others go on.
    """
    counts, going = parts.limit, parts.going
    most = None if counts is None else F.max(counts, initial=0)
    place = F.zeros((), INT32 if counts is None else counts.dtype)
    if reverse:  # a scan that stops is never done backwards
        assert most is not None
        place = most - 1
    start = [place] if going is None else [place, going, F.zeros((n,), INT32)]
    size = len(start)

    def has_step_left(state: list[Value]) -> Value:
        """Tell for each example whether it has a step left."""
        inside = None if counts is None else state[0] < counts
        if going is None or inside is None:
            running: Value | None = inside if going is None else state[1]
            assert running is not None
            return running
        return F.logical_and(state[1], inside)

    def step_of_each(carry: list[Value], row: list[Value]) -> StepResult:
        state_before = carry[size:]
        is_running = has_step_left(carry)
        after, outputs = step(state_before, row)
        place = carry[0] - 1 if reverse else carry[0] + 1
        if going is None:
            state, stop = [place], []
        else:
            goes_on = F.logical_and(is_running, F.logical_not(outputs.pop(0)))
            state = [place, goes_on, carry[2] + F.astype(is_running, INT32)]
            stop = [F.logical_not(F.any(has_step_left(state)))]
        after = [
            where_each(is_running, a, b)
            for a, b in zip(after, state_before, strict=True)
        ]
        outputs = [where_each(is_running, v, F.zeros_like(v)) for v in outputs]
        return [*state, *after], [*stop, *outputs]

    ends, stacked = run_scan(
        step_of_each,
        [*start, *parts.first],
        parts.rows,
        length,
        reverse,
        count=most,
        going=None if going is None else F.any(going),
        **options,
    )
    steps = [] if going is None else [ends[2]]
    return ends[size:], stacked[len(steps) :], steps
