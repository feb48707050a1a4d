"""Results of branches that differ in size: the size is that of the branch taken.

The size is an integer like any other that is used as a size: it is computed from the
number of the branch, and known when that is, so that the choice is made where sizes
are. Each branch gives results of that size; results of branches not taken are cut or
padded to it.
"""

from collections.abc import Sequence
from types import ModuleType

from graphc.ir.graph.build import SIZE, as_size, as_value, cast, size_value
from graphc.ir.graph.nodes import Value, origins
from graphc.ir.graph.op import Array, Printing, op, type_error, views_of_inputs
from graphc.ir.namespace import F
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.sizes.divisors import with_nonzero_divisors
from graphc.ir.types import INT32, JaxArray, NDArray, TensorType
from graphc.ops.common.batching import Batched
from graphc.ops.common.padding import PaddedValue, Padding


@op()
def _branch_size(index: Array, *sizes: Array, most: Size | None) -> TensorType:
    """The size that the branch with number `index` gives; at most `most`."""
    if any(v.type.rank or v.dtype != SIZE for v in sizes) or index.dtype != INT32:
        raise type_error("the size of a branch is an integer scalar")
    return TensorType(SIZE, ())


_branch_size.emit('{xp}.asarray([{sizes}], "int64")[{index}]')
_branch_size.range = lambda node: ("branch_size", 0, node.params["most"])
_branch_size.no_gradient("its result is an integer")
_branch_size.size_remedy = (
    "make all branches of cond or switch return one size: pad, or mask with gt.where"
)


@_branch_size.batch
def _(n: Size, batched: Batched, index: Value, *sizes: Value, most: Size) -> Value:
    return F.choose(index, [*sizes], mode="clip")


@_branch_size.padding
def _(
    pad: Padding, index: PaddedValue, *sizes: PaddedValue, most: Size | None
) -> Value:
    numbers = [v.value for v in sizes]
    return _branch_size(index.value, *numbers, most=most)


def size_of_branch(index: Value, sizes: Sequence[Size]) -> Size:
    """Return the size with the number `index`; the common size if all are equal."""
    if all(dims.equal(size, sizes[0]) for size in sizes):
        return sizes[0]
    # A divisor of 0 is an error only if its branch is taken.
    sizes = [with_nonzero_divisors(size) for size in sizes]
    largest = dims.maximum(*sizes)
    most = None if origins(largest) else largest  # else as unknown as the size
    numbers = [cast(as_value(size_value(size)), SIZE) for size in sizes]
    return as_size(_branch_size(index, *numbers, most=most))


@op()
def _fitted(x: Array, *, shape: tuple[Size, ...]) -> TensorType:
    """Cut each axis of `x`, or fill it up with zeros, to a size."""
    if len(shape) != x.type.rank:
        raise type_error("needs a size for each axis")
    return x.type.like(shape)


def fitted(
    xp: ModuleType, x: NDArray | JaxArray, shape: tuple[int, ...]
) -> NDArray | JaxArray:
    """Printed into programs: the branch that is taken has this shape already."""
    if x.shape == shape:
        return x
    x = x[tuple([slice(n) for n in shape])]
    return xp.pad(x, [(0, n - m) for n, m in zip(shape, x.shape)])  # noqa: B905


def _print_fitted(p: Printing) -> str:
    shape = p.code(p.node.params["shape"])
    return p.call(fitted, p.xp, p.inputs[0], shape)


_fitted.emit(_print_fitted)
_fitted.views = views_of_inputs
_fitted.linear = True
_fitted.vjp(lambda g, x, *, shape: (_fitted(g, shape=x.type.shape),))


@_fitted.batch
def _(n: Size, batched: Batched, x: Value, *, shape: tuple[Size, ...]) -> Value:
    return _fitted(x, shape=(n, *shape))


@_fitted.padding
def _(pad: Padding, x: PaddedValue, *, shape: tuple[Size, ...]) -> Value:
    return _fitted(pad.filled(x, range(x.type.rank), 0), shape=shape)


def fit_branch_result(value: Value, shape: tuple[Size, ...]) -> Value:
    """Give a result of a branch the shape that all branches share."""
    sizes = zip(value.type.shape, shape, strict=True)
    if all(dims.equal(a, b) for a, b in sizes):
        return value
    return _fitted(value, shape=shape)
