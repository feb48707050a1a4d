"""Repeated blocks: isomorphic parts of a graph, each of which continues the one before.

Nodes whose neighbourhoods look alike are found by hashing. From such nodes, the last of
each block, the blocks are walked in lockstep. Counterparts are computed in a block, are
the same value for all blocks, are carried (the counterparts of others, one block
before), or are computed before all blocks. The gradients of the parameters of each
block only use what blocks compute.
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
from graphc.ir.graph.walk import operands
from graphc.ops.effects.assertions import ASSERT
from graphc.ops.indexing.basic import BASIC_INDEX
from graphc.rewriting.match.lockstep import Counterparts, Lockstep, Row

LEAST_BLOCKS = 4
ROUNDS = (4, 1)  # of hashing: how far nodes that are tried first must look alike
MOST_TRIES = 12  # of last nodes of blocks, per graph
MOST_RESTARTS = 5  # of each

_SERIAL = attrgetter("serial")
KindOf = dict[Node, int | None]


@dataclass
class Repeats:
    """Blocks in a chain, as counterparts in the order of the blocks.

    `rows` are the nodes of blocks, and `takes` the counterparts that they take.
    `carried` are counterparts of which each is given by the block before: as the values
    say. `sequences` are computed before all blocks, a value for each.
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


def _kinds(nodes: Iterable[Node]) -> KindOf:
    """Equal numbers for nodes that do the same; None for what is no part of a block."""
    numbers: dict[Any, int] = {}
    kinds: KindOf = {}
    for node in nodes:
        if not node.inputs or node.primitive is ASSERT or _in_pieces(node):
            kinds[node] = None
            continue
        kinds[node] = numbers.setdefault(kind_of(node), len(numbers))
    return kinds


def place_of(value: Value) -> int | None:
    """The position of a slice along the first axis of an array; None if it is none."""
    node = value.node
    if node.primitive is not BASIC_INDEX or node.params["kinds"] != "i":
        return None
    (start,) = node.params["starts"]
    return start if isinstance(start, int) and start >= 0 else None


def _is_slice(node: Node) -> bool:
    return bool(node.outputs) and place_of(node.outputs[0]) is not None


def _in_pieces(node: Node) -> bool:
    """Whether the driver runs a node, which no loop can hold."""
    return node.primitive.driven or runs_in_python(node)


class _MismatchError(Exception):
    """The blocks are not alike; `better` are ends of blocks to try instead."""

    def __init__(self, better: Sequence[Counterparts] = ()) -> None:
        super().__init__()
        self.better = better


class BlockSearch:
    """The search for blocks in a graph, by their last nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.kinds: KindOf = _kinds(nodes)
        self.users: dict[Value, list[Node]] = defaultdict(list)
        self._failed = set[Row]()  # rows of blocks that were not alike
        self._refused: dict[Node, Node] = {}  # the first of rows that need no loop
        self._before: dict[Node, list[Node]] = {}
        for node in nodes:
            values = operands(node)
            self._before[node] = [v.node for v in values]
            for value in dict.fromkeys(values):
                self.users[value].append(node)
        self._slices = set(filter(_is_slice, nodes))
        self._stacked = set[Value]()  # what loops so far are given, for each block

    def is_in_stack(self, value: Value) -> bool:
        """Whether it stands in an array beside those of other blocks."""
        return value in self._stacked or value.node in self._slices

    def leave(self, blocks: Repeats) -> None:
        """Take what blocks compute for slices of arrays, as the loop of them stacks."""
        inside = blocks.nodes
        self._stacked.update(v for row in blocks.sequences for v in row)
        self.nodes = [node for node in self.nodes if node not in inside]
        self.kinds |= dict.fromkeys(inside)
        self._slices |= inside

    def refuse(self, blocks: Repeats) -> None:
        """Try no row of these blocks, nor part of one, as the last nodes of others."""
        for row in blocks.rows:
            self._refused |= dict.fromkeys(row, row[0])

    def _is_refused(self, group: Row) -> bool:
        first = self._refused.get(group[0])
        return first is not None and all(self._refused.get(n) is first for n in group)

    def behind(self, first: set[Node]) -> set[Node]:
        """The nodes that depend on these."""
        dependent, before = set[Node](), set(first)
        start = bisect_left(self.nodes, min(n.serial for n in first), key=_SERIAL)
        for node in self.nodes[start:]:
            if not before.isdisjoint(self._before[node]):
                dependent.add(node)
                before.add(node)
        return dependent

    def repeats(self, least: int) -> Iterator[Repeats]:
        """Chains of which a loop leaves out so many nodes; they may overlap.

        Nodes within blocks that turned out not to be alike are tried after all others.
        """
        if self._most_saved() < least:
            return
        tried = set[Row]()
        for rounds in ROUNDS:
            groups = dict.fromkeys(map(tuple, self._alike(rounds, least)))
            waiting = [g for g in groups if g not in tried]
            for _ in range(min(MOST_TRIES, len(waiting))):
                group = next((g for g in waiting if g not in self._failed), waiting[0])
                waiting.remove(group)
                tried.add(group)
                if self._is_refused(group):
                    continue
                ends = list(zip(*(node.outputs for node in group), strict=True))
                repeats = self._blocks(ends)
                if repeats is not None and repeats.saved >= least:
                    yield repeats

    def _most_saved(self) -> int:
        """No loop leaves out more: all nodes that are repeated, but for one block.

        Each row of blocks is of one kind, so there are no more blocks than of a kind.
        """
        kinds = Counter(map(self.kinds.__getitem__, self.nodes))
        del kinds[None]
        repeated = sum(n for n in kinds.values() if n >= LEAST_BLOCKS)
        most = max(kinds.values(), default=1)
        return repeated - repeated // most

    def _alike(self, rounds: int, least: int) -> list[list[Node]]:
        """Groups of nodes that look alike, in the order in which they are tried.

        Of the groups that overlap the one that ends first, the last comes first: the
        end of a block is where the least is carried.
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
        """Hashes of nodes and of what they take; the places of slices do not count."""
        labels = {node: hash((self.kinds[node], node.primitive)) for node in self.nodes}
        labels |= dict.fromkeys(self._slices, hash("slice"))
        inner = [node for node in self.nodes if node not in self._slices]
        return with_operands(labels, inner, rounds)

    def _blocks(self, ends: Sequence[Counterparts]) -> Repeats | None:
        """The longest chain of blocks of which some nodes are last, if there is one."""
        for _ in range(MOST_RESTARTS):
            if not ends or len(ends[0]) < LEAST_BLOCKS:
                return None
            matching = _Matching(ends, self)
            try:
                return self._longer(matching.blocks(), ends)
            except _MismatchError as mismatch:
                self._failed.update(matching.rows)
                ends = mismatch.better
        return None

    def _longer(self, chain: Repeats, ends: Sequence[Counterparts]) -> Repeats:
        """The chain, with the blocks before it whose surroundings look otherwise."""
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
    """The walk from the last nodes of blocks."""

    def __init__(self, ends: Sequence[Counterparts], search: BlockSearch) -> None:
        super().__init__(search.kinds, search.users, _SERIAL)
        self._ends, self._search = ends, search
        self._result = Repeats(len(ends[0]), self.rows)
        self._late = search.behind({end[0].node for end in ends})

    def blocks(self) -> Repeats:
        """The blocks. Raises _MismatchError."""
        self._visit_later(self._ends)
        for row in self._to_visit():  # the nodes that give it are known before
            self._visit_later(self._visit(row))
        if not self._result.carried:
            raise _MismatchError
        inside = set(self._places)
        self._late = inside | self._search.behind(inside)
        if any(v.node in self._late for v in self._result.from_before):
            raise _MismatchError
        for nodes in self._followers():
            if self._takes_known(nodes):
                self._add(nodes)
        return self._result

    def _visit(self, row: Counterparts) -> Iterable[Counterparts]:
        """Decide where counterparts come from; give those that their nodes take."""
        if _is_shared(row) or self._is_inside(row):
            return ()
        giving = self._giving(row)
        if giving is not None:
            self._result.carried[row] = giving
            return ()
        nodes = tuple([v.node for v in row])
        if self._can_be_row(row, nodes):
            return self._add(nodes)
        early = self._late.isdisjoint(nodes) and self._places.keys().isdisjoint(nodes)
        if not early or not _of_one_type(row):
            raise self._mismatch(row)
        self._result.sequences[row] = None
        return ()

    def _giving(self, row: Counterparts) -> Counterparts | None:
        """The counterparts of which each is carried to the next block, as in `row`."""
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
        """Whether nodes that do the same, and so demand the same, must wait for it."""
        return any(v.node in self._late for v in nodes[0].demands)

    def _add(self, nodes: Row) -> tuple[Counterparts, ...]:
        """Add nodes to the blocks; give the counterparts that they take."""
        takes = tuple(zip(*(node.inputs for node in nodes), strict=True))
        self._result.takes.append(takes)
        self._add_row(nodes)
        return takes

    def _mismatch(self, row: Counterparts) -> _MismatchError:
        """Blocks that are not alike, with other ends for which they may be."""
        if self._starts_otherwise(row):
            # It is carried, but nothing asks for that of the last block: leave it out.
            row = self._by_chance(row)
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

    def _by_chance(self, row: Counterparts) -> Counterparts:
        """The counterparts that use these, if the first of them is alike by chance.

        All that it takes is from before all blocks then, though the others' is not.
        """
        for nodes, takes in zip(self.rows, self._result.takes, strict=True):
            if row in set(takes) and all(map(self._starts_otherwise, takes)):
                return tuple([n.outputs[0] for n in nodes])
        return row

    def _may_take(self, value: Value, part: int) -> bool:
        return True  # where from is asked of all blocks at once

    def _takes_known(self, nodes: Row) -> bool:
        """Whether nodes take only what blocks can take; record from where.

        An array of each block is not stacked for elementwise nodes alone, as the state
        of an optimizer would be: they do as well after the loop.
        """
        rows: dict[Counterparts, None] = {}
        light = nodes[0].primitive.elementwise
        for row in zip(*(node.inputs for node in nodes), strict=True):
            if self._is_inside(row) or row in self._result.carried:
                continue
            if any(v.node in self._late for v in row) or not _of_one_type(row):
                return False
            if light and row not in self._result.sequences and self._to_be_stacked(row):
                return False
            if not _is_shared(row):
                rows[row] = None
        if self._demands_late(nodes):
            return False
        self._result.sequences |= rows
        return True

    def _to_be_stacked(self, row: Counterparts) -> bool:
        """Whether counterparts are arrays that are not there side by side."""
        if row[0].type.rank == 0 or all(v.node.primitive is CONSTANT for v in row):
            return False
        return not all(map(self._search.is_in_stack, row))


def _is_shared(row: Counterparts) -> bool:
    return all(v is row[0] for v in row)


def _of_one_type(row: Counterparts) -> bool:
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
