"""`jnp.searchsorted` in a table whose size is a symbol.

JAX halves a range as many times as the size has bits, and counts the bits in Python. In
a trace for many sizes, the program counts the bits when it runs.
"""

from typing import Any

import jax.numpy as jnp
from jax import lax

from graphc.importers.jax.trace.replaced_functions import (
    needs_same_steps,
    replace_in_jax,
)
from graphc.ir.graph.accepted_types import DTypeLike
from graphc.ir.types import JaxArray
from graphc_serving import private_jax


def search_sorted(
    table: JaxArray, queries: JaxArray, side: str, dtype: DTypeLike, unrolled: bool
) -> JaxArray:
    """The positions of queries in a sorted table, by the same steps for all sizes."""
    is_complex = jnp.issubdtype(table.dtype, jnp.complexfloating)
    if is_complex or not needs_same_steps(table.shape[0]):
        places: JaxArray = _JAX_SEARCH(table, queries, side, dtype, unrolled)
        return places
    size = jnp.asarray(table.shape[0], "int32")
    halvings = jnp.sum(size >> jnp.arange(31, dtype="int32") > 0, dtype="int32")

    def step(_: object, bounds: tuple[JaxArray, JaxArray]) -> tuple[JaxArray, JaxArray]:
        low, high = bounds
        middle = low + (high - low) // 2
        element = table.at[middle].get(mode="promise_in_bounds")
        goes_left = _is_before(queries, element, or_equal=side == "left")
        return jnp.where(goes_left, low, middle), jnp.where(goes_left, middle, high)

    start = jnp.zeros(queries.shape, "int32"), jnp.full(queries.shape, size)
    return lax.fori_loop(0, halvings, step, start)[1].astype(dtype)


def _is_before(x: JaxArray, y: JaxArray, *, or_equal: bool) -> JaxArray:
    """Whether x sorts before y; NaN comes last and equals itself."""
    is_last = jnp.isnan(y) if or_equal else jnp.isnan(y) & ~jnp.isnan(x)
    return (x <= y if or_equal else x < y) | is_last


def _replacement(
    sorted_arr: "Any", query: "Any", side: "Any", dtype: "Any", unrolled: "Any"
) -> "Any":
    ours = __import__("graphc.importers.jax.trace.searches", fromlist=["search_sorted"])
    return ours.search_sorted(sorted_arr, query, side, dtype, unrolled)


_JAX_SEARCH = replace_in_jax(private_jax.search_by_halves(), _replacement)
