"""Size checks of nodes that rules replace: a program refuses what it refused before.

`(u[:, None] * x)[0]` needs u and x to be equally long, though a rewrite keeps only one
row of x. So each size check that no node of the rewritten graph makes any more is put
at an output. Integers of the program are left to the rules: many rules exist to do
without them.
"""

from collections.abc import Iterator

from graphc.errors import standing_at
from graphc.ir.graph.nodes import Graph, Node
from graphc.ir.sizes.dims import Size
from graphc.rewriting.match.sizes import asks_late, at_most, with_guards

Limit = tuple[Size, Size]  # a size, and one that it is not to exceed


def with_size_checks(before: Graph, after: Graph) -> Graph:
    """Return the rewritten graph with the size checks that rewriting has lost."""
    checking = [node for node in before.nodes if node.guards]
    if not checking:
        return after
    checked = {limit for node in after.nodes for limit in _limits(node)}
    first, *others = after.outputs
    for node in checking:
        limits = set(_limits(node))
        if not limits <= checked and not asks_late(node):
            with standing_at(node.place.plain):
                first = with_guards(first, node)
            checked |= limits
    return after.with_outputs((first, *others))


def _limits(node: Node) -> Iterator[Limit]:
    """Yield the pairs (low, high) that a node's guards check, unless provable."""
    for guard in (g for g in node.guards if not g.memory):
        for low, high in ((guard.left, guard.right), (guard.right, guard.left)):
            holds_so = guard.relation == "==" or low is guard.left
            if holds_so and not at_most(low, high):
                yield low, high
