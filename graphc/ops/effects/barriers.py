"""Identity ops that transformations respect: they stop gradients, or sharing."""

from types import ModuleType

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, Shared, op, views_of_inputs
from graphc.ir.namespace import enroll, public
from graphc.ir.sizes.dims import Size
from graphc.ir.types import JaxArray, TensorType
from graphc.ops.common.batching import Batched
from graphc.ops.common.padding import PaddedValue, Padding


@op()
def _stop_gradient(x: Array) -> TensorType:
    """`x`, which derivatives treat as a constant."""
    return x.type.like()


_stop_gradient.rounding = "none"
_stop_gradient.emit(numpy="{x}", jax="jax.lax.stop_gradient({x})")
_stop_gradient.views = views_of_inputs
_stop_gradient.sizes = lambda x: x
_stop_gradient.zero_gradient()
_stop_gradient.elementwise = True


@public()
def stop_gradient(x: ArrayLike) -> Value:
    """`x`, treated as a constant in derivatives."""
    return _stop_gradient(as_strong_value(x))


@op()
def _barrier(x: Array, *after: Array) -> TensorType:
    """`x`, once `after` is computed: what follows from it is computed anew."""
    return x.type.like()


def _print_barrier(p: Printing) -> str:
    return f"jax.lax.optimization_barrier(({', '.join(p.inputs)},))[0]"


_barrier.rounding = "none"
_barrier.emit(numpy="{x}", jax=_print_barrier)
_barrier.views = views_of_inputs


@_barrier.vjp
def _(g: Value, x: Value, *after: Value) -> tuple[Value | None, ...]:
    return (g, *[None] * len(after))


@_barrier.batch
def _(n: Size, batched: Batched, x: Value, *after: Value) -> Value | Shared:
    waiting = _barrier(x, *after)
    return waiting if batched[0] else Shared(waiting)


@_barrier.padding
def _(pad: Padding, x: PaddedValue, *after: PaddedValue) -> PaddedValue:
    return pad.result(_barrier(x.value, *(r.value for r in after)), x.fill)


enroll(_barrier, "_barrier")
BARRIER = _barrier


@op()
def _pinned(x: Array) -> TensorType:
    """`x`, each element of which is computed only once, however many nodes use it."""
    return x.type


def pinned(jax: ModuleType, x: JaxArray) -> JaxArray:
    """Printed into JAX programs: `x` behind a barrier that no fusion crosses.

    On CPUs, some versions of XLA drop barriers before they fuse loops. They keep calls
    that are marked as not to be inlined.
    """

    def on_cpu(x: JaxArray) -> JaxArray:
        with jax.experimental.xla_metadata.set_xla_metadata(inlineable="false"):
            return jax.jit(jax.lax.optimization_barrier)(x)

    barrier = jax.lax.optimization_barrier
    return jax.lax.platform_dependent(x, cpu=on_cpu, default=barrier)


_pinned.rounding = "stored"
_pinned.elementwise = _pinned.linear = True
_pinned.views = views_of_inputs
_pinned.vjp(lambda g, x: (g,))
_pinned.sizes = lambda x: x
_pinned.imports["jax"] = "jax.experimental.xla_metadata"
_pinned.emit(numpy="{x}", jax=lambda p: p.call(pinned, "jax", p.inputs[0]))
enroll(_pinned, "_pinned")
PINNED = _pinned
