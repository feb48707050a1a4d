"""Carries that start as Python numbers, in the dtypes that a step gives them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.control.carries import variable_like
from graphc.ir.graph.bodies import StepResult
from graphc.ir.graph.build import cast, default_dtype, strong
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.replay import region_between
from graphc.ir.primitives import OP
from graphc.ir.types import TensorType
from graphc.ops.common.broadcasting import common_dtype

# From carries to those after a step, and whatever else is computed from them.
Trial = Callable[[list[Value]], StepResult]


@dataclass(frozen=True)
class FirstCarry:
    """The carries before the first step, and the types as which the user sees them."""

    carries: list[Value]
    in_steps: list[TensorType]
    at_end: list[TensorType]

    def seen_by_step(self, carry: Sequence[Value]) -> list[Value]:
        """The carries as a step gets them."""
        return _cast_to(carry, self.in_steps)

    def final_carries(self, ends: Sequence[Value]) -> list[Value]:
        """The final carries; those that are numbers after each step stay weak."""
        return _cast_to(ends, self.at_end)


def _cast_to(carry: Sequence[Value], types: Sequence[TensorType]) -> list[Value]:
    pairs = zip(carry, types, strict=True)
    return [cast(v, type.dtype, type.weak) for v, type in pairs]


def settle_types(first: Sequence[Value], trial: Trial) -> FirstCarry:
    """Settle the types of the first carries, as `jax.lax.scan` does.

    A Python number takes the dtype that a step gives it. If steps leave it a Python
    number, it has the default dtype, but acts as a number where steps compute with it
    and an array of another dtype.
    """
    first, outputs, numbers = list(first), list[Value](), list[Value]()
    is_settled = not any(v.type.weak for v in first)
    while not is_settled:
        numbers = [variable_like(v) for v in first]
        after, more = trial(numbers)
        promoted = [_promoted(v, new) for v, new in zip(first, after, strict=True)]
        types = [v.type for v in promoted]
        is_settled = types == [v.type for v in first]
        first, outputs = promoted, [*after, *more]
    carries = [strong(v) for v in first]
    strong_types, types = ([v.type for v in values] for values in (carries, first))
    numbers = [v for v in numbers if v.type.weak]
    matters = any(map(_depends_on_weak, region_between(outputs, numbers)))
    return FirstCarry(carries, types if matters else strong_types, types)


def _promoted(first: Value, after: Value) -> Value:
    """The carry, converted to the dtype that a step gives it if it is a number."""
    if not first.type.weak or (after.type.weak and after.dtype == first.dtype):
        return first
    if after.type.weak:
        wide = max(first, after, key=lambda v: "uifc".index(v.dtype.kind))
        return cast(first, wide.dtype, True)
    return cast(first, common_dtype([first, after]))


def _depends_on_weak(node: Node) -> bool:
    """Whether a node would give another dtype if its numbers were arrays."""
    numbers = [v for v in node.inputs if v.type.weak]
    if node.primitive is not OP.convert:
        return bool(numbers) and not node.primitive.elementwise
    (result,) = node.outputs
    if not numbers or result.type.weak:
        return False
    strong_dtype = default_dtype(numbers[0].dtype)
    return not np.can_cast(strong_dtype, result.dtype, "safe")
