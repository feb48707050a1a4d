"""Loops that may stop before their last row: which rows have a step, and the others.

What such a loop stacks has a row for each step that there may be; where there is none
it is zero. So a reduction of these rows is one of those done, if the others do not
count in it: as behind `where(arange(n) < steps, x, 0)`, which is what rules make of
what is selected and then summed up. In the body that mask always holds.
"""

from typing import Any

import numpy as np

from graphc.ir.build import literal_of
from graphc.ir.dims import Dim, symbol_dim
from graphc.ir.graph import Node, Value, known_sizes, origins
from graphc.ir.types import same_shape
from graphc.ops.masking import least, most
from graphc.rewriting.loops.gathers import counts, plain
from graphc.rewriting.loops.loop import Loop

# Of equal elements these give the same again.
SAME = (
    *("expand_dims", "squeeze", "transpose", "broadcast_to", "reshape", "convert"),
    *("basic_index", "assert", "max", "min", "any", "all"),
)
NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("max", "max_from"), least),
    **dict.fromkeys(("min", "min_from"), most),
    "prod": lambda dtype: 1,
    "all": lambda dtype: True,
    **dict.fromkeys(
        ("sum", "sum_of_squares", "count_nonzero", "peak", "any", "basic_index"),
        lambda dtype: 0,
    ),
}


class Undone:
    """What stands in the rows of steps that are not done."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.masks: set[Value] = set()
        self._held: set[Value] = set()  # true for each step that is done
        self._fills: dict[Value, Any] = {}
        if loop.stops:
            self._fills.update((v, np.zeros((), v.dtype)[()]) for v in loop.stacked)

    def is_mask(self, node: Node) -> bool:
        """Whether a node tells which steps are done; it is taken note of."""
        if not self._loop.stops or node.primitive.name != "less":
            return False
        index, steps = node.inputs
        if steps.type.rank or index.type.rank != 1:
            return False
        if not counts(index, 0, self._loop.length) or not self._are_done(steps):
            return False
        mask = node.outputs[0]
        self.masks.add(mask)
        self._held.add(mask)
        self._fills[mask] = np.False_
        return True

    def _are_done(self, value: Value) -> bool:
        """Whether a number is that of the steps that are done."""
        steps = self._loop.given[0]
        while plain(value) is not steps:
            sizes = known_sizes(plain(value))
            size: Any = 0 if sizes is None else sizes[()]
            if not isinstance(size, Dim) or size is not symbol_dim(size.symbols[0]):
                return False
            made = origins(size)
            if not made or made[0].node.primitive.name != "steps":
                return False
            (value,) = made[0].node.inputs
        return True

    def visit(self, node: Node) -> None:
        """Take note of what a node makes of them."""
        fill = self._fill(node) if self._loop.stops else None
        if fill is not None:
            self._fills[node.outputs[0]] = fill
        if node.primitive.name in SAME and node.inputs[0] in self._held:
            self._held.add(node.outputs[0])

    def _fill(self, node: Node) -> Any:
        name, inputs = node.primitive.name, node.inputs
        if name == "where":
            mask, _, other = inputs
            hidden = self._of(mask) is not None and not self._of(mask)
            return self._of(other) if hidden else None
        if name == "logical_and":
            both = [self._of(x) for x in inputs]
            hidden = any(fill is not None and not fill for fill in both)
            return np.False_ if hidden else None
        fill = self._of(inputs[0]) if inputs else None
        if fill is None or (name == "sum" and fill):
            return None
        return fill.astype(node.outputs[0].dtype) if name in (*SAME, "sum") else None

    def _of(self, value: Value) -> Any:
        """The number in all of them; None where it is not known."""
        if value in self._fills:
            return self._fills[value]
        literal = literal_of(value)
        return None if literal is None or literal.size != 1 else literal.flat[0]

    def count_nothing(self, node: Node) -> bool:
        """Whether they do not change what a node reduces them to."""
        if not self._loop.stops:
            return True
        value, name = node.inputs[0], node.primitive.name
        fill = self._fills.get(value)
        if fill is None or name not in NEUTRAL:
            return False
        return bool(fill == NEUTRAL[name](value.dtype))

    def are_zero(self, value: Value) -> bool:
        """Whether they are 0, as they are in whatever such a loop stacks."""
        fill = self._fills.get(value)
        return not self._loop.stops or (fill is not None and not fill)

    def passed(self, node: Node) -> Value | None:
        """What a node gives for all steps that are done, where it changes nothing."""
        if node.primitive.name != "where" or node.inputs[0] not in self._held:
            return None
        value = node.inputs[1]
        alike = same_shape(value.type.shape, node.outputs[0].type.shape)
        return value if alike else None
