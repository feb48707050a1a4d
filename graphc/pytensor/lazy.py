"""The nodes that only one branch of an IfElse needs, computed only if it is taken."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pytensor.graph.basic import Apply, Variable

if TYPE_CHECKING:
    from pytensor.graph.fg import FunctionGraph
    from pytensor.graph.op import Op


class LazyBranch(NamedTuple):
    """A branch of an IfElse; the first has `side` 0. None means outside of all."""

    node: Apply
    side: int


BranchPath = LazyBranch | None


def is_choice(node: Apply) -> bool:
    """Whether a node returns the results of one of two branches."""
    return type(node.op).__name__ == "IfElse"


def inner_graphs(op: "Op") -> "list[FunctionGraph]":
    """The graphs inside an Op: of a scan, a subgraph or branches."""
    branches = [getattr(op, name, None) for name in ("true_branch", "false_branch")]
    graphs = [getattr(one, "fgraph", None) for one in (op, *branches)]
    return [graph for graph in graphs if graph is not None]


def has_choices(nodes: Iterable[Apply]) -> bool:
    """Whether some of the nodes have branches, or nodes of graphs inside them do."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if type(node.op).__name__ in ("IfElse", "LazyIfElse"):
            return True
        for graph in inner_graphs(node.op):
            waiting += graph.toposort()
    return False


def branch_results(node: Apply, side: int) -> list[Variable]:
    """The inputs of an IfElse that are the results of a branch."""
    start = 1 + side * node.op.n_outs
    return list(node.inputs[start : start + node.op.n_outs])


def nodes_by_branch(
    nodes: Sequence[Apply], outputs: Iterable[Variable]
) -> dict[BranchPath, list[Apply]]:
    """Group nodes by their branch, in order; None has those outside of all."""
    places: dict[Apply, BranchPath] = {}
    uses: dict[Variable, BranchPath] = dict.fromkeys(outputs)

    def use(v: Variable, place: BranchPath) -> None:
        uses[v] = _common_place(uses[v], place, places) if v in uses else place

    for node in reversed(nodes):
        used = [uses[v] for v in node.outputs if v in uses]
        place = used[0] if used else None
        for other in used[1:]:
            place = _common_place(place, other, places)
        places[node] = place
        if not is_choice(node):
            for v in node.inputs:
                use(v, place)
            continue
        use(node.inputs[0], place)
        for side in (0, 1):
            for v in branch_results(node, side):
                use(v, LazyBranch(node, side))
    nodes_at: dict[BranchPath, list[Apply]] = {}
    for node in nodes:
        nodes_at.setdefault(places[node], []).append(node)
    return nodes_at


def _common_place(
    a: BranchPath, b: BranchPath, places: dict[Apply, BranchPath]
) -> BranchPath:
    """The innermost place that two places lie in, or that is one of them."""
    outside_a = set(_enclosing_places(a, places))
    return next(place for place in _enclosing_places(b, places) if place in outside_a)


def _enclosing_places(
    place: BranchPath, places: dict[Apply, BranchPath]
) -> list[BranchPath]:
    """A place and all places around it, the innermost first."""
    around = [place]
    while place is not None:
        place = places[place.node]
        around.append(place)
    return around
