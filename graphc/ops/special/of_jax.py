"""Special functions with the limits that JAX gives them, for functions that it traces.

Functions of `gt.special` have SciPy's limits on both backends, and another algorithm
where that of JAX loses digits. NumPy programs call SciPy for either.
"""

from functools import partial

from graphc.ops.special.functions import SpecialFunction, computed, declare
from graphc.ops.special.gradients import NOT_FOR, VJP


def _of_jax(name: str, inputs: str) -> SpecialFunction:
    """The function of `jax.scipy.special` of this name, on numbers of any float."""
    primitive = declare(
        f"jax_{name}",
        inputs.count("{"),
        f"`special.{name}`, with the limits that JAX gives it.",
        numpy=f"scipy.special.{name}({inputs})",
        jax=f"jax.scipy.special.{name}({inputs})",
    )
    primitive.no_gradient_for = NOT_FOR.get(name, {})
    primitive.vjp(VJP[name])
    return partial(computed, primitive)


digamma = _of_jax("digamma", "{x}")
gammainc = _of_jax("gammainc", "{x}, {y}")
gammaincc = _of_jax("gammaincc", "{x}, {y}")
zeta = _of_jax("zeta", "{x}, {y}")
