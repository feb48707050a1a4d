"""A warning for sizes that have a name but can be only one number.

If an op needs "n" to be 3, that is a mistake, or "n" is better declared as 3: calls of
all other sizes raise.
"""

import warnings

from graphc.analysis.fixed_sizes import OneNumber, pinned_sizes
from graphc.errors import user_level
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.sizes.dims import Size, equal, is_declared, symbol_dim
from graphc.runtime.examine import Unused
from graphc.warning_kinds import SizeWarning

_STATED = ("specify_shape", "assert_")  # ops by which users say so themselves


def warn_of_numbers(graph: Graph, unused: Unused) -> None:
    """Warn of each size of a graph that is declared by a name and must be a number.

    There is no warning where unused inputs are to be ignored, as in graphs that are
    imported: whoever imports one did not declare its sizes.
    """
    for one in pinned_sizes(graph.nodes) if unused != "ignore" else ():
        if is_declared(one.symbol) and one.node.reported not in _STATED:
            text = f"{one.symbol.name} must be {one.number}: {_asking(one.node)}"
            hint = _declaration_of(graph, one)
            text += f"\n  hint: {hint}" if hint else ""
            warnings.warn(text, SizeWarning, stacklevel=user_level())


def _asking(node: Node) -> str:
    types = ", ".join(str(v.type) for v in node.inputs)
    return f"{node.reported} of {types} at {node.place} needs it"


def _declaration_of(graph: Graph, one: OneNumber) -> str:
    """Return code that declares a variable with the number; "" if none has the axis."""
    axis = symbol_dim(one.symbol)
    for value, name in zip(graph.inputs, graph.input_names, strict=True):
        if any(equal(n, axis) for n in value.type.shape):
            return f"declare {name} as {_code(value, axis, one.number)}"
    return ""


def _code(value: Value, axis: Size, number: int) -> str:
    sizes = tuple(number if equal(n, axis) else n for n in value.type.shape)
    shape = tuple(n if isinstance(n, int) else str(n) for n in sizes)
    return f'gt.tensor("{value.name}", "{value.dtype.name}", {shape})'
