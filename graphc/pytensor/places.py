"""The user's line that a node of PyTensor comes from."""

from collections.abc import Iterable, Iterator
from itertools import islice

from pytensor.graph.basic import Apply

from graphc.errors import NOWHERE, SourceLocation, is_own, is_user_file

_MOST_NODES = 16  # nodes searched where the stack of a node itself has only libraries

Stack = list[tuple[str, int]]  # files and lines, the innermost last


def place_of(node: Apply) -> SourceLocation:
    """The user's line that made a node, as far as PyTensor has kept it.

    PyMC makes the terms of a density when the density is asked for. For such a node,
    the result is the line of the nearest variable that it depends on and that the user
    made.
    """
    for near in islice(_nodes_nearest_first(node), _MOST_NODES):
        for filename, line in _user_frames(_stack(near)):
            return SourceLocation(filename, line)
    for filename, line in _stack(node)[-1:]:
        return SourceLocation(filename, line)
    return NOWHERE


def _nodes_nearest_first(node: Apply) -> Iterator[Apply]:
    """A node and those that it depends on, the nearest first."""
    seen, level = {node}, [node]
    while level:
        yield from level
        before = [v.owner for n in level for v in n.inputs if v.owner is not None]
        level = [n for n in dict.fromkeys(before) if n not in seen]
        seen.update(level)


def _stack(node: Apply) -> Stack:
    for out in node.outputs:
        trace = getattr(out.tag, "trace", None)
        if trace and trace[-1]:
            return [(filename, line) for filename, line, *_ in trace[-1]]
    return []


def _user_frames(stack: Stack) -> Iterable[tuple[str, int]]:
    """The user's frames, the innermost first, except for those that called graphc."""
    for filename, line in reversed(stack):
        if is_own(filename):
            return
        if is_user_file(filename):
            yield filename, line
