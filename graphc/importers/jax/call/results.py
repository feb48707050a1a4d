"""Results of calls, as JAX returns them: their structure, weak types, and keys."""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import jax
import jax.dtypes
import jax.numpy as jnp
from jax.extend.core.primitives import convert_element_type_p

from graphc.importers.jax.read.jaxprs import array_of, is_key
from graphc.importers.jax.trace.tracing import TracedFunction
from graphc.ir.types import ConcreteArray
from graphc_serving import private_jax

if TYPE_CHECKING:
    from graphc.importers.jax.read.jaxprs import PyTreeDef

ONE_LEAF = jax.tree.structure(0)


def in_structure(tree: "PyTreeDef") -> Callable[[list[ConcreteArray]], object]:
    """Return a function that puts a list of leaves into the structure of a tree."""
    if tree == ONE_LEAF:  # `unflatten` would change nothing here, yet take time
        return itemgetter(0)
    unflatten: Callable[[list[ConcreteArray]], object] = tree.unflatten
    return unflatten


def as_distinct_arrays(
    results: list[ConcreteArray], inputs: Iterable[object]
) -> list[ConcreteArray]:
    """Copy results so that each is an array of its own, which its owner may donate."""
    identities = {*map(id, results)}
    if len(identities) == len(results) and identities.isdisjoint(map(id, inputs)):
        return results
    taken = set(map(id, inputs))
    copies = []
    for x in results:
        copies.append(x.copy() if id(x) in taken else x)
        taken.add(id(x))
    return copies


def as_jax_results(
    outputs: Sequence[ConcreteArray], function: TracedFunction
) -> list[ConcreteArray]:
    """Turn plain arrays into results as JAX returns them: with weak types, and keys.

    Outputs of the graph after the results are dropped.
    """
    avals = [v.aval for v in function.inner.outvars]
    results = outputs[: len(avals)]
    return [_as_jax_result(x, aval) for x, aval in zip(results, avals, strict=True)]


def needs_conversion(result: Any) -> bool:
    """Whether a result must be converted from a plain array."""
    aval = result.aval
    weak = getattr(aval, "weak_type", False)
    return weak or is_key(aval.dtype) or aval.dtype == jax.dtypes.float0


def _as_jax_result(x: ConcreteArray, aval: Any) -> Any:
    if aval.dtype == jax.dtypes.float0:
        return jnp.zeros(x.shape, jax.dtypes.float0)
    x = array_of(x, aval)
    return _with_weak_type(x) if getattr(aval, "weak_type", False) else x


def _with_weak_type(x: ConcreteArray) -> ConcreteArray:
    """Give an array a weak type, without compiling anything unless it is traced."""
    if not isinstance(x, jax.core.Tracer):
        weak: ConcreteArray | None = private_jax.of_weak_type(x)
        if weak is not None:
            return weak
    how = {"new_dtype": x.dtype, "weak_type": True, "sharding": None}
    converted: ConcreteArray = convert_element_type_p.bind(x, **how)
    return converted
