"""Printing of sorts and searches in NumPy's order, whatever order the library has.

NaN comes last. Complex numbers without NaN come first, then those with NaN in the
imaginary part, in the real part, and in both; XLA compares the real parts first of all.
NumPy compares NaN in bfloat16 arbitrarily, so it sorts as float32, in the same order.
"""

from collections.abc import Sequence
from types import ModuleType

from graphc.ir.graph.op import Printing
from graphc.ir.types import BFLOAT16, JaxArray


def complex_keys_jax(
    jnp: ModuleType, x: JaxArray
) -> tuple[JaxArray, JaxArray, JaxArray, JaxArray]:
    """Printed into JAX programs: keys of `lexsort` for complex numbers."""
    real, imaginary = jnp.real(x), jnp.imag(x)
    no_real, no_imaginary = jnp.isnan(real), jnp.isnan(imaginary)
    imaginary = jnp.where(no_imaginary, 0, imaginary)
    return imaginary, jnp.where(no_real, 0, real), no_imaginary, no_real


def complex_order_jax(jnp: ModuleType, x: JaxArray, axis: int) -> JaxArray:
    """Printed into JAX programs: the positions that sort complex numbers."""
    return jnp.lexsort(complex_keys_jax(jnp, x), axis=axis)


def complex_sorted_jax(jnp: ModuleType, x: JaxArray, axis: int) -> JaxArray:
    """Printed into JAX programs: complex numbers in order."""
    return jnp.take_along_axis(x, complex_order_jax(jnp, x, axis), axis=axis)


def complex_searched_jax(
    jnp: ModuleType, table: JaxArray, x: JaxArray, side: int
) -> JaxArray:
    """Printed into JAX programs: `searchsorted` for complex numbers, by their ranks."""
    keys = complex_keys_jax(jnp, jnp.concatenate([table, x.ravel()]))
    order = jnp.lexsort(keys)
    differs = [key[order][1:] != key[order][:-1] for key in keys]
    ranks = jnp.cumsum(jnp.stack(differs).any(0))
    ranks = jnp.zeros(order.shape, ranks.dtype).at[order[1:]].set(ranks)
    count = table.shape[0]
    places = jnp.searchsorted(ranks[:count], ranks[count:], side=side)
    return places.reshape(x.shape)


def _is_complex(p: Printing) -> bool:
    return p.xp == "jnp" and p.node.inputs[0].dtype.kind == "c"


def _comparable_texts(p: Printing) -> list[str]:
    """The texts of the inputs; NumPy programs compare bfloat16 as float32."""
    narrow = [p.xp == "np" and v.dtype == BFLOAT16 for v in p.node.inputs]
    pairs = zip(p.inputs, narrow, strict=True)
    return [f'{x}.astype("float32")' if is_narrow else x for x, is_narrow in pairs]


def print_sorted(p: Printing) -> str:
    """Return the text of a sorted array."""
    axis, (x,) = p.node.params["axis"], p.inputs
    if _is_complex(p):
        return p.call(complex_sorted_jax, "jnp", x, axis)
    (key,) = _comparable_texts(p)
    back = f".astype({x}.dtype)" if key != x else ""
    # Complex numbers that tie may differ in a sign or a NaN; a stable sort is no
    # slower.
    stable = ', kind="stable"' if p.node.inputs[0].dtype.kind == "c" else ""
    return f"{p.xp}.sort({key}, axis={axis}{stable}){back}"


def print_order(p: Printing) -> str:
    """Return the text of the positions that sort an array."""
    axis, (x,) = p.node.params["axis"], _comparable_texts(p)
    if p.xp == "np":
        return f'np.argsort({x}, axis={axis}, kind="stable")'
    call = f"jnp.argsort({x}, axis={axis}, stable=True)"
    if _is_complex(p):
        call = p.call(complex_order_jax, "jnp", x, axis)
    return f'{call}.astype("int64")'


def print_search(p: Printing) -> str:
    """Return the text of a search for places in a sorted vector."""
    side, (table, x) = p.code(p.node.params["side"]), _comparable_texts(p)
    if _is_complex(p):
        call = p.call(complex_searched_jax, "jnp", table, x, side)
    else:
        call = f"{p.xp}.searchsorted({table}, {x}, side={side})"
    return call if p.xp == "np" else f'{call}.astype("int64")'


def print_lexsort(p: Printing) -> str:
    """Return the text of the order by several keys."""
    axis = p.node.params["axis"]
    if p.xp == "np":
        return f"np.lexsort(({', '.join(_comparable_texts(p))},), axis={axis})"
    keys = ", ".join(_keys(p, p.inputs))
    return f'jnp.lexsort(({keys},), axis={axis}).astype("int64")'


def _keys(p: Printing, names: Sequence[str]) -> list[str]:
    """The texts of the keys in a JAX program; a complex key becomes several."""
    kinds = [v.dtype.kind for v in p.node.inputs]
    return [
        f"*{p.helper(complex_keys_jax)}(jnp, {name})" if kind == "c" else name
        for name, kind in zip(names, kinds, strict=True)
    ]


def row_keys_jax(jnp: ModuleType, rows: JaxArray) -> list[JaxArray]:
    """Printed into JAX programs: the keys of all rows of complex numbers."""
    return [key for row in rows for key in complex_keys_jax(jnp, row)]


def print_lexsort_rows(p: Printing) -> str:
    """Return the text of the order by the rows of a matrix."""
    if p.xp == "np":
        return f"np.lexsort({_comparable_texts(p)[0]})"
    (keys,) = p.inputs
    if _is_complex(p):
        keys = p.call(row_keys_jax, "jnp", keys)
    return f'jnp.lexsort({keys}).astype("int64")'
