"""The gradient of a scan: a backward scan that recomputes what is cheap in each step.

A superset scan keeps the values that a backward step needs, and replaces the first scan
too (see `control.loop_cse`). These values are the carries, and values that take longer
to recompute (see `residuals`). Where a large carry is only read in places, the elements
read are kept instead; where it is used whole and written in places, the overwritten
elements are (see `inverse_writes`). So a table that is filled step by step needs memory
linear in the number of steps, not quadratic.

With bounded checkpoints, a scan with a checkpoint store keeps some carries, and steps
are recomputed from there (see `treeverse`). The gradient of that gradient is the
gradient of a scan over chunks (see `nested`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from graphc.control.carries import fresh
from graphc.control.checkpoint_policy import in_chunks_of
from graphc.control.loop_cse import together
from graphc.control.scan import (
    SCAN,
    parts_of,
    run_scan,
    sizes_in,
    used_between,
    with_sizes,
)
from graphc.control.scan_records import Replay
from graphc.control.trip_count import steps_size
from graphc.ir.graph.bodies import Body, StepResult
from graphc.ir.graph.build import variable
from graphc.ir.graph.nodes import Node, Params, Value, origins
from graphc.ir.graph.op import Opaque
from graphc.ir.graph.replay import rebuilt, region_between
from graphc.ir.graph.walk import operands
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size
from graphc.ir.types import is_inexact
from graphc.ops.indexing.row_access import read, readable
from graphc.transform.derivatives.autodiff import pull
from graphc.transform.derivatives.custom_vjp import with_rule
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
    g: Any, *values: Value, needed: list[bool], **params: Any
) -> tuple[Value | None, ...]:
    cotangents = list(g) if isinstance(g, tuple) else [g]
    if params["few"] or in_chunks_of(params["chunk"]):
        return _by_few(values, needed, cotangents, params)
    return _Backward(values, needed, cotangents, params).run()


def _by_few(
    values: tuple[Value, ...],
    needed: list[bool],
    cotangents: list[Value | None],
    params: dict[str, object],
) -> tuple[Value | None, ...]:
    """Differentiate a scan with bounded checkpoints.

    The gradient of the result is that of a scan over chunks, or of the rule that keeps
    all carries.
    """
    input_cotangents = _Few(values, needed, cotangents, params).run()
    outputs = [d for d in input_cotangents if d is not None]
    places = [i for i, d in enumerate(input_cotangents) if d is not None]
    size = len(values)
    inputs = [*values, *(c for c in cotangents if c is not None)]

    def again(
        arguments: list[Value],
        slopes: list[Value],
        asked: list[bool],
        sizes: tuple[Size, ...],
    ) -> list[Value | None]:
        now = with_sizes(params, sizes)
        variables = [fresh(v) for v in arguments]
        remaining = iter(variables[size:])
        seeds = [None if c is None else next(remaining) for c in cotangents]
        first = tuple(variables[:size])
        gradients: list[Value | None]
        if has_chunks(now):
            gradients = pull(nested(first, now), seeds, [first[i] for i in places])
        else:
            keeping_all = now | {"few": False, "chunk": 1}
            back = _Backward(first, needed, seeds, keeping_all).run()
            gradients = [back[i] for i in places]
        pairs = zip(gradients, slopes, strict=True)
        both = [(d, slope) for d, slope in pairs if d is not None]
        wrt = [v for v, one in zip(variables, asked, strict=True) if one]
        answers = iter(pull([d for d, _ in both], [c for _, c in both], wrt))
        every = [next(answers) if one else None for one in asked]
        return _of_arguments(every, variables, arguments)

    ruled = iter(with_rule(outputs, inputs, again, "scan", sizes_in(params)))
    return tuple([None if d is None else next(ruled) for d in input_cotangents])


def _of_arguments(
    values: Sequence[Value | None], inner: Sequence[Value], arguments: Sequence[Value]
) -> list[Value | None]:
    """Rebuild values on `arguments` in place of the `inner` variables of a rule."""
    new = dict(zip(inner, arguments, strict=True))
    answers = iter(rebuilt([v for v in values if v is not None], new))
    return [None if v is None else next(answers) for v in values]


class _Backward:
    """The backward scan of a scan, with the gradient of one step on its own variables.

    Integers number the inputs: carries first, then sequences, then the rest.
    """

    def __init__(
        self,
        values: tuple[Value, ...],
        needed: list[bool],
        cotangents: list[Value | None],
        params: dict[str, Any],
    ) -> None:
        self.node, self.params = SCAN.bind(values, params), params
        self.parts, self.cotangents = parts_of(values, params), cotangents
        self.carries = params["carries"]
        self.split = self.carries + params["sequences"]
        self.values = values[: self.split + len(self.parts.captures)]
        asked = [i for i in range(self.carries, len(self.values)) if needed[i]]
        self.of_rows = [i for i in asked if i < self.split]
        self.of_captures = [i for i in asked if i >= self.split]
        self.taken = [
            i for i in range(self.carries, len(cotangents)) if cotangents[i] is not None
        ]
        body: Body = params["body"].content
        self.inputs = [self._variable(i) for i in range(len(self.values))]
        self.outputs = body.call(self.inputs, params["sizes"])
        self.smooth = self._active([i for i, w in enumerate(needed) if w])
        self._differentiate()
        self.carried = len(self.smooth) + len(self.of_captures)
        self.undone: dict[int, InverseWrites] = {}
        self._undo()

    def _variable(self, i: int) -> Value:
        value = self.values[i]
        if self.carries <= i < self.split:
            return variable(value.name or "row", value.type.like(value.type.shape[1:]))
        return fresh(value) if i < self.carries or i in self.of_captures else value

    def _active(self, differentiated: list[int]) -> list[int]:
        """The inexact carries that `differentiated` inputs reach after any step."""
        active = set(differentiated)
        after = self.outputs[: self.carries]
        while True:
            inputs = {self.inputs[i] for i in active}
            reached = set(region_between(after, inputs))
            more = {i for i, v in enumerate(after) if v in inputs or v.node in reached}
            if more <= active:
                break
            active |= more
        return [i for i in range(self.carries) if i in active and self._is_smooth(i)]

    def _is_smooth(self, i: int) -> bool:
        return is_inexact(self.values[i].dtype)

    def _differentiate(self) -> None:
        """Build a backward step: cotangents of its inputs from those of its outputs."""
        inputs = self.inputs
        self.slopes = [fresh(inputs[i]) for i in self.smooth]
        self.row_slopes = [fresh(self.outputs[i]) for i in self.taken]
        self.sums = [fresh(inputs[i]) for i in self.of_captures]
        of_outputs: list[Value | None] = [None] * len(self.outputs)
        places = [*self.smooth, *self.taken]
        for i, slope in zip(places, [*self.slopes, *self.row_slopes], strict=True):
            of_outputs[i] = slope
        # The sums so far are cotangents of the captures: each step adds to them.
        counted = [inputs[i] for i in self.of_captures]
        wrt = [inputs[i] for i in (*self.smooth, *self.of_captures, *self.of_rows)]
        gradients = pull([*self.outputs, *counted], [*of_outputs, *self.sums], wrt)
        pairs = zip(gradients, wrt, strict=True)
        slopes_before = [F.zeros_like(v) if d is None else d for d, v in pairs]
        both = together([*self.outputs, *slopes_before])
        self.outputs, self.gradients = both[: len(of_outputs)], both[len(of_outputs) :]

    def _undo(self) -> None:
        """Recover carries that are used whole from the final ones, write by write."""
        carries = self.inputs[: self.carries]
        cotangents = [*self.slopes, *self.row_slopes, *self.sums]
        region = region_between(self.gradients, [*self.inputs, *cotangents])
        late = set(region_between(self.gradients, cotangents))
        whole = [
            i
            for i, v in enumerate(carries)
            if _reads(v, self.inputs, region, late, self.gradients) is None
        ]
        changing = [carries[i] for i in whole]
        for i in whole:
            inverse = undone(carries[i], self.outputs[i], changing, self.inputs)
            if inverse is not None:
                self.undone[i] = inverse
        states = {k: v for u in self.undone.values() for k, v in u.states.items()}
        self.gradients = rebuilt(self.gradients, states)
        firsts = [u.first for u in self.undone.values()]
        self.gradients[self.carried : self.carried] = firsts

    def run(self) -> tuple[Value | None, ...]:
        """Run the backward scan, and return the cotangents of the inputs."""
        saved = self._residuals()
        rows = self.values[self.carries : self.split]
        seeds = [c for c in self.cotangents[self.carries :] if c is not None]
        ends, stacked = self._before(saved)
        sequences = [*stacked, *rows, *seeds]
        first = [
            F.zeros_like(self.values[i]) if (c := self.cotangents[i]) is None else c
            for i in self.smooth
        ]
        first += [F.zeros_like(self.values[i]) for i in self.of_captures]
        first += ends
        lasts = [u.last for u in self.undone.values()]
        variables = [*self.slopes, *self.sums, *lasts]
        known = [*saved, *self.inputs[self.carries : self.split], *self.row_slopes]

        def back(carry: list[Value], row: list[Value]) -> StepResult:
            size = len(variables)
            taken, state = self._taken(carry[size:])
            new = self._behind(carry[size:]) | self._captures()
            new |= dict(zip(variables, carry[:size], strict=True))
            new |= dict(zip(known, [*taken, *row], strict=True))
            outputs = rebuilt(self.gradients, new)
            return [*outputs[:size], *state], outputs[size:]

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
        places = [*self.smooth, *self.of_captures, *self.of_rows]
        cotangents = [*ends[: self.carried], *stacked]
        for i, d in zip(places, cotangents, strict=True):
            result[i] = d
        return tuple(result)

    def _steps(self) -> Value | None:
        """The trip count where it is not the length; else None."""
        stops = self.params["stops"]
        return self.node.outputs[self.carries] if stops else self.parts.limit

    def _length(self) -> Size:
        """The number of slices; in a loop without sequences, the trip count."""
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
        """The inputs of a backward step that are not in its slices, and a new state."""
        return [], state

    def _behind(self, state: list[Value]) -> dict[Value, Value]:
        """Outputs of a step that are known without recomputing it."""
        return {}

    def _recomputing(self, size: int) -> Params:
        """Options for recomputing steps; the store's state follows `size` carries."""
        return {}

    def _captures(self) -> dict[Value, Value]:
        """Replacements of the captures in a step."""
        captures = self.values[self.split :]
        return dict(zip(self.inputs[self.split :], captures, strict=True))

    def _residuals(self) -> list[Value]:
        """The values of a step, or from before it, that its backward step reads."""
        new = [*self.slopes, *self.row_slopes, *self.sums]
        new += [u.last for u in self.undone.values()]
        candidates = {v: None for u in self.undone.values() for v in u.log}
        known = [*self.inputs, *new, *candidates]
        region = region_between(self.gradients, known)
        late = set(region_between(self.gradients, new))
        for carry in self.inputs[: self.carries]:
            reads = _reads(carry, self.inputs, region, late, self.gradients)
            candidates.update(dict.fromkeys([carry] if reads is None else reads))
        if self.params["chunk"] is None:
            inputs, steps = self.inputs, self.params["length"]
            changing = inputs[: self.split]
            more = residuals(self.gradients, region, late, inputs, changing, steps)
            candidates.update(dict.fromkeys(more))
        used = used_between(self.gradients, [*known, *candidates])
        return [v for v in candidates if v in used]

    def _before(self, retained: Sequence[Value]) -> StepResult:
        """The final carries to invert writes from, and the kept values of all steps."""
        if not retained and not self.undone:
            return [], []
        needed = self._needed([*retained, *(self.inputs[i] for i in self.undone)])
        smooth = bool(needed & set(self.smooth))
        if not (smooth or len(needed) == self.carries or self.params["stops"]):
            return self._apart(sorted(needed), retained)
        ends = [self.node.outputs[i] for i in self.undone]
        return ends, self._stacked(retained) if retained else []

    def _needed(self, values: Sequence[Value]) -> set[int]:
        """The carries that values depend on, in this step or in earlier ones."""
        carries = self.inputs[: self.carries]
        needed: set[int] = set()
        while True:
            used = used_between(values, carries)
            more = {i for i, v in enumerate(carries) if v in used}
            if more <= needed:
                return needed
            needed |= more
            values = [*values, *(self.outputs[i] for i in needed)]

    def _apart(self, needed: list[int], retained: Sequence[Value]) -> StepResult:
        """Keep values by a separate scan of the `needed` carries alone.

        The separate scan does not depend on inputs with a wanted gradient, so the
        derivative of a linear loop holds no element of its input.
        """
        args = [self.inputs[i] for i in needed] + self.inputs[self.carries : self.split]
        requested = [*(self.outputs[i] for i in needed), *retained]

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            new = self._captures() | dict(zip(args, [*carry, *row], strict=True))
            results = rebuilt(requested, new)
            return results[: len(needed)], results[len(needed) :]

        first = [self.parts.first[i] for i in needed]
        extent = self._length(), self.params["reverse"]
        ends, stacked = run_scan(
            step, first, self.parts.rows, *extent, pruned=True, count=self.parts.limit
        )
        return [ends[needed.index(i)] for i in self.undone], stacked

    def _stacked(self, retained: Sequence[Value]) -> list[Value]:
        """Keep values by a superset scan, which has all outputs of the first scan too.

        A loop without sequences must give its trip count before it can run again.
        """
        parts, again = self.parts, self.params["length"] is None
        inputs, size = self.inputs[: self.split], self.carries
        front = size if again else size + self.params["stops"]
        ys = [] if again else self.outputs[front:]
        ys += [v for v in retained if v not in set(ys)]

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            new = self._captures() | dict(zip(inputs, [*carry, *row], strict=True))
            results = rebuilt([*self.outputs[:front], *ys], new)
            return results[:size], results[size:]

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
        by_value = dict(zip(ys, stacked[len(stacked) - len(ys) :], strict=True))
        return [by_value[v] for v in retained]


class _Few(_Backward):
    """The backward scan with bounded checkpoints."""

    def _store(self) -> Store:
        length, chunk = self.params["length"], self.params["chunk"]
        if length is None or chunk is None:
            return Treeverse(length)
        return Chunks(length, chunk)

    def _undo(self) -> None:
        """Invert no write: overwritten elements are recomputed."""

    def _rows_back(self) -> Size | None:
        return self.params["length"]

    def _residuals(self) -> list[Value]:
        carries = self.inputs[: self.carries]
        used = used_between(self.gradients, carries)
        self.needed = sorted(self._needed([v for v in carries if v in used]))
        return [carries[i] for i in self.needed]

    def _before(self, retained: Sequence[Value]) -> StepResult:
        """Run a superset scan, and return the store's state for the way back."""
        if not retained:
            return [], []
        parts, params, inputs = self.parts, self.params, self.inputs[: self.split]
        store = self._store()
        start = store.start([parts.first[i] for i in self.needed])

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            before, state = carry[: self.carries], carry[self.carries :]
            new = self._captures() | dict(zip(inputs, [*before, *row], strict=True))
            results = rebuilt(self.outputs, new)
            after = store.keep(state, [before[i] for i in self.needed])
            return [*results[: self.carries], *after], results[self.carries :]

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
        row_inputs, count = self.inputs[self.carries : self.split], state[1]
        sequences = list(map(readable, self.parts.rows))
        carries_after = [self.outputs[i] for i in self.needed]
        changing = [self.inputs[i] for i in self.needed]

        def advance(carry: list[Value], number: Value) -> list[Value]:
            place = count - 1 - number if self.params["reverse"] else number
            rows = [read(v, place) for v in sequences]
            new = self._captures() | dict(zip(row_inputs, rows, strict=True))
            return rebuilt(carries_after, new | dict(zip(changing, carry, strict=True)))

        return self._store().back(state, len(changing), advance)

    def _behind(self, state: list[Value]) -> dict[Value, Value]:
        ends = [self.outputs[i] for i in self.needed]
        pairs = zip(ends, state[len(state) - len(ends) :], strict=True)
        return {v: known for v, known in pairs if v not in set(self.inputs)}


def _reads(
    carry: Value,
    inputs: Iterable[Value],
    region: Sequence[Node],
    late: set[Node],
    results: Iterable[Value],
) -> list[Value] | None:
    """The small values that are the only uses of a large carry; None for other carries.

    The sizes of these values are the same in all steps.
    """
    large, small = {carry}, {}
    inside = {*region, *(v.node for v in inputs)}
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
    return list(small) if least and not large & set(results) else None
