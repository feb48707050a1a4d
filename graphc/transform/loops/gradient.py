"""The gradient of a scan: a backward scan that recomputes what is cheap of each step.

The values that a step needs from before it are kept by a superset scan, which replaces
the first one too (see `control.loop_cse`). They are the carries, and what takes longer
to recompute (see `residuals`). Of a large carry that is only read in places, the read
elements are kept instead; of one that is used whole and written in places, the
overwritten elements (see `inverse_writes`). So a table that is filled step by step
needs memory linear in the number of steps, not quadratic.

With bounded checkpoints, some carries are kept by a scan with a checkpoint store, and
steps are recomputed from there (see `treeverse`). The gradient of that gradient is of
a scan over chunks (see `nested`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from graphc.control.carries import fresh
from graphc.control.checkpoint_policy import in_chunks_of
from graphc.control.loop_cse import together
from graphc.control.scan import (
    SCAN,
    StepResult,
    parts_of,
    run_scan,
    sizes_in,
    used_between,
    with_sizes,
)
from graphc.control.scan_records import Replay
from graphc.control.trip_count import steps_size
from graphc.ir.build import variable
from graphc.ir.dims import Size
from graphc.ir.graph import Node, Params, Value, origins
from graphc.ir.inner import Body
from graphc.ir.namespace import F
from graphc.ir.op import Opaque
from graphc.ir.replay import region_between, replayed
from graphc.ir.types import is_inexact
from graphc.ir.walk import operands
from graphc.ops.indexing.row_access import read, readable
from graphc.transform.autodiff import pull
from graphc.transform.custom_vjp import with_rule
from graphc.transform.loops.checkpointing.nested import has_chunks, nested
from graphc.transform.loops.checkpointing.segments import Chunks, Store
from graphc.transform.loops.checkpointing.treeverse import Treeverse
from graphc.transform.loops.inverse_writes import (
    MUCH_LESS,
    InverseWrites,
    undone,
    weight,
)
from graphc.transform.loops.residuals import residuals


@SCAN.vjp
def _(
    g: Any, *values: Value, wanted: list[bool], **params: Any
) -> tuple[Value | None, ...]:
    cotangents = list(g) if isinstance(g, tuple) else [g]
    if params["few"] or in_chunks_of(params["chunk"]):
        return _by_few(values, wanted, cotangents, params)
    return _Backward(values, wanted, cotangents, params).run()


def _by_few(
    values: tuple[Value, ...],
    wanted: list[bool],
    cotangents: list[Value | None],
    params: dict[str, Any],
) -> tuple[Value | None, ...]:
    """The gradient with bounded checkpoints.

    Its own gradient is that of a scan over chunks, or of the rule that keeps all
    carries.
    """
    found = _Few(values, wanted, cotangents, params).run()
    outputs = [d for d in found if d is not None]
    places = [i for i, d in enumerate(found) if d is not None]
    size = len(values)
    given = [*values, *(c for c in cotangents if c is not None)]

    def again(
        arguments: list[Value],
        slopes: list[Value],
        asked: list[bool],
        sizes: tuple[Size, ...],
    ) -> list[Value | None]:
        now = with_sizes(params, sizes)
        own = [fresh(v) for v in arguments]
        rest = iter(own[size:])
        seeds = [None if c is None else next(rest) for c in cotangents]
        first = tuple(own[:size])
        made: list[Value | None]
        if has_chunks(now):
            made = pull(nested(first, now), seeds, [first[i] for i in places])
        else:
            all_kept = now | {"few": False, "chunk": 1}
            back = _Backward(first, wanted, seeds, all_kept).run()
            made = [back[i] for i in places]
        pairs = zip(made, slopes, strict=True)
        both = [(d, slope) for d, slope in pairs if d is not None]
        wrt = [v for v, one in zip(own, asked, strict=True) if one]
        found = iter(pull([d for d, _ in both], [c for _, c in both], wrt))
        every = [next(found) if one else None for one in asked]
        return _of_arguments(every, own, arguments)

    made = iter(with_rule(outputs, given, again, "scan", sizes_in(params)))
    return tuple([None if d is None else next(made) for d in found])


def _of_arguments(
    values: Sequence[Value | None], own: Sequence[Value], given: Sequence[Value]
) -> list[Value | None]:
    """Rebuild values on `given` values in place of a rule's `own` variables."""
    new = dict(zip(own, given, strict=True))
    made = iter(_again([v for v in values if v is not None], new))
    return [None if v is None else next(made) for v in values]


class _Backward:
    """A scan's inputs, and the gradient of one step on variables of its own.

    Numbers are those of the inputs: carries, then sequences, then the rest.
    """

    def __init__(
        self,
        values: tuple[Value, ...],
        wanted: list[bool],
        cotangents: list[Value | None],
        params: dict[str, Any],
    ) -> None:
        self.node, self.params = SCAN.bind(values, params), params
        self.parts, self.cotangents = parts_of(values, params), cotangents
        self.carries = params["carries"]
        self.split = self.carries + params["sequences"]
        self.values = values[: self.split + len(self.parts.rest)]
        asked = [i for i in range(self.carries, len(self.values)) if wanted[i]]
        self.of_rows = [i for i in asked if i < self.split]
        self.of_rest = [i for i in asked if i >= self.split]
        self.taken = [
            i for i in range(self.carries, len(cotangents)) if cotangents[i] is not None
        ]
        body: Body = params["body"].content
        self.own = [self._own(i) for i in range(len(self.values))]
        self.outputs = body.call(self.own, params["sizes"])
        self.smooth = self._active([i for i, w in enumerate(wanted) if w])
        self._differentiate()
        self.carried = len(self.smooth) + len(self.of_rest)
        self.undone: dict[int, InverseWrites] = {}
        self._undo()

    def _own(self, i: int) -> Value:
        value = self.values[i]
        if self.carries <= i < self.split:
            return variable(value.name or "row", value.type.like(value.type.shape[1:]))
        return fresh(value) if i < self.carries or i in self.of_rest else value

    def _active(self, wanted: list[int]) -> list[int]:
        """The carries that depend, after any step, on inputs with a wanted gradient."""
        active = set(wanted)
        after = self.outputs[: self.carries]
        while True:
            inputs = {self.own[i] for i in active}
            reached = set(region_between(after, inputs))
            more = {i for i, v in enumerate(after) if v in inputs or v.node in reached}
            if more <= active:
                break
            active |= more
        return [i for i in range(self.carries) if i in active and self._is_smooth(i)]

    def _is_smooth(self, i: int) -> bool:
        return is_inexact(self.values[i].dtype)

    def _differentiate(self) -> None:
        """One step back: cotangents of its inputs from those of its outputs."""
        own = self.own
        self.slopes = [fresh(own[i]) for i in self.smooth]
        self.given = [fresh(self.outputs[i]) for i in self.taken]
        self.sums = [fresh(own[i]) for i in self.of_rest]
        of_outputs: list[Value | None] = [None] * len(self.outputs)
        places = [*self.smooth, *self.taken]
        for i, slope in zip(places, [*self.slopes, *self.given], strict=True):
            of_outputs[i] = slope
        # The sums so far are cotangents of the captures: each step adds to them.
        counted = [own[i] for i in self.of_rest]
        wrt = [own[i] for i in (*self.smooth, *self.of_rest, *self.of_rows)]
        found = pull([*self.outputs, *counted], [*of_outputs, *self.sums], wrt)
        pairs = zip(found, wrt, strict=True)
        made = [F.zeros_like(v) if d is None else d for d, v in pairs]
        both = together([*self.outputs, *made])
        self.outputs, self.found = both[: len(of_outputs)], both[len(of_outputs) :]

    def _undo(self) -> None:
        """Recover carries that are used whole from the final ones, write by write."""
        own = self.own[: self.carries]
        cotangents = [*self.slopes, *self.given, *self.sums]
        region = region_between(self.found, [*self.own, *cotangents])
        late = set(region_between(self.found, cotangents))
        whole = [
            i
            for i, v in enumerate(own)
            if _reads(v, self.own, region, late, self.found) is None
        ]
        changing = [own[i] for i in whole]
        for i in whole:
            found = undone(own[i], self.outputs[i], changing, self.own)
            if found is not None:
                self.undone[i] = found
        states = [u.states for u in self.undone.values()]
        self.found = _again(self.found, {k: v for s in states for k, v in s.items()})
        firsts = [u.first for u in self.undone.values()]
        self.found[self.carried : self.carried] = firsts

    def run(self) -> tuple[Value | None, ...]:
        """The cotangents of the inputs."""
        kept = self._kept()
        rows = self.values[self.carries : self.split]
        given = [c for c in self.cotangents[self.carries :] if c is not None]
        ends, stacked = self._before(kept)
        sequences = [*stacked, *rows, *given]
        first = [
            F.zeros_like(self.values[i]) if (c := self.cotangents[i]) is None else c
            for i in self.smooth
        ]
        first += [F.zeros_like(self.values[i]) for i in self.of_rest]
        first += ends
        lasts = [u.last for u in self.undone.values()]
        variables = [*self.slopes, *self.sums, *lasts]
        known = [*kept, *self.own[self.carries : self.split], *self.given]

        def back(carry: list[Value], row: list[Value]) -> StepResult:
            size = len(variables)
            taken, state = self._taken(carry[size:])
            new = self._behind(carry[size:]) | self._rest()
            new |= dict(zip(variables, carry[:size], strict=True))
            new |= dict(zip(known, [*taken, *row], strict=True))
            made = _again(self.found, new)
            return [*made[:size], *state], made[size:]

        extent = self._rows_back(), not self.params["reverse"]
        ends, stacked = run_scan(
            back,
            first,
            sequences,
            *extent,
            pruned=True,
            count=self._steps(),
            unroll=self.params["unroll"],
            chunk=None if self.params["chunk"] is None else 1,
            **self._recomputing(len(variables)),
        )
        result: list[Value | None] = [None] * len(self.node.inputs)
        places = [*self.smooth, *self.of_rest, *self.of_rows]
        found = [*ends[: self.carried], *stacked]
        for i, d in zip(places, found, strict=True):
            result[i] = d
        return tuple(result)

    def _steps(self) -> Value | None:
        """The trip count, where this is not the length."""
        stops = self.params["stops"]
        return self.node.outputs[self.carries] if stops else self.parts.limit

    def _length(self) -> Size:
        """The number of slices; of a loop without sequences, the trip count."""
        length: Size | None = self.params["length"]
        if length is None:
            steps = self._steps()
            assert steps is not None
            return steps_size(steps, None, shared=True)
        return length

    def _rows_back(self) -> Size | None:
        """The number of slices of the backward scan."""
        return self._length()

    def _taken(self, state: list[Value]) -> StepResult:
        """Inputs of a backward step that are not in its slices; and a new state."""
        return [], state

    def _behind(self, state: list[Value]) -> dict[Value, Value]:
        """Outputs of a step that are known without recomputing it."""
        return {}

    def _recomputing(self, size: int) -> Params:
        """How it recomputes steps, if the loop's own carries follow `size` carries."""
        return {}

    def _rest(self) -> dict[Value, Value]:
        """Replacements of the captures in a step."""
        rest = self.values[self.split :]
        return dict(zip(self.own[self.split :], rest, strict=True))

    def _kept(self) -> list[Value]:
        """The values of a step, or from before it, that its backward step reads."""
        new = [*self.slopes, *self.given, *self.sums]
        new += [u.last for u in self.undone.values()]
        candidates = {v: None for u in self.undone.values() for v in u.log}
        known = [*self.own, *new, *candidates]
        region = region_between(self.found, known)
        late = set(region_between(self.found, new))
        for carry in self.own[: self.carries]:
            reads = _reads(carry, self.own, region, late, self.found)
            candidates.update(dict.fromkeys([carry] if reads is None else reads))
        if self.params["chunk"] is None:
            more = residuals(self.found, region, late, self.own, self.params["length"])
            candidates.update(dict.fromkeys(more))
        used = used_between(self.found, [*known, *candidates])
        return [v for v in candidates if v in used]

    def _before(self, kept: Sequence[Value]) -> StepResult:
        """The final carries to invert writes from, and the kept values of all steps."""
        if not kept and not self.undone:
            return [], []
        needed = self._needed([*kept, *(self.own[i] for i in self.undone)])
        smooth = bool(needed & set(self.smooth))
        if not (smooth or len(needed) == self.carries or self.params["stops"]):
            return self._apart(sorted(needed), kept)
        ends = [self.node.outputs[i] for i in self.undone]
        return ends, self._stacked(kept) if kept else []

    def _needed(self, values: Sequence[Value]) -> set[int]:
        """The carries that values depend on, in this step or in earlier ones."""
        own = self.own[: self.carries]
        found: set[int] = set()
        while True:
            used = used_between(values, own)
            more = {i for i, v in enumerate(own) if v in used}
            if more <= found:
                return found
            found |= more
            values = [*values, *(self.outputs[i] for i in found)]

    def _apart(self, needed: list[int], kept: Sequence[Value]) -> StepResult:
        """Keep values by a scan of their own, of these carries alone.

        It does not depend on inputs with a wanted gradient: the derivative of a linear
        loop holds no element of its input.
        """
        own = [self.own[i] for i in needed] + self.own[self.carries : self.split]
        wanted = [*(self.outputs[i] for i in needed), *kept]

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            new = self._rest() | dict(zip(own, [*carry, *row], strict=True))
            made = _again(wanted, new)
            return made[: len(needed)], made[len(needed) :]

        first = [self.parts.first[i] for i in needed]
        extent = self._length(), self.params["reverse"]
        ends, stacked = run_scan(
            step, first, self.parts.rows, *extent, pruned=True, count=self.parts.limit
        )
        return [ends[needed.index(i)] for i in self.undone], stacked

    def _stacked(self, kept: Sequence[Value]) -> list[Value]:
        """Keep values by a superset scan, with all outputs of the first scan too.

        A loop without sequences tells its trip count: only then can it run again.
        """
        parts, again = self.parts, self.params["length"] is None
        own, size = self.own[: self.split], self.carries
        front = size if again else size + self.params["stops"]
        ys = [] if again else self.outputs[front:]
        ys += [v for v in kept if v not in set(ys)]

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            new = self._rest() | dict(zip(own, [*carry, *row], strict=True))
            made = _again([*self.outputs[:front], *ys], new)
            return made[:size], made[size:]

        _, stacked = run_scan(
            step,
            parts.first,
            parts.rows,
            self._length(),
            self.params["reverse"],
            superset_of=None if again else Opaque("scan", self.node),
            count=self._steps() if again else parts.limit,
            going=None if again else parts.going,
            unroll=self.params["unroll"],
            chunk=self.params["chunk"],
        )
        found = dict(zip(ys, stacked[len(stacked) - len(ys) :], strict=True))
        return [found[v] for v in kept]


class _Few(_Backward):
    """The gradient with bounded checkpoints."""

    def _store(self) -> Store:
        length, chunk = self.params["length"], self.params["chunk"]
        known = length is not None and chunk is not None
        return Chunks(length, chunk) if known else Treeverse(length)

    def _undo(self) -> None:
        """No write is inverted: overwritten elements are recomputed."""

    def _rows_back(self) -> Size | None:
        length: Size | None = self.params["length"]
        return length

    def _kept(self) -> list[Value]:
        own = self.own[: self.carries]
        used = used_between(self.found, own)
        self.needed = sorted(self._needed([v for v in own if v in used]))
        return [own[i] for i in self.needed]

    def _before(self, kept: Sequence[Value]) -> StepResult:
        """The store's state for the way back, by a superset scan."""
        if not kept:
            return [], []
        parts, params, own = self.parts, self.params, self.own[: self.split]
        store = self._store()
        start = store.start([parts.first[i] for i in self.needed])

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            before, state = carry[: self.carries], carry[self.carries :]
            new = self._rest() | dict(zip(own, [*before, *row], strict=True))
            made = _again(self.outputs, new)
            after = store.keep(state, [before[i] for i in self.needed])
            return [*made[: self.carries], *after], made[self.carries :]

        ends, _ = run_scan(
            step,
            [*parts.first, *start],
            parts.rows,
            params["length"],
            params["reverse"],
            superset_of=Opaque("scan", self.node),
            count=parts.limit,
            going=parts.going,
            unroll=params["unroll"],
            per_chunk=store.per_chunk(self.carries, len(self.needed), False),
        )
        state = store.ready(ends[self.carries :], [ends[i] for i in self.needed])
        self._size = len(state)
        return state, []

    def _recomputing(self, size: int) -> Params:
        if not self.needed:
            return {}
        before, store = size + self._size - len(self.needed), self._store()
        replay = Replay(size + store.front, before, tuple(self.needed))
        per_chunk = store.per_chunk(size, len(self.needed), True)
        return {"replay": replay, "per_chunk": per_chunk}

    def _taken(self, state: list[Value]) -> StepResult:
        if not state:
            return [], []
        own, count = self.own[: self.split], state[1]
        sequences = list(map(readable, self.parts.rows))
        wanted = [self.outputs[i] for i in self.needed]
        changing = [own[i] for i in self.needed]

        def advance(carry: list[Value], number: Value) -> list[Value]:
            place = count - 1 - number if self.params["reverse"] else number
            rows = [read(v, place) for v in sequences]
            new = self._rest() | dict(zip(own[self.carries :], rows, strict=True))
            return _again(wanted, new | dict(zip(changing, carry, strict=True)))

        return self._store().back(state, len(changing), advance)

    def _behind(self, state: list[Value]) -> dict[Value, Value]:
        given = [self.outputs[i] for i in self.needed]
        pairs = zip(given, state[len(state) - len(given) :], strict=True)
        return {v: known for v, known in pairs if v not in set(self.own)}


def _again(outputs: Sequence[Value], new: dict[Value, Value]) -> list[Value]:
    return replayed(outputs, new, region_between(outputs, new))


def _reads(
    carry: Value,
    own: Iterable[Value],
    region: Sequence[Node],
    late: set[Node],
    found: Iterable[Value],
) -> list[Value] | None:
    """The small values through which alone a large carry is used, None for others.

    Their sizes are the same in all steps.
    """
    large, small = {carry}, {}
    inside = {*region, *(v.node for v in own)}
    most = weight(carry) // MUCH_LESS
    for node in region:
        if any(v in large for v in operands(node)):
            if node in late:
                return None
            for value in node.outputs:
                sizes = [v.node for n in value.type.shape for v in origins(n)]
                if weight(value) <= most and inside.isdisjoint(sizes):
                    small[value] = True
                else:
                    large.add(value)
    least = sum(map(weight, small)) <= most
    return list(small) if least and not large & set(found) else None
