"""Access to jaxprs and their equations by JAX's public extension API."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.core
import jax.dtypes
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, jaxprs_in_params

from graphc.ir.graph.accepted_types import DTypeLike
from graphc.ir.types import ConcreteArray

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr

    # A type of jaxlib, which has no annotations.
    PyTreeDef: TypeAlias = jax.tree_util.PyTreeDef  # pyright: ignore[reportInvalidTypeForm]


def open_jaxpr(jaxpr: Any) -> tuple[Jaxpr, Sequence[Any]]:
    """Return a jaxpr, which may be closed, without and with its constants."""
    return getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())


def equations(jaxpr: "Jaxpr | ClosedJaxpr") -> Iterator[JaxprEqn]:
    """The equations of a jaxpr and of all jaxprs inside it; each jaxpr counts once."""
    stack, seen = [open_jaxpr(jaxpr)[0]], set[int]()
    while stack:
        inner = stack.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        for eqn in inner.eqns:
            yield eqn
            stack += [open_jaxpr(j)[0] for j in jaxprs_in_params(eqn.params)]


def apply_equation(eqn: JaxprEqn, inputs: Sequence[object]) -> list[object]:
    """Apply an equation to other inputs, which may be traced."""
    primitive: Any = eqn.primitive
    with eqn.ctx.manager:
        results = primitive.bind(*inputs, **primitive.get_bind_params(eqn.params))
    return list(results) if primitive.multiple_results else [results]


def is_array_type(aval: object) -> bool:
    """Whether a type of JAX is an array's, rather than a token's or a reference's."""
    return isinstance(aval, jax.core.ShapedArray)


def largest_result(eqn: JaxprEqn) -> int:
    """The number of elements of an equation's largest array."""
    avals: list[Any] = [v.aval for v in eqn.outvars if is_array_type(v.aval)]
    return max((math.prod(aval.shape) for aval in avals), default=0)


def array_type(
    shape: Sequence[object], dtype: DTypeLike, weak: bool = False
) -> jax.core.ShapedArray:
    """A type of JAX, whose sizes may be symbols, to trace a function with.

    A `ShapeDtypeStruct` would lose 64 bits if x64 is off.
    """
    make: Any = jax.core.ShapedArray
    aval: jax.core.ShapedArray = make(tuple(shape), dtype, weak_type=weak)
    return aval


def zero_tangent(array: ConcreteArray) -> Any:
    """The tangent, or cotangent, of an array whose elements are no floats."""
    return np.zeros(array.shape, jax.dtypes.float0)


def is_key(dtype: DTypeLike) -> bool:
    """Whether a dtype of JAX is that of random keys."""
    return jnp.issubdtype(dtype, jax.dtypes.prng_key)


def words_of(array: Any) -> Any:
    """The array itself or, for keys, their words."""
    return jax.random.key_data(array) if is_key(array.dtype) else array


def is_gone(array: object) -> bool:
    """Whether this is an array of JAX that was deleted, as one is that was donated."""
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return False
    concrete: Any = array
    return bool(concrete.is_deleted())


def array_of(words: Any, aval: Any) -> Any:
    """Turn words into keys if `aval` is of keys; other arrays stay as they are."""
    return jax.random.wrap_key_data(words) if is_key(aval.dtype) else words
