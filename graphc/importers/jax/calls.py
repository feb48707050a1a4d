"""Rules of primitives that call functions: what these compute stands in their place."""

from collections.abc import Callable

import jax
import numpy as np

from graphc.importers.jax.reader import Equation, opened
from graphc.importers.jax.rules import PRIMITIVES
from graphc.importers.jax.unsupported import Unsupported
from graphc.ir.build import as_value
from graphc.ir.graph import Value
from graphc.ir.namespace import F
from graphc.ir.types import is_inexact


def _called(param: str) -> Callable[..., list[Value]]:
    def rule(eqn: Equation, *inputs: Value) -> list[Value]:
        return eqn.body(eqn.params[param], inputs)

    return rule


_SIGNBIT = ["bitcast_convert_type", "shift_right_arithmetic", "convert_element_type"]


@PRIMITIVES.define("jit")
def _jit(eqn: Equation, *inputs: Value) -> list[Value]:
    """What the function computes; signs are read from bits, which is an op here."""
    inner, _ = opened(eqn.params["jaxpr"])
    own = [e.primitive.name for e in inner.eqns]
    if eqn.params["name"] == "signbit" and own == _SIGNBIT:
        return [F.signbit(*inputs)]
    return eqn.body(eqn.params["jaxpr"], inputs)


PRIMITIVES.define("closed_call")(_called("jaxpr"))
PRIMITIVES.define("core_call", "custom_jvp_call", "custom_vjp_call")(
    _called("call_jaxpr")
)


@PRIMITIVES.define("checkpoint", "remat", "remat2")
def _remat(eqn: Equation, *inputs: Value) -> list[Value]:
    """A function whose values are made anew for its gradient.

    Where it is done again, its inputs pass a barrier: the same nodes on the same values
    would be those of the first time, which then had to be kept.
    """
    if not eqn.params.get("differentiated"):
        return eqn.body(eqn.params["jaxpr"], inputs)
    after = inputs[-1:]
    anew = [F._barrier(v, *after) if is_inexact(v.dtype) else v for v in inputs]
    return eqn.body(eqn.params["jaxpr"], anew)


@PRIMITIVES.define("optimization_barrier")
def _optimization_barrier(_: Equation, *inputs: Value) -> list[Value]:
    """The inputs, once all of them are there."""
    return [F._barrier(v, *inputs) for v in inputs]


@PRIMITIVES.define("custom_linear_solve")
def _custom_linear_solve(eqn: Equation, *inputs: Value) -> list[Value]:
    """The solution, by the solver that was given."""
    counts, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    start = counts.matvec + counts.vecmat
    solver = inputs[start : start + counts.solve]
    return eqn.body(jaxprs.solve, [*solver, *inputs[sum(counts) :]])


@PRIMITIVES.define("device_put")
def _device_put(eqn: Equation, *inputs: Value) -> list[Value]:
    """The values, where they are already."""
    if any(d is not None for d in eqn.params.get("devices", ())):
        raise Unsupported("device_put: graphs name no devices")
    return list(inputs)


_COLLECTIVE = ("all_gather", "all_to_all", "axis_index", "pmax", "pmin", "ppermute")
PRIMITIVES.refuse(
    "graphs know nothing of several devices",
    *_COLLECTIVE,
    *("psum", "ragged_all_to_all", "sharding_constraint", "reduce_scatter"),
    *("shard_map", "xla_pmap", "pbroadcast", "pvary", "reshard"),
)
PRIMITIVES.refuse(
    "it changes what is outside of the function",
    *("after_all", "create_token", "get", "swap", "addupdate"),
    *("debug_callback", "debug_print", "io_callback", "pure_callback"),
)
PRIMITIVES.refuse(
    "it is for transformations of JAX in progress",
    *("call", "call_hi_primitive", "custom_lin", "empty2", "eval_jaxpr"),
)


@PRIMITIVES.define("platform_index")
def _platform_index(eqn: Equation) -> Value:
    """Which of some groups of platforms that is for which programs are compiled."""
    own = {jax.default_backend()}
    own |= {"cuda", "rocm"} if "gpu" in own else set()
    for i, group in enumerate(eqn.params["platforms"]):
        if group is None or not own.isdisjoint(group):
            return as_value(np.asarray(i, eqn.result.dtype))
    raise Unsupported(f"platform_index: nothing is said for {', '.join(own)}")
