"""Rolling: a chain of blocks that are alike becomes a scan over what differs.

A deep network repeats a block with parameters of its own, and XLA compiles each copy
anew. As the body of a scan over stacked parameters, the block is compiled once, however
many copies there are. Gradients repeat blocks of their own, which take the results of
the network's blocks: the slices of what the first scan stacks.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from graphc.analysis.cost import CPU, DeviceCosts
from graphc.errors import standing_at
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import CONSTANT, cast, constant
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.op import rebuild
from graphc.ir.graph.replay import Replaced, substituted
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.rewriting.engine.rule import Rule, Rules, whole_graph
from graphc.rewriting.loops.find.scan_view import with_replacements
from graphc.rewriting.loops.find.work import HEAVY, typical_size, work_of
from graphc.rewriting.loops.roll.late_work import without_late_work
from graphc.rewriting.loops.roll.repeats import BlockSearch, Repeats, slice_position
from graphc.rewriting.loops.roll.worth import LEAST_SECONDS, Role, Worth
from graphc.rewriting.match.lockstep import Counterparts, outputs_of_row

NAME = "repeated_blocks"
LEAST_SEARCHED = 100  # nodes that loops would leave out; fewer never pay
MOST_COMPARED = 4  # chains, of which the longest is taken
NEARLY = 0.95  # share of the largest saving that is enough for a chain of more blocks
MOST_GATHERS = 8  # in a chain: XLA's fusion makes each twice as long to compile


def rolling(least_saved: int | None = None, least_work: int | None = None) -> Rule:
    """Make the rule that turns a chain of blocks that are alike into a scan.

    It applies where at least `least_saved` nodes need not be compiled, and a block
    takes at least `least_work` operations. By default it applies where compilation ends
    a good part of a second earlier, and calls take no longer, judging by the costs of
    the device. It also applies to chains of gathers, however little they do, and to
    blocks that the user has marked, however few their nodes are.
    """
    return _rolling_for(least_saved, least_work, CPU)


def _rolling_for(
    least_saved: int | None, least_work: int | None, costs: DeviceCosts
) -> Rule:
    """Make the rule for a device, on which the copies into stacks must pay off."""
    ops = [primitive.name for primitive in (*HEAVY, OP.gather)]
    tuned = partial(_rolling_for, least_saved, least_work)

    @whole_graph(over=ops, exact=False, name=NAME, compiling=True, tuned=tuned)
    def rule(graph: Graph) -> Replaced | None:
        """Blocks that are alike, each on results of the one before, become a scan."""
        rolled = roll_chains(graph, least_saved, least_work, costs)
        return None if rolled is None else (rolled.graph, rolled.pairs)

    return rule


class RolledChains(NamedTuple):
    """A graph with scans in place of chains of blocks.

    `replacements` maps values of blocks to the values from scans that replace them.
    `pairs` has one of these pairs for each scan, and `inside` the nodes of the blocks.
    """

    graph: Graph
    pairs: list[tuple[Value, Value]]
    replacements: Mapping[Value, Value]
    inside: Set[Node]


def roll_chains(
    graph: Graph,
    least_saved: int | None = None,
    least_work: int | None = None,
    costs: DeviceCosts = CPU,
    for_gradients: bool = False,
) -> RolledChains | None:
    """Return a graph with its chains of blocks as scans; None where no chain pays.

    With `for_gradients`, all nodes are differentiated afterwards.
    """
    chains, pairs = _Chains(graph, for_gradients), list[tuple[Value, Value]]()
    searched = LEAST_SEARCHED if least_saved is None else least_saved
    while True:
        least = 0 if _compiles_slowly(chains.nodes) else searched
        if len(chains.nodes) < least:
            break
        paying = chains.paying(least, least_saved, least_work, costs)
        tried = list(islice(paying, MOST_COMPARED))
        best = _best_chain(tried) if tried else None
        if best is None or not chains.can_add(best):
            break
        pairs.append(chains.add(best))
    return chains.graph_with_scans(pairs) if pairs else None


def _compiles_slowly(nodes: Sequence[Node]) -> bool:
    """Whether blocks are worth a loop however few nodes they have."""
    gathers = sum(node.primitive is OP.gather for node in nodes)
    return gathers > MOST_GATHERS or any(node.place.block for node in nodes)


def _best_chain(chains: "Sequence[_Chain]") -> "_Chain":
    """Return the chain that saves most, or one of more blocks that saves nearly that.

    Among equal chains, the one that stacks least is taken.
    """
    least = NEARLY * max(chain.saved for chain in chains)
    enough = [chain for chain in chains if chain.saved >= least]
    return max(
        enough, key=lambda chain: (chain.repeats.count, chain.saved, -chain.stacked)
    )


class _Chains:
    """The chains in a graph that become scans, one by one, in one graph.

    The scans of later chains use the results of the scans of earlier ones.
    """

    def __init__(self, graph: Graph, for_gradients: bool) -> None:
        self._graph = graph
        self._for_gradients = for_gradients
        self._search: BlockSearch | None = None
        self._replacements: dict[Value, Value] = {}
        self._stack_places: _PlacesInStacks = {}
        self._needed: set[Node] = set()  # the nodes that the scans so far need
        self._inside: set[Node] = set()  # the nodes of their blocks

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes that are in no chain yet."""
        return self._graph.nodes if self._search is None else self._search.nodes

    def paying(
        self,
        least: int,
        least_saved: int | None,
        least_work: int | None,
        costs: DeviceCosts,
    ) -> Iterator["_Chain"]:
        """Yield the `candidates` that pay, by thresholds or by costs.

        Blocks that do not pay would not pay from another of their nodes on either, so
        the search skips them.
        """
        for chain in self.candidates(least):
            if chain.pays(least_saved, least_work, costs):
                yield chain
            else:
                assert self._search is not None
                self._search.refuse(chain.repeats)

    def candidates(self, least: int) -> Iterator["_Chain"]:
        """Yield chains of which loops leave out `least` nodes or more, overlapping."""
        if self._search is None:
            self._search = BlockSearch(self._graph.nodes)
            self._stack_places = _places_in_stacks(self._graph.nodes)
        outputs = set(self._graph.outputs)
        users = self._search.users
        for blocks in self._search.find_chains(least):
            repeats = without_late_work(blocks, users, outputs)
            inside = repeats.nodes
            values = [v for node in inside for v in node.outputs]
            live_out = {v for v in values if not inside.issuperset(users.get(v, ()))}
            used = live_out | outputs.intersection(values)
            replaced = self._replaced_inputs(repeats)
            chain = _Chain(repeats, used, replaced, self._stack_places)
            chain.role = self._role_of(chain, live_out)
            yield chain

    def _role_of(self, chain: "_Chain", live_out: Container[Value]) -> Role:
        """Tell who takes the results of a chain; other nodes take the `live_out`."""
        if self._for_gradients:
            return Role.FORWARD
        replaced, rows = chain.replaced_inputs, chain.repeats.sequences
        if any(all(v in replaced for v in row) for row in rows):
            return Role.BACKWARD
        return Role.FORWARD if chain.has_inner_results(live_out) else Role.ALONE

    def _replaced_inputs(self, repeats: Repeats) -> dict[Value, Value]:
        """Return replacements of the values that blocks take, if scans compute them."""
        if not self._replacements:
            return {}
        values = list(dict.fromkeys(repeats.from_before))
        pairs = zip(values, substituted(values, self._replacements, {}), strict=True)
        return {old: new for old, new in pairs if old is not new}

    def can_add(self, chain: "_Chain") -> bool:
        """Whether no scan so far, and no size in the chain, waits for the chain."""
        if any(v._symbol is not None for v in chain.replaced_inputs):
            return False
        if self._replacements and any(row[0].demands for row in chain.repeats.rows):
            return False
        return self._needed.isdisjoint(chain.repeats.nodes)

    def add(self, chain: "_Chain") -> tuple[Value, Value]:
        """Make the scan of a chain; return a value it replaces, and the replacement."""
        assert self._search is not None
        replacements = chain.replacements()
        self._replacements |= replacements
        self._needed.update(ancestors(chain.repeats.from_before))
        self._inside |= chain.repeats.nodes
        self._search.leave_out(chain.repeats)
        return next(iter(replacements.items()))

    def graph_with_scans(self, pairs: list[tuple[Value, Value]]) -> RolledChains:
        """Return the graph with the scans."""
        replacements, nodes = self._replacements, self._graph.nodes
        graph, _ = with_replacements(self._graph, nodes, replacements, {})
        return RolledChains(graph, pairs, replacements, self._inside)


class _Chain:
    """A scan whose steps are the blocks of a chain.

    `used` are the values of blocks that other nodes use. `replaced_inputs` maps
    values that the blocks are given to the values to take in their place.
    """

    def __init__(
        self,
        repeats: Repeats,
        used: Container[Value],
        replaced_inputs: Mapping[Value, Value],
        places_in_stacks: "_PlacesInStacks",
    ) -> None:
        self.repeats = repeats
        self.replaced_inputs = replaced_inputs
        self._carried = list(repeats.carried)
        groups = zip(repeats.rows, repeats.takes, strict=True)
        self._groups = sorted(groups, key=lambda pair: pair[0][0].serial)
        self._used = used
        self._used_rows = [
            row
            for group in repeats.rows
            for row in outputs_of_row(group)
            if any(v in used for v in row)
        ]
        self._last_only = {
            row: i
            for i, row in enumerate(repeats.carried.values())
            if not any(v in used for v in row[:-1])
        }
        self._stacked = [row for row in self._used_rows if row not in self._last_only]
        self._inputs = [
            tuple([replaced_inputs.get(v, v) for v in row]) for row in repeats.sequences
        ]
        self._stack_places = places_in_stacks
        steps = [part.step for row in self._inputs for part in _runs_of(row)]
        self._reverse = -1 in steps and 1 not in steps
        self.role = Role.ALONE

    @property
    def saved(self) -> int:
        """How many nodes need not be compiled."""
        return self.repeats.saved

    @property
    def stacked(self) -> int:
        """How many elements are copied per block to an array of all blocks."""
        return self._worth.stacked

    def has_inner_results(self, live_out: Container[Value]) -> bool:
        """Whether nodes outside take values of blocks before the last."""
        return any(v in live_out for row in self._used_rows for v in row[:-1])

    def pays(
        self, least_saved: int | None, least_work: int | None, costs: DeviceCosts
    ) -> bool:
        """Whether a loop is worth it, by these thresholds or by the costs.

        On CPUs, XLA has no fast convolution within a loop: it takes 20 times as long.
        """
        blocks = self.repeats
        if not costs.launches and self._convolves():
            return False
        if blocks.count > MOST_GATHERS and self._gathers_of_gathers():
            return True
        if not any(row[0].primitive in HEAVY for row in blocks.rows):
            return False  # one fused loop through all blocks is better
        worth = self._worth
        if least_saved is None and least_work is None and worth.pays(costs):
            return True
        if least_saved is None:
            enough = worth.seconds_saved(costs) >= LEAST_SECONDS
        else:
            enough = self.saved >= least_saved
        marked = all(row[0].place.block for row in blocks.rows)
        return (enough or marked) and worth.is_heavy(costs, least_work)

    @cached_property
    def _worth(self) -> Worth:
        arrays = [row for row in self._inputs if not _are_constants(row)]
        stacked = sum(
            typical_size(row[0].type.size)
            for row in arrays
            if len(_runs_of(row)) > 1 or slice_position(row[0]) is None
        )
        rows = self.repeats.rows
        work = sum(work_of(row[0]) for row in rows)
        count, nodes = self.repeats.count, len(rows)
        return Worth(count, nodes, self.role, work, stacked, len(arrays))

    def _convolves(self) -> bool:
        return any(row[0].primitive is OP.conv for row in self.repeats.rows)

    def _gathers_of_gathers(self) -> bool:
        """Whether blocks gather from what they carry, so that gathers are nested."""
        from_before = set(self._carried)
        for nodes, takes in self._groups:
            if any(row in from_before for row in takes):
                if nodes[0].primitive is OP.gather:
                    return True
                from_before.update(outputs_of_row(nodes))
        return False

    def replacements(self) -> dict[Value, Value]:
        """Make the scan; return what replaces the values used outside of the blocks."""
        first = [self.replaced_inputs.get(row[0], row[0]) for row in self._carried]
        count, line = self.repeats.count, self.repeats.rows[0][0].place
        with standing_at(line.plain):
            rows = [self._make_sequence(row) for row in self._inputs]
            ends, stacked = F._run_scan(self._step, first, rows, count, self._reverse)
        last = ((row[-1], ends[i]) for row, i in self._last_only.items())
        replacements = {old: new for old, new in last if old in self._used}
        for row, values in zip(self._stacked, stacked, strict=True):
            for i, value in enumerate(row):
                if value in self._used:
                    place = count - 1 - i if self._reverse else i
                    replacements[value] = _as_weak(values[place], value)
        return replacements

    def _make_sequence(self, row: Counterparts) -> Value:
        """Make one array of the values that are given to the blocks."""
        if _are_constants(row):
            arrays = [v.node.params["data"].array for v in self._in_order(row)]
            return constant(np.stack(arrays))
        runs = _runs_of(self._in_order(row))
        parts = [run.array(self._stack_places) for run in runs]
        return parts[0] if len(parts) == 1 else F.concatenate(parts, 0)

    def _in_order(self, row: Counterparts) -> Counterparts:
        return row[::-1] if self._reverse else row

    def _step(self, carry: list[Value], rows: list[Value]) -> StepResult:
        known = dict(zip(self._carried, carry, strict=True))
        for row, value in zip(self.repeats.sequences, rows, strict=True):
            known[row] = _as_weak(value, row[0])
        for nodes, takes in self._groups:
            shared = (self.replaced_inputs.get(row[0], row[0]) for row in takes)
            inputs = tuple(map(known.get, takes, shared))
            with standing_at(nodes[0].place.plain):
                fresh = rebuild(nodes[0], inputs, nodes[0].params)
            known.update(zip(outputs_of_row(nodes), fresh.outputs, strict=True))
        after = [known[row] for row in self.repeats.carried.values()]
        return after, [known[row] for row in self._stacked]


def _as_weak(value: Value, like: Value) -> Value:
    return cast(value, like.dtype, like.type.weak)


def _are_constants(row: Counterparts) -> bool:
    return all(v.node.primitive is CONSTANT for v in row)


class _Run(NamedTuple):
    """A run of slices of one array, in its order or reversed; or of other values."""

    values: Counterparts
    places: tuple[int, ...] = ()

    @property
    def step(self) -> int:
        """1 in the order of the array, -1 reversed; 0 for one slice, or for none."""
        return self.places[1] - self.places[0] if len(self.places) > 1 else 0

    def array(self, places_in_stacks: "_PlacesInStacks") -> Value:
        """Return one array of all values."""
        held_in = self.source(places_in_stacks)
        if held_in is None:
            stack: Value = F.stack([cast(v, v.dtype) for v in self.values], 0)
            for value, place in _places_in_stacks([stack.node]).items():
                places_in_stacks.setdefault(value, place)
            return stack
        source, start = held_in
        part: Value = F._part(source, 0, start, start + len(self.values))
        return F.flip(part, 0) if self.step < 0 else part

    def source(self, places_in_stacks: "_PlacesInStacks") -> tuple[Value, int] | None:
        """Return an array that has all values side by side, and their first place.

        The array may be a stack. None if there is no such array.
        """
        if self.places:
            return self.values[0].node.inputs[0], min(self.places)
        held_at = places_in_stacks.get(self.values[0])
        if held_at is None:
            return None
        beside = held_at[0].node.inputs[held_at[1] : held_at[1] + len(self.values)]
        fits = len(beside) == len(self.values)
        pairs = zip(beside, self.values, strict=False)
        return held_at if fits and all(a is b for a, b in pairs) else None


# By value: a stack that holds it, and its place.
_PlacesInStacks = dict[Value, tuple[Value, int]]


def _places_in_stacks(nodes: Iterable[Node]) -> _PlacesInStacks:
    """Map values to the stacks that hold them, as an earlier scan over blocks made."""
    places: _PlacesInStacks = {}
    for node in nodes:
        if node.primitive is OP.stack and node.params["axis"] == 0:
            for place, value in enumerate(node.inputs):
                places.setdefault(value, (node.outputs[0], place))
    return places


def _runs_of(row: Counterparts) -> list[_Run]:
    """Split counterparts into runs of slices of one array, and of other values."""
    runs: list[tuple[list[Value], list[int]]] = []
    for value in row:
        place = slice_position(value)
        if not runs or not _continues(*runs[-1], value, place):
            runs.append(([], []))
        values, places = runs[-1]
        values.append(value)
        if place is not None:
            places.append(place)
    return [_Run(tuple(values), tuple(places)) for values, places in runs]


def _continues(
    values: Sequence[Value], places: Sequence[int], value: Value, place: int | None
) -> bool:
    """Whether a value continues a run, of slices at `places` or of other values."""
    if place is None or not places:
        return place is None and not places
    if values[0].node.inputs[0] is not value.node.inputs[0]:
        return False
    step = place - places[-1]
    return step in (1, -1) and (len(places) == 1 or step == places[1] - places[0])


ROLLING = Rules((rolling(),))
