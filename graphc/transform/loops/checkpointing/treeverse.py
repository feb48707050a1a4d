"""The carries before all steps, the last first, from a few that are kept.

A loop whose length is not known keeps what is carried before every step whose number is
a multiple of a power of two; that doubles whenever there are too many (Stumm and
Walther, 2010, "New algorithms for optimal online checkpointing"; Wang, Moin and
Iaccarino, 2009). On the way back steps are recomputed from each, and the slots free by
then keep some carries on the way: as many steps ahead as binomial numbers say
(Griewank, 1992, "Achieving logarithmic growth of temporal and spatial complexity in
reverse automatic differentiation"; Griewank and Walther, 2000, "revolve").

So 65 carries are enough for loops of any length. In one of up to 32 * a steps, of a
power of two a, a step is done again at most r times if a <= C(33 + r, r): once up to
1,024 steps, twice up to 16,384, three times up to 131,072. Where a length n is known
to be small, 2 * sqrt(n) carries are kept, up to a power of two: once is enough.
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
from graphc.transform.loops.checkpointing.segments import Advance, Carry, Store, number

MOST = 64  # slots, a power of two; one more takes carries that are not kept
LEAST = 8
NEVER = int(np.iinfo(INT32).max)  # the number of no step
REPEATS = 12  # more than any loop needs


def _reach() -> "np.ndarray[tuple[int, int], np.dtype[np.int32]]":
    """How many steps k carries serve if each is done again at most r times: C(k+r, r).

    One of the k is the carry before the first step.
    """
    rows = [[comb(k + r, r) for r in range(REPEATS)] for k in range(MOST + 2)]
    return np.minimum(np.array(rows, object), NEVER).astype(np.int32)


REACH = _reach()


class Treeverse(Store):
    """Keeps the carries before a few steps, of any number of them.

    Its own values are numbers, and the numbers of the steps before which it has kept
    the carry. The loop has at most `length` steps, where that is known.
    """

    front = 3

    def __init__(self, length: Size | None) -> None:
        self._slots = MOST
        if isinstance(length, int) and length < MOST**2 // 4:
            root = isqrt(max(4 * length - 1, 0))
            self._slots = max(LEAST, 1 << root.bit_length())

    def start(self, first: Sequence[Value]) -> Carry:
        """The carry before the first step is always kept: in slot 0."""
        room, zero = self._slots + 1, number(0)
        slots = [F.zeros((room, *v.type.shape), v.dtype) for v in first]
        steps = put(F.full((room,), NEVER, INT32), zero, zero)
        held = [put(x, zero, v) for x, v in zip(slots, first, strict=True)]
        return [zero, number(1), steps, *held]

    def keep(self, state: Carry, carry: Sequence[Value]) -> Carry:
        """Keep the carry before steps whose numbers are multiples of a power of two.

        Of 64 slots: the multiples of a power of two up to the 63rd have different
        remainders by 63, as 63 has no common factor with it: these give their slots.
        The multiples of the next power stay in theirs.
        """
        step, apart, steps, *slots = state
        count = self._slots
        apart = F.where(step >= count * apart, 2 * apart, apart)
        taken = F.equal(F.remainder(step, apart), 0)
        slot = F.where(taken, F.remainder(step - 1, count - 1) + 1, count)
        steps = put(steps, slot, F.where(taken, step, NEVER))
        slots = [put(x, slot, v) for x, v in zip(slots, carry, strict=True)]
        return [step + 1, apart, steps, *slots]

    def ready(self, state: Carry, ends: Sequence[Value]) -> Carry:
        """At most half of the slots are taken."""
        done, apart, steps, *slots = state
        count = self._slots
        apart = F.where(done > count // 2 * apart, 2 * apart, apart)
        stays = F.logical_or(done <= count, F.equal(F.remainder(steps, apart), 0))
        return [done - 1, done, F.where(stays, steps, NEVER), *slots, *ends]

    def back(self, state: Carry, size: int, advance: Advance) -> StepResult:
        """Recompute from the last kept carry, and keep some carries on the way."""
        last, count, steps, *slots = state[: 3 + size]
        top = F.argmax(F.where(steps <= last, steps, -1))

        def further(now: list[Value], _: list[Value]) -> StepResult:
            step, steps, *carry_and_slots = now
            free = steps > last
            carry, slots = carry_and_slots[:size], carry_and_slots[size:]
            ahead = _ahead(last - step + 1, F.sum(free, dtype=INT32))
            step, *carry = _advanced(step, carry, ahead, advance)
            slot = F.argmax(free)
            steps = put(steps, slot, step)
            slots = [put(x, slot, v) for x, v in zip(slots, carry, strict=True)]
            return [step, steps, *carry, *slots], [step >= last]

        step = read(steps, top)
        start = [step, steps, *(read(x, top) for x in slots), *slots]
        state_after, _ = run_scan(further, start, [], None, False, going=step < last)
        carry, slots = state_after[2 : 2 + size], state_after[2 + size :]
        return carry, [last - 1, count, state_after[1], *slots, *carry]


def _ahead(steps: Value, free: Value) -> Value:
    """How many steps to go until the next carry is kept, of so many to be done back.

    The last free slot is where a carry is put that is used at once.
    """
    reach = constant(REACH)
    with_this, without = read(reach, free), read(reach, free - 1)
    repeats = F.sum(with_this < steps, dtype=INT32) - 1
    best = F.minimum(read(with_this, repeats), steps - read(without, repeats))
    return F.where(free > 1, best, steps - 1)


def _advanced(
    step: Value, carry: Sequence[Value], count: Value, advance: Advance
) -> list[Value]:
    """The number of a step and the carry before it, `count` steps later."""

    def once(now: list[Value], _: list[Value]) -> StepResult:
        step, *carry = now
        return [step + 1, *advance(carry, step)], []

    return run_scan(once, [step, *carry], [], None, False, count=count)[0]
