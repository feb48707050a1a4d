"""Elementwise work on results of blocks that is as well done after the loop of blocks.

An update `p - rate * m` with `m = 0.9 * m + 0.1 * g` takes the gradient of a block, and
the state `m`, which is not stacked. Where the state stays outside of the loop,
`0.1 * g` had better stay there too: otherwise two arrays are stacked in place of the
gradient.
"""

from collections.abc import Container, Mapping, Sequence

from graphc.ir.graph.nodes import Node, Value
from graphc.rewriting.loops.find.work import typical
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
    gone = {node for i in late for node in blocks.rows[i]}
    left = inside - gone

    def used(value: Value, within: Container[Node]) -> bool:
        return value in outputs or any(n not in within for n in users.get(value, ()))

    rows = [rows[0] for rows in blocks.rows]
    before = {v for n in rows for v in n.outputs if used(v, inside)}
    after = {v for n in rows if n in left for v in n.outputs if used(v, left)}
    if sum(map(_bytes, after)) > sum(map(_bytes, before)):
        return blocks
    remaining = [i for i in range(len(rows)) if i not in late]
    takes = [blocks.takes[i] for i in remaining]
    taken = {row for some in takes for row in some}
    still_given = dict.fromkeys(row for row in blocks.sequences if row in taken)
    nodes = [blocks.rows[i] for i in remaining]
    return Repeats(blocks.count, nodes, takes, blocks.carried, still_given)


def _late_rows(
    blocks: Repeats, inside: set[Node], users: _Users, outputs: Container[Value]
) -> set[int]:
    """Return the rows of elementwise nodes that no other node of the blocks needs."""
    late: set[int] = set()
    gone: set[Node] = set()
    for i in sorted(range(len(blocks.rows)), key=lambda i: -blocks.rows[i][0].serial):
        row = blocks.rows[i]
        values = [v for node in row for v in node.outputs]
        if not row[0].primitive.elementwise or any(v in outputs for v in values):
            continue
        if all(n in gone or n not in inside for v in values for n in users.get(v, ())):
            late.add(i)
            gone.update(row)
    return late


def _bytes(value: Value) -> int:
    return typical(value.type.size) * value.dtype.itemsize
