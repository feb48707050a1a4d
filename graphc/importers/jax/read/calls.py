"""Rules of primitives that call functions, which are read in place of the call."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn

from graphc.importers.jax.read.jaxprs import (
    apply_equation,
    array_type,
    open_jaxpr,
    zero_tangent,
)
from graphc.importers.jax.read.reader import Equation
from graphc.importers.jax.read.rules import ONE_DEVICE, PRIMITIVES
from graphc.importers.jax.read.settings import for_many_sizes
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.build import as_value, literal_of
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.types import ConcreteArray, is_inexact, is_integer
from graphc.transform.derivatives.checkpoint import checkpoint
from graphc.transform.derivatives.custom_vjp import SizeTuple, with_gradient_rule

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr


def rule_for_call(param: str) -> Callable[..., list[Value]]:
    """Return the rule of a primitive that calls the jaxpr in a param."""

    def rule(eqn: Equation, *inputs: Value) -> list[Value]:
        return eqn.body(eqn.params[param], inputs)

    return rule


_SIGNBIT = ["bitcast_convert_type", "shift_right_arithmetic", "convert_element_type"]


_PERCENTILES = "percentile", "nanpercentile"


@PRIMITIVES.define("jit")
def _jit(eqn: Equation, *inputs: Value) -> list[Value]:
    """Read the called function; `signbit`, which JAX reads from bits, is an op here.

    XLA divides percentiles that are integers by 100 as if they were no constants.
    """
    inner, _ = open_jaxpr(eqn.params["jaxpr"])
    primitives = [e.primitive.name for e in inner.eqns]
    if eqn.params["name"] == "signbit" and primitives == _SIGNBIT:
        return [F.signbit(*inputs)]
    if eqn.params["name"] in _PERCENTILES:
        late = [is_integer(v.dtype) and literal_of(v) is not None for v in inputs]
        pairs = zip(inputs, late, strict=True)
        inputs = tuple(F._barrier(v) if is_late else v for v, is_late in pairs)
    return eqn.body(eqn.params["jaxpr"], inputs)


PRIMITIVES.define("closed_call", "core_call", "eval_jaxpr")(rule_for_call("call_jaxpr"))


@PRIMITIVES.define("composite")
def _composite(eqn: Equation, *inputs: Value) -> list[Value]:
    """Read the function a composite stands for; its param differs by JAX version."""
    params = eqn.params
    return eqn.body(params.get("jaxpr") or params["call_jaxpr"], inputs)


@PRIMITIVES.define("linear_call")
def _linear_call(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """Read a linear function that has a transposition rule of its own."""
    if eqn.reader.keeps_rules:
        raise Unsupported("linear_call: JAX knows its rule")
    return with_own_rule(eqn, eqn.body(eqn.params["callee"], inputs), inputs)


@PRIMITIVES.define("custom_jvp_call", "custom_vjp_call")
def _custom(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """Read a function that has a derivative rule of its own, which JAX pulls back."""
    if eqn.reader.keeps_rules:
        raise Unsupported(f"{eqn.eqn.primitive.name}: JAX knows its derivative")
    return with_own_rule(eqn, eqn.body(eqn.params["call_jaxpr"], inputs), inputs)


@PRIMITIVES.define("custom_vmap_call")
def _custom_vmap(eqn: Equation, *inputs: Value) -> list[Value]:
    """Read a function with its own rule for `vmap`, unless the rule may be needed."""
    if eqn.reader.keeps_rules or eqn.reader.differentiates:
        raise Unsupported("custom_vmap_call: JAX knows its rule for vmap")
    return eqn.body(eqn.params["call"], inputs)


def with_own_rule(
    eqn: Equation, results: Sequence[Value], inputs: Sequence[Value]
) -> Sequence[Value]:
    """Return `results`, with the derivative of the equation itself if one is needed."""
    if not eqn.reader.differentiates:
        return results
    eqn.require_own_functions()

    def rule(
        arguments: list[Value],
        cotangents: list[Value],
        needed: list[bool],
        _: SizeTuple,
    ) -> list[Value | None]:
        return _pull_back(eqn, arguments, cotangents)

    return with_gradient_rule(results, inputs, rule, eqn.eqn.primitive.name)


def _pull_back(
    eqn: Equation, arguments: Sequence[Value], cotangents: Sequence[Value]
) -> list[Value | None]:
    """The cotangents of an equation's inputs, as JAX computes them."""
    floats = [is_inexact(v.dtype) for v in arguments]

    def pull(
        inputs: Sequence[ConcreteArray], slopes: Sequence[ConcreteArray]
    ) -> list[ConcreteArray]:
        results, pulled = jax.vjp(_function_applying(eqn), *inputs)
        pairs = zip(slopes, results, strict=True)
        float_slopes = [g if _is_float(r) else zero_tangent(r) for g, r in pairs]
        return [g for g, keep in zip(pulled(float_slopes), floats, strict=True) if keep]

    primals, results = (
        [struct_of(atom.aval) for atom in part]
        for part in (eqn.eqn.invars, eqn.eqn.outvars)
    )
    rules = eqn.reader.pulled
    if id(eqn.eqn) not in rules:
        rules[id(eqn.eqn)] = eqn.eqn, jax.make_jaxpr(pull)(primals, results)
    pulled = iter(eqn.body(rules[id(eqn.eqn)][1], [*arguments, *cotangents]))
    return [next(pulled) if keep else None for keep in floats]


def _function_applying(eqn: Equation) -> Callable[..., list[Any]]:
    """Return a function that applies an equation, including its rules."""

    def function(*inputs: object) -> list[object]:
        return apply_equation(eqn.eqn, inputs)

    return function


def struct_of(aval: Any) -> object:
    """An abstract argument for tracing, with the type of a JAX value."""
    return array_type(aval.shape, aval.dtype)


def _is_float(array: ConcreteArray) -> bool:
    return jnp.issubdtype(array.dtype, jnp.inexact)


@PRIMITIVES.define("checkpoint", "remat", "remat2")
def _remat(eqn: Equation, *inputs: Value) -> list[Value]:
    """Read a function whose values are recomputed for its gradient.

    If JAX has differentiated it already, the inputs pass a barrier. Otherwise the
    recomputation would consist of the same nodes on the same values as the first
    computation, whose results would then have to be kept.
    """
    if eqn.reader.differentiates:
        again = checkpoint(lambda *values: eqn.body(eqn.params["jaxpr"], values))
        return list(again(*inputs))
    if not eqn.params.get("differentiated"):
        return eqn.body(eqn.params["jaxpr"], inputs)
    after = inputs[-1:]
    anew = [F._barrier(v, *after) if is_inexact(v.dtype) else v for v in inputs]
    return eqn.body(eqn.params["jaxpr"], anew)


@PRIMITIVES.define("optimization_barrier")
def _optimization_barrier(_: Equation, *inputs: Value) -> list[Value]:
    """Return the inputs once all of them have been computed."""
    return [F._barrier(v, *inputs) for v in inputs]


@PRIMITIVES.define("custom_linear_solve")
def _custom_linear_solve(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """Solve with the given solver; the derivative is implicit."""
    if eqn.reader.keeps_rules:
        raise Unsupported("custom_linear_solve: JAX knows its derivative")
    counts, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    start = counts.matvec + counts.vecmat
    solver = inputs[start : start + counts.solve]
    solution = eqn.body(jaxprs.solve, [*solver, *inputs[sum(counts) :]])
    return with_own_rule(eqn, solution, inputs)


@PRIMITIVES.define("call_hi_primitive")
def _call_hi_primitive(eqn: Equation, *inputs: Value) -> list[Value]:
    """Read the primitives into which JAX expands this one."""
    eqn.require_own_functions()
    return eqn.body(expansion_of(eqn.eqn), inputs)


def expansion_of(eqn: JaxprEqn) -> "ClosedJaxpr":
    """Trace the primitives into which JAX expands a composite primitive.

    Raises Unsupported if the primitive does not define its expansion.
    """
    primitive: Any = eqn.params["_prim"]
    if not hasattr(primitive, "expand"):
        raise Unsupported("call_hi_primitive: it does not say what it expands to")
    operands = [struct_of(atom.aval) for atom in eqn.invars]
    with for_many_sizes():
        return jax.make_jaxpr(primitive.expand)(*operands)


@PRIMITIVES.define("device_put")
def _device_put(eqn: Equation, *inputs: Value) -> list[Value]:
    """Return the values, which must already be on the device."""
    if not all(map(_is_here, eqn.params.get("devices", ()))):
        raise Unsupported("device_put: graphs do not name devices")
    return list(inputs)


@PRIMITIVES.define("sharding_constraint")
def _sharding_constraint(eqn: Equation, x: Value) -> Value:
    """Return the value; it needs no layout if there is one device."""
    if not _is_here(eqn.params["sharding"]):
        raise Unsupported(f"sharding_constraint: {ONE_DEVICE}")
    return x


def _is_here(place: object) -> bool:
    """Whether a device or sharding names only the one device that exists."""
    if place is None:
        return True
    if jax.device_count() > 1 or getattr(place, "memory_kind", None) == "pinned_host":
        return False
    (only,) = jax.devices()
    return place == only or getattr(place, "device_set", ()) == {only}


PRIMITIVES.refuse(
    ONE_DEVICE,
    *("all_gather", "all_to_all", "axis_index", "ppermute"),
    *("ragged_all_to_all", "reduce_scatter"),
    *("shard_map", "xla_pmap", "pbroadcast", "pvary", "reshard"),
)
PRIMITIVES.refuse(
    "it reads or changes something outside of the function",
    *("after_all", "create_token", "get", "swap", "addupdate"),
)
PRIMITIVES.refuse(
    "it occurs only while JAX transforms a function",
    *("call", "custom_lin"),
)


@PRIMITIVES.define("platform_index")
def _platform_index(eqn: Equation) -> Value:
    """The position of the group of platforms that programs are compiled for."""
    platforms = {jax.default_backend()}
    platforms |= {"cuda", "rocm"} if "gpu" in platforms else set()
    for i, group in enumerate(eqn.params["platforms"]):
        if group is None or not platforms.isdisjoint(group):
            return as_value(np.asarray(i, eqn.result.dtype))
    raise Unsupported(f"platform_index: it has no case for {', '.join(platforms)}")
