"""Complex conjugates, for which real numbers need no op."""

from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F


def conjugate(x: Value) -> Value:
    """The complex conjugate; real numbers stay as they are."""
    return F.conjugate(x) if x.dtype.kind == "c" else x
