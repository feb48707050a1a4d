"""Largest elements that only keep exponentials from overflowing.

In `softmax` and `logsumexp` one NaN makes the sum of the exponentials NaN, and so all
that follows, whatever number the largest element is taken to be.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP

# A shift is the same number in these, or one that serves as well.
_SAME = {
    *(OP.broadcast_to, OP.convert, OP.expand_dims, OP.isfinite, OP.maximum),
    *(OP.reshape, OP.squeeze, OP.stop_gradient, OP.where),
}
_SUMS = {OP.einsum, OP.matmul, OP.sum, OP.tensordot}
_MASKED = {OP.convert, OP.multiply, OP.where}  # of exponentials, before they are summed

_UsesByValue = Mapping[Value, list[Node]]


def shifts(nodes: Iterable[Node], outputs: Set[Value], carried: bool) -> set[Node]:
    """The extremes among `nodes` of which nothing but exponentials is computed.

    Where `carried`, the `outputs` are those of a body, which may go on to its next
    step.
    """
    users: dict[Value, list[Node]] = {}
    extremes: list[Node] = []
    for node in nodes:
        for value in dict.fromkeys(node.inputs):
            users.setdefault(value, []).append(node)
        if node.primitive in (OP.max, OP.max_from):
            extremes.append(node)
    search = _Uses(users, outputs, carried)
    return {node for node in extremes if search.is_shift(node.outputs[0])}


@dataclass
class _Uses:
    """Follows the uses of a value; `_summed`: some exponentials of it were."""

    users: _UsesByValue
    outputs: Set[Value]
    carried: bool
    _summed: bool = field(default=False, init=False)

    def is_shift(self, value: Value) -> bool:
        """Whether all uses of a value end in exponentials, and some in their sum."""
        self._summed = False
        seen, stack = {value}, [value]
        while stack:
            value = stack.pop()
            if value in self.outputs and not self.carried:
                return False
            for user in self.users.get(value, ()):
                if user.primitive in _SAME or user.primitive.passes_on:
                    stack += [v for v in user.outputs if v not in seen]
                    seen.update(user.outputs)
                elif not self._ends(user, value):
                    return False
        return self._summed

    def _ends(self, user: Node, value: Value) -> bool:
        """Whether a use is `exp(x - value)` or `value + log(sum)`."""
        if user.primitive is OP.add:
            return any(v.node.primitive is OP.log for v in user.inputs)
        if user.primitive is not OP.subtract or user.inputs[1] is not value:
            return False
        (difference,) = user.outputs
        if difference in self.outputs:
            return False
        return all(map(self._is_power, self.users.get(difference, ())))

    def _is_power(self, user: Node) -> bool:
        """Whether it is `exp(difference)`, or `difference - log(sum)`."""
        if user.primitive is OP.exp:
            self._summed |= self._is_summed(user.outputs[0])
            return True
        if user.primitive in (OP.subtract, OP.where):
            return user.primitive is OP.where or _is_log(user.inputs[1])
        return False

    def _is_summed(self, value: Value) -> bool:
        seen, stack = {value}, [value]
        while stack:
            for user in self.users.get(stack.pop(), ()):
                if user.primitive in _SUMS:
                    return True
                if user.primitive in _MASKED and user.outputs[0] not in seen:
                    seen.add(user.outputs[0])
                    stack.append(user.outputs[0])
        return False


def _is_log(value: Value) -> bool:
    """Whether it is a logarithm, perhaps with other axes."""
    while value.node.primitive in (OP.expand_dims, OP.broadcast_to, OP.reshape):
        value = value.node.inputs[0]
    return value.node.primitive is OP.log
