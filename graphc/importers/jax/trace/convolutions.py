"""`jax.lax.conv_general_dilated` with paddings that are formulas of sizes.

JAX requires integers as paddings, although it could trace formulas. Formulas arise in
the derivative of a convolution whose windows are more than one step apart.
"""

import operator
from typing import Any, SupportsIndex

from jax import lax
from jax.extend.core.primitives import conv_general_dilated_p

from graphc.importers.jax.trace.dimensions import DIMENSION
from graphc.importers.jax.trace.replaced_functions import replace_in_jax
from graphc.ir.types import JaxArray

_CANONICAL = tuple, type(None)  # precisions as derivatives pass them


def convolve(lhs: JaxArray, rhs: JaxArray, **named: Any) -> JaxArray:
    """Convolve with the arguments of JAX's function; paddings may be formulas."""
    padding, numbers = named["padding"], named["dimension_numbers"]
    if not _has_formulas(padding) or not isinstance(named["precision"], _CANONICAL):
        result: JaxArray = _JAX_CONVOLUTION(lhs, rhs, **named)
        return result
    once = (1,) * (lhs.ndim - 2)
    named |= {
        "window_strides": tuple(named["window_strides"]),
        "padding": tuple((_point(low), _point(high)) for low, high in padding),
        "lhs_dilation": tuple(named["lhs_dilation"] or once),
        "rhs_dilation": tuple(named["rhs_dilation"] or once),
        "dimension_numbers": lax.conv_dimension_numbers(lhs.shape, rhs.shape, numbers),
    }
    convolution: JaxArray = conv_general_dilated_p.bind(lhs, rhs, **named)
    return convolution


def _has_formulas(padding: object) -> bool:
    """Whether paddings are pairs with formulas; JAX handles any other paddings."""
    pairs = padding if isinstance(padding, (list, tuple)) else ()
    counts = [n for pair in pairs if isinstance(pair, (list, tuple)) for n in pair]
    return any(isinstance(n, DIMENSION) for n in counts)


def _point(count: SupportsIndex) -> SupportsIndex:
    return count if isinstance(count, DIMENSION) else operator.index(count)


def _replacement(
    lhs: "object",
    rhs: "object",
    window_strides: "object",
    padding: "object",
    lhs_dilation: "object" = None,
    rhs_dilation: "object" = None,
    dimension_numbers: "object" = None,
    feature_group_count: "object" = 1,
    batch_group_count: "object" = 1,
    precision: "object" = None,
    preferred_element_type: "object" = None,
    out_sharding: "object" = None,
) -> "object":
    return __import__(
        "graphc.importers.jax.trace.convolutions", fromlist=["convolve"]
    ).convolve(**locals())


_JAX_CONVOLUTION = replace_in_jax(lax.conv_general_dilated, _replacement)
