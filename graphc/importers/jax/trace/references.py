"""Replace references to memory that a function makes with arrays."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from graphc.importers.jax.read.jaxprs import equations, is_array_type, open_jaxpr
from graphc_serving import private_jax

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr


def without_references(jaxpr: "ClosedJaxpr") -> "ClosedJaxpr":
    """Return a trace in which arrays replace the references that the function makes.

    A trace of a function that takes or captures references stays as it is, since writes
    to them are visible elsewhere.
    """
    inner = open_jaxpr(jaxpr)[0]
    if not inner.effects:
        return jaxpr
    outside = [*inner.invars, *inner.constvars, *inner.outvars]
    within = [v for eqn in equations(inner) for v in eqn.outvars]
    discharge = private_jax.discharge_state()
    if discharge is None or _are_all_arrays(within) or not _are_all_arrays(outside):
        return jaxpr
    try:
        pure: ClosedJaxpr = discharge(jaxpr)
    except NotImplementedError:  # for some primitive, JAX cannot do so
        return jaxpr
    return pure


def _are_all_arrays(atoms: Iterable[Any]) -> bool:
    return all(is_array_type(atom.aval) for atom in atoms)
