"""Fuse producers: sequences that a scan reads are computed in its body, slice by slice.

The gradient of a loss of ys runs a second scan, backwards, which reads the cotangent of
each slice: an elementwise function of the ys of the first scan. Computed in the body it
needs no array of its own; and if the second scan recomputes the step of the first, as
it does for the gradient, the ys of the first need not be kept either.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from graphc.analysis.cost import current_costs
from graphc.control.scan_records import Replay
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import as_value
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import Replaced, region_between, substituted
from graphc.ir.graph.walk import operands
from graphc.ir.primitives import OP
from graphc.ir.types import is_inexact, product
from graphc.rewriting.engine.rule import Rules, whole_graph
from graphc.rewriting.loops.find.affine_reads import Stream, View
from graphc.rewriting.loops.find.axis_rules import REDUCTIONS
from graphc.rewriting.loops.find.producers import LIGHT, Producers, UsersOf
from graphc.rewriting.loops.find.scan_view import (
    Loop,
    at_each_loop,
    has_rows,
    with_replacements,
)

SequenceSlices = Mapping[Value, Value]  # a slice of each sequence
BuildSlices = Callable[
    [SequenceSlices, Value], SequenceSlices
]  # from slices and the number of the step
SHORT = 64  # elements
PARTS = (OP.basic_index, OP.slice_update, OP.matmul, OP.gather, OP.scatter, OP.reshape)
ALSO = {*PARTS, *REDUCTIONS}  # recomputed per step if no array is needed for it


def _is_stacked(value: Value) -> bool:
    """Whether a value is a ys output of a scan."""
    node = value.node
    params = node.params
    return has_rows(node) and value.index >= params["carries"] + params["stops"]


def _rebuild_on(
    loop: Loop,
    sequences: Sequence[Value],
    rows: BuildSlices,
    placed: bool = False,
    known: Mapping[Value, Value] | None = None,
) -> list[Value]:
    """Rebuild a loop on other sequences, from whose slices `rows` makes its own.

    `placed`: `rows` needs the number of the iteration. `rows` may also read some values
    that are `known` in the body and depend on none of the slices made.
    """
    count, body = loop.carries, loop.body
    inside = list((known or {}).values())

    def step(carry: list[Value], slices: list[Value]) -> StepResult:
        number = carry[count] if placed else as_value(0)
        slice_of = dict(zip(sequences, slices, strict=True))
        if known:
            pairs = zip(loop.sequences, loop.rows, strict=True)
            have = [
                *carry[:count],
                *(slice_of.get(v, x) for v, x in pairs),
                *loop.captures,
            ]
            new = dict(zip(body.inputs, have, strict=True))
            slice_of |= zip(known, substituted(inside, new, loop.sizes), strict=True)
        row_of = rows(slice_of, number)
        read = [row_of[v] for v in loop.sequences]
        after, stacked = loop.step(carry[:count], read)
        more = [loop.next_place(number)] if placed else []
        return [*after, *more], stacked

    start = [*loop.inits, *([loop.first_place()] if placed else [])]
    ends, stacked = loop.rebuild(step, start, sequences)
    return [*ends[:count], *stacked]


def _replace_outputs(
    graph: Graph, nodes: Iterable[Node], loop: Loop, outputs: Iterable[Value]
) -> Replaced:
    """Replace the outputs of a scan in a graph."""
    replacements = dict(zip(loop.node.outputs, outputs, strict=True))
    first = loop.node.outputs[0]
    new_graph, _ = with_replacements(graph, nodes, replacements, {})
    return new_graph, [(first, replacements[first])]


def is_short(value: Value) -> bool:
    """Whether a value's rows are too short to fill vectors, so all at once is faster.

    No rows are short on an accelerator, which would launch kernels for all at once.
    """
    size = product(value.type.shape[1:])
    return isinstance(size, int) and size < SHORT and not current_costs().launches


def is_heavy(node: Node) -> bool:
    """Whether an op takes many instructions per element, as exp does."""
    inexact = is_inexact(node.outputs[0].dtype)
    return node.primitive.elementwise and inexact and node.primitive.rounding == "many"


@whole_graph(over=("scan",), exact=False)
def sequence_in_scan(graph: Graph) -> Replaced | None:
    """A sequence computed from another scan's ys, or from numbers, is made per step."""
    return at_each_loop(graph, _Finder, _fuse_sequences)


def _fuse_sequences(
    graph: Graph, nodes: list[Node], loop: Loop, find: "_Finder"
) -> Replaced | None:
    """Fuse into a loop all of its sequences that gain by it; None if there are none."""
    whole = View.whole(loop.length)
    sequences = dict.fromkeys(loop.sequences)
    chosen = [v for v in sequences if find.gains(v, whole) and not find.slows(v, loop)]
    if not chosen:
        return None
    producers = find.producers_of(chosen, whole)
    return _replace_outputs(graph, nodes, loop, _rebuild_with(loop, chosen, producers))


def _rebuild_with(
    loop: Loop, chosen: Iterable[Value], producers: Producers
) -> list[Value]:
    """Rebuild the loop with some sequences computed slice by slice."""
    whole, computed_values = View.whole(loop.length), set(chosen)
    other_sequences = [v for v in loop.sequences if v not in computed_values]

    def rows(slices: SequenceSlices, number: Value) -> SequenceSlices:
        computed = producers.compute_slices(slices, number)
        return {**slices, **{v: computed[v, whole] for v in computed_values}}

    sequences = list(dict.fromkeys([*other_sequences, *producers.sequences]))
    outputs = _rebuild_on(loop, sequences, rows, producers.placed)
    return [producers.with_guards(v) for v in outputs]


class _Finder:
    """Finds the producers of sequences."""

    def __init__(self, nodes: Sequence[Node], graph: Graph) -> None:
        self._uses = UsersOf(nodes, graph)
        self._scans = {n for n in nodes if has_rows(n)}
        self._made: set[Node] = set()  # slice by slice, from ys of scans
        for node in nodes:
            light = _is_light(node) or node.primitive in ALSO
            if light and any(map(self._is_of_scan, node.inputs)):
                self._made.add(node)

    def _is_of_scan(self, value: Value) -> bool:
        return value.node in self._made or _is_stacked(value)

    def producers_of(self, values: Iterable[Value], whole: View) -> Producers:
        """Return the producers of the slices of sequences."""
        producers = Producers(
            Stream(whole.size), self._uses, lambda value: value.node in self._made
        )
        producers.collect([(v, whole) for v in values], self._scans)
        return producers

    def slows(self, value: Value, loop: Loop) -> bool:
        """Whether computing short rows one by one takes longer, with nothing gained.

        A gradient goes the other way. If it repeats the steps of a scan, what that scan
        stacks need not be stored: the memory is worth the time.
        """
        if not is_short(value):
            return False
        producers = self.producers_of([value], View.whole(loop.length))
        stacked = [v for v in producers.sequences if _is_stacked(v)]
        same_direction = any(v.node.params["reverse"] is loop.reverse for v in stacked)
        return same_direction and any(is_heavy(v.node) for v, _ in producers.recomputed)

    def gains(self, value: Value, whole: View) -> bool:
        """Whether a sequence needs no array if it is computed per iteration."""
        light = _is_light(value.node) or value.node in self._made
        if not light or not self._uses.are_among(value, self._scans):
            return False
        producers = self.producers_of([value], whole)
        read = set(producers.sequences)
        if not producers.is_possible or value in read:
            return False
        return not read or any(map(_is_stacked, read))


def _is_light(node: Node) -> bool:
    return node.primitive.elementwise or node.primitive in LIGHT


@whole_graph(over=("scan",), exact=False)
def recomputed_in_scan(graph: Graph) -> Replaced | None:
    """Ys of a scan are not stored for another scan that recomputes its steps anyway."""
    return at_each_loop(graph, lambda nodes, graph: None, _recompute_sequence)


def _recompute_sequence(
    graph: Graph, nodes: list[Node], loop: Loop, known: None
) -> Replaced | None:
    """Return the graph with a loop that recomputes one of its sequences, or None.

    A sequence that is an output of the graph is stored all the same.
    """
    graph_outputs = set(graph.outputs)
    for value in dict.fromkeys(loop.sequences):
        if not _is_stacked(value) or value in graph_outputs:
            continue
        recomputed = _rebuild_recomputing(loop, value)
        if recomputed is not None:
            return _replace_outputs(graph, nodes, loop, recomputed)
    return None


def _rebuild_recomputing(loop: Loop, value: Value) -> list[Value] | None:
    """Rebuild a scan so that it recomputes a sequence; None if that is much work."""
    other = Loop(value.node)
    if not _does_steps_of(loop, other):
        return None
    output = other.body.outputs[value.index]
    known = _known_carries(loop, other, value)
    stored = _stacked_values(other, {*loop.sequences} - {value})
    stored = {x: v for x, v in stored.items() if x not in known and x is not output}
    region = region_between([output], [*other.body.inputs, *known, *stored])
    if not region and output not in known:
        return None  # a carry before the step: to compute it takes all steps before
    inputs = dict(zip(other.body.inputs, other.body_inputs, strict=True))
    operands = {output, *operands_of(region)} & {*inputs, *known, *stored}
    sources = {x: x for x in known}  # values of the other body, and their sequences
    sources |= {x: v for x, v in stored.items() if x in operands}
    for i, x in enumerate(other.body.inputs):
        if x in known or x in stored or x not in operands:
            continue
        if i < other.carries:
            return None
        if i < other.carries + len(other.sequences):
            sources[x] = inputs[x]

    def rows(row_of: SequenceSlices, number: Value) -> SequenceSlices:
        operand_of = {
            x: row_of[sources[x]] if x in sources else inputs[x] for x in operands
        }
        (recomputed,) = substituted([output], operand_of, other.sizes)
        return {**row_of, value: recomputed}

    others = [v for v in loop.sequences if v is not value]
    more = [v for v in sources.values() if v not in known]
    sequences = list(dict.fromkeys([*others, *more]))
    fused = _rebuild_on(loop, sequences, rows, known=known)
    return fused if _count_work(fused[0].node) <= _count_work(loop.node) else None


def _does_steps_of(loop: Loop, other: Loop) -> bool:
    """Whether `loop` runs only iterations that `other` has run."""
    done = other.after_carries[0] if other.stops else other.limit
    return done is None or done is loop.limit


def operands_of(region: Iterable[Node]) -> list[Value]:
    """Return all values that the nodes need."""
    return [v for node in region for v in operands(node)]


def _stacked_values(loop: Loop, read: Container[Value]) -> dict[Value, Value]:
    """Map the values that each step stacks to the ys, for the ys in `read`."""
    pairs = zip(loop.body.outputs[loop.carries :], loop.after_carries, strict=True)
    return {x: v for x, v in pairs if v in read}


def _known_carries(loop: Loop, other: Loop, value: Value) -> dict[Value, Value]:
    """Find the carries of another loop, before and after a step, that a loop knows.

    Maps values of the other body to the values of this one that hold them.
    """
    replay: Replay | None = loop.node.params["replay"]
    if replay is None:
        return {}
    first_kept, body = loop.inits[replay.start], loop.body
    carries = len(other.final_carries)
    if first_kept.node is not other.node or carries <= first_kept.index:
        return {}
    holders = {}
    for k, i in enumerate(replay.carries, replay.before):
        holders[other.body.outputs[i]] = body.inputs[k]
        holders[other.body.inputs[i]] = body.outputs[k]
    pairs = zip(loop.sequences, loop.rows, strict=True)
    rows = [row for v, row in pairs if v is value]
    late = set(region_between(list(holders.values()), rows))
    return {} if any(v.node in late for v in holders.values()) else holders


def _count_work(node: Node) -> int:
    """Count the nodes in a body that are more than elementwise."""
    body = node.params["body"].content
    return sum(not _is_light(n) and not n.primitive.inline for n in body.nodes)


PRODUCERS = Rules((sequence_in_scan, recomputed_in_scan))
