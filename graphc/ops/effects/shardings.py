"""Shardings by hand: the mesh axes along which an array lies (`gt.with_sharding`)."""

from collections import Counter
from collections.abc import Iterable

from graphc.errors import graph_error, shortened
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op, type_error, views_of_inputs
from graphc.ir.namespace import enroll, public
from graphc.ir.params.kinds import Text
from graphc.ir.types import TensorType
from graphc.ops.common.padding import PaddedValue, Padding

WHOLE = Text("")  # in the place of a mesh axis: each device has all elements
FREE = Text("?")  # JAX decides, as it does for the axis that `vmap` adds
AxisNames = tuple[Text, ...]


@op()
def _with_sharding(x: Array, *, axes: AxisNames) -> TensorType:
    """`x`, whose axes lie along these axes of a mesh."""
    if len(axes) != x.type.rank:
        raise type_error(
            f"{len(axes)} axes are named for an array that has {x.type.rank}",
            hint="give an axis of the mesh, or None, for each axis of the array",
        )
    counts = Counter(a.content for a in axes if a not in (WHOLE, FREE))
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise type_error(f"two axes of an array cannot both lie along {twice[0]!r}")
    return x.type.like()


def _print_constraint(p: Printing) -> str:
    """Print the sharding if the program has a mesh, else the array as it is."""
    if not p.on_mesh:
        return p.inputs[0]
    names = [_spec(p, axis) for axis in p.node.params["axes"]]
    sharding = f"{p.on_mesh}({', '.join(names)})"
    return f"jax.lax.with_sharding_constraint({p.inputs[0]}, {sharding})"


def _spec(p: Printing, axis: Text) -> str:
    """Print an axis of the mesh for JAX's PartitionSpec, where None means whole."""
    if axis == FREE:
        return "jax.sharding.PartitionSpec.UNCONSTRAINED"
    return "None" if axis == WHOLE else p.code(axis)


_with_sharding.rounding = "none"
_with_sharding.emit(numpy="{x}", jax=_print_constraint)
_with_sharding.views = views_of_inputs
_with_sharding.sizes = lambda x, **_: x
_with_sharding.linear = True
_with_sharding.vjp(lambda g, x, *, axes: (_with_sharding(g, axes=axes),))
_with_sharding.batch(
    lambda n, batched, x, *, axes: _with_sharding(x, axes=(FREE, *axes))
)


@_with_sharding.padding
def _(pad: Padding, x: PaddedValue, *, axes: AxisNames) -> PaddedValue:
    return pad.result(_with_sharding(x.value, axes=axes), x.fill)


enroll(_with_sharding, "_with_sharding")


@public()
def with_sharding(x: ArrayLike, axes: Iterable[str | None]) -> Value:
    """`x`, and thereby its gradient, spread over devices along these axes of the mesh.

    For each axis of `x`, give the name of a mesh axis, or None if each device has all
    of it. The mesh is that of `graphc.function`. Without a mesh, and on NumPy, the
    result is `x` as it is; `explain()` says so.
    """
    value = as_strong_value(x)
    return _with_sharding(value, axes=_axis_texts(axes))


def _axis_texts(axes: object) -> AxisNames:
    """The axes as a param; raises GraphError if they are no row of names."""
    names = axes if isinstance(axes, Iterable) else None
    if names is None or isinstance(axes, str):
        raise _axes_error(axes)
    return tuple([_axis_text(name, axes) for name in names])


def _axis_text(name: object, axes: object) -> Text:
    if name is None:
        return WHOLE
    if not isinstance(name, str) or name in (WHOLE.content, FREE.content):
        raise _axes_error(axes)
    return Text(name)


def _axes_error(axes: object) -> Exception:
    return graph_error(
        "needs the name of an axis of the mesh, or None, for each axis of the array",
        op="with_sharding",
        got=shortened(repr(axes)),
        hint='gt.with_sharding(x, ("data", None))',
    )
