"""Checkpoint stores, from which a gradient gets the carry before each step."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from graphc.control.scan import run_scan
from graphc.control.scan_records import PerChunk
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import as_value, cast, size_value
from graphc.ir.graph.nodes import Params, Value
from graphc.ir.namespace import F
from graphc.ir.types import INT32
from graphc.ops.indexing.row_access import put, read

Carry = list[Value]
Advance = Callable[[list[Value], Value], list[Value]]  # does a step from a carry


class Store(ABC):
    """Keeps some carries while a loop runs, and gives back all of them, the last first.

    The state of a store is a list of values. While the loop runs, these are some values
    of the store's own, and for each carry an array of those kept. On the way back, the
    state has `front` values of the store's own, of which the first two are the number
    of the next step and the number of all steps; then these arrays, maybe more, and at
    the end the carry after the next step.
    """

    front = 2

    @abstractmethod
    def start(self, first: Sequence[Value]) -> Carry:
        """Return the state before the first step."""

    @abstractmethod
    def keep(self, state: Carry, carry: Sequence[Value]) -> Carry:
        """Return the state after a step, given the carry before that step."""

    @abstractmethod
    def ready(self, state: Carry, ends: Sequence[Value]) -> Carry:
        """Return the state for the way back; `ends` are the last carries."""

    @abstractmethod
    def back(self, state: Carry, size: int, advance: Advance) -> StepResult:
        """Return the `size` carries before the next step, and the state after it.

        `advance` does a step.
        """

    def per_chunk(self, at: int, size: int, back: bool) -> PerChunk | None:
        """Describe the per-chunk work of a scan whose state begins at `at`.

        The scan has `size` carries. None if the state may change in any step.
        """
        return None


class Chunks(Store):
    """Keeps the carry before each chunk, and recomputes those within one at once."""

    def __init__(self, params: Params) -> None:
        """`params` are those of the loop."""
        length, chunk = params["length"], params["chunk"]
        # A chunk that is no number is the root of the length, rounded down, so there
        # are at most two chunks more than steps in one. Its capacity bounds both.
        self._room = length // chunk + 2 if isinstance(chunk, int) else chunk + 4
        self._chunk = chunk
        self._steps = cast(as_value(size_value(chunk)), INT32)
        self._stops = bool(params["stops"])
        self._unrolled = params["unroll"] is True or params["unroll"] != 1

    def start(self, first: Sequence[Value]) -> Carry:
        """Allocate room for a carry before each chunk."""
        room = [(self._room, *v.type.shape) for v in first]
        pairs = zip(room, first, strict=True)
        return [step_number(0), *(F.zeros(shape, v.dtype) for shape, v in pairs)]

    def keep(self, state: Carry, carry: Sequence[Value]) -> Carry:
        """Write the carry to a slot, which ends with the one before its chunk."""
        step, *slots = state
        slot = (step + (self._steps - 1)) // self._steps
        return [step + 1, *(put(x, slot, v) for x, v in zip(slots, carry, strict=True))]

    def ready(self, state: Carry, ends: Sequence[Value]) -> Carry:
        """Allocate room for the carries within one chunk, and the carry after it."""
        done, *slots = state
        room = self._chunk + 1
        blocks = [F.zeros((room, *v.type.shape), v.dtype) for v in ends]
        return [done - 1, done, *slots, *blocks, *ends]

    def back(self, state: Carry, size: int, advance: Advance) -> StepResult:
        """At the last step of a chunk, recompute the carries within it."""
        last, count, *arrays = state[: 2 + 2 * size]
        slots, blocks = arrays[:size], arrays[size:]
        place = F.remainder(last, self._steps)
        at_end = F.logical_or(F.equal(place, self._steps - 1), F.equal(last, count - 1))
        todo = F.where(at_end, place + 1, 0)

        def fill(now: list[Value], _: list[Value]) -> StepResult:
            i, carry, blocks = now[0], now[1 : 1 + size], now[1 + size :]
            blocks = [put(x, i, v) for x, v in zip(blocks, carry, strict=True)]
            return [i + 1, *advance(carry, last - place + i), *blocks], []

        chunk = last // self._steps
        start = [step_number(0), *(read(x, chunk) for x in slots), *blocks]
        ends, _ = run_scan(fill, start, [], None, False, count=todo)
        blocks = ends[1 + size :]
        carry = [read(x, place) for x in blocks]
        return carry, [last - 1, count, *slots, *blocks, *carry]

    def per_chunk(self, at: int, size: int, back: bool) -> PerChunk | None:
        """Forwards, slots change once per chunk; backwards, blocks do.

        Nothing is moved out of loops that are unrolled or stop. If they had the record
        all the same, they would be compiled for each size of a chunk.
        """
        if self._unrolled or (self._stops and not back):
            return None
        start = at + self.front + size if back else at + 1
        return PerChunk(self._chunk, at, tuple(range(start, start + size)))


def step_number(x: int) -> Value:
    """Return a number of steps as a value."""
    return cast(as_value(x), INT32)
