"""Whether parts of a graph can each run as one: for many choices of parts, fast.

A part stands where its last node does. Most nodes that use the part stand behind that
place, as in the graph. A circle goes through a node that does not, and stays in the
stretch of the graph between that node and the end of the part, or in stretches that
overlap.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from graphc.ir.graph.nodes import Node
from graphc.ir.graph.walk import operands
from graphc.rewriting.match.lockstep import Row

_Ranks = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class _Parts(Protocol):
    rows: list[Row]


class Circles:
    """Finds circles among the nodes of a graph, some of which are taken together."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._rank = {node: i for i, node in enumerate(nodes)}
        sources = [[self._rank[v.node] for v in operands(node)] for node in nodes]
        counts = [len(ranks) for ranks in sources]
        self._sources = np.array([i for ranks in sources for i in ranks], np.int64)
        self._users = np.repeat(np.arange(len(nodes)), counts)

    def are_in(self, all_parts: Sequence[_Parts]) -> bool:
        """Whether some part would depend on itself if it ran as one."""
        place = np.arange(len(self._rank))
        for parts in all_parts:
            ranks = np.array([[self._rank[n] for n in row] for row in parts.rows])
            place[ranks] = ranks.max(0)
        sources, users = place[self._sources], place[self._users]
        turned = sources > users
        if not turned.any():
            return False
        inside = _is_covered(users[turned], sources[turned], len(place))
        edges = inside[sources] & inside[users] & (sources != users)
        return _has_circle(sources[edges], users[edges])


def _is_covered(starts: _Ranks, ends: _Ranks, count: int) -> np.ndarray:
    """Return for each of `count` places whether it is in a stretch, ends included."""
    begun = np.bincount(starts, minlength=count + 1)
    over = np.bincount(ends + 1, minlength=count + 1)
    return np.cumsum(begun - over)[:count] > 0


def _has_circle(sources: _Ranks, users: _Ranks) -> bool:
    """Whether edges from sources to users lead back: some then wait for one another."""
    after: dict[int, list[int]] = defaultdict(list)
    waiting = dict.fromkeys(sources.tolist(), 0)
    for source, user in zip(sources.tolist(), users.tolist(), strict=True):
        after[source].append(user)
        waiting[user] = waiting.get(user, 0) + 1
    ready = [place for place, count in waiting.items() if not count]
    done = 0
    while ready:
        done += 1
        for user in after.get(ready.pop(), ()):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return done < len(waiting)
