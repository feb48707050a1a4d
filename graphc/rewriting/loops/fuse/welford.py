"""Sums of centred values, and of their squares, whose mean is available after the loop.

A variance is a mean of `(x - m)**2`, where m is the mean. If slices come one after
another, m is known only after the last. So the loop carries the mean so far and the sum
of squares around it, after Welford (1962). After the loop they are moved to the centre
that the program subtracts, as in Chan, Golub and LeVeque (1983), who show that this is
about as precise as two passes, whereas means of `x` and `x**2` may lose all digits. A
tile has a mean and a sum of squares of its own, which are joined with the carry in the
same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from graphc.ir.graph.build import as_value, cast, literal_of, size_value
from graphc.ir.graph.nodes import Node, Value, known_sizes
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, equal
from graphc.ir.types import INT32, product
from graphc.ops.indexing.counting_indices import unconverted
from graphc.rewriting.loops.find.access import part_shape, without_axis
from graphc.rewriting.loops.find.affine_reads import Stream, View, operand_views
from graphc.rewriting.loops.find.producers import PartPlace, Resolve
from graphc.rewriting.loops.fuse.rescaled_sums import (
    Factor,
    Scaled,
    Sums,
    apply_factors,
    complete_sum,
    match_difference,
    shared_factors,
    shared_slice,
)
from graphc.rewriting.loops.fuse.stream_reductions import (
    Carry,
    PartsRead,
    StreamReduction,
    update_where,
)


@dataclass(frozen=True, kw_only=True)
class Centred(Scaled):
    """`x - centre` or its square, times factors.

    `at` tells which input of `node`, which computes the difference, is `x`. With a
    `mask`, elements are 0 where it is false.
    """

    node: Node
    at: int
    squared: bool = False
    mask: PartPlace | None = None


class Centring(Sums[Centred]):
    """The centred values that are computed from sliced values."""

    LINEAR: Mapping[Primitive, int] = MappingProxyType(
        {OP.multiply: 2, OP.true_divide: 1, OP.negative: 1}
    )

    def visit(self, node: Node) -> None:
        """Record a node that is not computed slice by slice."""
        centred = self._match_difference(node) or self._match_square(node)
        centred = centred or self._match_masked(node) or self._form_of_result(node)
        if centred is not None:
            self._forms[node.outputs[0]] = centred

    def _match_difference(self, node: Node) -> Centred | None:
        """Recognise a sliced value less one shared by all slices, or the reverse."""
        if node.primitive is not OP.subtract:
            return None
        for at in (0, 1):
            minuend = match_difference(self._known, node, at)
            if minuend is not None:
                return Centred(x=minuend[0], view=minuend[1], node=node, at=at)
        return None

    def _match_square(self, node: Node) -> Centred | None:
        known = self._forms.get(node.inputs[0]) if node.inputs else None
        if known is None or known.squared or known.path or not _is_square(node):
            return None
        return replace(known, squared=True)

    def _match_masked(self, node: Node) -> Centred | None:
        """Recognise a centred value where a sliced condition holds, 0 elsewhere."""
        known, mask = self._masked_form(node)
        if known is None or known.mask is not None or known.path:
            return None
        return replace(known, mask=mask)

    def _may_take_factor(self, factor: Factor) -> bool:
        """Whether a factor is the same for all slices."""
        return factor.other is None

    def _reduction_of_sum(self, node: Node, known: Centred) -> StreamReduction:
        return _CentredSum(node, known, self._known.stream).reduction()


def _is_square(node: Node) -> bool:
    """Whether a node squares its first input."""
    op = node.primitive
    if op is OP.power:
        exponent = literal_of(node.inputs[1])
        return exponent is not None and not exponent.ndim and exponent == 2
    return op is OP.square or (op is OP.multiply and len(set(node.inputs)) == 1)


class _CentredSum:
    """A sum of centred values, accumulated part by part."""

    def __init__(self, node: Node, centred: Centred, stream: Stream) -> None:
        self._node = node
        self._centred = centred
        self._stream = stream

    def reduction(self) -> StreamReduction:
        """Return the reduction, which carries the number of slices and their mean.

        If squares are summed, it also carries the sum of squares around the mean.
        """
        centred = self._centred
        (x, view), mask = centred.x, centred.mask
        row = _slice_shape(x, view)
        shape = () if mask is None else _slice_shape(*mask)
        start = [F.zeros(shape, INT32)]
        start += [F.zeros(row, x.dtype)] * (1 + centred.squared)
        places = [centred.x] if mask is None else [centred.x, mask]
        step = self._step_of_tile if self._stream.tiled else self._step
        reduction = StreamReduction(places, lambda _: start, step, self._final_sum)
        return reduction.by_iterations(view, self._stream.length)

    def _step(self, carry: Carry, rows: PartsRead, number: Value) -> Carry:
        centred = self._centred
        (count, mean, *squares), x = carry, rows[centred.x]
        count = count + 1
        apart = x - mean
        new = mean + apart * (1 / cast(count, x.dtype))
        new = F.where(F.isfinite(mean), new, mean + x)  # infinities stay
        after = [count, new]
        if squares:
            more = F.where(F.isfinite(apart), apart * (x - new), F.square(x))
            after.append(squares[0] + more)
        if centred.mask is not None:
            after = update_where(after, carry, rows[centred.mask])
        return after

    def _step_of_tile(self, carry: Carry, tiles: PartsRead, number: Value) -> Carry:
        (x, view), (count, mean, *squares) = self._centred.x, carry
        tile, held = tiles[x, view], self._centred.mask
        mask = None if held is None else tiles[held]

        def total(value: Value) -> Value:
            if mask is not None:
                value = F.where(mask, value, as_value(np.zeros((), value.dtype)))
            return F.sum(value, view.axis)

        tile_count = cast(as_value(size_value(tile.type.shape[view.axis])), INT32)
        if held is not None and mask is not None:
            tile_count = F.sum(cast(mask, INT32), held[1].axis, dtype=INT32)
        tile_mean = total(tile) / cast(F.maximum(tile_count, 1), x.dtype)
        after, apart = count + tile_count, tile_mean - mean
        share = cast(tile_count, x.dtype) / cast(F.maximum(after, 1), x.dtype)
        new = mean + apart * share
        new = F.where(F.isfinite(mean), new, mean + tile_mean)  # infinities stay
        if not squares:
            return [after, new]
        gap = F.where(F.isfinite(apart), apart, 0)
        centre = F.expand_dims(F.where(F.isfinite(tile_mean), tile_mean, 0), view.axis)
        within = total(F.square(tile - centre))
        between = gap * (share * cast(count, x.dtype)) * gap  # 0 where there was none
        return [after, new, squares[0] + within + between]

    def _final_sum(self, carry: Carry, known: Resolve) -> Value:
        centred = self._centred
        count, mean, *squares = carry
        number = cast(count, mean.dtype)
        centre = self._shared_centre(mean, known)
        apart = (mean - centre) if centred.at == 0 else (centre - mean)
        total = apart * number
        if squares:
            total = squares[0] + F.square(apart) * number
            large = F.logical_and(F.isinf(squares[0]), F.isfinite(centre))
            total = F.where(large, squares[0], total)
        if centred.mask is not None:
            total = F.where(count > 0, total, 0)
        total = apply_factors(centred.path, total, shared_factors(known))
        of_sum = self._node.inputs[0]
        total = F.broadcast_to(total, _slice_shape(of_sum, centred.view))
        return complete_sum(self._node, centred.view, total)

    def _shared_centre(self, mean: Value, known: Resolve) -> Value:
        """Return the centre that the program subtracts from each slice."""
        node, at, axes = self._centred.node, self._centred.at, self._mean_axes()
        if axes is not None:
            return F.mean(mean, axes, keepdims=True) if axes else mean
        seen = operand_views(node, self._centred.x[1])
        assert seen is not None
        return shared_slice(known(node.inputs[1 - at]), seen[1 - at])

    def _mean_axes(self) -> tuple[int, ...] | None:
        """Return the axes of a slice over which the centre is the mean.

        None if the centre is no such mean. The carried mean is more precise than one
        from a sum accumulated in the loop, so squares are taken around the carried one.
        """
        centred = self._centred
        if centred.mask is not None or not centred.squared:
            return None
        x, view = centred.x
        axes = mean_axes(centred.node.inputs[1 - centred.at], x)
        if axes is None or view.axis not in axes:
            return None
        return without_axis(axes, view.axis)


def mean_axes(value: Value, x: Value) -> tuple[int, ...] | None:
    """Return the axes over which a value is the mean of `x`, if broadcast to `x`."""
    expanded, value = _before_expansion(value)
    if value.node.primitive is not OP.true_divide:
        return None
    total, count = value.node.inputs
    if not expanded:
        expanded, total = _before_expansion(total)
    node = total.node
    if node.primitive is not OP.sum or node.inputs[0] is not x:
        return None
    axes: tuple[int, ...] = tuple(sorted(node.params["axes"]))
    if node.params["keepdims"]:
        fits = not expanded
    else:
        fits = axes == (expanded or tuple(range(len(axes))))
    size = product([x.type.shape[a] for a in axes])
    return axes if fits and _is_number(count, size) else None


def _before_expansion(value: Value) -> tuple[tuple[int, ...], Value]:
    """Return the axes that were inserted last, if any, and the value before that."""
    if value.node.primitive is not OP.expand_dims:
        return (), value
    return tuple(sorted(value.node.params["axes"])), value.node.inputs[0]


def _is_number(value: Value, size: Size) -> bool:
    """Whether a value is provably equal to a size."""
    literal = literal_of(value)
    if literal is not None:
        whole = not literal.ndim and float(literal).is_integer()
        return whole and equal(int(literal), size) is True
    sizes = known_sizes(unconverted(value))
    return sizes is not None and not sizes.ndim and equal(sizes.item(), size) is True


def _slice_shape(value: Value, view: View) -> tuple[Size, ...]:
    return part_shape(value.type.shape, view.axis, None)
