"""Gathers and scatters printed row by row, where an index array counts the rows.

    jax.vmap(lambda x, i: x.at[i].get(mode="clip"), (0, 0), 0)(x, labels)

XLA then sees that no row needs another, so that devices of a mesh that hold some of the
rows send none. Rows are the slices along any axis.
"""

from typing import NamedTuple

from graphc.ir.graph.build import body_input
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Emit, Printing
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim
from graphc.ir.types import same_size
from graphc.ops.indexing.counting_indices import (
    axes_after,
    counting_distance,
    end_distance,
    gather_axes,
    scatter_axes,
)


class _Operand(NamedTuple):
    """An argument of `vmap`, one row of it, and its axis of rows if it has one."""

    text: str
    row: Value
    axis: int | None


def print_by_rows(p: Printing, emit: Emit) -> str:
    """Print by `emit`, or by `jax.vmap` if there is a mesh and rows are counted."""
    for axis, size in enumerate(p.node.outputs[0].type.shape if p.on_mesh else ()):
        operands = _operands(p, axis) if isinstance(size, Dim) else []
        row = _row(p.node, axis, [one.row for one in operands]) if operands else None
        if row is not None:
            names = ("x", *"ijklmnopq"[: len(operands) - 1])
            text = print_by_rows(p._replace(node=row, inputs=names), emit)
            of_row = f"lambda {', '.join(names)}: {text}"
            axes = ", ".join(str(one.axis) for one in operands)
            arguments = ", ".join(one.text for one in operands)
            return f"jax.vmap({of_row}, ({axes}), {axis})({arguments})"
    return emit(p)


def _operands(p: Printing, axis: int) -> list[_Operand]:
    """The operands but the index array that counts rows; empty if none counts them."""
    node = p.node
    scatters = node.primitive is OP.scatter
    along = scatter_axes(node, axis) if scatters else gather_axes(node, axis)
    if along is None or along[0] is None or len(node.params["axes"]) == 1:
        return []
    behind = counting_distance(node, axis) if scatters else end_distance(node, axis)
    assert behind is not None
    operands = [_operand(node.inputs[0], p.inputs[0], along[0])]
    counting = _first_index(node) + node.params["axes"].index(along[0])
    for i, value in enumerate(node.inputs):
        if i not in (0, counting):
            after = axes_after(node) if scatters and i == 1 else 0
            at = value.type.rank - behind - after
            operands.append(_operand(value, p.inputs[i], at))
    return operands


def _first_index(node: Node) -> int:
    return len(node.inputs) - len(node.params["axes"])


def _operand(value: Value, text: str, axis: int) -> _Operand:
    """An operand that has a slice for each row along `axis`, or that all rows share."""
    if axis < 0:
        return _Operand(text, value, None)
    shape = value.type.shape
    row = body_input("row", value.type.like(shape[:axis] + shape[axis + 1 :]))
    if same_size(shape[axis], 1):
        return _Operand(f"jnp.squeeze({text}, {axis})", row, None)
    return _Operand(text, row, axis)


def _row(node: Node, axis: int, rows: list[Value]) -> Node | None:
    """The node of one row; None if its axes come in another order."""
    axes, inside = node.params["axes"], node.params["inside"]
    along = gather_axes(node, axis) if node.primitive is not OP.scatter else [axis]
    assert along is not None and along[0] is not None
    counted = along[0]
    row_axes = tuple([a - (a > counted) for a in axes if a != counted])
    bounds = tuple([b for a, b in zip(axes, inside, strict=True) if a != counted])
    params = {**node.params, "axes": row_axes, "inside": bounds}
    row: Value = node.primitive(*rows, **params)
    shape = node.outputs[0].type.shape
    return row.node if row.type.shape == shape[:axis] + shape[axis + 1 :] else None
