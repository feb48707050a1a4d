"""Values that each device computes whole, as that moves fewer bytes than a gather.

A matrix of distances between rows is larger than the rows: where an op needs the matrix
whole, the rows are gathered, and each device computes all of the matrix.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.types import same_size
from graphc.ops.common.monoids import MONOIDS
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.layout import comparable_size

Moves = Mapping[Value, MeshAxes]
_VIEWS = OP.expand_dims, OP.squeeze, OP.transpose, OP.reshape
_TOO_MANY = 2**99  # bytes, for values that are computed only once
_CHEAP = (*_VIEWS, OP.broadcast_to, OP.basic_index, OP.pad, *MONOIDS.rules)


def passes_parts(node: Node) -> bool:
    """Whether parts of a result are computed from the same parts of an operand."""
    return node.primitive.elementwise or node.primitive in (*_VIEWS, OP.broadcast_to)


def viewed_array(value: Value) -> Value:
    """The array that a value is a view of: the same elements in another shape."""
    while value.node.primitive in _VIEWS:
        (value,) = value.node.inputs
    return value


def array_repeated_along(value: Value, axis: int) -> Value | None:
    """The array that a value repeats along an axis; None where it repeats none."""
    if value.node.primitive is not OP.broadcast_to:
        return None
    (operand,) = value.node.inputs
    at = axis - value.type.rank + operand.type.rank
    return operand if at < 0 or same_size(operand.type.shape[at], 1) else None


@dataclass(frozen=True)
class _FewestBytes:
    """The fewest bytes that devices move to have values whole."""

    place: Callable[[Value], MeshAxes]
    is_made: Callable[[Value], bool]
    known: dict[Value, int] = field(default_factory=dict)

    def visit(self, node: Node) -> None:
        """Find the fewest bytes for results of a node, after those for its inputs."""
        for value in node.outputs:
            fewest = self.fewest(value)
            self.known[value] = min(fewest, self.of_inputs(node)) if fewest else 0

    def fewest(self, value: Value) -> int:
        """The fewest bytes for one value."""
        if not any(self.place(value)) or self.is_made(value):
            return 0
        return self.known.get(value, self.bytes_of_whole(value))

    def bytes_of_whole(self, value: Value) -> int:
        """The bytes of the value itself."""
        return comparable_size(value.type.nbytes)

    def of_inputs(self, node: Node) -> int:
        """The fewest bytes for the inputs of a node that devices may compute whole."""
        if not (node.primitive.elementwise or node.primitive in _CHEAP):
            return _TOO_MANY
        return sum(map(self.fewest, dict.fromkeys(node.inputs)))

    def is_computed(self, value: Value) -> bool:
        """Whether devices had better compute a value whole than gather it."""
        if value not in self.known or self.is_made(value):
            return False
        node = value.node
        alike = node.primitive in _VIEWS or any(map(self.is_made, node.inputs))
        saved = self.bytes_of_whole(value) - self.of_inputs(node)
        return saved > 0 or (alike and saved == 0)


def find_recomputed(
    moves: Mapping[Node, Moves],
    place: Callable[[Value], MeshAxes],
    is_made: Callable[[Value], bool],
) -> dict[Value, Node]:
    """The values that devices compute whole, and the nodes that need them so.

    `moves` are the moves for nodes in order; `place` tells where values lie before.
    """
    sizes = _FewestBytes(place, is_made)
    for node in moves:
        sizes.visit(node)
    asking: dict[Value, Node] = {}
    for node in reversed([*moves]):
        demanded = [v for v, axes in moves[node].items() if not any(axes)]
        users = [asking[v] for v in node.outputs if v in asking]
        for value in node.inputs if users else demanded:
            if sizes.is_computed(value):
                asking.setdefault(value, (*users, node)[0])
    return asking


def shared_values(
    demands: Mapping[Node, Moves],
    place: Callable[[Value], MeshAxes],
    whole: Mapping[Value, Node],
) -> list[Value]:
    """The values that some nodes take where they lie, and others at another place.

    `demands` are the places where nodes take values. To compute a result `whole`, a
    node takes all its inputs whole.
    """
    users = Counter(v for node in demands for v in dict.fromkeys(node.inputs))
    leaving = dict.fromkeys(
        v for moves in demands.values() for v, axes in moves.items() if axes != place(v)
    )
    for node in demands:
        if not whole.keys().isdisjoint(node.outputs):
            leaving |= dict.fromkeys(v for v in node.inputs if any(place(v)))
    return [v for v in leaving if users[v] > 1 and v not in whole]


def masks_needed_twice(
    parted: Set[Value], whole: Set[Value], is_made: Callable[[Value], bool]
) -> set[Value]:
    """The masks that are needed both by parts and whole.

    XLA would part such masks, and gather what is made of them. From a chain of masks,
    the last ones are enough.
    """
    both = _masks_behind(parted, is_made) & _masks_behind(whole, is_made)
    used = {v for v in both if v.node.primitive.elementwise for v in v.node.inputs}
    beyond = (_masks_behind(parted, is_made) | _masks_behind(whole, is_made)) - both
    leaving = {v for value in beyond for v in value.node.inputs}
    return {v for v in both if v not in used or v in leaving | parted | whole}


def _masks_behind(
    values: Iterable[Value], is_made: Callable[[Value], bool]
) -> set[Value]:
    """The made ones of `values`, and those that they are computed from elementwise."""
    behind, pending = set[Value](), [*values]
    while pending:
        value = pending.pop()
        if value not in behind and value.type.rank and is_made(value):
            behind.add(value)
            if passes_parts(value.node):
                pending += value.node.inputs
    return behind
