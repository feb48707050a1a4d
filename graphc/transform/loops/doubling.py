"""Capacity-doubling loops: loops of unknown length that keep something of each step.

`while_loop` with `collect=`, and the gradient of a `while_loop`, run a loop twice:
first to count its steps, then as a scan of that length to keep the wanted values.
Within one compiled program there is no other way. A driver can do better: here both
runs become one loop whose capacity grows. The loop is compiled for a few slices, fills
them many times over, and each time goes on where it was. If these were too few, it is
compiled at its end for as many slices as it took, and uses them from then on. No step
runs twice, the capacity is at most twice the number of steps, and the number of
compilations is two plus a sixth of the binary digits of that number.

Carries of the two runs are merged if they are equal in all steps; other carries are
kept apart.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from graphc.control.carries import indices_of_equal, variable_like
from graphc.control.loop_cse import merge_in_values, order_nodes
from graphc.control.print_loops import rows_of, rows_on_device
from graphc.control.scan import SCAN, run_scan, scan_inputs
from graphc.control.trip_count import STEPS
from graphc.errors import SourceLocation, standing_at
from graphc.ir.graph.bodies import Body, StepResult, runs_in_python, with_new_bodies
from graphc.ir.graph.build import SIZE_OP
from graphc.ir.graph.nodes import Graph, Node, Value, origins
from graphc.ir.graph.op import Array, Printing, op, views_of_inputs
from graphc.ir.graph.replay import change_nodes, params_with_sizes, rebuild_with
from graphc.ir.graph.walk import operands
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Size, Symbol, symbol_dim
from graphc.ir.types import TensorType

Replacements = dict[Value, Value]


@op()
def _rows(x: Array, *, length: Size, joined: bool) -> TensorType:
    """The pieces that a capacity-doubling loop gave, in one array padded with zeros.

    If `joined`, the pieces stay on the device to be put together.
    """
    return x.type.like((length, *x.type.shape[1:]))


def _print_rows(p: Printing) -> str:
    arguments = f"{p.inputs[0]}, {p.code(p.node.params['length'])}"
    if p.node.params["joined"]:
        return p.call(rows_on_device, "jax", arguments)
    return p.call(rows_of, arguments)


ROWS = _rows
_rows.on_host = False
_rows.emit(numpy=_print_rows)
_rows.views = views_of_inputs
_rows.refuse("jax", "the driver joins the pieces that a loop gave")
_rows.no_gradient("gradients are taken of the scans that the loop is made of")
_rows.no_batch("it is made of scans, of which there may be many at once")
_rows.no_padding("it is made of scans at capacities")


def with_doubling_loops(
    graph: Graph, joined: bool = False
) -> tuple[Graph, Replacements]:
    """Rebuild a graph with capacity-doubling loops, and return the replacements too.

    The rows of the loops stay on the device if they are to be `joined` there.

    >>> import graphc, graphc.tensor as gt
    >>> n = gt.scalar("n", "int64")
    >>> step = lambda p: (2 * p, p)
    >>> _, ys = gt.while_loop(lambda p: p < n, step, 1, collect=True)
    >>> f = graphc.function([n], ys)
    >>> f(100_000).shape, [c.sizes["rows"] for c in f.stats().compilations]
    ((17,), [16])
    """
    if not graph.may_have_bodies:
        return graph, {}
    replacements: Replacements = {}
    while loop_and_scans := _find_repeated_loop(graph.nodes):
        graph, new = _Doubling(*loop_and_scans, graph, joined).run()
        replacements = _composed_replacements(replacements, new)
    # Bodies come after the loops around them: their capacities are not sizes from
    # outside.
    graph, new = _with_doubling_bodies(graph)
    return graph, _composed_replacements(replacements, new)


def _composed_replacements(first: Replacements, new: Replacements) -> Replacements:
    """Compose the replacements of two passes, `first` and then `new`."""
    return {old: new.get(v, v) for old, v in first.items()} | new


def _with_doubling_bodies(graph: Graph) -> tuple[Graph, Replacements]:
    """Grow the loops in bodies run by Python, which may then compile as a whole."""

    def with_grown(node: Node, place: SourceLocation) -> Sequence[Value]:
        if not runs_in_python(node):
            return node.outputs
        return with_new_bodies(node, _grown_body, place.plain).outputs

    outputs, replacements = change_nodes(graph.outputs, with_grown)
    return graph.with_outputs(outputs), replacements


def _grown_body(body: Body) -> Body:
    grown_graph, _ = with_doubling_loops(body.graph)
    return body.with_closed_outputs(grown_graph.outputs)


def _find_repeated_loop(nodes: Sequence[Node]) -> tuple[Node, list[Node]] | None:
    """Find the first loop with early exit that scans run again, and those scans."""
    for loop in nodes:
        params = loop.params
        if loop.primitive is not SCAN or not params["stops"]:
            continue
        if params["counted"] or params["length"] is not None:
            continue
        steps = loop.outputs[params["carries"]]
        scans = [n for n in nodes if n.primitive is SCAN and _is_repetition(n, steps)]
        dependents = _dependents_of(loop, nodes) if scans else set()
        scans = [n for n in scans if dependents.isdisjoint(_sources(n))]
        if scans:
            return loop, scans
    return None


def _is_repetition(node: Node, steps: Value) -> bool:
    """Whether a scan runs the counted number of steps, and reads no sequences."""
    params = node.params
    if params["stops"] or params["reverse"] or params["sequences"]:
        return False
    if params["counted"]:
        return _is_count(node.inputs[-1], steps)
    length = params["length"]
    if not isinstance(length, Dim) or not length.is_symbol:
        return False
    return any(_is_count(v, steps) for v in origins(length))


def _is_count(value: Value, steps: Value) -> bool:
    """Whether a value is the counted steps, perhaps converted or as a size."""
    if value is steps:
        return True
    node = value.node
    if node.primitive is SIZE_OP:
        size = node.params["size"]
        return size.is_symbol and any(_is_count(v, steps) for v in origins(size))
    if node.primitive is STEPS or node.primitive in (OP.convert, OP.minimum):
        return all(_is_count(v, steps) for v in node.inputs)
    return False


def _dependents_of(loop: Node, nodes: Iterable[Node]) -> set[Node]:
    """The nodes that depend on a loop, including the loop itself."""
    dependents = {loop}
    for node in nodes:
        if any(v.node in dependents for v in operands(node)):
            dependents.add(node)
    return dependents


def _sources(scan: Node) -> list[Node]:
    """The nodes of a scan's inputs and sizes, except those of its number of steps."""
    parts = scan_inputs(scan.inputs, scan.params)
    sizes = [v for n in scan.params["sizes"] for v in origins(n)]
    return [v.node for v in (*parts.first, *parts.captures, *sizes)]


class _Member(NamedTuple):
    """A loop that becomes part of the joined one."""

    body: Body
    sizes: tuple[Size, ...]
    first: Sequence[Value]
    captures: Sequence[Value]

    def step(self, carry: Sequence[Value]) -> list[Value]:
        return self.body.call([*carry, *self.captures], self.sizes)


class _Doubling:
    """Joins a loop and the scans that run it again into one loop of the graph."""

    def __init__(
        self, loop: Node, scans: list[Node], graph: Graph, joined: bool
    ) -> None:
        self._loop, self._scans, self._graph = loop, scans, graph
        self._joined = joined
        used = {*graph.outputs, *(v for node in graph.nodes for v in operands(node))}
        self._needed_outputs = [  # for each scan, the indices of the ys that are used
            [v.index for v in n.outputs[n.params["carries"] :] if v in used]
            for n in scans
        ]
        self._replacements: Replacements = {}

    def run(self) -> tuple[Graph, Replacements]:
        """Return the graph with the joined loop, and the replacements."""
        replacements, scans = self._replacements, set(self._scans)
        sources = [node for n in self._scans for node in _sources(n)]

        def before(node: Node) -> list[Node]:
            producers = [v.node for v in operands(node)]
            return [*producers, *sources] if node is self._loop else producers

        for node in order_nodes(self._graph.outputs, before):
            if node is self._loop:
                with standing_at(node.place.plain):
                    self._join()
            elif node in scans:
                self._put_together(node)
            elif node.primitive is STEPS and self._is_steps(
                replacements.get(node.inputs[0])
            ):
                replacements[node.outputs[0]] = replacements[node.inputs[0]]
            else:
                rebuild_with(node, replacements, node.place)
        outputs = [replacements.get(v, v) for v in self._graph.outputs]
        return self._graph.with_outputs(outputs), replacements

    def _is_steps(self, value: Value | None) -> bool:
        steps = self._loop.outputs[self._loop.params["carries"]]
        return value is not None and value is self._replacements.get(steps)

    def _put_together(self, scan: Node) -> None:
        """Replace the ys of a scan by the pieces of the joined loop, put together."""
        length = params_with_sizes(scan, self._replacements)["length"]
        for value in scan.outputs[scan.params["carries"] :]:
            if value in self._replacements:
                with standing_at(scan.place.plain):
                    rows = ROWS(
                        self._replacements[value], length=length, joined=self._joined
                    )
                    self._replacements[value] = rows

    def _join(self) -> None:
        """Build the one loop that replaces all members."""
        members = [self._member(n) for n in (self._loop, *self._scans)]
        groups = _equal_carry_groups(members)
        start = _one_per_group(groups, [v for m in members for v in m.first])
        stop = len(members[0].first)
        grows = any(self._needed_outputs)

        def step(carry: list[Value], _: list[Value]) -> StepResult:
            stepped = _outputs_of_members(members, [carry[grows:][g] for g in groups])
            last = stepped[0][stop]
            after = _one_per_group(groups, _carries_after(members, stepped))
            pairs = zip(stepped[1:], self._needed_outputs, strict=True)
            rows = [outputs[i] for outputs, places in pairs for i in places]
            return [_negation_of(last), *after] if grows else after, [last, *rows]

        going = self._replacements.get(self._loop.inputs[-1], self._loop.inputs[-1])
        first = [going, *start] if grows else start
        length = symbol_dim(Symbol("rows", lower=1)) if grows else None
        ends, (steps, *stacked) = run_scan(
            step, first, [], length, False, going=going, grows=grows
        )
        self._record([ends[grows:][g] for g in groups], steps, stacked)

    def _member(self, node: Node) -> _Member:
        values = tuple([self._replacements.get(v, v) for v in node.inputs])
        parts = scan_inputs(values, node.params)
        sizes = params_with_sizes(node, self._replacements)["sizes"]
        return _Member(node.params["body"].content, sizes, parts.first, parts.captures)

    def _record(self, ends: list[Value], steps: Value, stacked: list[Value]) -> None:
        """Record the replacements of the outputs of the loop and its scans."""
        remaining_ends, remaining_rows = iter(ends), iter(stacked)
        for node in (self._loop, *self._scans):
            carries = node.outputs[: node.params["carries"]]
            self._replacements.update(zip(carries, remaining_ends, strict=False))
        self._replacements[self._loop.outputs[self._loop.params["carries"]]] = steps
        for node, places in zip(self._scans, self._needed_outputs, strict=True):
            self._replacements.update(
                (node.outputs[i], next(remaining_rows)) for i in places
            )


def _negation_of(flag: Value) -> Value:
    negated = flag.node.primitive is OP.logical_not
    return flag.node.inputs[0] if negated else F.logical_not(flag)


def _equal_carry_groups(members: Sequence[_Member]) -> list[int]:
    """The group number of each carry; carries of a group are equal in all steps."""
    first = [v for m in members for v in m.first]

    def after(same: list[int]) -> list[Value]:
        variables = {i: variable_like(first[i]) for i in same}
        return _carries_after(
            members, _outputs_of_members(members, [variables[i] for i in same])
        )

    same = indices_of_equal(first, after)
    numbers = {place: number for number, place in enumerate(dict.fromkeys(same))}
    return [numbers[place] for place in same]


def _outputs_of_members(
    members: Sequence[_Member], carry: Sequence[Value]
) -> list[list[Value]]:
    """Compute the bodies' outputs, merging loops inside them that are run twice."""
    remaining, all_outputs = iter(carry), list[Value]()
    for member in members:
        all_outputs += member.step([next(remaining) for _ in member.first])
    results = iter(merge_in_values(all_outputs))
    return [[next(results) for _ in m.body.outputs] for m in members]


def _carries_after(
    members: Sequence[_Member], stepped: Iterable[list[Value]]
) -> list[Value]:
    """The carries of all members after a step."""
    pairs = zip(members, stepped, strict=True)
    return [v for member, outputs in pairs for v in outputs[: len(member.first)]]


def _one_per_group(groups: Sequence[int], values: Sequence[Value]) -> list[Value]:
    """One value for each group of carries."""
    return list(dict(zip(groups, values, strict=True)).values())
