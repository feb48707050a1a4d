"""Inverses of the incomplete gamma and beta functions, Owen's T and 2F1.

On JAX the inverses solve for the function as it is computed there, so they are as
accurate as it is: mostly to 100 units, to a few thousand where the function is that
flat. Subnormal results are 0 there. JAX programs call SciPy for 2F1 too, on the host.
"""

from graphc.ir.graph.op import PRIMITIVES, Printing
from graphc.ops.special import inverse_series as series
from graphc.ops.special.functions import special


def _gamma_inverse(upper: bool) -> None:
    name = "gammainccinv" if upper else "gammaincinv"
    side = "upper" if upper else "lower"

    def printed(p: Printing) -> str:
        return p.call(series.inverse_incomplete_gamma, *p.inputs, upper, "jax")

    doc = f"The x at which the {side} incomplete gamma function of (a, x) is y."
    special(name, 2, doc, jax=printed)


_gamma_inverse(upper=False)
_gamma_inverse(upper=True)


special(
    "betaincinv",
    3,
    "The x at which the incomplete beta function I_x(a, b) is y.",
    jax=lambda p: p.call(series.inverse_incomplete_beta, *p.inputs, "jax"),
)


special(
    "hyp2f1",
    4,
    "Gauss's hypergeometric function F(a, b; c; x) of real numbers.",
    jax=lambda p: p.call(series.hypergeometric, *p.inputs, "jax", "scipy"),
)
PRIMITIVES["hyp2f1"].imports["jax"] = "scipy.special"  # on the host


special(
    "owens_t",
    2,
    "Owen's T: the chance of X > h and 0 < Y < a X, of two standard normal numbers.",
    jax=lambda p: p.call(series.owens_function, *p.inputs, "jax"),
)
