"""Ops that need axes whole on each device, which JAX then gathers.

XLA cannot part these ops along such an axis: it fails, or ends the process. Everything
else it parts, or gathers by itself.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from graphc.ir.graph.bodies import has_inner, within
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import Dim
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.layout import MeshLayout

# The axes, of the inputs and the results alike, that are to be whole.
WHOLE: RuleTable[Callable[[Node], Iterable[int]]] = RuleTable("axes that stay whole")
WHOLE.define(OP.fft, lambda node: node.params["axes"])


@dataclass(frozen=True)
class Gathered:
    """A node, and where its inputs and results lie so that it has them whole.

    The `sent` inputs are those that devices have parts of before. Others and results
    are given too: what is done with results may ask for parts of them.
    """

    node: Node
    inputs: Mapping[Value, MeshAxes]
    outputs: Mapping[Value, MeshAxes]
    sent: tuple[Value, ...]

    @property
    def is_apart(self) -> bool:
        """Whether devices do the node on what they have, along the other axes.

        XLA does not part these ops along any axis. A body is left to it.
        """
        lies = [*self.inputs.values(), *self.outputs.values()]
        return not has_inner(self.node) and all(map(any, lies))


def gathered(layout: MeshLayout, node: Node) -> Gathered | None:
    """The arrays that a node needs whole; None where it may be parted along all axes.

    One with such an op in a body needs all of everything.
    """
    rule = WHOLE.find(node.primitive)
    if rule is not None:
        axes = set(rule(node))
    elif has_inner(node) and any(n.primitive in WHOLE for n in within([node])):
        values = *node.inputs, *node.outputs
        axes = {a for v in values for a in range(v.type.rank)}
    else:
        return None
    inputs = {v: _without(layout, v, axes) for v in node.inputs if v.type.rank}
    outputs = {v: _without(layout, v, axes) for v in node.outputs if v.type.rank}
    sent = tuple([v for v in inputs if _parted(layout, v) & axes])
    return Gathered(node, inputs, outputs, sent)


def _parted(layout: MeshLayout, value: Value) -> set[int]:
    """The axes whose elements may be spread over devices."""
    return {
        axis
        for axis, size in enumerate(value.type.shape)
        if isinstance(size, Dim) and not layout.axes.keys().isdisjoint(size.symbols)
    }


def _without(layout: MeshLayout, value: Value, axes: Iterable[int]) -> MeshAxes:
    """Where a value lies with these axes whole."""
    before = layout.of(value) or (None,) * value.type.rank
    return tuple([None if a in axes else name for a, name in enumerate(before)])
