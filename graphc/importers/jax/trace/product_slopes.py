"""The derivative of `jnp.prod` along axes whose sizes are symbols.

JAX halves an axis in Python until one element is left, so its steps depend on the size.
In a trace for many sizes, running products replace the halvings. The slope of an
element is the product of those before it and those after it, so nothing is divided by
zero.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.extend.core.primitives import reduce_prod_p
from jax.interpreters import ad

from graphc.importers.jax.trace.replaced_functions import needs_same_steps
from graphc.ir.types import JaxArray

ProductAndSlope = tuple[JaxArray, JaxArray]


def _product_and_slope(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> ProductAndSlope:
    """A product and its tangent, with the same steps for all sizes of such a trace."""
    (x,), (slopes,), axes = primals, tangents, params["axes"]
    if not any(needs_same_steps(x.shape[axis]) for axis in axes):
        result: ProductAndSlope = _JAX_RULE(primals, tangents, **params)
        return result
    other_axes = [axis for axis in range(x.ndim) if axis not in axes]
    shape = prod(x.shape[a] for a in axes), *(x.shape[a] for a in other_axes)
    rows, row_slopes = (
        jnp.reshape(jnp.transpose(v, (*axes, *other_axes)), shape) for v in (x, slopes)
    )
    others = _products_before(rows) * jnp.flip(_products_before(jnp.flip(rows, 0)), 0)
    return reduce_prod_p.bind(x, **params), jnp.sum(others * row_slopes, 0)


def _products_before(rows: JaxArray) -> JaxArray:
    """The product of all rows before each row."""
    return lax.cumprod(jnp.concatenate([jnp.ones_like(rows[:1]), rows[:-1]]))


_JAX_RULE = ad.primitive_jvps[reduce_prod_p]
ad.primitive_jvps[reduce_prod_p] = _product_and_slope
