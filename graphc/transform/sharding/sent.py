"""Messages and gathered arrays of a segment, with their bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.sizes.dims import Dim, Size, Symbol, substitute
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.layout import MeshLayout


class Unforeseen(Exception):
    """Raised where no rule says where a result lies."""


@dataclass(frozen=True)
class Gathering:
    """A node, and the bytes that it gathers along axes of the mesh, to each device."""

    node: Node
    bytes: Size
    axes: frozenset[str]


@dataclass
class Messages:
    """The bytes of a segment's messages, by kind, and the nodes that no rule covers.

    The bytes are those of the results on each device, in terms of stored sizes. Nodes
    without a rule may gather all of their inputs that is spread.
    """

    bytes: dict[str, Size] = field(default_factory=dict)
    gathers: list[Gathering] = field(default_factory=list)
    unforeseen: list[Gathering] = field(default_factory=list)

    def add(self, kind: str, size: Size) -> None:
        """Count one more message."""
        self.bytes[kind] = self.bytes.get(kind, 0) + size

    def add_body(self, inner: "Messages", sizes: Mapping[Symbol, Size]) -> None:
        """Count the messages of a body too, whose sizes are `sizes` outside of it."""
        for kind, size in inner.bytes.items():
            self.add(kind, substitute(size, sizes))
        self.gathers += [_gathering_outside(one, sizes) for one in inner.gathers]
        self.unforeseen += [_gathering_outside(one, sizes) for one in inner.unforeseen]


def _gathering_outside(one: Gathering, sizes: Mapping[Symbol, Size]) -> Gathering:
    return replace(one, bytes=substitute(one.bytes, sizes))


def gathering_of(node: Node, places: Mapping[Value, MeshAxes]) -> Gathering:
    """The gathering, by a node, of all values that are spread at these places."""
    spread = [value for value, axes in places.items() if any(axes)]
    axes = frozenset([a for v in spread for a in places[v] if a is not None])
    return Gathering(node, sum(v.type.nbytes for v in spread), axes)


def possible_gathering(
    layout: MeshLayout, node: Node, places: Mapping[Value, MeshAxes]
) -> Gathering:
    """The most that a node without a rule may gather of the values at these places.

    XLA may spread whole values too, and gather them.
    """
    gathering = gathering_of(node, places)
    if gathering.axes:
        return gathering
    spread = gathering_of(node, {v: layout.nearly_even_place(v) for v in places})
    size = spread.bytes if spread.axes else sum(v.type.nbytes for v in node.inputs)
    return replace(gathering, bytes=size)


def is_left_out(node: Node, places: Mapping[Value, MeshAxes]) -> bool:
    """Whether XLA leaves out the messages of a node whose inputs are at these places.

    It does so where no result, or no input that is spread, has elements.
    """
    spread = [value for value, axes in places.items() if any(axes)]
    return any(all(map(_is_empty, vs)) for vs in (spread, node.outputs) if vs)


def _is_empty(value: Value) -> bool:
    return any(n == 0 for n in value.type.shape if not isinstance(n, Dim))


def inputs_of_nodes(nodes: Iterable[Node]) -> set[Value]:
    """The values that nodes take."""
    return {v for node in nodes for v in node.inputs}
