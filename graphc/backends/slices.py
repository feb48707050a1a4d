"""Slices of arrays that loops stack, at places unknown to XLA.

A chain of blocks that was rolled into a loop gives one array for each kind of result.
Users ask for the part of each block, or for the parameter that it updates. For slices
at known places XLA compiles a kernel each; for those whose places are known only when
the program runs, it compiles one kernel for all that are otherwise the same.
"""

from collections.abc import Iterable, Sequence
from types import ModuleType

from graphc.analysis.cost import slices_pay_alike
from graphc.backends.source import PrintedBody
from graphc.ir.graph.bodies import has_bodies
from graphc.ir.graph.nodes import Node, Value
from graphc.rewriting.loops.roll.repeats import slice_position


class AlikeSlices:
    """Prints slices of a body at places unknown to XLA, if they are many enough."""

    def __init__(self, body: PrintedBody, nodes: Iterable[Node]) -> None:
        self._body = body
        self._places: dict[Node, str] = {}  # by loop
        slices = {node for node in nodes if self._stack(node) is not None}
        self._slices = slices if slices_pay_alike(len(slices)) else set[Node]()

    def _stack(self, node: Node) -> Value | None:
        """The stack, made by a loop, that `node` slices at a known place, if any."""
        if not node.outputs or node.outputs[0]._symbol is not None:
            return None
        if slice_position(node.outputs[0]) is None:
            return None
        stack = self._body.module.resolve(node.inputs[0])
        known = isinstance(stack.type.shape[0], int)
        return stack if known and has_bodies(stack.node) else None

    def print(self, node: Node) -> None:
        """Print a node, as a slice at an unknown place if it is one of these slices."""
        if node in self._slices:
            self._print_slice(node)
        else:
            self._body.node(node)

    def _print_slice(self, node: Node) -> None:
        (value,), stack = node.outputs, self._stack(node)
        assert stack is not None
        body, module = self._body, self._body.module
        if stack.node not in self._places:
            places = self._places[stack.node] = module.names.unique("places")
            arguments = f"jax, {body.value(stack)}, {stack.type.shape[0]}"
            body.line(f"{places} = {module.helper(unknown_places)}({arguments})")
        place = f"{self._places[stack.node]}[{slice_position(value)}]"
        text = f"jax.lax.dynamic_index_in_dim({body.value(stack)}, {place}, 0, False)"
        name = module.value_name(value)
        body.line(f"{name} = {text}  # {module.type_text(value)}")
        body.bind(value, name)


def unknown_places(
    jax: ModuleType, stack: Sequence[object], count: int
) -> Sequence[object]:
    """Printed into programs: the numbers below `count`, which XLA takes for unknown.

    XLA makes a kernel for each slice at a known place, and one kernel for all the
    others.
    """
    jnp = jax.numpy
    first = jnp.real(jnp.sum(jnp.ravel(stack)[:1])).astype("float32")
    never = (first != first) & (first == first)

    def numbers(step: int) -> Sequence[object]:
        return [jnp.uint32(i * step) for i in range(count)]

    places: Sequence[object] = jax.lax.cond(
        never, lambda: numbers(0), lambda: numbers(1)
    )
    return places
