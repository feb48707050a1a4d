"""The last row that a loop stacks is a final carry if the body has one value for both.

If nothing else reads the rows, they need not be kept then.
"""

from graphc.ir.graph.nodes import Value
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import equal, less_equal
from graphc.ops.indexing.basic import basic
from graphc.rewriting.engine.rule import Rules, rewrite
from graphc.rewriting.loops.find.access import items_of, picked_position
from graphc.rewriting.loops.find.scan_view import Loop, has_rows
from graphc.rewriting.match.pattern import p, v


@rewrite(v.y(p.basic_index(v.x)), exact=True)
def last_of_stacked(x: Value, y: Value) -> Value | None:
    """A final carry replaces the last row, where all rows are the values carried."""
    if x.node.primitive is not OP.scan or not has_rows(x.node):
        return None
    loop = Loop(x.node)
    if loop.stops or loop.limit is not None or less_equal(1, loop.length) is not True:
        return None
    (kind, *_), *other_items = items_of(y.node)
    at = picked_position(y.node, 0) if kind == "i" else None
    last = 0 if loop.reverse else loop.length - 1
    if at is None or equal(at, last) is not True:
        return None
    ends = dict(zip(loop.body.outputs[: loop.carries], loop.final_carries, strict=True))
    rows = zip(loop.stacked, loop.body.outputs[loop.carries :], strict=True)
    end = next((ends.get(row) for stacked, row in rows if stacked is x), None)
    return None if end is None else basic(end, tuple(other_items))


LAST_ROWS = Rules((last_of_stacked,))
