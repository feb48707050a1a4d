"""Restore the carries before all steps, last step first, from a few kept ones.

A loop of unknown length keeps the carry before every step whose number is a multiple of
a power of two; the power doubles whenever too many carries are kept (Stumm and Walther,
2010, "New algorithms for optimal online checkpointing"; Wang, Moin and Iaccarino,
2009). On the way back steps are recomputed from each kept carry, and the slots that are
free by then keep some carries in between, as many steps ahead as binomial numbers say
(Griewank, 1992, "Achieving logarithmic growth of temporal and spatial complexity in
reverse automatic differentiation"; Griewank and Walther, 2000, "revolve").

So 65 carries are enough for loops of any length. In a loop of up to 32 * a steps, where
a is a power of two, a step is recomputed at most r times if a <= C(33 + r, r): once up
to 1,024 steps, twice up to 16,384, three times up to 131,072. Where the length n is
known to be small, 2 * sqrt(n) carries are kept, rounded up to a power of two: then each
step is recomputed at most once.
"""

from collections.abc import Sequence
from math import comb, isqrt

import numpy as np

from graphc.control.scan import run_scan
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import constant
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT32
from graphc.ops.indexing.row_access import put, read
from graphc.transform.loops.checkpointing.segments import (
    Advance,
    Carry,
    Store,
    step_number,
)

MOST = 64  # slots, a power of two; one more takes carries that are not kept
LEAST = 8
NEVER = int(np.iinfo(INT32).max)  # the number of no step
REPEATS = 12  # more than any loop needs


def _tabulate_reach() -> "np.ndarray[tuple[int, int], np.dtype[np.int32]]":
    """Tabulate how many steps k carries serve, each redone at most r times: C(k+r, r).

    The carry before the first step is one of the k.
    """
    rows = [[comb(k + r, r) for r in range(REPEATS)] for k in range(MOST + 2)]
    return np.minimum(np.array(rows, object), NEVER).astype(np.int32)


REACH = _tabulate_reach()


class Treeverse(Store):
    """Keeps the carries before a few steps, however many steps the loop takes.

    The store's own values are two integers, and an array of the numbers of the steps
    before which it has kept the carry. The loop has at most `length` steps, where that
    is known.
    """

    front = 3

    def __init__(self, length: Size | None) -> None:
        self._slots = MOST
        if isinstance(length, int) and length < MOST**2 // 4:
            root = isqrt(max(4 * length - 1, 0))
            self._slots = max(LEAST, 1 << root.bit_length())

    def start(self, first: Sequence[Value]) -> Carry:
        """Return the state before the first step, whose carry slot 0 always keeps."""
        room, zero = self._slots + 1, step_number(0)
        slots = [F.zeros((room, *v.type.shape), v.dtype) for v in first]
        steps = put(F.full((room,), NEVER, INT32), zero, zero)
        first_slots = [put(x, zero, v) for x, v in zip(slots, first, strict=True)]
        return [zero, step_number(1), steps, *first_slots]

    def keep(self, state: Carry, carry: Sequence[Value]) -> Carry:
        """Keep the carry before steps whose numbers are multiples of a power of two.

        The remainder by the number of slots less one gives the slot. With 64 slots, the
        first 63 multiples of a power of two leave different remainders by 63, since 63
        shares no factor with that power. The multiples of the next power stay in their
        slots.
        """
        step, distance, steps, *slots = state
        count = self._slots
        distance = F.where(step >= count * distance, 2 * distance, distance)
        is_kept = F.equal(F.remainder(step, distance), 0)
        slot = F.where(is_kept, F.remainder(step - 1, count - 1) + 1, count)
        steps = put(steps, slot, F.where(is_kept, step, NEVER))
        slots = [put(x, slot, v) for x, v in zip(slots, carry, strict=True)]
        return [step + 1, distance, steps, *slots]

    def ready(self, state: Carry, ends: Sequence[Value]) -> Carry:
        """Return the state for the way back, with at most half of the slots taken."""
        done, distance, steps, *slots = state
        count = self._slots
        distance = F.where(done > count // 2 * distance, 2 * distance, distance)
        stays = F.logical_or(done <= count, F.equal(F.remainder(steps, distance), 0))
        return [done - 1, done, F.where(stays, steps, NEVER), *slots, *ends]

    def back(self, state: Carry, size: int, advance: Advance) -> StepResult:
        """Recompute from the last kept carry, and keep some carries on the way."""
        last, count, steps, *slots = state[: 3 + size]
        top = F.argmax(F.where(steps <= last, steps, -1))

        def further(now: list[Value], _: list[Value]) -> StepResult:
            step, steps, *carry_and_slots = now
            free = steps > last
            carry, slots = carry_and_slots[:size], carry_and_slots[size:]
            ahead = _steps_ahead(last - step + 1, F.sum(free, dtype=INT32))
            step, *carry = _advance_steps(step, carry, ahead, advance)
            slot = F.argmax(free)
            steps = put(steps, slot, step)
            slots = [put(x, slot, v) for x, v in zip(slots, carry, strict=True)]
            return [step, steps, *carry, *slots], [step >= last]

        step = read(steps, top)
        start = [step, steps, *(read(x, top) for x in slots), *slots]
        state_after, _ = run_scan(further, start, [], None, False, going=step < last)
        carry, slots = state_after[2 : 2 + size], state_after[2 + size :]
        return carry, [last - 1, count, state_after[1], *slots, *carry]


def _steps_ahead(steps: Value, free: Value) -> Value:
    """The number of steps to go before keeping a carry, with `steps` left to reverse.

    The last free slot takes a carry that is used at once.
    """
    reach = constant(REACH)
    with_this, without = read(reach, free), read(reach, free - 1)
    repeats = F.sum(with_this < steps, dtype=INT32) - 1
    best = F.minimum(read(with_this, repeats), steps - read(without, repeats))
    return F.where(free > 1, best, steps - 1)


def _advance_steps(
    step: Value, carry: Sequence[Value], count: Value, advance: Advance
) -> list[Value]:
    """Advance `count` steps; return the number of the step and the carry before it."""

    def once(now: list[Value], _: list[Value]) -> StepResult:
        step, *carry = now
        return [step + 1, *advance(carry, step)], []

    return run_scan(once, [step, *carry], [], None, False, count=count)[0]
