"""Parts of a graph that are alike: the same nodes on other values, wherever they stand.

Nodes whose neighbourhoods look alike are found by hashing. Taking such nodes for the
last ones of the parts, a walk goes through the parts in lockstep, as far as all do the
same.

A part must be convex: nothing outside of it lies between two of its nodes. So a value
that a part takes from outside taints the nodes that it depends on; tainted nodes stay
outside.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphc.analysis.cost import worth_sharing
from graphc.ir.graph.bodies import runs_in_python
from graphc.ir.graph.build import CONSTANT
from graphc.ir.graph.nodes import Node, Value, is_literal, sizes_needed
from graphc.ir.graph.op import EMISSION
from graphc.ir.graph.structure import kind_of, with_operands
from graphc.ir.graph.walk import operands, users_by_value
from graphc.ir.sizes.dims import Symbol, symbols_in
from graphc.ir.types import is_integer
from graphc.rewriting.loops.roll.repeats import slice_position
from graphc.rewriting.match.lockstep import Counterparts, Lockstep, Row, inputs_of_row
from graphc.rewriting.sharing.circles import Circles

ROUNDS = (4, 1)  # of hashing: how far nodes that are tried must look alike
MOST_VISITS = 4  # per node of the graph, in all walks together
MOST_TAINTED = 8  # nodes per node of a part, until it is taken to end there
MOST_RESTARTS = 4
MOST_CHECKED = 16  # kinds of parts per graph
BIG = 16  # nodes of a part that counts as a block, not as an idiom in one

Pays = Callable[[int, int], bool]


@dataclass
class AlikeParts:
    """Parts as rows of nodes, in topological order, and the counterparts they take."""

    rows: list[Row] = field(default_factory=list)
    takes: list[tuple[Counterparts, ...]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many parts there are."""
        return len(self.rows[0])

    @property
    def size(self) -> int:
        """How many nodes are in each part."""
        return len(self.rows)

    @property
    def saved(self) -> int:
        """How many nodes sharing leaves out."""
        return (self.count - 1) * self.size

    @property
    def marked(self) -> bool:
        """Whether the parts are blocks that the user has marked, of several nodes."""
        return self.size > 1 and all(row[0].place.block for row in self.rows)

    def part(self, i: int) -> list[Node]:
        """The nodes of one part."""
        return [row[i] for row in self.rows]


def find_alike_parts(
    nodes: Sequence[Node], pays: Pays = worth_sharing
) -> list[AlikeParts]:
    """Find parts of a graph that are alike; none overlaps another.

    `pays(count, size)` tells whether `count` parts of `size` nodes are worth it.
    """
    kinds = _number_kinds(nodes)
    counts = Counter(kinds.values())
    most = max(counts.values(), default=0)
    saving = pays(most, sum(n > 1 for n in counts.values())) or has_marks(nodes)
    if most < 2 or not saving:
        return []
    return _PartSearch(nodes, kinds).paying(pays)


def has_marks(nodes: Iterable[Node]) -> bool:
    """Whether some nodes are of a block that the user has marked."""
    return any(node.place.block for node in nodes)


def _number_kinds(nodes: Iterable[Node]) -> dict[Node, int]:
    """Give equal numbers to nodes that do the same, if they can be in a part."""
    numbers: dict[Any, int] = {}
    kinds: dict[Node, int] = {}
    for node in nodes:
        if _can_be_in_part(node):
            fixed = tuple([v if _is_fixed(v) else None for v in node.inputs])
            key = kind_of(node), fixed
            kinds[node] = numbers.setdefault(key, len(numbers))
    return kinds


def _can_be_in_part(node: Node) -> bool:
    """Whether a node is an op on arrays that needs nothing of the host."""
    primitive = node.primitive
    if not node.inputs or not node.outputs or node.demands or node.guards:
        return False
    if primitive.inline or primitive.passes_on or not primitive.interned:
        return False
    if primitive.driven:
        return False
    if primitive not in EMISSION["jax"] or runs_in_python(node):
        return False
    values = (*node.inputs, *node.outputs)
    return not any(v.type.weak and not is_literal(v) for v in values)


def _is_fixed(value: Value) -> bool:
    """Whether a literal must be the same in all parts, as texts may depend on it."""
    if not is_literal(value):
        return False
    constant = value.node.primitive is CONSTANT
    return not constant or not value.type.rank or is_integer(value.dtype)


class _PartSearch:
    """The search for parts, starting from their last nodes."""

    def __init__(self, nodes: Sequence[Node], kinds: dict[Node, int]) -> None:
        self.nodes = nodes
        self.kinds = kinds
        self.rank = {node: i for i, node in enumerate(nodes)}
        self.chosen: set[Node] = set()
        self.visits = MOST_VISITS * len(nodes)
        self.users = users_by_value(nodes)
        self.level = self._levels()
        self._circles = Circles(nodes)

    def _levels(self) -> dict[Node, int]:
        """Count the integers that must be known, one after another, before a node."""
        levels: dict[Node, int] = {}
        for node in self.nodes:
            level = max([levels.get(v.node, 0) for v in node.inputs], default=0)
            waiting = [levels.get(v.node, 0) + 1 for v in sizes_needed(node)]
            levels[node] = max([level, *waiting])
        return levels

    def paying(self, pays: Pays) -> list[AlikeParts]:
        """Return the parts that pay, chosen in the better one of two orders.

        One order begins with parts that save many nodes, the other with parts that are
        often repeated. Parts that begin in the midst of a block are one fewer than the
        blocks, but may have more nodes; they leave less for others.
        """

        def worth(parts: AlikeParts) -> bool:
            return parts.marked or pays(parts.count, parts.size)

        tried = [(ends, parts) for ends, parts in self._find_parts() if worth(parts)]
        tried = sorted(tried, key=lambda pair: -pair[1].saved)[:MOST_CHECKED]
        often = sorted(tried, key=lambda pair: (pair[1].size < BIG, -pair[1].count))
        orders = (tried,) if often == tried else (tried, often)
        choices = [self._choose(pairs, worth) for pairs in orders]
        return max(choices, key=lambda all: sum(parts.saved for parts in all))

    def _choose(
        self, tried: Sequence[tuple[Row, AlikeParts]], worth: Callable[..., bool]
    ) -> list[AlikeParts]:
        """Choose parts that do not overlap, in the order in which they are given.

        Later parts are walked again without the nodes that are taken. If all chosen
        parts can be put in order, so can the first of them alone, so all are checked at
        once before each is.
        """
        chosen = self._choose_disjoint(tried, worth, lambda some: True)
        if self._circles.are_in(chosen):
            chosen = self._choose_disjoint(tried, worth, self._have_order)
        return chosen

    def _have_order(self, chosen: list[AlikeParts]) -> bool:
        return not self._circles.are_in(chosen)

    def _choose_disjoint(
        self,
        tried: Sequence[tuple[Row, AlikeParts]],
        worth: Callable[..., bool],
        fit: Callable[[list[AlikeParts]], bool],
    ) -> list[AlikeParts]:
        """Choose as `_choose` does, of parts that `fit` with those chosen before."""
        chosen: list[AlikeParts] = []
        self.chosen = set()
        for ends, whole in tried:
            parts: AlikeParts | None = whole
            if not self.chosen.isdisjoint(n for row in whole.rows for n in row):
                free = tuple([n for n in ends if n not in self.chosen])
                parts = self._walk_from(free)
            if parts is None or not worth(parts):
                continue
            if fit([*chosen, parts]):
                chosen.append(parts)
                self.chosen.update(n for row in parts.rows for n in row)
        return chosen

    def _find_parts(self) -> Iterator[tuple[Row, AlikeParts]]:
        """Yield parts with their last nodes, each as if there were no others.

        Nodes of parts that were found need not be tried, unless more nodes are alike.
        """
        covered: dict[Node, int] = {}
        for rounds in ROUNDS:
            for group in self._alike_groups(rounds):
                if all(covered.get(n, 0) >= len(group) for n in group):
                    continue
                parts = self._walk_from(group) if self.visits > 0 else None
                if parts is not None:
                    nodes = (n for row in parts.rows for n in row)
                    covered |= {n: max(covered.get(n, 0), parts.count) for n in nodes}
                    yield group, parts

    def _alike_groups(self, rounds: int) -> list[Row]:
        """Return groups of nodes that look alike; the group that ends last is first."""
        counts = Counter(self.kinds.values())
        inner = [
            node
            for node, kind in self.kinds.items()
            if counts[kind] > 1 and slice_position(node.outputs[0]) is None
        ]
        outer = dict.fromkeys(self.nodes, -1)  # whatever is taken from there
        labels = outer | {node: self.kinds[node] for node in inner}
        labels = with_operands(labels, inner, rounds)
        groups: dict[int, list[Node]] = defaultdict(list)
        for node in inner:
            groups[labels[node]].append(node)
        several = [tuple(group) for group in groups.values() if len(group) > 1]
        return sorted(several, key=lambda group: -self.rank[group[-1]])

    def _walk_from(self, ends: Row) -> AlikeParts | None:
        """Return the parts whose last nodes are `ends`, perhaps without some nodes."""
        for _ in range(MOST_RESTARTS):
            if len(ends) < 2:
                return None
            walk = _Walk(ends, self)
            places = walk.run()
            if places is None:
                return walk.with_followers()
            ends = tuple([ends[i] for i in places])
        return None


class _Walk(Lockstep):
    """The walk through parts in lockstep, from their last nodes."""

    def __init__(self, ends: Row, search: _PartSearch) -> None:
        super().__init__(search.kinds, search.users, search.rank.__getitem__)
        self._search, self._count = search, len(ends)
        self._tainted = [_TaintedNodes(self.rows, search) for _ in ends]
        self._keys = _symbols_of(ends[0])
        self._firsts: list[int] = []  # ranks, where each part begins
        self._add(ends)

    def run(self) -> list[int] | None:
        """Find the parts; return None, or the parts that had better be walked alone."""
        for row in self._to_visit():
            better = self._visit(row)
            if better is not None:
                return better
        return None

    def _visit(self, row: Counterparts) -> list[int] | None:
        """Decide where counterparts come from.

        Returns None, or the parts that had better be walked alone, as others differ.
        """
        self._search.visits -= self._count
        if self._is_inside(row):
            return None
        nodes = tuple([v.node for v in row])
        kinds = [self._search.kinds.get(n, -1) for n in nodes]
        is_placed = any(n in self._places for n in nodes)
        if not is_placed and any(k != kinds[0] for k in kinds):
            majority = self._majority_of(kinds)
            if majority is not None:
                return majority
        rows = [self._row_of(node, i) for i, node in enumerate(nodes)]
        if any(number is not None for number in rows):
            return self._parts_agreeing(rows)
        same = all(v.index == row[0].index for v in row)
        if same and not is_placed and self._can_be_row(nodes):
            self._add(nodes)
        else:
            for tainted, value in zip(self._tainted, row, strict=True):
                tainted.add(value)
        return None

    def _majority_of(self, kinds: Sequence[int]) -> list[int] | None:
        """Return the parts that do the same here, if dropping others costs little."""
        best = max(dict.fromkeys(kinds), key=lambda k: (k >= 0, kinds.count(k)))
        alike = [i for i, kind in enumerate(kinds) if kind == best]
        lost = self._count - len(alike)
        few = 2 * len(alike) > self._count and lost * len(self.rows) <= self._count
        return alike if few and best >= 0 and len(alike) > 1 else None

    def _parts_agreeing(self, rows: Sequence[int | None]) -> list[int]:
        """Return the largest group of parts that take a value from the same row.

        Some parts compute what they take here, and others do not, or in another row. If
        all agree on the row, no parts are returned.
        """
        best = max(dict.fromkeys(rows), key=rows.count)
        agreeing = [i for i, row in enumerate(rows) if row == best]
        return agreeing if len(agreeing) < len(rows) else []

    def _can_be_row(self, nodes: Row) -> bool:
        search = self._search
        kind = search.kinds.get(nodes[0])
        if kind is None or len(set(nodes)) < len(nodes):
            return False
        if any(search.kinds.get(n) != kind or n in search.chosen for n in nodes):
            return False
        level = search.level[self.rows[0][0]]
        if _symbols_of(nodes[0]) != self._keys:  # it may be compiled for fewer sizes
            return False
        if any(search.level[n] != level for n in nodes):
            return False
        return not any(t.has(n) for t, n in zip(self._tainted, nodes, strict=True))

    def _add(self, nodes: Row) -> None:
        """Add nodes to the parts, and let the walk visit what they take."""
        self._add_row(nodes)
        takes = inputs_of_row(nodes)
        self._visit_later(row for row in takes if not _is_fixed(row[0]))

    def with_followers(self) -> AlikeParts:
        """Return the parts, with alike nodes that only use what the parts compute."""
        rank = self._search.rank
        self._firsts = [
            min(rank[row[i]] for row in self.rows) for i in range(self._count)
        ]
        for nodes in self._followers():
            self._add_row(nodes)
        rows = sorted(self.rows, key=lambda row: rank[row[0]])
        takes = list(map(inputs_of_row, rows))
        return AlikeParts(rows, takes)

    def _nodes_to_visit(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Yield the nodes, counting each as a visit."""
        for node in nodes:
            self._search.visits -= 1
            yield node

    def _does_same(self, first: Node, user: Node, part: int) -> bool:
        search = self._search
        if user in search.chosen or search.level[user] != search.level[self.rows[0][0]]:
            return False
        return super()._does_same(first, user, part) and _symbols_of(user) == self._keys

    def _may_take(self, value: Value, part: int) -> bool:
        """Whether a value from outside is there before the part begins."""
        return self._search.rank[value.node] < self._firsts[part]


class _TaintedNodes:
    """Nodes that must stay outside of a part, since it takes what depends on them."""

    def __init__(self, rows: Sequence[Row], search: _PartSearch) -> None:
        self._rows, self._search = rows, search
        self._found: set[Node] = set()
        self._heap: list[int] = []
        self._visited = 0

    def add(self, value: Value) -> None:
        """Record that the part takes a value from outside."""
        node = value.node
        if node not in self._found:
            self._found.add(node)
            if node.inputs:
                heapq.heappush(self._heap, -self._search.rank[node])

    def has(self, node: Node) -> bool:
        """Whether a node must stay outside, or too many would have to be looked at."""
        rank = self._search.rank[node]
        while self._heap and -self._heap[0] > rank:
            self._visited += 1
            if self._visited > MOST_TAINTED * (len(self._rows) + 8):
                return True
            at = self._search.nodes[-heapq.heappop(self._heap)]
            for value in operands(at):
                self.add(value)
        return node in self._found


def _symbols_of(node: Node) -> frozenset[Symbol]:
    """The symbols in the types of a node: it is compiled anew for their values."""
    values = (*node.inputs, *node.outputs)
    return frozenset(s for v in values for n in v.type.shape for s in symbols_in(n))


Item = Node | tuple[AlikeParts, int]


def order_parts(
    nodes: Sequence[Node], all_parts: Sequence[AlikeParts]
) -> list[Item] | None:
    """Order nodes and whole parts by what they depend on; None if there is a circle.

    A part stands where its last node does, if it can.
    """
    rank = {node: i for i, node in enumerate(nodes)}
    items: dict[int, Item] = dict(enumerate(nodes))
    at = dict(rank)
    for parts in all_parts:
        for i in range(parts.count):
            last = max(rank[node] for node in parts.part(i))
            at.update(dict.fromkeys(parts.part(i), last))
            items[last] = parts, i
    before: dict[int, set[int]] = {at[node]: set() for node in nodes}
    after: dict[int, list[int]] = {i: [] for i in before}
    for node in nodes:
        place = at[node]
        for value in operands(node):
            other = at[value.node]
            if other != place and other not in before[place]:
                before[place].add(other)
                after[other].append(place)
    waiting = {i: len(others) for i, others in before.items()}
    ready = [i for i, count in waiting.items() if not count]
    heapq.heapify(ready)
    ordered: list[Item] = []
    while ready:
        i = heapq.heappop(ready)
        ordered.append(items[i])
        for other in after[i]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, other)
    return ordered if len(ordered) == len(before) else None
