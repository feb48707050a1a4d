"""Maxima that are subtracted only to keep exponentials from overflowing.

In `softmax` and `logsumexp` one NaN makes the sum of the exponentials NaN, and with it
all results, whatever the maximum is taken to be.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Primitive
from graphc.ir.graph.walk import inputs_of, users_by_value
from graphc.ir.primitives import OP
from graphc.ir.types import is_float

_MOST = 64  # nodes behind a sum that are looked at
_MOVED = {OP.broadcast_to, OP.convert, OP.expand_dims, OP.reshape, OP.squeeze}
# Through these ops a shift stays the same number, or becomes one that serves as well.
_SAME = {*_MOVED, OP.isfinite, OP.maximum, OP.stop_gradient, OP.where}
_MASKED = {OP.convert, OP.multiply, OP.where}  # ops that leave some exponentials out

_UsesByValue = Mapping[Value, list[Node]]


def find_shifts(nodes: Sequence[Node], outputs: Set[Value]) -> set[Node]:
    """The maxima among `nodes` that serve exponentials which are summed."""
    largest = [n for n in nodes if n.primitive in (OP.max, OP.max_from)]
    extremes = [n for n in largest if is_float(n.inputs[0].dtype)]
    if not extremes:
        return set()
    uses = _Uses(users_by_value(nodes, inputs_of), outputs)
    return {node for node in extremes if uses.is_shift(node)}


@dataclass(frozen=True)
class _Uses:
    """The uses of the values of a graph or body."""

    users: _UsesByValue
    outputs: Set[Value]

    def is_shift(self, extreme: Node) -> bool:
        """Whether all that is computed from an extreme is NaN if a sum beside it is.

        This holds for `exp(x - extreme)` where it is divided by or multiplied with what
        depends on the sum of these, and for the extreme plus the logarithm of that sum.
        """
        ends = self._differences_and_sums(extreme)
        if ends is None:
            return False
        differences, beside = ends
        powers: list[Value] = []
        for difference in differences:
            for user in self.users.get(difference, ()):
                if user.primitive is OP.exp:
                    powers.append(user.outputs[0])
                elif user.primitive is OP.where:
                    differences.append(user.outputs[0])
                elif user.primitive is OP.subtract and user.inputs[0] is difference:
                    beside.append(user.inputs[1])
                else:
                    return False
        if not self.outputs.isdisjoint(differences):
            return False
        sums = {n for power in powers for n in self._sums_of(power, extreme)}
        poisoned = self._floats_after(sums)
        return (
            bool(sums)
            and poisoned.issuperset(beside)
            and all(self._is_poisoned(power, sums, poisoned) for power in powers)
        )

    def _differences_and_sums(
        self, extreme: Node
    ) -> tuple[list[Value], list[Value]] | None:
        """The differences from an extreme, and the numbers that it is added to.

        None if the extreme is used for something else.
        """
        differences: list[Value] = []
        beside: list[Value] = []
        for value in self._follow(extreme.outputs[0], _SAME):
            if value in self.outputs:
                return None
            for user in self.users.get(value, ()):
                if user.primitive in _SAME or user.primitive.passes_on:
                    continue
                if user.primitive is OP.add:
                    beside += [v for v in user.inputs if v is not value]
                elif self._subtracts(user, value, extreme):
                    differences.append(user.outputs[0])
                else:
                    return None
        return differences, beside

    def _subtracts(self, user: Node, value: Value, extreme: Node) -> bool:
        """Whether `user` subtracts the extreme from the elements it is taken of."""
        if user.primitive is not OP.subtract or user.inputs[1] is not value:
            return False
        subtracted, _ = _value_and_masks(extreme.inputs[0])
        return _value_and_masks(user.inputs[0])[0] is subtracted

    def _follow(
        self, value: Value, through: Set[Primitive], masks: Set[Value] | None = None
    ) -> Iterator[Value]:
        """Yield `value` and all that the ops in `through` make of it.

        With `masks`, a `where` counts only if its condition is one of them.
        """
        seen, stack = {value}, [value]
        while stack:
            value = stack.pop()
            yield value
            for user in self.users.get(value, ()):
                chooses = user.primitive is OP.where and masks is not None
                if chooses and user.inputs[0] not in (masks or ()):
                    continue
                if user.primitive in through or user.primitive.passes_on:
                    stack += [v for v in user.outputs if v not in seen]
                    seen.update(user.outputs)

    def _sums_of(self, power: Value, extreme: Node) -> Iterator[Node]:
        """Yield the sums of exponentials over at least the axes of the extreme."""
        axes, rank = set(extreme.params["axes"]), extreme.inputs[0].type.rank
        _, masks = _value_and_masks(extreme.inputs[0])
        for value in self._follow(power, _MASKED, masks):
            for user in self.users.get(value, ()):
                is_sum = user.primitive is OP.sum and value.type.rank == rank
                if is_sum and axes <= set(user.params["axes"]):
                    yield user

    def _floats_after(self, sums: Iterable[Node]) -> set[Value]:
        """The floats computed from these sums, nearest first, about `_MOST` at most."""
        values = [v for node in sums for v in node.outputs]
        seen = set(values)
        for value in values:
            if len(seen) > _MOST:
                break
            for user in self.users.get(value, ()):
                chosen = user.inputs[1:] if user.primitive is OP.where else user.inputs
                if any(v is value for v in chosen):
                    floats = [v for v in user.outputs if is_float(v.dtype)]
                    values += [v for v in floats if v not in seen]
                    seen.update(floats)
        return seen

    def _is_poisoned(self, power: Value, sums: Set[Node], nan: Set[Value]) -> bool:
        """Whether all uses of `power` end in its sums or meet a value of `nan`."""
        through = {*_MASKED, *_MOVED, OP.matmul, OP.sum}
        for value in self._follow(power, through):
            if value in nan:
                continue
            if value in self.outputs:
                return False
            for user in self.users.get(value, ()):
                meets = any(v in nan for v in user.inputs)
                if not meets and user not in sums and user.primitive not in through:
                    return False
        return True


def _value_and_masks(value: Value) -> tuple[Value, set[Value]]:
    """A value before masks left elements out of it, and those masks."""
    masks: set[Value] = set()
    while value.node.primitive is OP.where:
        condition, one, other = value.node.inputs
        masks.add(condition)
        value = other if one.type.rank == 0 else one
    return value, masks
