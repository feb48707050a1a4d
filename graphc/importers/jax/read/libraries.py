"""Rules of primitives that libraries define, which do not depend on sizes.

The libraries are not imported: their primitives are known by name. Some of these
primitives, and those of JAX's sparse matrices, are lowered by a JAX function, which is
read in their place. Their params hold sizes in various forms, and functions that know
sizes. So before traces at several sizes are combined, such equations are replaced.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn
from jax.extend.core.primitives import closed_call_p

from graphc.importers.jax.read.calls import (
    expansion_of,
    rule_for_call,
    struct_of,
    with_own_rule,
)
from graphc.importers.jax.read.jaxprs import equations, open_jaxpr
from graphc.importers.jax.read.reader import Equation, place_of, rule_calling
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.types import JaxArray

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr


def _sparse_product(
    numbers: JaxArray,
    places: JaxArray,
    dense: JaxArray,
    *,
    dimension_numbers: Any,
    lhs_spinfo: Any,
    preferred_element_type: Any,
) -> JaxArray:
    """Multiply a matrix, which is 0 except for `numbers` at `places`, by a dense array.

    Places out of bounds are padding and count for nothing.
    """
    (mine, theirs), (many, _) = dimension_numbers
    if many or places.ndim != 2 or numbers.ndim != 1:
        raise NotImplementedError("its batch axes and dense axes are not known here")
    shape, columns = lhs_spinfo.shape, list(jnp.moveaxis(places, 1, 0))
    inside = jnp.full(numbers.shape, True)
    for at, n in zip(columns, shape, strict=True):
        inside &= at < n
    result_axes = [a for a in range(len(shape)) if a not in mine]
    others = [b for b in range(dense.ndim) if b not in theirs]
    rows = jnp.transpose(dense, (*theirs, *others))
    rows = rows.at[tuple([columns[a] for a in mine])].get(mode="fill", fill_value=0)
    weights = jnp.expand_dims(jnp.where(inside, numbers, 0), range(1, rows.ndim))
    dtype = preferred_element_type or jnp.result_type(numbers, dense)
    products = (weights * rows).astype(dtype)
    if not result_axes:
        return products.sum(0)
    result = jnp.zeros((*[shape[a] for a in result_axes], *rows.shape[1:]), dtype)
    where = tuple([columns[a] for a in result_axes])
    return result.at[where].add(products, mode="drop")


_WRITTEN = {"bcoo_dot_general": _sparse_product}
LOWERED = (
    *("linear_solve", "vprim", *_WRITTEN),
    *("bcoo_dot_general_sampled", "bcoo_extract", "bcoo_fromdense", "bcoo_todense"),
    *("bcoo_sort_indices", "bcoo_spdot_general", "bcoo_sum_duplicates"),
    *("bcoo_transpose", "bcsr_extract", "bcsr_fromdense", "bcsr_todense"),
)

PRIMITIVES.define("custom_partitioning")(rule_for_call("call"))


@PRIMITIVES.define("nonbatchable", "nontraceable", "nondifferentiable_backward")
def _as_it_is(_: Equation, x: Value) -> Value:
    """The value itself: equinox forbids some transformations, which are done by now."""
    return x


@PRIMITIVES.define("select_if_vmap")
def _select_if_vmap(_: Equation, _keeps: Value, new: Value, _old: Value) -> Value:
    """The new value: under `vmap`, equinox has already turned this into a choice."""
    return new


# Equinox reduces conditions and numbers over all examples.
PRIMITIVES.define("unvmap_all")(rule_calling(F.all))
PRIMITIVES.define("unvmap_any")(rule_calling(F.any))
PRIMITIVES.define("unvmap_max")(rule_calling(F.max))


@PRIMITIVES.define("maybe_set")
def _maybe_set(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """Write into a buffer of equinox at an index, as JAX lowers this primitive."""
    return with_own_rule(eqn, _read_lowered(eqn, inputs), inputs)


@PRIMITIVES.define(*LOWERED)
def _solved(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """Read a solver of lineax, a primitive under `vmap`, or one of sparse arrays."""
    if eqn.reader.keeps_rules:
        raise Unsupported(f"{eqn.eqn.primitive.name}: JAX knows its derivative")
    eqn.require_own_functions()
    return with_own_rule(eqn, _read_lowered(eqn, inputs), inputs)


def _read_lowered(eqn: Equation, inputs: Sequence[Value]) -> list[Value]:
    """Read the JAX function that a primitive is lowered by."""
    return eqn.body(_trace_lowering(eqn.eqn), inputs)


def _trace_lowering(eqn: JaxprEqn) -> "ClosedJaxpr":
    """Trace the JAX function that the primitive of an equation is lowered by.

    Raises Unsupported if it is not a function of JAX.
    """
    primitive: Any = eqn.primitive
    operands = [struct_of(atom.aval) for atom in eqn.invars]
    of_jax: Callable[..., object] = primitive.impl
    function = _WRITTEN.get(eqn.primitive.name, of_jax)
    try:
        jaxpr = jax.make_jaxpr(partial(function, **eqn.params))(*operands)
    except Exception as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise Unsupported(f"{primitive.name}: {line}", place_of(eqn)) from None
    called: Any = jaxpr
    while len(eqns := open_jaxpr(called)[0].eqns) == 1 and "jaxpr" in eqns[0].params:
        called = eqns[0].params["jaxpr"]
    if [e.primitive for e in eqns] == [primitive]:  # with others, it may solve parts
        problem = f"{primitive.name}: it calls something that is not a function of JAX"
        raise Unsupported(problem, place_of(eqn))
    return jaxpr


def lowered(jaxpr: "ClosedJaxpr") -> "ClosedJaxpr":
    """Replace primitives in a trace at numbers with the functions that lower them."""
    if any(map(_is_lowered, equations(jaxpr))):
        new: ClosedJaxpr = _Lowering().param(jaxpr)
        return new
    return jaxpr


class _Lowering:
    """Replaces equations in a jaxpr; a jaxpr that is used repeatedly stays shared."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Any]] = {}  # by identity, kept alive

    def param(self, param: Any) -> Any:
        """Return a param with the equations in it replaced."""
        if isinstance(param, (tuple, list)) and not hasattr(param, "_fields"):
            return type(param)(map(self.param, param))
        if hasattr(param, "_fields"):
            return type(param)(*map(self.param, param))
        if not isinstance(open_jaxpr(param)[0], Jaxpr):
            return param
        if id(param) not in self._known:
            self._known[id(param)] = param, self._jaxpr(param)
        return self._known[id(param)][1]

    def _jaxpr(self, jaxpr: Any) -> Any:
        inner: Any = open_jaxpr(jaxpr)[0]
        new = inner.replace(eqns=[*map(self._equation, inner.eqns)])
        return jaxpr.replace(jaxpr=new) if hasattr(jaxpr, "consts") else new

    def _equation(self, eqn: Any) -> Any:
        if not _is_lowered(eqn):
            return eqn.replace(params={k: self.param(v) for k, v in eqn.params.items()})
        expands = eqn.primitive.name not in LOWERED
        function = expansion_of(eqn) if expands else _trace_lowering(eqn)
        params = {"call_jaxpr": self.param(function)}
        return eqn.replace(primitive=closed_call_p, params=params)


def _is_lowered(eqn: JaxprEqn) -> bool:
    """Whether a function replaces a primitive, or its expansion by JAX does."""
    expands = hasattr(eqn.params.get("_prim"), "expand")
    return eqn.primitive.name in LOWERED or expands
