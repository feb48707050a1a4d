"""Errors of JAX about sizes that depend on values, with the way out that there is."""

import jax

OF_SIZES = (
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
WAY_OUT = """

graphc can compile it: write the function with the names of numpy (np.nonzero, not
jnp.nonzero), and give it as graphc.jit(function, frontend="numpy"). Sizes may depend on
data there, as in x[mask], np.nonzero(x), np.unique(x) and np.arange(k)."""


def tell_way_out(error: Exception) -> None:
    """Add to the text of an error of JAX how graphc compiles such functions.

    A number that Python itself asks for, as `if x > 0` does, is known in neither way.
    """
    by_python = isinstance(error, jax.errors.TracerBoolConversionError)
    if isinstance(error, OF_SIZES) and not by_python:
        error.args = (f"{error}{WAY_OUT}", *error.args[1:])
