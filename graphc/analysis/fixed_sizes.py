"""Named sizes of axes for which a program takes only one number."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphc.ir.graph.nodes import Guard, Node
from graphc.ir.sizes.dims import Dim, Symbol
from graphc.ir.sizes.polynomials import polynomial


@dataclass(frozen=True)
class OneNumber:
    """The one number that an axis can have, and the node that needs it."""

    symbol: Symbol
    number: int
    node: Node


def pinned_sizes(nodes: Iterable[Node]) -> Iterator[OneNumber]:
    """Yield the named sizes that a guard restricts to one number."""
    listed = set[Symbol]()
    for node in nodes:
        for guard in node.guards:
            one = _pinned_size(guard, node)
            if one is not None and one.symbol not in listed:
                listed.add(one.symbol)
                yield one


def _pinned_size(guard: Guard, node: Node) -> OneNumber | None:
    difference = guard.left - guard.right
    if guard.relation != "==" or not isinstance(difference, Dim):
        return None
    terms = dict(polynomial(difference).items())
    start = terms.pop((), 0)
    match list(terms.items()):
        case [((Symbol(origin=None) as symbol,), slope)] if not start % slope:
            return OneNumber(symbol, -start // slope, node)
    return None
