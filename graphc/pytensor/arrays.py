"""Ops that make, shape, join and rearrange arrays."""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
from pytensor.graph.basic import equal_computations
from scipy.interpolate import PPoly, UnivariateSpline

import graphc.tensor as gt
from graphc.ir.graph.accepted_types import ArrayLike, SizeLike
from graphc.ir.graph.build import as_shape
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import less_equal
from graphc.ops.effects.assertions import asserted, at_most
from graphc.pytensor.convert import convert_graph
from graphc.pytensor.registry import NotConverted, as_stated, rule
from graphc.transform.derivatives.gradients import grad

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op


def known_integer(x: ArrayLike, role: str) -> int:
    """The integer `x`, such as an axis. Raises NotConverted if it is not known."""
    known_number = gt.known(x)
    if not isinstance(known_number, int):
        raise NotConverted(f"{role} is not known when the graph is built")
    return known_number


def sizes_of(shape: Value, count: int, total: SizeLike) -> list[Value]:
    """The sizes in the vector `shape`; one that is known only later may also be -1."""
    sizes = [shape[i] for i in range(count)]
    for i, n in enumerate(sizes):
        known = as_shape(n)[0]
        if isinstance(known, int) or less_equal(0, known):
            continue
        other_sizes = [m for j, m in enumerate(sizes) if j != i]
        others = gt.maximum(gt.prod(gt.stack(other_sizes)), 1) if other_sizes else 1
        sizes[i] = gt.where(n == -1, total // others, n)
    return sizes


rule("Shape")(lambda op, node, x: gt.array(list(x.shape), dtype="int64"))
rule("Shape_i")(lambda op, node, x: gt.asarray(x.shape[op.i]))


@rule("SpecifyShape")
def _(op: "Op", node: "Apply", x: Value, *sizes: Any) -> Value:
    pairs = zip(sizes, x.shape, strict=True)
    return gt.specify_shape(x, [n if fixed is None else fixed for fixed, n in pairs])


@rule("Reshape")
def _(op: "Op", node: "Apply", x: Value, shape: Value) -> Value:
    return gt.reshape(x, sizes_of(shape, node.outputs[0].type.ndim, x.size))


@rule("JoinDims")
def _(op: "Op", node: "Apply", x: Value) -> Value:
    end = op.start_axis + op.n_axes
    return gt.reshape(x, [*x.shape[: op.start_axis], -1, *x.shape[end:]])


@rule("SplitDims")
def _(op: "Op", node: "Apply", x: Value, shape: Value) -> Value:
    count = node.outputs[0].type.ndim - x.ndim + 1
    sizes = sizes_of(shape, count, x.shape[op.axis])
    return gt.reshape(x, [*x.shape[: op.axis], *sizes, *x.shape[op.axis + 1 :]])


rule("Alloc")(lambda op, node, x, *shape: gt.broadcast_to(x, list(shape)))
rule("AllocEmpty")(lambda op, node, *shape: gt.zeros(list(shape), op.dtype))
rule("Eye")(lambda op, node, n, m, k: gt.eye(n, m, k=k, dtype=op.dtype))
rule("Tri")(lambda op, node, n, m, k: gt.tri(n, m, k=k, dtype=op.dtype))
rule("ARange")(
    lambda op, node, start, stop, step: gt.arange(start, stop, step, dtype=op.dtype)
)


@rule("MakeVector")
def _(op: "Op", node: "Apply", *items: Value) -> Value:
    if not items:
        return gt.zeros((0,), op.dtype)
    return gt.stack([as_stated(x, op.dtype) for x in items])


@rule("TensorFromScalar", "ScalarFromTensor", "CpuContiguous", "DeepCopyOp")
@rule("TypeCastingOp")
def _(op: "Op", node: "Apply", x: Value) -> Value:
    """Return the input; `value_and_grad` knows which Ops change gradients."""
    return x


@rule("Join")
def _(op: "Op", node: "Apply", *operands: Value) -> Value:
    """Join arrays; the axis is an input before PyTensor 3.0, and a property since."""
    if hasattr(op, "axis"):
        return gt.concatenate(list(operands), op.axis)
    return gt.concatenate(
        list(operands[1:]), known_integer(operands[0], "the axis of Join")
    )


@rule("Split")
def _(op: "Op", node: "Apply", x: Value, *operands: Value) -> list[Value]:
    *first, sizes = operands
    is_property = hasattr(op, "axis")
    axis = op.axis if is_property else known_integer(first[0], "the axis of Split")
    ahead, start = gt.moveaxis(x, axis, 0), gt.asarray(0)
    parts = []
    for i in range(op.len_splits):
        stop = start + sizes[i]
        part = at_most(0, sizes[i], "sizes must not be negative", ahead, "split")
        parts.append(gt.moveaxis(part[start:stop], 0, axis))
        start = stop
    for low, high in ((start, ahead.shape[0]), (ahead.shape[0], start)):
        reason = "sizes must add up to that of the axis"
        parts = [at_most(low, high, reason, part, "split") for part in parts]
    return parts


rule("ExtractDiag")(lambda op, node, x: gt.diagonal(x, op.offset, op.axis1, op.axis2))
rule("Nonzero")(lambda op, node, x: gt.nonzero(x))
rule("Repeat")(lambda op, node, x, repeats: gt.repeat(x, repeats, axis=op.axis))


@rule("CumOp")
def _(op: "Op", node: "Apply", x: Value) -> Value:
    cumulate = gt.cumsum if op.mode == "add" else gt.cumprod
    return cumulate(x, axis=op.axis)


@rule("SearchsortedOp")
def _(
    op: "Op", node: "Apply", x: Value, v: Value, sorter: Value | None = None
) -> Value:
    return gt.searchsorted(x, v, side=op.side, sorter=sorter)


@rule("SplineWrapper")
def _(op: "Op", node: "Apply", x: Value) -> Value:
    if not isinstance(op.spline, UnivariateSpline):
        raise NotConverted("a spline that is no UnivariateSpline of SciPy")
    if op.spline.ext == 2:
        raise NotConverted("a spline that is an error outside of its interval")
    pieces = PPoly.from_spline(op.spline._eval_args)
    is_long = np.diff(pieces.x) > 0
    starts, end = pieces.x[:-1][is_long], pieces.x[-1]
    below, above = x < starts[0], x > end
    if op.spline.ext:
        x = gt.where(below, starts[0], gt.where(above, end, x))
    piece = gt.searchsorted(gt.asarray(starts[1:]), x, side="right")
    ahead = x - gt.asarray(starts)[piece]
    first, *others = (gt.asarray(c)[piece] for c in pieces.c[:, is_long])
    value = reduce(lambda total, term: total * ahead + term, others, first)
    return gt.where(below | above, 0.0, value) if op.spline.ext == 1 else value


OF_LOOPS = "reflect", "symmetric", "wrap"  # modes that PyTensor writes as scans


@rule("Pad")
def _(op: "Op", node: "Apply", x: Value, widths: Value, *others: Value) -> list[Value]:
    """Convert loops of PyTensor to padding of ours, which compiles in less time."""
    if op.pad_mode not in OF_LOOPS:
        return convert_graph(op.fgraph.outputs, op.fgraph.inputs, [x, widths, *others])
    return [_pad_by_mode(op, x, widths)]


def _pad_by_mode(op: "Op", x: Value, widths: Value) -> Value:
    """`x` padded by a mode of PyTensor's `Pad` that needs no other numbers."""
    wide = gt.broadcast_to(widths, (x.type.rank, 2))
    pairs = [(wide[i, 0], wide[i, 1]) for i in range(x.type.rank)]
    return gt.pad(x, pairs, mode=op.pad_mode)


def gradient_of_padding(node: "Apply", inputs: Sequence[Value]) -> Value | None:
    """The result of a subgraph, if that is the gradient of padding by loops."""
    pad = _differentiated_pad(node)
    if pad is None:
        return None
    x, widths, _, slope = inputs
    padded = _pad_by_mode(pad.op, x, widths)
    return grad(gt.sum(padded * gt.stop_gradient(slope)), x)


def _differentiated_pad(node: "Apply") -> "Apply | None":
    """The padding by loops whose gradient PyTensor computes in a node, if any."""
    pad = node.inputs[2].owner if len(node.inputs) == 4 else None
    if pad is None or getattr(pad.op, "pad_mode", "") not in OF_LOOPS:
        return None
    slope = node.inputs[3]
    if pad.inputs != node.inputs[:2] or slope.type != pad.outputs[0].type:
        return None
    known = pytensor.grad(None, pad.inputs[0], known_grads={pad.outputs[0]: slope})
    gradient = known.owner
    if gradient is None or gradient.inputs != node.inputs:
        return None
    op, other = node.op, gradient.op
    if type(op) is not type(other):
        return None
    alike = op == other or equal_computations(  # an Op may be a copy
        *(op.inner_outputs, other.inner_outputs),
        *(op.inner_inputs, other.inner_inputs),
    )
    return pad if alike else None


@rule("Unique")
def _(op: "Op", node: "Apply", x: Value) -> list[Value]:
    flags = [getattr(op, f"return_{n}", False) for n in ("index", "inverse", "counts")]
    index, inverse, counts = flags
    unique: Any = gt.unique(x, index, inverse, counts, op.axis)
    if not inverse:
        return unique
    results = list(unique)
    if node.outputs[1 + index].type.ndim == 1:  # where graphc's has the shape of x
        results[1 + index] = gt.ravel(results[1 + index])
    return results


rule("Bartlett")(lambda op, node, n: gt.bartlett(n))
rule("FillDiagonal")(lambda op, node, x, value: gt.fill_diagonal(x, value))


@rule("FillDiagonalOffset")
def _(op: "Op", node: "Apply", x: Value, value: Value, offset: Value) -> Value:
    rows, columns = gt.arange(x.shape[0])[:, None], gt.arange(x.shape[1])
    return gt.where(columns - rows == offset, value, x)


@rule("SortOp")
def _(op: "Op", node: "Apply", x: Value, *axis: Value) -> Value:
    return gt.sort(x, axis=_axis_of_sort(op, axis))


@rule("ArgSortOp")
def _(op: "Op", node: "Apply", x: Value, *axis: Value) -> Value:
    return gt.argsort(x, axis=_axis_of_sort(op, axis))


def _axis_of_sort(op: "Op", axis: tuple[Value, ...]) -> int:
    """The axis, an input in some versions and a property in others."""
    return known_integer(axis[0], "the axis of a sort") if axis else op.axis


@rule("PermuteRowElements")
def _(op: "Op", node: "Apply", x: Value, order: Value) -> Value:
    """Permute rows, where rows and permutations broadcast against each other."""
    order = gt.argsort(order, axis=-1) if op.inverse else order
    if order.ndim == 1:
        return x[..., order]
    rows, orders = gt.broadcast_arrays(x, order)
    return gt.take_along_axis(rows, orders, axis=-1)


@rule("Choose")
def _(op: "Op", node: "Apply", index: Value, choices: Value) -> Value:
    """Choose by index, unchecked: one out of bounds wraps or takes the nearest."""
    n = choices.shape[0]
    inside = index % n if op.mode == "wrap" else gt.clip(index, 0, n - 1)
    chosen, rows = gt.broadcast_arrays(inside[None], choices)
    return gt.take_along_axis(rows, chosen[:1], axis=0)[0]


def _strides(dims: Value, count: int, order: str) -> list[Value]:
    """The distance of neighbours along each axis in an array of sizes `dims`."""
    axes = range(count) if order == "F" else reversed(range(count))
    strides, size = {}, gt.asarray(1)
    for axis in axes:
        strides[axis] = size
        size = size * dims[axis]
    return [strides[axis] for axis in range(count)]


@rule("UnravelIndex")
def _(op: "Op", node: "Apply", index: Value, dims: Value) -> list[Value]:
    count = gt.prod(dims)
    fits = gt.all((index >= 0) & (index < count))
    message = "unravel_index: an index is out of bounds for so many elements"
    inside = asserted(gt.clip(index, 0, count - 1), fits, message, "shape")
    strides = _strides(dims, len(node.outputs), op.order)
    return [inside // stride % dims[i] for i, stride in enumerate(strides)]


@rule("RavelMultiIndex")
def _(op: "Op", node: "Apply", *inputs: Value) -> Value:
    *indices, dims = inputs
    strides = _strides(dims, len(indices), op.order)
    total = gt.asarray(0)
    for i, (index, stride) in enumerate(zip(indices, strides, strict=True)):
        wrapped = op.mode == "wrap"
        inside = index % dims[i] if wrapped else gt.clip(index, 0, dims[i] - 1)
        if op.mode == "raise":
            fits = gt.all((index >= 0) & (index < dims[i]))
            message = "ravel_multi_index: an index is out of bounds for its axis"
            inside = asserted(inside, fits, message, "shape")
        total = total + inside * stride
    return total
