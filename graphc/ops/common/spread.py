"""Arrays that may be spread over devices, in texts: where XLA is kept from mistakes.

Between devices XLA passes over NaN, where it takes the extreme of several. And where
one element is written into parts of sums of several devices, on a CPU, the first
element of other parts is lost.
"""

from collections.abc import Iterable

from graphc.ir.graph.build import INPUT
from graphc.ir.graph.op import Printing
from graphc.ir.sizes.dims import Dim
from graphc.ir.types import is_float


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
