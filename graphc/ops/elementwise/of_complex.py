"""JAX texts of complex ufuncs that agree with NumPy for numbers that are not finite."""

from types import ModuleType

from graphc.ir.graph.op import Emit, Printing
from graphc.ir.types import JaxArray


def complex_extreme_jax(
    jnp: ModuleType, name: str, x: JaxArray, y: JaxArray
) -> JaxArray:
    """Printed into JAX programs: the extreme of complex numbers, with NumPy's NaNs."""
    chosen = getattr(jnp, name)(x, y)
    if name.startswith("f"):
        return jnp.where(jnp.isnan(y), x, jnp.where(jnp.isnan(x), y, chosen))
    return jnp.where(jnp.isnan(x), x, jnp.where(jnp.isnan(y), y, chosen))


def complex_sign_jax(jax: ModuleType, x: JaxArray) -> JaxArray:
    """Printed into JAX programs: the sign of complex numbers that may be infinite."""
    jnp = jax.numpy
    far = jnp.isinf(x.real), jnp.isinf(x.imag)
    ends = (
        jnp.where(is_far, jnp.sign(part), 0)
        for is_far, part in zip(far, (x.real, x.imag), strict=True)
    )
    return jnp.where(far[0] ^ far[1], jax.lax.complex(*ends), jnp.sign(x))


def _extreme_printer(name: str) -> Emit:
    def printed(p: Printing) -> str:
        x, y = p.inputs
        if p.node.outputs[0].dtype.kind != "c":
            return f"jnp.{name}({x}, {y})"
        return p.call(complex_extreme_jax, "jnp", repr(name), x, y)

    return printed


def _print_sign(p: Printing) -> str:
    (x,) = p.inputs
    if p.node.outputs[0].dtype.kind != "c":
        return f"jnp.sign({x})"
    return p.call(complex_sign_jax, "jax", x)


OF_COMPLEX: dict[str, Emit] = {
    **{name: _extreme_printer(name) for name in ("maximum", "minimum", "fmax", "fmin")},
    "sign": _print_sign,
}
