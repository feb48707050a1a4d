"""Scans of many examples at once."""

from collections.abc import Sequence
from typing import Any

from graphc.ir.dims import Size
from graphc.ir.graph import Value
from graphc.ir.inner import Inner
from graphc.ir.namespace import F
from graphc.ir.types import INT32
from graphc.ops.batching import Batched, spread, where_each
from graphc.transform.loops.scan import SCAN, Pair, Parts, Step, parts_of, run_scan
from graphc.transform.vectorize import vmap


@SCAN.batch
def _(n: Size, batched: Batched, *values: Value, **params: Any) -> tuple[Value, ...]:
    parts = parts_of(values, params)
    own: Any = parts_of(tuple(batched), params)
    inner: Inner = params["body"].content
    first, rest = _spread(n, own.first, parts.first), _spread(n, own.rest, parts.rest)
    rows = tuple([F.swapaxes(v, 0, 1) for v in _spread(n, own.rows, parts.rows)])

    def step(carry: list[Value], row: list[Value]) -> Pair:
        made = vmap(lambda *one: inner.applied(one))(*carry, *row, *rest)
        return list(made[: len(carry)]), list(made[len(carry) :])

    steps: list[Value] = []
    extent = params["length"], params["reverse"]
    if parts.going is None and not own.limit:
        ends, stacked = run_scan(step, first, rows, *extent, count=parts.limit)
    else:
        count, going = parts.limit, parts.going
        count = None if count is None else spread(n, own.limit, count)
        going = None if going is None else spread(n, own.going, going)
        limited = Parts(first, rows, rest, count, going)
        ends, stacked, steps = _each_by_itself(n, step, limited, *extent)
    return (*ends, *steps, *(F.swapaxes(v, 0, 1) for v in stacked))


def _spread(
    n: Size, batched: Sequence[bool], values: Sequence[Value]
) -> tuple[Value, ...]:
    return tuple(map(spread, [n] * len(values), batched, values))


def _each_by_itself(
    n: Size, step: Step, parts: Parts, length: Size | None, reverse: bool
) -> tuple[list[Value], list[Value], list[Value]]:
    """The scan of `n` examples of which each has limits of its own.

    Where one has ended it is kept as it is, and gives zeros, while others go on.
    """
    counts, going = parts.limit, parts.going
    most = None if counts is None else F.max(counts, initial=0)
    place = F.zeros((), INT32 if counts is None else counts.dtype)
    if reverse:  # a scan that stops is never done backwards
        assert most is not None
        place = most - 1
    start = [place] if going is None else [place, going, F.zeros((n,), INT32)]
    size = len(start)

    def active(state: list[Value]) -> Value:
        """Which examples have a step."""
        inside = None if counts is None else state[0] < counts
        if going is None or inside is None:
            found: Value | None = inside if going is None else state[1]
            assert found is not None
            return found
        return F.logical_and(state[1], inside)

    def each(carry: list[Value], row: list[Value]) -> Pair:
        own = carry[size:]
        now = active(carry)
        after, given = step(own, row)
        place = carry[0] - 1 if reverse else carry[0] + 1
        if going is None:
            state, stop = [place], []
        else:
            goes_on = F.logical_and(now, F.logical_not(given.pop(0)))
            state = [place, goes_on, carry[2] + F.astype(now, INT32)]
            stop = [F.logical_not(F.any(active(state)))]
        after = [where_each(now, a, b) for a, b in zip(after, own, strict=True)]
        given = [where_each(now, v, F.zeros_like(v)) for v in given]
        return [*state, *after], [*stop, *given]

    ends, stacked = run_scan(
        each,
        [*start, *parts.first],
        parts.rows,
        length,
        reverse,
        count=most,
        going=None if going is None else F.any(going),
    )
    steps = [] if going is None else [ends[2]]
    return ends[size:], stacked[len(steps) :], steps
