"""`jax.lax.conv_general_dilated` with paddings that are formulas of sizes.

JAX takes paddings as integers, though it would trace formulas: those of a derivative
where windows are more than one step apart.
"""

import operator
from collections.abc import Sequence
from typing import Any

from jax import lax
from jax.extend.core.primitives import conv_general_dilated_p

from graphc.importers.jax.trace.dimensions import DIMENSION
from graphc.importers.jax.trace.replaced import replaced
from graphc.ir.types import JaxArray

PairsOfPoints = Sequence[tuple[Any, Any]]
_CANONICAL = tuple, type(None)  # precisions as derivatives have them


def convolved(
    lhs: JaxArray,
    rhs: JaxArray,
    window_strides: Sequence[int],
    padding: str | PairsOfPoints,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> JaxArray:
    """A convolution, also where numbers of points around an array are formulas."""
    dilations = lhs_dilation, rhs_dilation
    others = dimension_numbers, feature_group_count, batch_group_count
    last = precision, preferred_element_type, out_sharding
    if (
        isinstance(padding, str)
        or not isinstance(precision, _CANONICAL)
        or not any(isinstance(n, DIMENSION) for pair in padding for n in pair)
    ):
        result: JaxArray = _BY_JAX(
            lhs, rhs, window_strides, padding, *dilations, *others, *last
        )
        return result
    once = (1,) * (lhs.ndim - 2)
    convolution: JaxArray = conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=tuple(window_strides),
        padding=tuple((_point(low), _point(high)) for low, high in padding),
        lhs_dilation=tuple(lhs_dilation or once),
        rhs_dilation=tuple(rhs_dilation or once),
        dimension_numbers=lax.conv_dimension_numbers(
            lhs.shape, rhs.shape, dimension_numbers
        ),
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )
    return convolution


def _point(count: Any) -> Any:
    return count if isinstance(count, DIMENSION) else operator.index(count)


def _instead(
    lhs: "Any",
    rhs: "Any",
    window_strides: "Any",
    padding: "Any",
    lhs_dilation: "Any" = None,
    rhs_dilation: "Any" = None,
    dimension_numbers: "Any" = None,
    feature_group_count: "Any" = 1,
    batch_group_count: "Any" = 1,
    precision: "Any" = None,
    preferred_element_type: "Any" = None,
    out_sharding: "Any" = None,
) -> "Any":
    ours = __import__("graphc.importers.jax.trace.convolutions", fromlist=["convolved"])
    return ours.convolved(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision,
        preferred_element_type,
        out_sharding,
    )


_BY_JAX = replaced(lax.conv_general_dilated, _instead)
