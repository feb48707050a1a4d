"""A counterexample, and how graphs and arrays are shown in its message."""

import numpy as np

from graphc.ir.graph.build import CONSTANT, INPUT
from graphc.ir.graph.nodes import Value
from graphc.ir.params.kinds import Text
from graphc.ir.types import NDArray


class Counterexample(Exception):
    """Raised where the sides differ, with the parts of a message that shows how."""


def array_text(array: NDArray) -> str:
    """An array on one line, with its dtype and shape."""
    text = np.array2string(array, separator=", ", threshold=30)
    return f"{' '.join(text.split())} {array.dtype.name}{list(array.shape)}"


def expression(value: Value) -> str:
    """A small graph written as one expression."""
    node = value.node
    if node.primitive is INPUT:
        return value.name
    if node.primitive is CONSTANT:
        return array_text(node.params["data"].array)
    params = [f"{name}={_param(param)}" for name, param in node.params.items()]
    index = f"[{value.index}]" if len(node.outputs) > 1 else ""
    inside = ", ".join([*map(expression, node.inputs), *params])
    return f"{node.primitive.name}({inside}){index}"


def _param(param: object) -> str:
    if isinstance(param, tuple):
        return f"({', '.join(map(_param, param))})"
    return repr(param.content) if isinstance(param, Text) else str(param)
