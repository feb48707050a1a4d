"""Comparisons of elements; those of int64 with uint64 are exact, as NumPy's are."""

import operator
from collections.abc import Callable
from types import ModuleType

import numpy as np

from graphc.ir.graph.op import Emit, Printing
from graphc.ir.sizes.dims import Size
from graphc.ir.sizes.truths import at_most, below, differ, same
from graphc.ir.types import JaxArray
from graphc.ops.common.known_integers import by_item
from graphc.ops.elementwise.declare import elementwise

_NO_GRADIENT = "its results are bools or integers"


def order_of_int64(jnp: ModuleType, x: JaxArray, y: JaxArray) -> JaxArray:
    """Printed into JAX programs: -1, 0 or 1, as int64s are below, at or above uint64s.

    JAX would compare them as floats, which have 53 bits.
    """
    same_bits = jnp.asarray(x, "int64").astype("uint64")
    above = (same_bits > y).astype("int8")
    return jnp.where(x < 0, -1, above - (same_bits < y).astype("int8"))


def _in_jax(sign: str) -> Emit:
    """The printer of a comparison in JAX programs, for all pairs of dtypes."""

    def printed(p: Printing) -> str:
        x, y = p.inputs
        dtypes = [str(v.dtype) for v in p.node.inputs]
        if dtypes == ["int64", "uint64"]:
            return f"{p.helper(order_of_int64)}(jnp, {x}, {y}) {sign} 0"
        if dtypes == ["uint64", "int64"]:
            return f"0 {sign} {p.helper(order_of_int64)}(jnp, {y}, {x})"
        return f"{x} {sign} {y}"

    return printed


_COMPARE: dict[str, tuple[str, Callable[..., bool], Callable[..., Size]]] = {
    "equal": ("==", operator.eq, same),
    "not_equal": ("!=", operator.ne, differ),
    "less": ("<", operator.lt, below),
    "less_equal": ("<=", operator.le, at_most),
    "greater": (">", operator.gt, lambda a, b: below(b, a)),
    "greater_equal": (">=", operator.ge, lambda a, b: at_most(b, a)),
}
for _name, (_sign, _compares, _truth) in _COMPARE.items():
    _ufunc = getattr(np, _name)
    elementwise(
        _name,
        f"{{x}} {_sign} {{y}}",
        _ufunc,
        compares=_compares,
        sizes=by_item(_truth, 2),
        jax=_in_jax(_sign),
        no_gradient=_NO_GRADIENT,
    )
