"""The walk through parts of a graph that are alike, in lockstep.

*Counterparts* are values that have the same place in each part, in the order of the
parts. The walk goes from the last ones towards the inputs, the latest first; where all
are computed alike, their nodes are a row of the parts. Afterwards the walk goes on to
nodes that use alike what rows compute.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graphc.ir.graph.nodes import Node, Value

Row = tuple[Node, ...]  # one node per part
Counterparts = tuple[Value, ...]  # one value per part


def inputs_of_row(nodes: Row) -> tuple[Counterparts, ...]:
    """The counterparts that the nodes of a row take."""
    return tuple(zip(*(node.inputs for node in nodes), strict=True))


def outputs_of_row(nodes: Row) -> tuple[Counterparts, ...]:
    """The counterparts that the nodes of a row give."""
    return tuple(zip(*(node.outputs for node in nodes), strict=True))


class Lockstep(ABC):
    """The rows found so far, and the counterparts to visit.

    Nodes of the same kind in `kinds` do the same; the kind is None for a node that can
    be in no part. The `rank` of a node is above that of all nodes that it depends on.
    """

    def __init__(
        self,
        kinds: Mapping[Node, int | None],
        users: Mapping[Value, Sequence[Node]],
        rank: Callable[[Node], int],
    ) -> None:
        self._kinds, self._users, self._rank = kinds, users, rank
        self.rows: list[Row] = []
        self._places: dict[Node, tuple[int, int]] = {}  # row, part
        self._waiting: list[tuple[int, int, Counterparts]] = []
        self._seen: set[Counterparts] = set()

    def _visit_later(self, counterparts: Iterable[Counterparts]) -> None:
        """Let the walk visit these counterparts, once."""
        for row in counterparts:
            if row not in self._seen:
                self._seen.add(row)
                entry = -self._rank(row[-1].node), len(self._seen), row
                heapq.heappush(self._waiting, entry)

    def _to_visit(self) -> Iterator[Counterparts]:
        """Yield counterparts in their order, with those added in the meantime."""
        while self._waiting:
            yield heapq.heappop(self._waiting)[-1]

    def _add_row(self, nodes: Row) -> None:
        number = len(self.rows)
        self.rows.append(nodes)
        self._places.update((node, (number, i)) for i, node in enumerate(nodes))

    def _row_of(self, node: Node, part: int = 0) -> int | None:
        """Return the row in which a node is that of `part`, or None."""
        row, owner = self._places.get(node, (None, part))
        return row if owner == part else None

    def _is_inside(self, counterparts: Counterparts) -> bool:
        """Whether counterparts are computed by the nodes of a row."""
        first = counterparts[0]
        number = self._row_of(first.node)
        if number is None or any(v.index != first.index for v in counterparts):
            return False
        row = self.rows[number]
        return all(v.node is n for v, n in zip(counterparts, row, strict=True))

    def _followers(self) -> Iterator[Row]:
        """Yield rows of nodes that use other rows alike, also rows added meanwhile."""
        for nodes in self.rows:
            for value in nodes[0].outputs:
                for user in self._users.get(value, ()):
                    row = self._users_like(user, value, nodes)
                    if row is not None:
                        yield row

    def _users_like(self, first: Node, value: Value, nodes: Row) -> Row | None:
        """Return the nodes that do in each part what `first` does in the first part."""
        kind = self._kinds.get(first)
        if kind is None or not self._does_same(first, first, 0):
            return None
        row = [first]
        for part, node in enumerate(self._nodes_to_visit(nodes[1:]), 1):
            for user in self._users.get(node.outputs[value.index], ()):
                same = self._kinds.get(user) == kind
                if same and self._does_same(first, user, part):
                    row.append(user)
                    break
            else:
                return None
        return tuple(row) if len(set(row)) == len(row) else None

    def _nodes_to_visit(self, nodes: Iterable[Node]) -> Iterable[Node]:
        """The nodes whose users are looked at, one after the other."""
        return nodes

    def _does_same(self, first: Node, user: Node, part: int) -> bool:
        """Whether a node takes in a part what `first` takes in the first part."""
        if user in self._places:
            return False
        for first_input, other in zip(first.inputs, user.inputs, strict=True):
            number = self._row_of(first_input.node)
            if number is None:
                if not self._may_take(other, part):
                    return False
            elif self._row_of(other.node, part) != number:
                return False
        return True

    @abstractmethod
    def _may_take(self, value: Value, part: int) -> bool:
        """Whether a part may take a value that its rows do not compute."""
