"""The positions of the largest and the smallest elements."""

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value, normal_axis
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Primitive, Printing, require_at_most
from graphc.ir.namespace import F, public
from graphc.ir.params.kinds import AxisParam
from graphc.ir.types import INT64, TensorType
from graphc.ops.common.batching import batch_with_axes
from graphc.ops.common.monoids import Element, least, most
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.reductions.reduce import extreme, kept_shape


def _arg_reduction(name: str) -> Primitive:
    def infer(x: Array, *, axis: AxisParam, keepdims: bool) -> TensorType:
        require_at_most(1, x.type.shape[axis], f"axis {axis} has no element to choose")
        return TensorType(INT64, kept_shape(x, (axis,), keepdims))

    def printed(p: Printing) -> str:
        keepdims = ", keepdims=True" if p.node.params["keepdims"] else ""
        axis = p.node.params["axis"]
        size = p.node.inputs[0].type.shape[axis]
        narrow = p.is_lowered_later and p.xp == "jnp"
        if narrow and isinstance(size, int) and size < 2**31:
            # In its 32-bit mode JAX cannot lower 64-bit indices.
            call = f'jax.lax.{name}({p.inputs[0]}, {axis}, "int32")'
            call = f"jnp.expand_dims({call}, {axis})" if keepdims else call
        else:
            call = f"{p.xp}.{name}({p.inputs[0]}, axis={axis}{keepdims})"
        return call if p.xp == "np" else f'{call}.astype("int64")'

    return Primitive(name, infer).emit(printed)


_argmax = _arg_reduction("argmax")
_argmin = _arg_reduction("argmin")
for _primitive in (_argmax, _argmin):
    _primitive.no_gradient("its results are integers")
    batch_with_axes(_primitive, "axis")


@_argmax.padding
def _(pad: Padding, x: PaddedValue, *, axis: int, keepdims: bool) -> Value:
    return _padded_search(pad, _argmax, x, axis, keepdims, least(x.value.dtype))


@_argmin.padding
def _(pad: Padding, x: PaddedValue, *, axis: int, keepdims: bool) -> Value:
    return _padded_search(pad, _argmin, x, axis, keepdims, most(x.value.dtype))


def _padded_search(
    pad: Padding,
    primitive: Primitive,
    x: PaddedValue,
    axis: int,
    keepdims: bool,
    fill: Element,
) -> Value:
    """Search with `fill` in the padding; elements come before it, so they win ties."""
    position: Value = primitive(
        pad.filled(x, (axis,), fill), axis=axis, keepdims=keepdims
    )
    return position


def _is_extreme(x: Value, axis: int | None, primitive: Primitive) -> Value:
    """A mask of the largest (or smallest) complex numbers, or of NaN if one is."""
    name = "max" if primitive is _argmax else "min"
    largest = extreme(name, x, axis, True, None, True)
    return F.where(F.isnan(largest), F.isnan(x), F.equal(x, largest))


def _position(
    primitive: Primitive, x: ArrayLike, axis: int | None, keepdims: bool
) -> Value:
    value = as_strong_value(x)
    if value.dtype.kind == "c":  # JAX has no order of complex numbers here
        value, primitive = _is_extreme(value, axis, primitive), _argmax
    if axis is None:
        position = primitive(F.ravel(value), axis=0, keepdims=False)
        return F.reshape(position, (1,) * value.type.rank) if keepdims else position
    chosen = normal_axis(axis, value.type.rank, primitive.name)
    return primitive(value, axis=chosen, keepdims=keepdims)


@public(method=True)
def argmax(x: ArrayLike, /, axis: int | None = None, keepdims: bool = False) -> Value:
    """The position of the first largest element (the first NaN where there is one)."""
    return _position(_argmax, x, axis, keepdims)


@public(method=True)
def argmin(x: ArrayLike, /, axis: int | None = None, keepdims: bool = False) -> Value:
    """The position of the first smallest element (the first NaN if there is one)."""
    return _position(_argmin, x, axis, keepdims)
