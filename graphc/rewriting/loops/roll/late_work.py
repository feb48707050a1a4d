"""Elementwise work on results of blocks that is as well done after the loop of blocks.

An update `p - rate * m` with `m = 0.9 * m + 0.1 * g` takes the gradient of a block, and
the state `m`, which is not stacked. Where the state stays outside of the loop,
`0.1 * g` had better stay there too: otherwise two arrays are stacked in place of the
gradient.
"""

from collections.abc import Container, Mapping, Sequence

from graphc.ir.graph.nodes import Node, Value
from graphc.rewriting.loops.find.work import typical_bytes
from graphc.rewriting.loops.roll.repeats import Repeats

_Users = Mapping[Value, Sequence[Node]]


def without_late_work(
    blocks: Repeats, users: _Users, outputs: Container[Value]
) -> Repeats:
    """Leave out elementwise nodes of blocks that are only used after all blocks.

    The nodes stay where more would be stacked without them, or where they give outputs.
    """
    inside = blocks.nodes
    late = _late_rows(blocks, inside, users, outputs)
    if not late:
        return blocks
    late_nodes = {node for i in late for node in blocks.rows[i]}
    remaining_nodes = inside - late_nodes

    def is_used(value: Value, within: Container[Node]) -> bool:
        return value in outputs or any(n not in within for n in users.get(value, ()))

    rows = [rows[0] for rows in blocks.rows]
    before = {v for n in rows for v in n.outputs if is_used(v, inside)}
    remaining_rows = [n for n in rows if n in remaining_nodes]
    after = {
        v for n in remaining_rows for v in n.outputs if is_used(v, remaining_nodes)
    }
    if sum(map(typical_bytes, after)) > sum(map(typical_bytes, before)):
        return blocks
    remaining = [i for i in range(len(rows)) if i not in late]
    takes = [blocks.takes[i] for i in remaining]
    taken_rows = {row for some in takes for row in some}
    sequences = dict.fromkeys(row for row in blocks.sequences if row in taken_rows)
    nodes = [blocks.rows[i] for i in remaining]
    return Repeats(blocks.count, nodes, takes, blocks.carried, sequences)


def _late_rows(
    blocks: Repeats, inside: set[Node], users: _Users, outputs: Container[Value]
) -> set[int]:
    """Return the rows of elementwise nodes that no other node of the blocks needs."""
    late: set[int] = set()
    removed: set[Node] = set()
    for i in sorted(range(len(blocks.rows)), key=lambda i: -blocks.rows[i][0].serial):
        row = blocks.rows[i]
        values = [v for node in row for v in node.outputs]
        if not row[0].primitive.elementwise or any(v in outputs for v in values):
            continue
        row_users = (n for v in values for n in users.get(v, ()))
        if all(n in removed or n not in inside for n in row_users):
            late.add(i)
            removed.update(row)
    return late
