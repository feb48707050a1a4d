"""The `mode` of NumPy functions: the meaning of positions that are out of bounds."""

from graphc.errors import graph_error
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F

MODES = "raise", "wrap", "clip"


def require_mode(mode: str, op: str) -> None:
    """Raise GraphError if there is no such mode."""
    if mode not in MODES:
        expected = "'raise', 'wrap' or 'clip'"
        raise graph_error("unknown mode", op=op, got=repr(mode), expected=expected)


def moved_inside(positions: Value, size: Value | int, mode: str) -> Value:
    """Bring positions inside an axis of this size; "raise" leaves them as they are."""
    if mode == "wrap":
        return positions % size
    if mode == "clip":
        inside: Value = F.clip(positions, 0, size - 1)
        return inside
    return positions
