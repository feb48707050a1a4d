"""Sizes of axes that a program takes in one number only, whatever they are called."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphc.ir.dims import Dim, Symbol, evaluate
from graphc.ir.graph import Guard, Node
from graphc.ir.polynomials import polynomial


@dataclass(frozen=True)
class OneNumber:
    """The one number that an axis can have, and the node that needs it."""

    symbol: Symbol
    number: int
    node: Node


def pinned(nodes: Iterable[Node]) -> Iterator[OneNumber]:
    """The sizes that are declared by a name and that a guard leaves one number of."""
    told = set[Symbol]()
    for node in nodes:
        for guard in node.guards:
            one = _pinned(guard, node)
            if one is not None and one.symbol not in told:
                told.add(one.symbol)
                yield one


def _pinned(guard: Guard, node: Node) -> OneNumber | None:
    difference = guard.left - guard.right
    if guard.relation != "==" or not isinstance(difference, Dim):
        return None
    atoms = polynomial(difference).atoms()
    (symbol,) = atoms if len(atoms) == 1 else (None,)
    if not isinstance(symbol, Symbol) or symbol.origin is not None:
        return None
    at_0, at_1, at_2 = (evaluate(difference, {symbol: n}) for n in range(3))
    slope = at_1 - at_0
    if at_2 - at_1 != slope or at_0 % slope:
        return None
    return OneNumber(symbol, -at_0 // slope, node)
