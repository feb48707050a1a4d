"""When each value becomes known: BUILD < SHAPE < STATIC < DATA.

Prior art: binding-time analysis (Jones, Gomard and Sestoft, Partial Evaluation and
Automatic Program Generation, 1993).
"""

from collections.abc import Iterable
from enum import IntEnum

from graphc.ir.graph.build import CONSTANT, INPUT
from graphc.ir.graph.following import MOST_SIZES
from graphc.ir.graph.nodes import Node, Value, origins
from graphc.ir.sizes.dims import Dim, Size
from graphc.ir.types import product


class Time(IntEnum):
    """The earliest time at which a value can be known on the host."""

    BUILD = 0  # a constant of the graph
    SHAPE = 1  # from the shapes of the arguments
    STATIC = 2  # from small arguments, by host arithmetic
    DATA = 3  # computed on the device


def binding_times(nodes: Iterable[Node]) -> dict[Node, Time]:
    """The time of every node; `nodes` must be in topological order."""
    times: dict[Node, Time] = {}
    small = _IsSmall()
    for node in nodes:
        times[node] = _time_of(node, small, times)
    return times


def _time_of(node: Node, small: "_IsSmall", times: dict[Node, Time]) -> Time:
    if node.primitive is CONSTANT:
        return Time.BUILD
    if not _may_be_on_host(node, small):
        return Time.DATA
    if node.primitive is INPUT:
        return Time.STATIC
    needs = [times[v.node] for v in (*node.inputs, *node.demands)]
    latest = max(needs, default=Time.BUILD)
    return max(latest, Time.SHAPE) if _reads_axes(node) else latest


def is_known_on_host(value: Value) -> bool:
    """Whether a value is known before anything runs on the device.

    For a value that is not, the search ends after few nodes: a result of the device is
    near.
    """
    small = _IsSmall()
    stack, seen = [value.node], {value.node}
    while stack:
        node = stack.pop()
        if node.primitive is CONSTANT:
            continue
        if not _may_be_on_host(node, small):
            return False
        for before in (*node.inputs, *node.demands):
            if before.node not in seen:
                seen.add(before.node)
                stack.append(before.node)
    return True


def _may_be_on_host(node: Node, small: "_IsSmall") -> bool:
    """Whether the host computes this node once it has the inputs."""
    return node.primitive.on_host and all([small[v.type.shape] for v in node.outputs])


class _IsSmall(dict[tuple[Size, ...], bool]):
    """Whether arrays of a shape are small; most nodes have one of a few shapes."""

    def __missing__(self, shape: tuple[Size, ...]) -> bool:
        size = product(shape)
        answer = self[shape] = isinstance(size, int) and size <= MOST_SIZES
        return answer


def _reads_axes(node: Node) -> bool:
    """Whether a size among the params is an axis of an argument."""
    sizes = [size for size in node.params.values() if isinstance(size, Dim)]
    return any(len(origins(size)) < len(size.symbols) for size in sizes)
