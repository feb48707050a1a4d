"""The sizes whose numbers stand in the text of a program."""

from collections.abc import Iterable

from graphc.ir.graph.nodes import Node, entries_of
from graphc.ir.sizes.dims import Dim, Symbol

Keys = frozenset[Symbol]
NOTHING: Keys = frozenset()


def printed(node: Node) -> Keys:
    """The symbols whose numbers stand in the text of this node."""
    if not node.params and not node.guards:
        return NOTHING
    symbols: set[Symbol] = set()
    add_symbols(entries_of(node.params), symbols)
    for guard in node.guards:
        add_symbols((guard.left, guard.right), symbols)
    return frozenset(symbols)


def add_symbols(sizes: Iterable[object], symbols: set[Symbol]) -> None:
    """Put the symbols of those of `sizes` that are symbolic into a set."""
    for size in sizes:
        if isinstance(size, Dim):
            symbols.update(size.symbols)
