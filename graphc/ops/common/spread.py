"""Arrays that may be spread over devices, in texts: where XLA is kept from mistakes.

Between devices XLA passes over NaN, where it takes the extreme of several. And where
one element is written into parts of sums of several devices, on a CPU, the first
element of other parts is lost. A CPU transforms only arrays that are stored row by row,
and those that are gathered along their last axis are not: XLA fails, or ends the
process.
"""

import importlib
from collections.abc import Callable, Iterable
from types import ModuleType

from graphc.ir.graph.build import INPUT
from graphc.ir.graph.op import Printing
from graphc.ir.sizes.dims import Dim
from graphc.ir.types import JaxArray, is_float


def extreme_along(p: Printing, text: str, axes: Iterable[int], options: str) -> str:
    """The expression of an extreme along `axes`, which is NaN where an element is.

    `options` are those that a reduction has.
    """
    sizes = [p.node.inputs[0].type.shape[axis] for axis in axes]
    may_be_spread = p.lays_by_hand or any(isinstance(n, Dim) for n in sizes)
    has_nan = f"jnp.isnan({p.inputs[0]}).any({options})"
    return keeping_nan(p, text, has_nan) if may_be_spread else text


def keeping_nan(p: Printing, text: str, has_nan: str) -> str:
    """The expression of extremes of floats, with NaN put where one `has_nan`."""
    on_mesh = p.on_mesh and is_float(p.node.outputs[0].dtype)
    return f"jnp.where({has_nan}, jnp.nan, {text})" if on_mesh else text


def apart(p: Printing) -> str:
    """The array that a node writes to, which on a mesh is computed before."""
    x = p.inputs[0]
    computed = p.node.inputs[0].node.primitive is not INPUT
    return f"jax.lax.optimization_barrier({x})" if p.on_mesh and computed else x


def in_row_order(
    jnp: ModuleType,
    transform: Callable[[JaxArray], JaxArray],
    x: JaxArray,
    axes: tuple[int, ...],
) -> JaxArray:
    """Printed into programs: a transform of last axes, of these axes.

    Its argument and its result are stored row by row, whatever is done around it.
    """
    layout = importlib.import_module("jax.experimental.layout")
    rows, last = layout.Layout(tuple(range(x.ndim))), tuple(range(-len(axes), 0))
    x = layout.with_layout_constraint(jnp.moveaxis(x, axes, last), rows)
    return jnp.moveaxis(layout.with_layout_constraint(transform(x), rows), last, axes)
