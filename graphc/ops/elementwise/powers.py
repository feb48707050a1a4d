"""The texts of powers, which give NumPy's results where a library has others."""

from types import ModuleType

from graphc.ir.graph.build import literal_of
from graphc.ir.graph.op import Printing
from graphc.ir.types import JaxArray, is_float, is_integer


def power_jax(jnp: ModuleType, x: JaxArray, y: JaxArray) -> JaxArray:
    """Printed into JAX programs: `x**y`, where powers of a complex zero are zero."""
    return jnp.where((x == 0) & (jnp.real(y) > 0), 0, x**y)


def integer_power_jax(jax: ModuleType, x: JaxArray, y: JaxArray) -> JaxArray:
    """Printed into JAX programs: `x**y` of integers, with all bits of the exponents.

    `jax.numpy.power` reads six bits of an exponent.
    """
    jnp = jax.numpy

    def step(state: tuple[JaxArray, ...]) -> tuple[JaxArray, ...]:
        product, base, bits = state
        return jnp.where(bits & 1, product * base, product), base * base, bits >> 1

    def of_all_bits(x: JaxArray, y: JaxArray) -> JaxArray:
        # A negative exponent would never run out of bits.
        base, bits = jnp.broadcast_arrays(x, jnp.maximum(y, 0))
        state = jnp.ones_like(base), base, bits
        return jax.lax.while_loop(lambda s: jnp.any(s[2] != 0), step, state)[0]

    # A Python number takes the dtype of the other; `cond` would make an int64 of it.
    dtype = jnp.result_type(x, y)
    x, y = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
    # Exponents are mostly small: then XLA fuses this into one pass over the arrays.
    return jax.lax.cond(jnp.any(y >= 64), of_all_bits, lambda x, y: x**y, x, y)


def print_in_jax(p: Printing) -> str:
    """Print a power for JAX programs."""
    dtype, exponent = p.node.outputs[0].dtype, literal_of(p.node.inputs[1])
    if dtype.kind == "c":
        return p.call(power_jax, "jnp", *p.inputs)
    if is_integer(dtype) and (exponent is None or (exponent >= 64).any()):
        return p.call(integer_power_jax, "jax", *p.inputs)
    return "{} ** {}".format(*p.inputs)


def print_in_numpy(p: Printing) -> str:
    """Print a power for NumPy programs; that of Python numbers is Python's.

    NumPy computes powers of arrays, even of arrays without axes, by code of its own,
    which gives less than 3 for `27 ** (1 / 3)`. Its scalars use the powers of C.
    """
    output = p.node.outputs[0].type
    is_of_python = output.weak and not output.rank and is_float(output.dtype)
    return " ** ".join(
        f"np.float64({text})" if is_of_python and literal_of(value) is None else text
        for text, value in zip(p.inputs, p.node.inputs, strict=True)
    )
