"""Whole arrays that XLA may compute in parts, which it then sends."""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.transform.sharding.combining import PlaceOf
from graphc.transform.sharding.joining import MATRICES
from graphc.transform.sharding.layout import MeshLayout
from graphc.transform.sharding.neighbours import is_put_among_spread, is_shifted
from graphc.transform.sharding.recomputed_values import passes_parts
from graphc.transform.sharding.sent import Gathering

PRODUCTS = OP.matmul, OP.tensordot, OP.einsum


@dataclass(frozen=True)
class Unpinned:
    """Values that devices have whole, though the text of a program does not say so.

    Each device makes the `local` values itself. XLA may compute parts of the `loose`
    values, and surely does so for some that a segment has `parted`.
    """

    layout: MeshLayout
    place: PlaceOf
    local: Set[Value]
    loose: Set[Value]
    parted: Set[Value]

    def is_sent(self, node: Node, has_masks: Callable[[Node], object]) -> bool:
        """Whether XLA may spread inputs of a node, as its result is, and send them.

        XLA does not part the matrices of ops on matrices, nor a few rows put among
        many.
        """
        whole = [v for v in node.inputs if not any(self.place(v))]
        if not passes_parts(node) and not self.parted.isdisjoint(whole):
            return True
        is_whole = len(whole) == len(node.inputs)
        if is_whole and is_shifted(self.layout, node, self.local | self.loose):
            return True
        if node.primitive in (OP.pad, OP.slice_update):
            return is_put_among_spread(self.layout, node)
        is_spread = all(map(self.layout.is_spread, node.inputs))
        product = node.primitive in PRODUCTS and is_spread
        needs = product or node.primitive in MATRICES or has_masks(node)
        return bool(needs) and not self.loose.isdisjoint(node.inputs)


def nodes_perhaps_on_parts(
    parts: Iterable[Value], loose: Set[Value]
) -> Iterator[Gathering]:
    """Yield nodes on whole arrays that XLA may do on parts, as a segment gives parts.

    Parts that such a node takes from others are then sent, as for a running sum.
    """
    stack, seen = [*parts], set[Value]()
    while stack:
        value = stack.pop()
        if value not in loose or value in seen:
            continue
        seen.add(value)
        if passes_parts(value.node):
            stack += value.node.inputs
        else:
            yield Gathering(value.node, 0, frozenset())
