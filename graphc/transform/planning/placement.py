"""Place nodes with slack at the level that lets the fewest bytes cross.

A node whose users all stand in later segments may run as late as the first of them.
It does so if its inputs cross anyway, or are smaller than its outputs: then the large
array never leaves its segment.
"""

from collections.abc import Callable, Iterable, Sequence

from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.sizes.dims import evaluate_equal

TYPICAL_SIZE = 100  # taken for a symbolic size: bytes are compared with bytes

Operands = Callable[[Node], Iterable[Node]]


def _typical_bytes(values: Iterable[Value]) -> int:
    """The bytes of arrays, with every symbolic size taken as `TYPICAL_SIZE`."""
    return sum(evaluate_equal(v.type.nbytes, TYPICAL_SIZE) for v in values)


def postpone(
    nodes: Sequence[Node], levels: dict[Node, int], operands: Operands, fixed: set[Node]
) -> dict[Node, int]:
    """Move nodes with slack to later levels where that saves bytes; `fixed` nodes stay.

    `nodes` is in topological order. One sweep backwards looks at each node once, after
    all of its users.
    """
    if len(set(levels.values())) < 2:
        return levels
    levels = dict(levels)
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for operand in set(operands(node)):
            users.setdefault(operand, []).append(node)
    for node in reversed(nodes):
        if node in fixed or node not in users or levels[node] % 2:
            continue
        later = min(levels[u] for u in users[node])
        later -= later % 2  # a glue node reads outputs of a compiled level
        if later > levels[node] and _saves_bytes(node, later, levels, operands, users):
            levels[node] = later
    return levels


def _saves_bytes(
    node: Node,
    later: int,
    levels: dict[Node, int],
    operands: Operands,
    users: dict[Node, list[Node]],
) -> bool:
    """Whether fewer bytes cross when `node` moves to level `later`."""
    arriving = [
        o
        for o in set(operands(node))
        if o.primitive is not INPUT
        and not any(levels[u] >= later for u in users[o] if u is not node)
    ]
    needed = _typical_bytes(v for o in arriving for v in o.outputs)
    return needed < _typical_bytes(node.outputs)
