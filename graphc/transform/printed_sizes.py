"""The sizes whose numbers stand in the text of a program."""

from collections.abc import Iterable, Iterator

from graphc.ir.graph.nodes import Node, entries_of
from graphc.ir.sizes.dims import Dim, Symbol

Keys = frozenset[Symbol]
NOTHING: Keys = frozenset()


def printed_symbols(node: Node) -> Keys:
    """The symbols whose numbers stand in the text of this node."""
    return frozenset(printed_in_order(node)) if node.params or node.guards else NOTHING


def printed_in_order(node: Node) -> Iterator[Symbol]:
    """Yield `printed_symbols` as they occur; sets differ in order by process."""
    yield from symbols_of_sizes(entries_of(node.params))
    for guard in node.guards:
        yield from symbols_of_sizes((guard.left, guard.right))


def symbols_of_sizes(sizes: Iterable[object]) -> Iterator[Symbol]:
    """Yield the symbols of the symbolic sizes among `sizes`."""
    for size in sizes:
        if isinstance(size, Dim):
            yield from size.symbols
