"""Repeated blocks: isomorphic parts of a graph, each of which continues the one before.

Nodes whose neighbourhoods look alike are found by hashing. With such nodes as the last
ones of the blocks, a walk goes through all blocks in lockstep. Counterparts are
computed in a block, are the same value for all blocks, are carried (they are other
counterparts, one block before), or are computed before all blocks. Nodes that only use
what blocks compute, as gradients of the parameters of each block, are added afterwards.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter, is_
from typing import Any

from graphc.ir.graph.bodies import runs_in_python
from graphc.ir.graph.build import CONSTANT
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.structure import kind_of, with_operands
from graphc.ir.graph.walk import operands, users_by_value
from graphc.ops.effects.assertions import ASSERT
from graphc.ops.indexing.basic import BASIC_INDEX
from graphc.rewriting.match.lockstep import (
    Counterparts,
    Lockstep,
    Row,
    inputs_of_row,
    outputs_of_row,
)

LEAST_BLOCKS = 4
ROUNDS = (4, 1)  # of hashing: how far nodes must look alike, strictest first
MOST_TRIES = 12  # of groups as the last nodes of blocks, for each of `ROUNDS`
MOST_RESTARTS = 5  # of the walk from one group

_SERIAL = attrgetter("serial")
KindOf = dict[Node, int | None]


@dataclass
class Repeats:
    """A chain of blocks, as counterparts in the order of the blocks.

    `rows` are the nodes of the blocks, and `takes` the counterparts that they take.
    `carried` maps counterparts that blocks take to those that each block gives to the
    next. `sequences` are computed before all blocks, one value for each block.
    """

    count: int
    rows: list[Row] = field(default_factory=list)
    takes: list[tuple[Counterparts, ...]] = field(default_factory=list)
    carried: dict[Counterparts, Counterparts] = field(default_factory=dict)
    sequences: dict[Counterparts, None] = field(default_factory=dict)

    @property
    def saved(self) -> int:
        """How many nodes a loop leaves out."""
        return (self.count - 1) * len(self.rows)

    @property
    def nodes(self) -> set[Node]:
        """The nodes of all blocks."""
        return {node for row in self.rows for node in row}

    @property
    def from_before(self) -> Iterator[Value]:
        """The values that the blocks take from before all of them."""
        for row in self.sequences:
            yield from row
        for row in self.carried:
            yield row[0]
        for takes in self.takes:
            yield from (row[0] for row in takes if _is_shared(row))


def _number_kinds(nodes: Iterable[Node]) -> KindOf:
    """Give equal numbers to nodes that do the same; None to what no block can hold."""
    numbers: dict[Any, int] = {}
    kinds: KindOf = {}
    for node in nodes:
        if not node.inputs or node.primitive is ASSERT or _is_driven(node):
            kinds[node] = None
            continue
        kinds[node] = numbers.setdefault(kind_of(node), len(numbers))
    return kinds


def slice_position(value: Value) -> int | None:
    """Return the position of a slice along an array's first axis; None if no slice."""
    node = value.node
    if node.primitive is not BASIC_INDEX or node.params["kinds"] != "i":
        return None
    (start,) = node.params["starts"]
    return start if isinstance(start, int) and start >= 0 else None


def _is_slice(node: Node) -> bool:
    return bool(node.outputs) and slice_position(node.outputs[0]) is not None


def _is_driven(node: Node) -> bool:
    """Whether the driver or Python runs a node, so that no loop can hold it."""
    return node.primitive.driven or runs_in_python(node)


class _MismatchError(Exception):
    """Raised when blocks are not alike; `better` are ends of blocks to try instead."""

    def __init__(self, better: Sequence[Counterparts] = ()) -> None:
        super().__init__()
        self.better = better


class BlockSearch:
    """The search for blocks in a graph, starting from their last nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.kinds: KindOf = _number_kinds(nodes)
        self.users = users_by_value(nodes)
        self._failed = set[Row]()  # rows of blocks that were not alike
        self._refused: dict[Node, Node] = {}  # by node: the first of its row
        self._operand_nodes = {n: [v.node for v in operands(n)] for n in nodes}
        self._slices = set(filter(_is_slice, nodes))
        self._stacked = set[Value]()  # the values that loops so far take for each block

    def is_in_stack(self, value: Value) -> bool:
        """Whether a value stands in an array beside those of other blocks."""
        return value in self._stacked or value.node in self._slices

    def leave_out(self, blocks: Repeats) -> None:
        """Leave blocks out of the search; their results count as slices of arrays."""
        inside = blocks.nodes
        self._stacked.update(v for row in blocks.sequences for v in row)
        self.nodes = [node for node in self.nodes if node not in inside]
        self.kinds |= dict.fromkeys(inside)
        self._slices |= inside

    def refuse(self, blocks: Repeats) -> None:
        """Never try a row of these blocks, or part of one, as last nodes again."""
        for row in blocks.rows:
            self._refused |= dict.fromkeys(row, row[0])

    def _is_refused(self, group: Row) -> bool:
        first = self._refused.get(group[0])
        return first is not None and all(self._refused.get(n) is first for n in group)

    def dependents(self, first: set[Node]) -> set[Node]:
        """Return the nodes that depend on those in `first`."""
        dependent, before = set[Node](), set(first)
        start = bisect_left(self.nodes, min(n.serial for n in first), key=_SERIAL)
        for node in self.nodes[start:]:
            if not before.isdisjoint(self._operand_nodes[node]):
                dependent.add(node)
                before.add(node)
        return dependent

    def find_chains(self, least: int) -> Iterator[Repeats]:
        """Yield chains of which a loop leaves out at least `least` nodes.

        The chains may overlap. Nodes within blocks that turned out not to be alike are
        tried after all others.
        """
        if self._most_saved() < least:
            return
        tried = set[Row]()
        for rounds in ROUNDS:
            groups = dict.fromkeys(map(tuple, self._groups_alike(rounds, least)))
            waiting = [g for g in groups if g not in tried]
            for _ in range(min(MOST_TRIES, len(waiting))):
                group = next((g for g in waiting if g not in self._failed), waiting[0])
                waiting.remove(group)
                tried.add(group)
                if self._is_refused(group):
                    continue
                ends = outputs_of_row(group)
                repeats = self._chain_before(ends)
                if repeats is not None and repeats.saved >= least:
                    yield repeats

    def _most_saved(self) -> int:
        """Return how many nodes a loop leaves out at most.

        These are all nodes that are repeated, but for one block. Each row of blocks is
        of one kind, so there are at most as many blocks as nodes of a kind.
        """
        kinds = Counter(map(self.kinds.__getitem__, self.nodes))
        del kinds[None]
        repeated = sum(n for n in kinds.values() if n >= LEAST_BLOCKS)
        most = max(kinds.values(), default=1)
        return repeated - repeated // most

    def _groups_alike(self, rounds: int, least: int) -> list[list[Node]]:
        """Return groups of nodes that look alike, in the order in which to try them.

        Among groups that overlap the group that ends first, the one that ends last is
        tried first: the end of a block is where the least is carried.
        """
        labels = self._labels(rounds)
        groups: dict[int, list[Node]] = defaultdict(list)
        for node in self.nodes:
            if self.kinds[node] is not None:
                groups[labels[node]].append(node)
        place = {node: i for i, node in enumerate(self.nodes)}
        candidates = [
            group
            for group in groups.values()
            if len(group) >= LEAST_BLOCKS
            and 2 * (place[group[-1]] - place[group[0]]) >= least
        ]
        candidates.sort(key=lambda group: group[0].serial)
        ordered: list[list[Node]] = []
        while candidates:
            end = min(group[-1].serial for group in candidates)
            near = [group for group in candidates if group[0].serial < end]
            ordered += sorted(near, key=lambda group: -group[-1].serial)
            candidates = candidates[len(near) :]
        return ordered

    def _labels(self, rounds: int) -> dict[Node, int]:
        """Hash nodes together with what they take, but for the places of slices."""
        labels = {node: hash((self.kinds[node], node.primitive)) for node in self.nodes}
        labels |= dict.fromkeys(self._slices, hash("slice"))
        inner = [node for node in self.nodes if node not in self._slices]
        return with_operands(labels, inner, rounds)

    def _chain_before(self, ends: Sequence[Counterparts]) -> Repeats | None:
        """Return the longest chain of blocks whose last nodes give `ends`, or None."""
        for _ in range(MOST_RESTARTS):
            if not ends or len(ends[0]) < LEAST_BLOCKS:
                return None
            matching = _Matching(ends, self)
            try:
                return self._extend_chain(matching.blocks(), ends)
            except _MismatchError as mismatch:
                self._failed.update(matching.rows)
                ends = mismatch.better
        return None

    def _extend_chain(self, chain: Repeats, ends: Sequence[Counterparts]) -> Repeats:
        """Extend a chain by blocks before it whose surroundings look different."""
        while True:
            before = {giving: row[0] for row, giving in chain.carried.items()}
            if not all(end in before for end in ends):
                return chain
            ends = [(before[end], *end) for end in ends]
            try:
                chain = _Matching(ends, self).blocks()
            except _MismatchError:
                return chain


class _Matching(Lockstep):
    """The walk through blocks in lockstep, from their last nodes."""

    def __init__(self, ends: Sequence[Counterparts], search: BlockSearch) -> None:
        super().__init__(search.kinds, search.users, _SERIAL)
        self._ends, self._search = ends, search
        self._result = Repeats(len(ends[0]), self.rows)
        self._late = search.dependents({end[0].node for end in ends})

    def blocks(self) -> Repeats:
        """Return the blocks found by the walk. Raises _MismatchError."""
        self._visit_later(self._ends)
        for row in self._to_visit():  # nodes that give a carried row come first
            self._visit_later(self._visit(row))
        if not self._result.carried:
            raise _MismatchError
        inside = set(self._places)
        self._late = inside | self._search.dependents(inside)
        if any(v.node in self._late for v in self._result.from_before):
            raise _MismatchError
        for nodes in self._followers():
            if self._can_add(nodes):
                self._add_nodes(nodes)
        return self._result

    def _visit(self, row: Counterparts) -> Iterable[Counterparts]:
        """Decide where counterparts come from; return those that their nodes take."""
        if _is_shared(row) or self._is_inside(row):
            return ()
        giving = self._carried_from(row)
        if giving is not None:
            self._result.carried[row] = giving
            return ()
        nodes = tuple([v.node for v in row])
        if self._can_be_row(row, nodes):
            return self._add_nodes(nodes)
        early = self._late.isdisjoint(nodes) and self._places.keys().isdisjoint(nodes)
        if not early or not _have_one_type(row):
            raise self._mismatch_error(row)
        self._result.sequences[row] = None
        return ()

    def _carried_from(self, row: Counterparts) -> Counterparts | None:
        """Return the counterparts that are carried to the next block as `row`.

        None if `row` is not carried.
        """
        second, index = self._row_of(row[1].node), row[1].index
        if second is None or not row[0].type.same(row[1].type):
            return None
        giving = tuple([n.outputs[index] for n in self.rows[second]])
        return giving if all(map(is_, row[1:], giving)) else None

    def _can_be_row(self, row: Counterparts, nodes: Row) -> bool:
        kinds = {self._kinds[n] for n in nodes}
        if None in kinds or len(kinds) > 1 or len({v.index for v in row}) > 1:
            return False
        return (
            self._places.keys().isdisjoint(nodes)
            and len(set(nodes)) == len(nodes)
            and not self._demands_late(nodes)
        )

    def _demands_late(self, nodes: Row) -> bool:
        """Whether the demands of the nodes, the same for all, are known too late."""
        return any(v.node in self._late for v in nodes[0].demands)

    def _add_nodes(self, nodes: Row) -> tuple[Counterparts, ...]:
        """Add nodes to the blocks; return the counterparts that they take."""
        takes = inputs_of_row(nodes)
        self._result.takes.append(takes)
        self._add_row(nodes)
        return takes

    def _mismatch_error(self, row: Counterparts) -> _MismatchError:
        """Make the error for blocks that are not alike, with better ends to try."""
        if self._starts_otherwise(row):
            # The row is carried, but nothing asks for the last block's: leave that
            # block out.
            row = self._users_by_chance(row)
            later = [e for e in self._ends if e[0].node.serial > row[1].node.serial]
            return _MismatchError([*(end[:-1] for end in later), row[1:]])
        length, start = _longest_run([self._kinds[v.node] for v in row])
        if length == len(row):
            return _MismatchError()
        return _MismatchError([end[start : start + length] for end in self._ends])

    def _starts_otherwise(self, row: Counterparts) -> bool:
        """Whether the first is from before all blocks, and the others are alike."""
        first, *others = [v.node for v in row]
        kinds = {self._kinds[n] for n in others}
        early = first not in self._late and first not in self._places
        return early and len(kinds) == 1 and None not in kinds

    def _users_by_chance(self, row: Counterparts) -> Counterparts:
        """Return the counterparts that use `row`, if their first is alike by chance.

        Then all that the first one takes is from before all blocks, unlike what the
        others take. Otherwise return `row`.
        """
        for nodes, takes in zip(self.rows, self._result.takes, strict=True):
            if row in set(takes) and all(map(self._starts_otherwise, takes)):
                return tuple([n.outputs[0] for n in nodes])
        return row

    def _may_take(self, value: Value, part: int) -> bool:
        return True  # `_can_add` asks this for all blocks at once

    def _can_add(self, nodes: Row) -> bool:
        """Whether nodes take only what blocks can take; if so, record new sequences.

        No array is stacked for elementwise nodes alone, as the state of an optimizer
        would be: these nodes do as well after the loop.
        """
        rows: dict[Counterparts, None] = {}
        light = nodes[0].primitive.elementwise
        for row in inputs_of_row(nodes):
            if self._is_inside(row) or row in self._result.carried:
                continue
            if any(v.node in self._late for v in row) or not _have_one_type(row):
                return False
            if light and row not in self._result.sequences and self._needs_stack(row):
                return False
            if not _is_shared(row):
                rows[row] = None
        if self._demands_late(nodes):
            return False
        self._result.sequences |= rows
        return True

    def _needs_stack(self, row: Counterparts) -> bool:
        """Whether counterparts are arrays that do not stand side by side yet."""
        if row[0].type.rank == 0 or all(v.node.primitive is CONSTANT for v in row):
            return False
        return not all(map(self._search.is_in_stack, row))


def _is_shared(row: Counterparts) -> bool:
    return all(v is row[0] for v in row)


def _have_one_type(row: Counterparts) -> bool:
    return all(v.type.same(row[0].type) for v in row)


def _longest_run(kinds: Sequence[int | None]) -> tuple[int, int]:
    """The length and the start of the longest run of equal kinds."""
    runs, start = [(0, 0)], 0
    for kind, run in groupby(kinds):
        length = len(list(run))
        runs.append((length if kind is not None else 0, -start))
        start += length
    length, negative = max(runs)
    return length, -negative
