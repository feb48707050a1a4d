"""Special functions with the limits that JAX gives them, for functions traced by JAX.

Functions of `gt.special` have SciPy's limits on both backends, and another algorithm
where that of JAX loses digits. NumPy programs call SciPy in either case.
"""

from functools import partial

from graphc.ops.special.functions import SpecialFunction, declare, on_floats
from graphc.ops.special.gradients import NOT_FOR, VJP


def _of_jax(name: str, inputs: str) -> SpecialFunction:
    """Declare the function `name` of `jax.scipy.special`, for floats of any dtype."""
    primitive = declare(
        f"jax_{name}",
        inputs.count("{"),
        f"`special.{name}`, with the limits that JAX gives it.",
        numpy=f"scipy.special.{name}({inputs})",
        jax=f"jax.scipy.special.{name}({inputs})",
    )
    primitive.no_gradient_for = NOT_FOR.get(name, {})
    primitive.vjp(VJP[name])
    return partial(on_floats, primitive)


digamma = _of_jax("digamma", "{x}")
gammainc = _of_jax("gammainc", "{x}, {y}")
gammaincc = _of_jax("gammaincc", "{x}, {y}")
zeta = _of_jax("zeta", "{x}, {y}")
