"""References to memory that a function makes: where none is left, arrays do as well."""

from typing import TYPE_CHECKING, Any

from graphc.importers.jax.read.jaxprs import equations, is_array_type, opened
from graphc_serving import private_jax

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr, JaxprEqn

MAKING = "new_ref", "empty_ref"


def without_references(jaxpr: "ClosedJaxpr") -> "ClosedJaxpr":
    """A trace in which arrays stand for the references that the function makes.

    It stays as it is where the function takes or captures some: what is written there
    is seen elsewhere.
    """
    inner = opened(jaxpr)[0]
    if not inner.effects or not any(map(_makes, equations(inner))):
        return jaxpr
    outside: list[Any] = [*inner.invars, *inner.constvars, *inner.outvars]
    discharge = private_jax.discharge_state()
    if discharge is None or not all(is_array_type(v.aval) for v in outside):
        return jaxpr
    try:
        pure: ClosedJaxpr = discharge(jaxpr)
    except NotImplementedError:  # of a primitive for which JAX knows no such form
        return jaxpr
    return pure


def _makes(eqn: "JaxprEqn") -> bool:
    """Whether an equation makes a reference."""
    return eqn.primitive.name in MAKING
