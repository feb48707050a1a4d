"""Sums of exponentials whose shift is available only after the loop: online softmax.

Written stably, `logsumexp` is `log(sum(exp(x - m))) + m`, where m is the largest
element. If slices come one after another, m is known only after the last. So the loop
subtracts the running maximum instead, and rescales the sum whenever that grows; after
the loop the sum is rescaled to the shift of the program. Means with weights
`softmax(x)` are such sums too, and so are products, as `softmax(q @ k.T) @ v`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size
from graphc.ir.types import same_shape
from graphc.ops.common.monoids import scalar
from graphc.rewriting.loops.find.access import part_shape
from graphc.rewriting.loops.find.affine_reads import Stream, operand_views
from graphc.rewriting.loops.find.contractions import (
    contracted_axes,
    is_fast_in_parts,
    product_of_parts,
)
from graphc.rewriting.loops.find.producers import PartPlace, Resolve
from graphc.rewriting.loops.fuse.rescaled_sums import (
    Factor,
    Scaled,
    Stepwise,
    Sums,
    apply_factors,
    complete_sum,
    match_difference,
    shared_factors,
    shared_slice,
    whole_or_zero,
)
from graphc.rewriting.loops.fuse.stream_reductions import (
    Carry,
    PartsRead,
    StreamReduction,
)
from graphc.rewriting.match.sizes import is_wide, varies


@dataclass(frozen=True, kw_only=True)
class Shifted(Scaled):
    """`exp(x - shift)`, times factors; `subtracted` is the node of the difference.

    The value is 0 where one of the `masks` is false.
    """

    subtracted: Node
    masks: tuple[PartPlace, ...] = ()


class Shifts(Sums[Shifted]):
    """The shifted exponentials of sliced values."""

    LINEAR: Mapping[Primitive, int] = MappingProxyType(
        {OP.multiply: 2, OP.true_divide: 1}
    )

    def __init__(self, known: Stepwise) -> None:
        super().__init__(known)
        self._differences: dict[Value, Shifted] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._differences or super().__contains__(value)

    def _all_forms(self) -> Iterable[tuple[Value, Shifted]]:
        return [*self._differences.items(), *self._forms.items()]

    def visit(self, node: Node) -> None:
        """Record a node that is not computed slice by slice."""
        op, out = node.primitive, node.outputs[0]
        if op is OP.subtract:
            shifted = self._match_difference(node)
            if shifted is not None:
                self._differences[out] = shifted
        elif op is OP.exp and node.inputs[0] in self._differences:
            self._forms[out] = self._differences[node.inputs[0]]
        else:
            onward = self._form_of_result(node) or self._match_masked(node)
            if onward is not None:
                self._forms[out] = onward

    def _match_difference(self, node: Node) -> Shifted | None:
        """Recognise a sliced value less one that depends on all slices."""
        minuend = match_difference(self._known, node, 0)
        if minuend is None:
            return None
        return Shifted(x=minuend[0], view=minuend[1], subtracted=node)

    def _match_masked(self, node: Node) -> Shifted | None:
        """Recognise a known form where a sliced condition holds, and 0 elsewhere."""
        known, mask = self._masked_form(node)
        if known is None or mask is None:
            return None
        if any(len(factor.node.inputs) == 1 for factor in known.path):
            return None
        if not same_shape(known.x[0].type.shape, node.outputs[0].type.shape):
            return None
        return replace(known, masks=(*known.masks, mask))

    def reduction_of(self, node: Node) -> StreamReduction | None:
        """Return the reduction by which the loop computes a sum or product of forms."""
        return super().reduction_of(node) or self._reduction_of_product(node)

    def _reduction_of_sum(self, node: Node, known: Shifted) -> StreamReduction:
        return _RescaledSum(node, known, self._known.stream).reduction()

    def _reduction_of_product(self, node: Node) -> StreamReduction | None:
        """Return the reduction of a product that contracts a form's sliced axis."""
        pairs = contracted_axes(node)
        if len(pairs) != 1 or not is_wide(node.outputs[0].dtype):
            return None
        if not self._known.stream.tiled and not is_fast_in_parts(node, 0):
            return None
        for at, axis in enumerate(pairs[0]):
            known, other = self._forms.get(node.inputs[at]), node.inputs[1 - at]
            if known is None or known.view.axis != axis or other in self:
                continue
            beside = known.view.along(pairs[0][1 - at])
            if self._known.is_part(other, beside):
                sliced = _Product(at, (other, beside))
                parts = node, known, self._known.stream, sliced
                return _RescaledSum(*parts).reduction()
        return None


class _Product(NamedTuple):
    """Which factor holds the exponentials, and the place of the other factor."""

    at: int
    other: PartPlace

    def multiply(self, node: Node, weights: Value, other: Value, tiled: bool) -> Value:
        """Multiply a part of the exponentials by a part of the other factor."""
        pair = (weights, other) if self.at == 0 else (other, weights)
        return product_of_parts(node, 0, pair, tiled)

    def scale(self, node: Node, scale: Value) -> Value:
        """Align one factor per sum of exponentials with the axes of the product."""
        rank, op = node.inputs[self.at].type.rank, node.primitive
        if op is OP.tensordot:
            extra = node.inputs[1 - self.at].type.rank - 1 if self.at == 0 else 0
            first = scale.type.rank
            return F.expand_dims(scale, tuple(range(first, first + extra)))
        if op is OP.vecdot or rank == 1 or self.other[0].type.rank == 1:
            return scale
        return F.expand_dims(scale, scale.type.rank - self.at)


class _RescaledSum:
    """A sum of shifted exponentials, or a product, accumulated part by part."""

    def __init__(
        self,
        node: Node,
        shifted: Shifted,
        stream: Stream,
        product: _Product | None = None,
    ) -> None:
        self._node = node
        self._shifted = shifted
        self._stream = stream
        self._product = product
        self._more = self._other_summed_axes()

    def _other_summed_axes(self) -> tuple[int, ...]:
        """Return the other axes of tiles that the sum is over.

        All elements along them share one maximum.
        """
        shifted, node, axis = self._shifted, self._node, self._shifted.x[1].axis
        plain = self._product is None and not shifted.path and not shifted.masks
        if not plain or not self._stream.tiled:
            return ()
        shift, rank = shifted.subtracted.inputs[1], shifted.x[0].type.rank
        more = tuple(a for a in node.params["axes"] if a != axis)
        return () if any(varies(shift, rank, a) for a in more) else more

    def reduction(self) -> StreamReduction:
        """Return the reduction, which carries the running maximum and rescaled sum.

        With masks, it also carries whether these have held anywhere: a sum of nothing
        is 0, not NaN.
        """
        shifted, product = self._shifted, self._product
        places = [shifted.x, *(f.other for f in shifted.path if f.other is not None)]
        places += shifted.masks
        places += [] if product is None else [product.other]
        steps = self._initial_carry, self._step, self._final_sum
        reduction = StreamReduction(places, *steps)
        return reduction.by_iterations(shifted.x[1], self._stream.length)

    def _initial_carry(self, known: Resolve) -> Carry:
        x, view = self._shifted.x
        least = scalar(-np.inf, x.dtype)
        top = F.full(self._shape(x, view.axis), least)
        flags = [F.full(self._shape(x, view.axis), False)] * bool(self._shifted.masks)
        type = self._node.outputs[0].type
        if self._product is not None:
            return [top, F.zeros(type.shape, type.dtype), *flags]
        of_sum = self._node.inputs[0]
        shape = self._shape(of_sum, self._shifted.view.axis)
        return [top, F.zeros(shape, of_sum.dtype), *flags]

    def _shape(self, value: Value, axis: int) -> tuple[Size, ...]:
        """Return the shape of a slice, or of a tile that is reduced to one."""
        shape = enumerate(part_shape(value.type.shape, axis, self._stream.one))
        return tuple(1 if a in self._more else n for a, n in shape)

    def _step(self, carry: Carry, parts: PartsRead, number: Value) -> Carry:
        shifted, (top, total, *flags) = self._shifted, carry
        x = self._mask_part(parts[shifted.x], parts, -np.inf)
        new = F.maximum(top, self._part_maximum(x))
        scale = F.where(_is_still_lowest(top), 0, F.exp(_finite(top) - _finite(new)))
        total = total * self._align_scale(scale)
        weights = self._weights(parts[shifted.x], _finite(new), parts)
        total = total + self._sum_part(weights, parts)
        return [new, total, *(F.logical_or(v, self._any_shown(parts)) for v in flags)]

    def _any_shown(self, parts: PartsRead) -> Value:
        """Return where all masks hold for some element of a part."""
        shown: Value = reduce(F.logical_and, [parts[m] for m in self._shifted.masks])
        if self._stream.tiled:
            x = self._shifted.x[0].type
            axis = self._shifted.x[1].axis - (x.rank - shown.type.rank)
            shown = F.any(shown, axis, keepdims=True) if axis >= 0 else shown
        return shown

    def _part_maximum(self, x: Value) -> Value:
        """Return the largest elements of a part."""
        if not self._stream.tiled:
            return x
        axes = (self._shifted.x[1].axis, *self._more)
        return F.max(x, axes, keepdims=True, initial=-np.inf)

    def _weights(self, x: Value, new: Value, parts: PartsRead) -> Value:
        """Compute the exponentials of a part, times the factors that are sliced too."""

        def beside(factor: Factor) -> Value | None:
            return None if factor.other is None else parts[factor.other]

        weights, one = F.exp(x - new), self._stream.one
        weights = apply_factors(self._shifted.path, weights, beside, one)
        return self._mask_part(weights, parts, 0)

    def _mask_part(self, value: Value, parts: PartsRead, other: float) -> Value:
        """Keep a part where all masks hold, with the number `other` elsewhere."""
        for mask in self._shifted.masks:
            number = scalar(other, value.dtype)
            value = F.where(parts[mask], value, number)
        return value

    def _sum_part(self, weights: Value, parts: PartsRead) -> Value:
        """Sum a part, or multiply it by a part of the other factor."""
        if self._product is not None:
            other, tiled = parts[self._product.other], self._stream.tiled
            return self._product.multiply(self._node, weights, other, tiled)
        if self._stream.tiled:
            axes = (self._shifted.view.axis, *self._more)
            return F.sum(weights, axes, keepdims=True)
        return weights

    def _final_sum(self, carry: Carry, known: Resolve) -> Value:
        node, view = self._node, self._shifted.view
        top, total, *flags = carry
        if self._stream.tiled:
            top, *flags = (F.squeeze(v, self._shifted.x[1].axis) for v in (top, *flags))
            total = total if self._product else F.squeeze(total, view.axis)
        subtracted = self._shifted.subtracted
        seen = operand_views(subtracted, self._shifted.x[1])
        assert seen is not None
        shift = shared_slice(known(subtracted.inputs[1]), seen[1])
        scale = F.exp(F.where(_is_still_lowest(top), top, _finite(top)) - shift)
        scale = apply_factors(self._shifted.path, scale, shared_factors(known))
        for shown in flags:
            shown = apply_factors(self._shifted.path, shown, lambda factor: None)
            scale = F.where(shown, scale, 0)
        if self._product is not None:
            return whole_or_zero(total * self._product.scale(node, scale), view)
        return complete_sum(node, view, F.broadcast_to(total * scale, total.type.shape))

    def _align_scale(self, scale: Value) -> Value:
        """Align the factor that rescales the earlier sum with the axes of the sum."""
        scaled = apply_factors(
            self._shifted.path, scale, lambda factor: None, self._stream.one
        )
        if self._product is None:
            return scaled
        if self._stream.tiled:
            scaled = F.squeeze(scaled, self._shifted.view.axis)
        return self._product.scale(self._node, scaled)


def _is_still_lowest(top: Value) -> Value:
    """Return where no element has been counted yet."""
    return F.equal(top, -np.inf)


def _finite(top: Value) -> Value:
    """Return the largest elements, with 0 where they are infinite."""
    return F.where(F.isfinite(top), top, 0)
