"""Values that a compiler may compute several times, with different rounding each time.

XLA computes an element again in every fused loop that reads it. Products and sums may
be contracted into one rounding in one loop and not in another, and sums may be added up
in another order. Where a derivative compares such a value, one loop may find an element
larger that the next loop finds equal: then cotangents that should cancel exactly do
not, and ties are missed. So the rules of such ops get values that are kept.
"""

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.types import BOOL, is_inexact
from graphc.ops.elementwise.declare import CONVERT
from graphc.transform.derivatives.firm import is_firm

MOST_NODES = 32  # nodes; a value not shown to be safe by then is kept


def stored_once(value: Value) -> Value:
    """Return `value`, or a stored copy if XLA may recompute it with other rounding."""
    return F._pinned(value) if may_vary_in_rounding(value) else value


def inputs_of_rule(node: Node) -> tuple[Value, ...]:
    """Return the inputs of a node as its gradient rule gets them.

    If the op compares its inputs, they are kept. In other ops only masks are, as the
    one in `r * (r > 0)`.
    """
    if node.primitive.picks:
        return tuple([stored_once(v) for v in node.inputs])
    return tuple([_with_stored_mask(v) for v in node.inputs])


def _with_stored_mask(value: Value) -> Value:
    """Return a value; if it is a bool turned into a number, the bool is kept."""
    node = value.node
    if node.primitive is not CONVERT or node.inputs[0].dtype != BOOL:
        return value
    mask = stored_once(node.inputs[0])
    return value if mask is node.inputs[0] else F.astype(mask, value.dtype)


def may_vary_in_rounding(value: Value) -> bool:
    """Whether two computations of a value need not give the same bits."""
    rounded, seen, stack = False, {value.node}, [value.node]
    while stack:
        node = stack.pop()
        rounding = node.primitive.rounding
        if rounding == "stored" or is_firm(node):
            continue
        if rounding != "none" and _rounds(node):
            # A single rounding of stored numbers gives the same bits in each loop.
            if rounded or rounding == "many" or _is_rounding_optional(node):
                return True
            rounded = True
        stack += [v.node for v in node.inputs if v.node not in seen]
        seen.update(stack)
        if len(seen) > MOST_NODES:
            return True
    return False


def _is_rounding_optional(node: Node) -> bool:
    """Whether XLA may leave out the rounding of a result, as it does for 16 bits."""
    return node.outputs[0].dtype.itemsize < 4


def _rounds(node: Node) -> bool:
    """Whether a result has fewer digits than its exact value would need."""
    dtype = node.outputs[0].dtype
    if not is_inexact(dtype):
        return False
    if node.primitive is CONVERT:
        source = node.inputs[0].dtype
        return not is_inexact(source) or source.itemsize > dtype.itemsize
    return True
