"""The carries before all steps, the last first, from a few that are kept.

A loop whose length is not known keeps what is carried before every step whose number is
a multiple of a power of two; that doubles whenever there are too many (Stumm and
Walther, 2010, "New algorithms for optimal online checkpointing"; Wang, Moin and
Iaccarino, 2009). On the way back each is where steps are done again from, and what is
free by then keeps some of those on the way: as many steps ahead as binomial numbers say
(Griewank, 1992, "Achieving logarithmic growth of temporal and spatial complexity in
reverse automatic differentiation"; Griewank and Walther, 2000, "revolve").

So 65 carries are enough for loops of any length. In one of up to 32 * a steps, of a
power of two a, a step is done again at most r times if a <= C(33 + r, r): once up to
1,024 steps, twice up to 16,384, three times up to 131,072. Where a length n is known
to be small, 2 * sqrt(n) carries are kept, up to a power of two: once is enough.
"""

from collections.abc import Callable, Sequence
from math import comb, isqrt

import numpy as np

from graphc.ir.build import as_value, cast, constant
from graphc.ir.dims import Size
from graphc.ir.graph import Value
from graphc.ir.namespace import F
from graphc.ir.types import INT32
from graphc.transform.loops.scan import run_scan

MOST = 64  # slots, a power of two; beside them, there is one for what is not kept
LEAST = 8
NEVER = int(np.iinfo(INT32).max)  # the number of no step
REPEATS = 12  # more than any loop needs

# A state is a list: two numbers, the numbers of the steps that are kept, and arrays of
# what is carried before these, one for each carry. On the way back there stands behind
# it what is carried before a step.
FRONT = 3
State = list[Value]
Advance = Callable[[list[Value], Value], list[Value]]  # of a carry, and of its number


def _number(x: int) -> Value:
    return cast(as_value(x), INT32)


def _reach() -> "np.ndarray[tuple[int, int], np.dtype[np.int32]]":
    """How many steps k carries serve if each is done again at most r times: C(k+r, r).

    One of the k is that before the first step.
    """
    rows = [[comb(k + r, r) for r in range(REPEATS)] for k in range(MOST + 2)]
    return np.minimum(np.array(rows, object), NEVER).astype(np.int32)


REACH = _reach()


def nothing_kept(first: Sequence[Value], length: Size | None) -> State:
    """The state before the first step, which is always kept: in slot 0.

    The loop has at most `length` steps, where that is known.
    """
    count, zero = _slots(length), _number(0)
    slots = [F.zeros((count + 1, *v.type.shape), v.dtype) for v in first]
    steps = _put(F.full((count + 1,), NEVER, INT32), zero, zero)
    held = [_put(x, zero, v) for x, v in zip(slots, first, strict=True)]
    return [zero, _number(1), steps, *held]


def _slots(length: Size | None) -> int:
    if not isinstance(length, int) or length >= MOST**2 // 4:
        return MOST
    return max(LEAST, 1 << isqrt(max(4 * length - 1, 0)).bit_length())


def keep(state: State, carry: Sequence[Value]) -> State:
    """The state behind a step, of what was carried before it.

    Of 64 slots: the multiples of a power of two up to the 63rd have different
    remainders by 63, as 63 has no common factor with it: these say where they are.
    Those of the next power are where they were.
    """
    number, apart, steps, *slots = state
    count = _count(steps)
    apart = F.where(number >= count * apart, 2 * apart, apart)
    taken = F.equal(F.remainder(number, apart), 0)
    slot = F.where(taken, F.remainder(number - 1, count - 1) + 1, count)
    steps = _put(steps, slot, F.where(taken, number, NEVER))
    slots = [_put(x, slot, v) for x, v in zip(slots, carry, strict=True)]
    return [number + 1, apart, steps, *slots]


def ready(state: State) -> State:
    """The state for the way back: at most half of the slots are taken.

    Its numbers are those of the step that is next, and of all steps.
    """
    done, apart, steps, *slots = state
    count = _count(steps)
    apart = F.where(done > count // 2 * apart, 2 * apart, apart)
    kept = F.logical_or(done <= count, F.equal(F.remainder(steps, apart), 0))
    first = [read(x, _number(0)) for x in slots]
    return [done - 1, done, F.where(kept, steps, NEVER), *slots, *first]


def _count(steps: Value) -> int:
    size = steps.type.shape[0]
    assert isinstance(size, int)
    return size - 1


def step_back(state: State, advance: Advance) -> tuple[list[Value], State]:
    """What is carried before the step that is next, and the state for the one before.

    `advance` does a step.
    """
    last, count, steps, *slots = state[: (len(state) + FRONT) // 2]
    top = F.argmax(F.where(steps <= last, steps, -1))
    carry = [read(x, top) for x in slots]
    size = len(carry)

    def further(now: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        number, steps, *rest = now
        free = steps > last
        carry, slots = rest[:size], rest[size:]
        ahead = _ahead(last - number + 1, F.sum(free, dtype=INT32))
        number, *carry = _advanced(number, carry, ahead, advance)
        slot = F.argmax(free)
        steps = _put(steps, slot, number)
        slots = [_put(x, slot, v) for x, v in zip(slots, carry, strict=True)]
        return [number, steps, *carry, *slots], [number >= last]

    number = read(steps, top)
    found, _ = run_scan(
        further, [number, steps, *carry, *slots], [], None, False, going=number < last
    )
    carry, slots = found[2 : 2 + size], found[2 + size :]
    return carry, [last - 1, count, found[1], *slots, *carry]


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
    number: Value, carry: Sequence[Value], count: Value, advance: Advance
) -> list[Value]:
    """The number of a step and what is carried before it, `count` steps later."""

    def step(now: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        number, *carry = now
        return [number + 1, *advance(carry, number)], []

    return run_scan(step, [number, *carry], [], None, False, count=count)[0]


def read(x: Value, i: Value) -> Value:
    """The row of a number, which there must be."""
    found: Value = F._gather(x, i, axes=(0,), inside=(True,))
    return found


def _put(x: Value, i: Value, v: Value) -> Value:
    found: Value = F._scatter(x, v, i, axes=(0,), how="set", inside=(True,))
    return found
