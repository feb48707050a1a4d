"""Rules of primitives that libraries define, which do not depend on sizes.

Libraries are not asked for: their primitives are known by name. Some of them are
lowered by a function of JAX, which is then read in their place.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax

from graphc.importers.jax.read.calls import called_of, struct_of, with_own_rule
from graphc.importers.jax.read.jaxprs import equations
from graphc.importers.jax.read.reader import Equation
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F

PRIMITIVES.define("custom_partitioning")(called_of("call"))


@PRIMITIVES.define("nonbatchable", "nontraceable", "nondifferentiable_backward")
def _as_it_is(_: Equation, x: Value) -> Value:
    """The value, of which equinox forbids transformations that are done by now."""
    return x


@PRIMITIVES.define("select_if_vmap")
def _select_if_vmap(_: Equation, _keeps: Value, new: Value, _old: Value) -> Value:
    """The new value: under `vmap`, equinox has made it a choice already."""
    return new


@PRIMITIVES.define("unvmap_all")
def _unvmap_all(_: Equation, x: Value) -> Value:
    """Whether all examples hold, of equinox."""
    return F.all(x)


@PRIMITIVES.define("unvmap_any")
def _unvmap_any(_: Equation, x: Value) -> Value:
    """Whether any example holds, of equinox."""
    return F.any(x)


@PRIMITIVES.define("unvmap_max")
def _unvmap_max(_: Equation, x: Value) -> Value:
    """The largest value of all examples, of equinox."""
    return F.max(x)


@PRIMITIVES.define("maybe_set")
def _maybe_set(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """A buffer of equinox, written to at an index, by what that is done with."""
    return with_own_rule(eqn, _computed(eqn, inputs), inputs)


@PRIMITIVES.define("linear_solve", "vprim")
def _solved(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """The results of lineax, or of a primitive under `vmap`, with their derivative."""
    if eqn.reader.keeps_rules:
        raise Unsupported(f"{eqn.eqn.primitive.name}: JAX knows its derivative")
    eqn.need_own_functions()
    return with_own_rule(eqn, _computed(eqn, inputs), inputs)


def _computed(eqn: Equation, inputs: Sequence[Value]) -> list[Value]:
    """The results of the function of JAX that a primitive is lowered by.

    Raises Unsupported where it is no such function.
    """
    primitive: Any = eqn.eqn.primitive
    operands = [struct_of(atom.aval) for atom in eqn.eqn.invars]
    try:
        jaxpr = jax.make_jaxpr(partial(primitive.impl, **eqn.params))(*operands)
    except Exception as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise Unsupported(f"{primitive.name}: {line}") from None
    within = list(equations(jaxpr))
    if any(e.primitive is primitive for e in within):
        raise Unsupported(f"{primitive.name}: it calls what is no function of JAX")
    return eqn.body(jaxpr, inputs)
