"""Sizes stated for an array, and checked at the call if they cannot be proved."""

from graphc.errors import ErrorKind
from graphc.ir.graph.accepted_types import ArrayLike, ShapeLike
from graphc.ir.graph.build import as_size, as_strong_value
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, op, require_equal, type_error, views_of_inputs
from graphc.ir.namespace import F, enroll, public
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Size, equal, less_equal
from graphc.ir.types import BOOL, TensorType, same_size
from graphc.ops.common.padding import PaddedValue, Padding


@op()
def _specify_shape(
    x: Array, *, shape: tuple[Size | None, ...], kind: ErrorKind
) -> TensorType:
    """`x` with its sizes stated; None states nothing.

    `kind` is the kind of error raised if an array has other sizes.
    """
    if len(shape) != x.type.rank:
        raise type_error(f"{len(shape)} sizes are stated for {x.type.rank} axes")
    sizes = []
    array = f"the mask {x.type}" if x.dtype == BOOL else str(x.type)
    for i, (n, stated) in enumerate(zip(x.type.shape, shape, strict=True)):
        if stated is None:
            sizes.append(n)
            continue
        reason = f"axis {i} of {array} must have {stated} elements"
        require_equal(n, stated, reason, kind=kind)
        sizes.append(stated)
    return x.type.like(sizes)


_specify_shape.rounding = "none"
_specify_shape.emit("{x}")
_specify_shape.sizes = lambda x, **_: x
_specify_shape.views = views_of_inputs
_specify_shape.linear = True
_specify_shape.vjp(lambda g, x, **_: (state_shape(g, x.type.shape),))
_specify_shape.batch(
    lambda n, batched, x, *, shape, kind: _specify_shape(
        x, shape=(None, *shape), kind=kind
    )
)


@_specify_shape.padding
def _(pad: Padding, x: PaddedValue, **_: Param) -> PaddedValue:
    """Drop padding beyond the capacities of the stated sizes.

    An earlier check makes sure that the stated sizes are the true ones.
    """
    value = x.value
    for axis, n in enumerate(pad.out):
        size, stored = value.type.shape[axis], pad.stored(n)
        if less_equal(stored, size) and not equal(stored, size):
            value = F._part(value, axis, 0, stored)
    return pad.result(value, x.fill)


@public()
def specify_shape(x: ArrayLike, shape: ShapeLike) -> Value:
    """State the sizes of `x` (None states nothing); they are checked at each call."""
    return state_shape(x, shape, "stated")


def state_shape(x: ArrayLike, shape: ShapeLike, kind: ErrorKind = "shape") -> Value:
    """Do the same as `specify_shape`, with `kind` as the kind of error of a call."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    stated = tuple(None if n is None else as_size(n) for n in sizes)
    value = as_strong_value(x)
    if len(stated) == value.type.rank:
        pairs = zip(stated, value.type.shape, strict=True)
        if all(a is None or same_size(a, b) for a, b in pairs):
            return value
    return _specify_shape(value, shape=stated, kind=kind)


enroll(state_shape, "_sized")
