"""The sizes whose numbers stand in the text of a program."""

from collections.abc import Iterator

from graphc.ir.graph.nodes import Node, entries_of
from graphc.ir.sizes.dims import Symbol, symbols_in

Keys = frozenset[Symbol]
NOTHING: Keys = frozenset()


def printed_symbols(node: Node) -> Keys:
    """The symbols whose numbers stand in the text of this node."""
    return frozenset(printed_in_order(node)) if node.params or node.guards else NOTHING


def printed_in_order(node: Node) -> Iterator[Symbol]:
    """Yield `printed_symbols` as they occur; sets differ in order by process."""
    for param in entries_of(node.params):
        yield from symbols_in(param)
    for guard in node.guards:
        yield from (*symbols_in(guard.left), *symbols_in(guard.right))
