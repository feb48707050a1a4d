"""Arrays that are large or spread over devices: texts that avoid mistakes of XLA.

On CPUs, XLA (of JAX 0.10 to 0.12) passes over NaN in extremes of 4,096 elements and
more. Between devices, XLA passes over NaN when it takes the extreme of several. When
one element is written into sums that lie in parts on several CPU devices, the first
element of the other parts is lost. A CPU transforms only arrays that are stored row by
row; arrays gathered along their last axis are not, so XLA fails or ends the process.
"""

import importlib
from collections.abc import Callable, Iterable
from types import ModuleType

from graphc.ir.graph.build import INPUT
from graphc.ir.graph.op import Printing
from graphc.ir.sizes.dims import Dim
from graphc.ir.types import JaxArray, is_float, product
from graphc.ops.common.narrow_integers import widened_text


def extreme_along(
    p: Printing, function: str, axes: Iterable[int], options: str, initial: str = ""
) -> str:
    """The expression of an extreme along `axes` that is NaN if an element is.

    `options` are those that all reductions have.
    """
    start = f"initial={initial}" if initial else ""
    x, end = widened_text(p, p.inputs[0])
    arguments = ", ".join([x, *filter(None, [options, start])])
    if finds_nan_by_sum(p) and not p.on_mesh:
        return p.call(extreme, "jax", f"jnp.{function}", arguments)
    text = f"{p.xp}.{function}({arguments}){end}"
    sizes = [p.node.inputs[0].type.shape[axis] for axis in axes]
    may_be_spread = p.lays_by_hand or any(isinstance(n, Dim) for n in sizes)
    has_nan = f"jnp.isnan({p.inputs[0]}).any({options})"
    return text if p.is_shift and not may_be_spread else nan_kept(p, text, has_nan)


def finds_nan_by_sum(p: Printing) -> bool:
    """Whether an extreme on one device looks for NaN only if a sum is NaN."""
    return p.xp == "jnp" and may_lose_nan(p) and not p.is_shift


def may_lose_nan(p: Printing) -> bool:
    """Whether XLA on a CPU may pass over NaN in extremes of the first input."""
    x = p.node.inputs[0].type
    count = product(x.shape)
    is_small = isinstance(count, int) and count < 2048
    return is_float(x.dtype) and not is_small


def nan_kept(p: Printing, text: str, has_nan: str) -> str:
    """Replace extremes of floats by NaN where `has_nan` holds, on a mesh."""
    on_mesh = p.on_mesh and is_float(p.node.outputs[0].dtype)
    return f"jnp.where({has_nan}, jnp.nan, {text})" if on_mesh else text


def extreme(
    jax: ModuleType,
    reduce: Callable[..., JaxArray],
    x: JaxArray,
    initial: float | JaxArray | None = None,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> JaxArray:
    """Printed into programs: the extreme of floats, or NaN if an element is NaN.

    On CPUs, XLA passes over NaN in large arrays. If the sum is not NaN, no element is.
    """
    result = reduce(x, axis=axis, keepdims=keepdims, initial=initial)
    if x.size < 2048:  # half the size at which XLA errs
        return result
    jnp = jax.numpy

    def marked(x: JaxArray, result: JaxArray) -> JaxArray:
        return jnp.where(jnp.isnan(x).any(axis, keepdims=keepdims), jnp.nan, result)

    def passed(_: JaxArray, result: JaxArray) -> JaxArray:
        return result

    def checked(x: JaxArray, result: JaxArray) -> JaxArray:
        return jax.lax.cond(jnp.isnan(x.sum()), marked, passed, x, result)

    return jax.lax.platform_dependent(x, result, cpu=checked, default=passed)


def target_text(p: Printing) -> str:
    """The text of the array that a node writes to, computed before it on a mesh."""
    x = p.inputs[0]
    computed = p.node.inputs[0].node.primitive is not INPUT
    return f"jax.lax.optimization_barrier({x})" if p.on_mesh and computed else x


def in_row_order(
    jnp: ModuleType,
    transform: Callable[[JaxArray], JaxArray],
    x: JaxArray,
    axes: tuple[int, ...],
) -> JaxArray:
    """Printed into programs: apply a transform of last axes to these axes.

    Its argument and its result are stored row by row, whatever is done around it.
    """
    layout = importlib.import_module("jax.experimental.layout")
    rows, last = layout.Layout(tuple(range(x.ndim))), tuple(range(-len(axes), 0))
    x = layout.with_layout_constraint(jnp.moveaxis(x, axes, last), rows)
    return jnp.moveaxis(layout.with_layout_constraint(transform(x), rows), last, axes)
