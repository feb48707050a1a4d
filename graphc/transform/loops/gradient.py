"""The gradient of a scan: a backward scan that recomputes what is cheap in each step.

A superset scan keeps the values that a backward step needs, and replaces the first scan
too (see `control.loop_cse`). These values are the carries, and values that take longer
to recompute (see `residuals`). Where a large carry is only read in places, the elements
read are kept instead; where it is used whole and written in places, the overwritten
elements are (see `inverse_writes`). So a table that is filled step by step needs memory
linear in the number of steps, not quadratic.

With bounded checkpoints, a scan with a checkpoint store keeps some carries, and steps
are recomputed from there (see `treeverse`). The gradient of that gradient is the
gradient of a scan over chunks (see `scan_over_chunks`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from graphc.control.carries import variable_like
from graphc.control.checkpoint_policy import recomputes_steps
from graphc.control.loop_cse import merge_in_values
from graphc.control.scan import (
    SCAN,
    run_scan,
    scan_inputs,
    sizes_in,
    values_used,
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
from graphc.transform.derivatives.autodiff import pull, zeros_for_missing
from graphc.transform.derivatives.custom_vjp import with_gradient_rule
from graphc.transform.loops.checkpointing.nesting import has_chunks, scan_over_chunks
from graphc.transform.loops.checkpointing.segments import Chunks, Store
from graphc.transform.loops.checkpointing.treeverse import Treeverse
from graphc.transform.loops.inverse_writes import (
    MUCH_SMALLER,
    InverseWrites,
    invert_writes,
    typical_elements,
)
from graphc.transform.loops.residuals import residuals


@SCAN.vjp
def _(
    g: Any, *values: Value, needed: list[bool], **params: Any
) -> tuple[Value | None, ...]:
    cotangents = list(g) if isinstance(g, tuple) else [g]
    if params["few"] or recomputes_steps(params["chunk"]):
        return _pull_with_checkpoints(values, needed, cotangents, params)
    return _Pullback(values, needed, cotangents, params).run()


def _pull_with_checkpoints(
    values: tuple[Value, ...],
    needed: list[bool],
    cotangents: list[Value | None],
    params: dict[str, object],
) -> tuple[Value | None, ...]:
    """Differentiate a scan with bounded checkpoints.

    The gradient of the result is that of a scan over chunks, or keeps all carries.
    """
    input_cotangents = _CheckpointedPullback(values, needed, cotangents, params).run()
    outputs = [d for d in input_cotangents if d is not None]
    places = [i for i, d in enumerate(input_cotangents) if d is not None]
    size = len(values)
    inputs = [*values, *(c for c in cotangents if c is not None)]

    def rule(
        arguments: list[Value],
        slopes: list[Value],
        are_needed: list[bool],
        sizes: tuple[Size, ...],
    ) -> list[Value | None]:
        params_now = with_sizes(params, sizes)
        variables = [variable_like(v) for v in arguments]
        remaining = iter(variables[size:])
        seeds = [None if c is None else next(remaining) for c in cotangents]
        first = tuple(variables[:size])
        if has_chunks(params_now):
            results = scan_over_chunks(first, params_now)
            gradients = pull(results, seeds, [first[i] for i in places])
        else:
            keeping_all = params_now | {"few": False, "chunk": 1}
            back = _Pullback(first, needed, seeds, keeping_all).run()
            gradients = [back[i] for i in places]
        pairs = zip(gradients, slopes, strict=True)
        both = [(d, slope) for d, slope in pairs if d is not None]
        wrt = [v for v, flag in zip(variables, are_needed, strict=True) if flag]
        answers = iter(pull([d for d, _ in both], [c for _, c in both], wrt))
        every = [next(answers) if flag else None for flag in are_needed]
        return _on_arguments(every, variables, arguments)

    ruled = iter(with_gradient_rule(outputs, inputs, rule, "scan", sizes_in(params)))
    return tuple([None if d is None else next(ruled) for d in input_cotangents])


def _on_arguments(
    values: Sequence[Value | None], inner: Sequence[Value], arguments: Sequence[Value]
) -> list[Value | None]:
    """Rebuild values on `arguments` in place of the `inner` variables of a rule."""
    new = dict(zip(inner, arguments, strict=True))
    answers = iter(rebuilt([v for v in values if v is not None], new))
    return [None if v is None else next(answers) for v in values]


class _Pullback:
    """The backward scan of a scan, with the gradient of one step on its own variables.

    Integers number the inputs: carries first, then sequences, then the rest.
    """

    def __init__(
        self,
        values: tuple[Value, ...],
        needed: list[bool],
        cotangents: list[Value | None],
        params: Params,
    ) -> None:
        self.node, self.params = SCAN.bind(values, dict(params)), params
        self.parts, self.cotangents = scan_inputs(values, params), cotangents
        self.carries = params["carries"]
        self.rows_end = self.carries + params["sequences"]
        self.values = values[: self.rows_end + len(self.parts.captures)]
        wanted_inputs = [i for i in range(self.carries, len(self.values)) if needed[i]]
        self.grad_rows = [i for i in wanted_inputs if i < self.rows_end]
        self.grad_captures = [i for i in wanted_inputs if i >= self.rows_end]
        self.output_places = [
            i for i in range(self.carries, len(cotangents)) if cotangents[i] is not None
        ]
        body: Body = params["body"].content
        self.inputs = [self._variable(i) for i in range(len(self.values))]
        self.outputs = body.call(self.inputs, params["sizes"])
        self.smooth = self._find_smooth_carries([i for i, w in enumerate(needed) if w])
        self._differentiate()
        self.carried_count = len(self.smooth) + len(self.grad_captures)
        self.inverses: dict[int, InverseWrites] = {}
        self._invert_writes()

    def _variable(self, i: int) -> Value:
        value = self.values[i]
        if self.carries <= i < self.rows_end:
            return variable(value.name or "row", value.type.like(value.type.shape[1:]))
        is_input = i < self.carries or i in self.grad_captures
        return variable_like(value) if is_input else value

    def _find_smooth_carries(self, differentiated: list[int]) -> list[int]:
        """The inexact carries that `differentiated` inputs reach after any step."""
        active = set(differentiated)
        after = self.outputs[: self.carries]
        while True:
            inputs = {self.inputs[i] for i in active}
            reached = set(region_between(after, inputs))
            added = {i for i, v in enumerate(after) if v in inputs or v.node in reached}
            if added <= active:
                break
            active |= added
        return [i for i in range(self.carries) if i in active and self._is_smooth(i)]

    def _is_smooth(self, i: int) -> bool:
        return is_inexact(self.values[i].dtype)

    def _differentiate(self) -> None:
        """Build a backward step: cotangents of its inputs from those of its outputs."""
        inputs = self.inputs
        self.slopes = [variable_like(inputs[i]) for i in self.smooth]
        self.row_slopes = [variable_like(self.outputs[i]) for i in self.output_places]
        self.sums = [variable_like(inputs[i]) for i in self.grad_captures]
        of_outputs: list[Value | None] = [None] * len(self.outputs)
        places = [*self.smooth, *self.output_places]
        for i, slope in zip(places, [*self.slopes, *self.row_slopes], strict=True):
            of_outputs[i] = slope
        # The sums so far are cotangents of the captures: each step adds to them.
        counted = [inputs[i] for i in self.grad_captures]
        wrt = [inputs[i] for i in (*self.smooth, *self.grad_captures, *self.grad_rows)]
        gradients = pull([*self.outputs, *counted], [*of_outputs, *self.sums], wrt)
        slopes_before = zeros_for_missing(gradients, wrt)
        both = merge_in_values([*self.outputs, *slopes_before])
        self.outputs, self.gradients = both[: len(of_outputs)], both[len(of_outputs) :]

    def _invert_writes(self) -> None:
        """Recover carries that are used whole from the final ones, write by write."""
        carries = self.inputs[: self.carries]
        cotangents = [*self.slopes, *self.row_slopes, *self.sums]
        region = region_between(self.gradients, [*self.inputs, *cotangents])
        late = set(region_between(self.gradients, cotangents))
        whole_carries = [
            i
            for i, v in enumerate(carries)
            if _small_reads(v, self.inputs, region, late, self.gradients) is None
        ]
        changing = [carries[i] for i in whole_carries]
        for i in whole_carries:
            inverse = invert_writes(carries[i], self.outputs[i], changing, self.inputs)
            if inverse is not None:
                self.inverses[i] = inverse
        states = {k: v for u in self.inverses.values() for k, v in u.states.items()}
        self.gradients = rebuilt(self.gradients, states)
        firsts = [u.first for u in self.inverses.values()]
        self.gradients[self.carried_count : self.carried_count] = firsts

    def run(self) -> tuple[Value | None, ...]:
        """Run the backward scan, and return the cotangents of the inputs."""
        saved = self._residuals()
        rows = self.values[self.carries : self.rows_end]
        seeds = [c for c in self.cotangents[self.carries :] if c is not None]
        ends, stacked = self._kept_values(saved)
        sequences = [*stacked, *rows, *seeds]
        first = [
            F.zeros_like(self.values[i]) if (c := self.cotangents[i]) is None else c
            for i in self.smooth
        ]
        first += [F.zeros_like(self.values[i]) for i in self.grad_captures]
        first += ends
        lasts = [u.last for u in self.inverses.values()]
        variables = [*self.slopes, *self.sums, *lasts]
        known = [*saved, *self.inputs[self.carries : self.rows_end], *self.row_slopes]

        def back(carry: list[Value], row: list[Value]) -> StepResult:
            size = len(variables)
            inputs_taken, state = self._step_inputs(carry[size:])
            new = self._known_outputs(carry[size:]) | self._captures()
            new |= dict(zip(variables, carry[:size], strict=True))
            new |= dict(zip(known, [*inputs_taken, *row], strict=True))
            outputs = rebuilt(self.gradients, new)
            return [*outputs[:size], *state], outputs[size:]

        extent = self._slices_back(), not self.params["reverse"]
        ends, stacked = run_scan(
            back,
            first,
            sequences,
            *extent,
            pruned=True,
            count=self._trip_count(),
            unroll=self.params["unroll"],
            chunk=None if self.params["chunk"] is None else 1,
            **self._replay_options(len(variables)),
        )
        result: list[Value | None] = [None] * len(self.node.inputs)
        places = [*self.smooth, *self.grad_captures, *self.grad_rows]
        cotangents = [*ends[: self.carried_count], *stacked]
        for i, d in zip(places, cotangents, strict=True):
            result[i] = d
        return tuple(result)

    def _trip_count(self) -> Value | None:
        """The trip count where it is not the length; else None."""
        stops = self.params["stops"]
        return self.node.outputs[self.carries] if stops else self.parts.limit

    def _length(self) -> Size:
        """The number of slices; in a loop without sequences, the trip count."""
        length: Size | None = self.params["length"]
        if length is None:
            steps = self._trip_count()
            assert steps is not None
            return steps_size(steps, None, shared=True)
        return length

    def _slices_back(self) -> Size | None:
        """The number of slices of the backward scan."""
        return self._length()

    def _step_inputs(self, state: list[Value]) -> StepResult:
        """The inputs of a backward step that are not in its slices, and a new state."""
        return [], state

    def _known_outputs(self, state: list[Value]) -> dict[Value, Value]:
        """Outputs of a step that are known without recomputing it."""
        return {}

    def _replay_options(self, size: int) -> Params:
        """Options for recomputing steps; the store's state follows `size` carries."""
        return {}

    def _captures(self) -> dict[Value, Value]:
        """Replacements of the captures in a step."""
        captures = self.values[self.rows_end :]
        return dict(zip(self.inputs[self.rows_end :], captures, strict=True))

    def _residuals(self) -> list[Value]:
        """The values of a step, or from before it, that its backward step reads."""
        new = [*self.slopes, *self.row_slopes, *self.sums]
        new += [u.last for u in self.inverses.values()]
        candidates = {v: None for u in self.inverses.values() for v in u.log}
        known = [*self.inputs, *new, *candidates]
        region = region_between(self.gradients, known)
        late = set(region_between(self.gradients, new))
        for carry in self.inputs[: self.carries]:
            reads = _small_reads(carry, self.inputs, region, late, self.gradients)
            candidates.update(dict.fromkeys([carry] if reads is None else reads))
        if self.params["chunk"] is None:
            inputs, steps = self.inputs, self.params["length"]
            changing = inputs[: self.rows_end]
            more = residuals(self.gradients, region, late, inputs, changing, steps)
            candidates.update(dict.fromkeys(more))
        used = values_used(self.gradients, [*known, *candidates])
        return [v for v in candidates if v in used]

    def _kept_values(self, retained: Sequence[Value]) -> StepResult:
        """The final carries to invert writes from, and the kept values of all steps."""
        if not retained and not self.inverses:
            return [], []
        restored = (self.inputs[i] for i in self.inverses)
        needed = self._carries_behind([*retained, *restored])
        smooth = bool(needed & set(self.smooth))
        if not (smooth or len(needed) == self.carries or self.params["stops"]):
            return self._scan_apart(sorted(needed), retained)
        ends = [self.node.outputs[i] for i in self.inverses]
        return ends, self._superset_scan(retained) if retained else []

    def _carries_behind(self, values: Sequence[Value]) -> set[int]:
        """The carries that values depend on, in this step or in earlier ones."""
        carries = self.inputs[: self.carries]
        needed: set[int] = set()
        while True:
            used = values_used(values, carries)
            reached = {i for i, v in enumerate(carries) if v in used}
            if reached <= needed:
                return needed
            needed |= reached
            values = [*values, *(self.outputs[i] for i in needed)]

    def _scan_apart(self, needed: list[int], retained: Sequence[Value]) -> StepResult:
        """Keep values by a separate scan of the `needed` carries alone.

        The separate scan does not depend on inputs with a wanted gradient, so the
        derivative of a linear loop holds no element of its input.
        """
        args = [self.inputs[i] for i in (*needed, *range(self.carries, self.rows_end))]
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
        return [ends[needed.index(i)] for i in self.inverses], stacked

    def _superset_scan(self, retained: Sequence[Value]) -> list[Value]:
        """Keep values by a superset scan, which has all outputs of the first scan too.

        A loop without sequences must give its trip count before it can run again.
        """
        parts, again = self.parts, self.params["length"] is None
        inputs, size = self.inputs[: self.rows_end], self.carries
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
            count=self._trip_count() if again else parts.limit,
            going=None if again else parts.going,
            unroll=self.params["unroll"],
            chunk=self.params["chunk"],
        )
        by_value = dict(zip(ys, stacked[len(stacked) - len(ys) :], strict=True))
        return [by_value[v] for v in retained]


class _CheckpointedPullback(_Pullback):
    """The backward scan with bounded checkpoints."""

    def _store(self) -> Store:
        length = self.params["length"]
        if length is None or self.params["chunk"] is None:
            return Treeverse(length)
        return Chunks(self.params)

    def _invert_writes(self) -> None:
        """Invert no write: overwritten elements are recomputed."""

    def _slices_back(self) -> Size | None:
        return self.params["length"]

    def _residuals(self) -> list[Value]:
        carries = self.inputs[: self.carries]
        used = values_used(self.gradients, carries)
        carries_read = [v for v in carries if v in used]
        self.kept_carries = sorted(self._carries_behind(carries_read))
        return [carries[i] for i in self.kept_carries]

    def _kept_values(self, retained: Sequence[Value]) -> StepResult:
        """Run a superset scan, and return the store's state for the way back."""
        if not retained:
            return [], []
        parts, params, inputs = self.parts, self.params, self.inputs[: self.rows_end]
        store = self._store()
        start = store.start([parts.first[i] for i in self.kept_carries])

        def step(carry: list[Value], row: list[Value]) -> StepResult:
            before, state = carry[: self.carries], carry[self.carries :]
            new = self._captures() | dict(zip(inputs, [*before, *row], strict=True))
            results = rebuilt(self.outputs, new)
            after = store.keep(state, [before[i] for i in self.kept_carries])
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
            per_chunk=store.per_chunk(self.carries, len(self.kept_carries), False),
        )
        state = store.ready(ends[self.carries :], [ends[i] for i in self.kept_carries])
        self._size = len(state)
        return state, []

    def _replay_options(self, size: int) -> Params:
        if not self.kept_carries:
            return {}
        before, store = size + self._size - len(self.kept_carries), self._store()
        replay = Replay(size + store.front, before, tuple(self.kept_carries))
        per_chunk = store.per_chunk(size, len(self.kept_carries), True)
        return {"replay": replay, "per_chunk": per_chunk}

    def _step_inputs(self, state: list[Value]) -> StepResult:
        if not state:
            return [], []
        row_inputs, count = self.inputs[self.carries : self.rows_end], state[1]
        sequences = list(map(readable, self.parts.rows))
        carries_after = [self.outputs[i] for i in self.kept_carries]
        changing = [self.inputs[i] for i in self.kept_carries]

        def advance(carry: list[Value], number: Value) -> list[Value]:
            place = count - 1 - number if self.params["reverse"] else number
            rows = [read(v, place) for v in sequences]
            new = self._captures() | dict(zip(row_inputs, rows, strict=True))
            return rebuilt(carries_after, new | dict(zip(changing, carry, strict=True)))

        return self._store().back(state, len(changing), advance)

    def _known_outputs(self, state: list[Value]) -> dict[Value, Value]:
        ends = [self.outputs[i] for i in self.kept_carries]
        pairs = zip(ends, state[len(state) - len(ends) :], strict=True)
        return {v: known for v, known in pairs if v not in set(self.inputs)}


def _small_reads(
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
    most = typical_elements(carry) // MUCH_SMALLER
    for node in region:
        if any(v in large for v in operands(node)):
            if node in late:
                return None
            for value in node.outputs:
                sizes = [v.node for n in value.type.shape for v in origins(n)]
                if typical_elements(value) <= most and inside.isdisjoint(sizes):
                    small[value] = True
                else:
                    large.add(value)
    least = sum(map(typical_elements, small)) <= most
    return list(small) if least and not large & set(results) else None
