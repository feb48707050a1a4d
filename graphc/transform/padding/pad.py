"""Pad and mask by rule: a graph for true sizes becomes one for capacities.

Each padded axis is stored at a capacity, its elements first; the true sizes become
integers that are known when the program runs. One pass in topological order rebuilds
each node by the mask rule of its primitive (`graphc.ops.common.padding`). Where a
rule refuses, or there is none, the node falls back to true sizes: its inputs are cut
to them, and its results are padded again. The planner then gives that node a segment
that is compiled for each true size, while other segments keep their capacities.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphc.control.fitting_branches import is_numbered
from graphc.errors import GraphError, graph_error, standing_at, user_place
from graphc.ir.graph.bodies import BodyCall, bodies_in, has_bodies, runs_in_python
from graphc.ir.graph.build import INPUT, SIZE_OP, as_size, as_value, variable
from graphc.ir.graph.nodes import Graph, Guard, Node, Value, entries_of, origins
from graphc.ir.graph.op import PADDING, rebuild
from graphc.ir.graph.replay import resized, symbols_of
from graphc.ir.graph.walk import ancestors, operands
from graphc.ir.namespace import F
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Size, Symbol, symbol_dim, symbols_in
from graphc.ir.sizes.names import shown_name
from graphc.ir.sizes.ranges import SizeRange
from graphc.ir.types import TensorType, same_size
from graphc.ops.common.padding import (
    NotPadded,
    PaddedValue,
    Padding,
    elementwise,
    zeros_along,
)
from graphc.transform.padding.branch_guards import BranchGuards
from graphc.transform.padding.guards import guards_of
from graphc.transform.padding.padded_graph import Cut, PaddedGraph, Price
from graphc.transform.padding.required_numbers import cut_to_numbers, numbers_required
from graphc.transform.padding.storage import Storage, problem_at_capacities
from graphc.transform.padding.value_ranges import ValueRanges
from graphc.transform.policies import Pad, Policy


def padded(
    graph: Graph, policies: Mapping[Symbol, Policy], *, clean: bool = True
) -> PaddedGraph:
    """Pad the axes of a graph that have these sizes.

    `clean`: arguments arrive with zeros in their padding; otherwise with anything.
    """
    return _PaddingPass(graph, dict(policies), clean).run()


class _PaddingPass:
    """One walk over a graph, which pads it."""

    def __init__(
        self, graph: Graph, policies: dict[Symbol, Policy], clean: bool
    ) -> None:
        self._graph = graph
        self._arguments = set(graph.inputs)
        self._nodes = ancestors(graph.outputs)
        self._outer = set(self._nodes)
        place = graph.inputs[0].node.place.plain if graph.inputs else user_place()
        self._sizes = Storage(self._nodes, graph.argument_symbols, policies, place)
        self._clean = clean
        self._padded: dict[Value, PaddedValue] = {}
        self._cuts: list[Cut] = []
        self._prices: list[Price] = []
        self._rule_needs: list[tuple[Guard, Node]] = []  # beyond those of nodes
        self._firm: set[Node] = set()  # their rules rely on their guards
        self._trusted: set[Node] = set()
        self._bodies = 0  # depth of the bodies that the walk is in
        self._branches = BranchGuards(
            self._sizes, self._pad_body, lambda: self._bodies, self._is_decided_at_entry
        )
        self._driven = any(map(runs_in_python, self._nodes))
        self._ranges = ValueRanges(self._range_of_symbol)

    def run(self) -> PaddedGraph:
        """Walk the graph, and return the padded one."""
        lengths = self._sizes.lengths
        inputs = [self._pad_input(v) for v in self._graph.inputs]
        self._trusted.update(v.node for v in (*inputs, *lengths.values()))
        for node in self._nodes:
            if node.primitive is not INPUT:
                self._ranges.observe(node)
                self._visit(node)
            self._record_sizes(node)
        counts = self._computed_sizes()
        outputs = [self._padded[v].value for v in self._graph.outputs]
        outputs += [self._size_output(s) for s in counts]
        inner = self._sizes.inner.all
        rooms = [one.capacity for one in inner]
        names = [s.name for s in lengths] + [v.name for v in rooms]
        new = Graph(
            (*inputs, *lengths.values(), *rooms),
            tuple(outputs),
            (*self._graph.input_names, *names),
            (*self._graph.output_names, *("" for _ in counts)),
        )
        return PaddedGraph(
            self._graph,
            new,
            self._sizes.policies,
            self._sizes.capacities,
            tuple(lengths),
            inner,
            counts,
            tuple(self._padded[v].axes for v in self._graph.outputs),
            tuple(self._cuts),
            tuple(self._prices),
            self._entry_guards(),
            self._branches.all if is_numbered(new.nodes) else (),
            self._sizes.originals,
            self._sizes.stored_as,
        )

    def _record_sizes(self, node: Node) -> None:
        """Record the new symbols of those outputs of the node that serve as sizes."""
        for value in node.outputs:
            if value._symbol is not None:
                with standing_at(node.place.plain):
                    self._record_size(value, self._padded[value].value)

    def _record_size(self, value: Value, new: Value) -> None:
        if self._bodies and self._driven:
            return self._sizes.record_step(value, new, self._ranges.of(value))
        return self._sizes.record_value(value, new)

    def _range_of_symbol(self, symbol: Symbol) -> SizeRange:
        """The range of a size of the graph around all bodies: one known size."""
        new_value = self._padded.get(symbol.origin)  # type: ignore[call-overload]
        if new_value is not None and not new_value.type.rank:
            size = as_size(new_value.value)
        else:
            size = self._sizes.exact(symbol_dim(symbol))
        return SizeRange(size, size)

    def _pad_input(self, value: Value) -> Value:
        shape, axes = self._sizes.layout(value.type)
        new = value
        if not all(map(same_size, shape, value.type.shape)):
            with standing_at(value.node.place.plain):
                new = variable(value.name, TensorType(value.dtype, shape))
        fill = zeros_along(axes, value.dtype) if self._clean else {}
        self._padded[value] = PaddedValue(new, value.type, axes, fill)
        return new

    def _visit(self, node: Node) -> None:
        inputs = [self._padded[v] for v in node.inputs]
        with standing_at(node.place.plain):
            results = self._padded_results(node, inputs)
        for value, result in zip(node.outputs, results, strict=True):
            self._padded[value] = result
            self._trusted.add(result.value.node)

    def _padded_results(
        self, node: Node, inputs: list[PaddedValue]
    ) -> list[PaddedValue]:
        if node.primitive is SIZE_OP:
            size = F.size_value(self._branches.exact(node.params["size"]))
            return [PaddedValue(as_value(size), node.outputs[0].type)]
        ragged = any(r.axes for r in inputs) or self._has_ragged_sizes(node)
        if not ragged and not runs_in_python(node):
            fresh = self._at_true_sizes(node, [r.value for r in inputs])
            pairs = zip(fresh, node.outputs, strict=True)
            return [PaddedValue(new, old.type) for new, old in pairs]
        try:
            self._require_capacities(node)
            cut = self._cut_to_numbers(node, inputs)
            results = self._at_numbers(node, cut) if cut else None
            if results is None:
                fits = cut and node.primitive.elementwise
                results = self._apply_mask_rule(node, cut if fits else inputs)
            return results
        except NotPadded as refusal:
            if self._bodies:
                raise NotPadded(f"{node.primitive.name} inside it: {refusal}") from None
            self._refuse_if_strict(node, inputs, str(refusal))
            if ragged or self._has_policy_within(node):
                self._cuts.append(Cut(node, str(refusal)))
            return self._cut_and_pad(node, inputs)

    def _require_capacities(self, node: Node) -> None:
        """Refuse an output of a size that has no capacity, as it need not grow."""
        for value in node.outputs:
            for n in value.type.shape:
                if not self._sizes.has_room(n):
                    raise NotPadded(f"its size {n} has no capacity")

    def _refuse_if_strict(
        self, node: Node, inputs: list[PaddedValue], why: str
    ) -> None:
        types = [r.type for r in inputs] + [v.type for v in node.outputs]
        sizes = [n for t in types for n in t.shape]
        for symbol in dict.fromkeys(s for n in sizes for s in symbols_in(n)):
            policy = self._sizes.policies.get(symbol)
            if isinstance(policy, Pad) and policy.strict:
                raise graph_error(
                    f"the size {shown_name(symbol)} cannot be padded here: {why}",
                    op=node.op_called,
                    got=", ".join(str(r.type) for r in inputs),
                    hint=policy.remedy,
                    where=node.place,
                )

    def _has_ragged_sizes(self, node: Node) -> bool:
        return any(map(self._sizes.is_ragged, symbols_of(node)))

    def _has_policy_within(self, node: Node) -> bool:
        """Whether sizes that differ from step to step of a loop have a policy."""
        return any(
            not body.computed_sizes.isdisjoint(self._sizes.policies)
            for body in bodies_in([node])
        )

    def _at_true_sizes(self, node: Node, inputs: list[Value]) -> tuple[Value, ...]:
        """Rebuild the node on true sizes."""
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        has_sizes = any(isinstance(n, Dim) for n in entries_of(node.params))
        if same and not node.demands and not has_sizes:
            return node.outputs
        params = resized(node.params, self._sizes.exact)
        return rebuild(node, tuple(inputs), params).outputs

    def _cut_to_numbers(
        self, node: Node, inputs: list[PaddedValue]
    ) -> list[PaddedValue]:
        """Cut those axes for which the node's guards require numbers, if there are any.

        They need no capacity and no read: a call of any other size raises an error.
        """
        if self._bodies or has_bodies(node):
            return []
        numbers = [
            (n, k) for n, k in numbers_required(node) if self._sizes.has_ragged(n)
        ]
        return [cut_to_numbers(x, numbers) for x in inputs] if numbers else []

    def _at_numbers(
        self, node: Node, cut: list[PaddedValue]
    ) -> list[PaddedValue] | None:
        """Rebuild a node whose sizes all have become numbers."""
        sizes: list[object] = [*entries_of(node.params)]
        sizes += [n for v in node.outputs for n in v.type.shape]
        if any(x.axes for x in cut) or any(map(self._sizes.has_ragged, sizes)):
            return None
        checked = [g for g in node.guards if self._needs_check(g, node)]
        fresh = rebuild(node, tuple([x.value for x in cut]), node.params).outputs
        pairs = zip(fresh, node.outputs, strict=True)
        results = [PaddedValue(new, old.type) for new, old in pairs]
        return [self._with_guard_checks(node, checked, result) for result in results]

    def _apply_mask_rule(
        self, node: Node, inputs: list[PaddedValue]
    ) -> list[PaddedValue]:
        primitive = node.primitive
        rule = PADDING.find(primitive)
        if rule is None and not primitive.elementwise:
            raise NotPadded(PADDING.reason(primitive, "it has no mask rule"))
        checked = [g for g in node.guards if self._needs_check(g, node)]
        known = self._sizes.stored, self._branches.exact, self._ranges.safe_range_of
        pad = Padding(node, *known, self._pad_body, self._branches.branch)
        params = resized(node.params, self._sizes.stored)
        try:
            if rule is None:
                answer: Any = elementwise(pad, inputs)
            else:
                answer = rule(pad, *inputs, **params)
        except GraphError as error:
            problem = problem_at_capacities(node, [x.value for x in inputs], params)
            if has_bodies(node) and not problem:  # some have no place for a check
                problem = str(error.args[0]).splitlines()[0]
            if not problem:
                raise  # a fault of the rule
            raise NotPadded(problem) from None
        self._prices += [Price(node, price) for price in pad.prices]
        if not self._bodies:  # a body may never run
            self._rule_needs += [(guard, node) for guard in pad.needs]
        results = list(answer) if isinstance(answer, tuple) else [answer]
        accepted = [
            self._accepted_result(node, value, result)
            for value, result in zip(node.outputs, results, strict=True)
        ]
        return [self._with_guard_checks(node, checked, result) for result in accepted]

    def _needs_check(self, guard: Guard, node: Node) -> bool:
        """Whether the program must check a guard, as neither proof nor entry does.

        Arrays must fit into memory at their stored sizes, which their ops check. In a
        body these sizes must be known before it is entered: otherwise this raises
        NotPadded.
        """
        left, right = map(self._sizes.exact, (guard.left, guard.right))
        symbols = {*symbols_in(left), *symbols_in(right)}
        lengths = set(self._sizes.lengths.values())
        origins_of = [s.origin for s in symbols if s.origin is not None]
        if all(v in self._arguments or v in lengths for v in origins_of):
            return False
        if guard.memory:
            sizes = [n for v in node.outputs for n in v.type.shape]
            known = map(self._sizes.is_known, map(self._sizes.stored, sizes))
            if self._bodies and not all(known):
                raise NotPadded(f"whether {guard.reason} depends on data")
            return False
        holds = dims.equal if guard.relation == "==" else dims.less_equal
        return holds(left, right) is not True

    def _with_guard_checks(
        self, node: Node, guards: Iterable[Guard], checked: PaddedValue
    ) -> PaddedValue:
        """Make a result of a step raise unless the guards hold in it."""
        for guard in guards:
            left, right = map(self._sizes.exact, (guard.left, guard.right))
            holds = F.equal if guard.relation == "==" else F.less_equal
            condition = holds(F.size_value(left), F.size_value(right))
            message = node.message_of(guard)
            value = F._assert(checked.value, condition, message, guard.kind)
            checked = replace(checked, value=value)
        return checked

    def _pad_body(
        self, call: BodyCall, inputs: Sequence[PaddedValue]
    ) -> list[PaddedValue]:
        """Compute the outputs of a graph inside a node, by mask rules alone."""
        body = call.body
        self._sizes.enter(call.sizes)
        for inner, x in zip(body.inputs, inputs, strict=True):
            self._padded[inner] = replace(x, type=inner.type)
        self._trusted.update(x.value.node for x in inputs)
        self._bodies += 1
        try:
            for value in body.inputs:
                self._record_sizes(value.node)
            for node in body.nodes:
                self._visit(node)
                self._record_sizes(node)
        finally:
            self._bodies -= 1
        return [self._padded[v] for v in body.outputs]

    def _accepted_result(
        self, node: Node, value: Value, raw: Value | PaddedValue | None
    ) -> PaddedValue:
        """Require a rule's result to have the right type and no new conditions."""
        if raw is None:
            raise NotPadded("its mask rule does not cover this form")
        result = raw if isinstance(raw, PaddedValue) else PaddedValue(raw, value.type)
        shape, axes = self._sizes.layout(value.type)
        new = result.value
        if new.dtype != value.dtype or new.type.rank != value.type.rank:
            raise AssertionError(f"{node.primitive.name}: {new.type} for {value.type}")
        for size, stored in zip(new.type.shape, shape, strict=True):
            if not same_size(size, stored) and dims.equal(size, stored) is not True:
                raise NotPadded(f"its result would have {size} elements, not {stored}")
        if self._require_trusted(new, self._implied_pairs(node)):
            self._firm.add(node)
        fill = {a: n for a, n in result.fill.items() if a in axes}
        return PaddedValue(new, value.type, axes, fill)

    def _implied_pairs(self, node: Node) -> list[tuple[Size, Size]]:
        """Pairs a <= b at capacities that follow from what the true sizes must be."""
        return [
            (self._sizes.exact(g.left), self._sizes.stored(g.right))
            for g in node.guards
            if g.relation == "<="
        ]

    def _require_trusted(self, value: Value, implied: list[tuple[Size, Size]]) -> bool:
        """Refuse a result that may fail at some sizes: guards are of true sizes.

        The result tells whether it relies on what is implied.
        """
        stack, seen, relies = [value.node], set[Node](), False
        while stack:
            node = stack.pop()
            if node in self._trusted or node in seen:
                continue
            seen.add(node)
            for guard in node.guards:
                if guard.memory or guard.kind == "range":
                    continue  # positions of masks have 32 bits, as those of arrays
                symbols = {*symbols_in(guard.left), *symbols_in(guard.right)}
                pair = guard.left, guard.right
                if guard.relation == "<=" and any(
                    all(map(same_size, pair, known)) for known in implied
                ):
                    relies = True
                    continue
                if not symbols.isdisjoint(self._sizes.storage_symbols):
                    raise NotPadded(f"{guard} would not hold for all sizes")
            stack += [v.node for v in operands(node)]
        self._trusted |= seen
        return relies

    def _cut_and_pad(self, node: Node, inputs: list[PaddedValue]) -> list[PaddedValue]:
        cut = [self._without_padding(r) for r in inputs]
        exact = self._at_true_sizes(node, cut)
        return [
            self._padded_again(value, new)
            for value, new in zip(node.outputs, exact, strict=True)
        ]

    def _without_padding(self, ragged: PaddedValue) -> Value:
        """The value without its padding."""
        value = ragged.value
        for axis in sorted(ragged.axes):
            size = self._sizes.exact(ragged.type.shape[axis])
            value = F._part(value, axis, 0, size)
        return F.specify_shape(value, tuple(map(self._sizes.exact, ragged.type.shape)))

    def _padded_again(self, value: Value, new: Value) -> PaddedValue:
        shape, axes = self._sizes.layout(value.type)
        if axes:
            pairs = enumerate(zip(new.type.shape, shape, strict=True))
            added_sizes = [
                capacity - n if i in axes else 0 for i, (n, capacity) in pairs
            ]
            new = F.pad(new, [(0, as_value(F.size_value(n))) for n in added_sizes])
            new = F.specify_shape(new, shape)
        return PaddedValue(new, value.type, axes, zeros_along(axes, value.dtype))

    # The sizes that the entry must know.

    def _computed_sizes(self) -> tuple[Symbol, ...]:
        """The symbols of output sizes that only the program knows."""
        counts: dict[Symbol, None] = {}
        for value in self._graph.outputs:
            for size in value.type.shape:
                if self._sizes.storage_of(size)[1]:
                    inner = filter(self._is_computed, symbols_in(size))
                    counts.update(dict.fromkeys(inner))
        return tuple(counts)

    def _size_output(self, symbol: Symbol) -> Value:
        """A size as an int32 output."""
        size = as_value(F.size_value(self._sizes.number(symbol)))
        return F.astype(size, "int32")

    def _is_computed(self, symbol: Symbol) -> bool:
        """Whether the program computes a size, and no argument determines it."""
        return any(v not in self._arguments for v in origins(symbol_dim(symbol)))

    def _entry_guards(self) -> tuple[tuple[Guard, Node], ...]:
        """The guards that the entry decides, each once."""
        pairs = dict(guards_of(self._nodes, self._firm))
        for guard, node in self._rule_needs:
            pairs.setdefault(guard, node)
        return tuple(
            [pair for pair in pairs.items() if self._is_decided_at_entry(*pair)]
        )

    def _is_decided_at_entry(self, guard: Guard, node: Node) -> bool:
        """Whether the entry decides a guard, which is of padded sizes or arrays.

        The mask rule replaces a padded node, and its guards with it. A node in a body
        may never run: only the sizes of its guard count.
        """
        values = (*node.inputs, *node.outputs) if node in self._outer else ()
        sizes = [n for v in values for n in v.type.shape]
        padded = any(map(self._sizes.has_ragged, [guard.left, guard.right, *sizes]))
        symbols = [*symbols_in(guard.left), *symbols_in(guard.right)]
        return padded and not any(map(self._is_computed, symbols))
