"""The guards that a program checks when it is entered, those of bodies among them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from graphc.control.scan import SCAN
from graphc.control.switch import SWITCH
from graphc.ir.graph.bodies import BodyCall
from graphc.ir.graph.nodes import Guard, Node, divisors_of
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Size, Symbol, substitute, symbols_in


class _BodyNode(NamedTuple):
    """A node of a body, the sizes that the body is given, and how often it runs.

    `steps` are 0 only where it does not run, and 1 where that is not known.
    """

    node: Node
    sizes: Mapping[Symbol, Size]
    steps: Size


def guards_of(
    nodes: Iterable[Node], firm: Collection[Node] = ()
) -> list[tuple[Guard, Node]]:
    """The guards of nodes and of bodies in them, each with the first node to need it.

    Among them are guards that divisors are not 0, as no program at capacities computes
    these sizes on the host. Guards of bodies are in terms of the sizes that the bodies
    are given, and those of loops need only hold where there is a step, except for the
    `firm` nodes. Guards of branches are left out: they must hold only in calls that
    take the branch.
    """
    first_needs: dict[Guard, Node] = {}
    for node in nodes:
        start = _BodyNode(node, {}, 1)
        for inner, sizes, steps in [start, *_inside(start)]:
            for guard in (*inner.guards, *map(guard_of_divisor, divisors_of(inner))):
                here = guard_of_sizes(guard, sizes)
                is_firm = here.relation == "<=" and inner in firm
                if not (is_firm or _share_a_capacity(here)):
                    here = replace(here, steps=_product(here.steps, steps))
                if dims.equal(here.steps, 0) is not True:
                    first_needs.setdefault(here, inner)
    return list(first_needs.items())


def _share_a_capacity(guard: Guard) -> bool:
    """Whether sizes must be equal that are stored alike: two sizes, or an axis."""
    sizes = [n for n in guard.sides if isinstance(n, Dim)]
    is_of_axis = any(n.is_symbol for n in sizes)
    return guard.relation == "==" and (is_of_axis or len(sizes) > 1)


def _inside(start: _BodyNode) -> Iterator[_BodyNode]:
    """Yield the nodes of the bodies in a node, except for its branches."""
    stack = [] if start.node.primitive is SWITCH else _of_bodies(start)
    while stack:
        place = stack.pop()
        yield place
        stack += _of_bodies(place)


def _of_bodies(place: _BodyNode) -> list[_BodyNode]:
    """The nodes of the bodies of a node, the first one last."""
    calls: list[BodyCall] = [*place.node.primitive.body_calls(place.node)]
    steps = _product(_steps_of(place), place.steps) if calls else 1
    places = []
    for call in calls:
        sizes = {s: substitute(n, place.sizes) for s, n in call.sizes.items()}
        places += [_BodyNode(n, sizes, steps) for n in call.body.nodes]
    return places[::-1]


def _steps_of(place: _BodyNode) -> Size:
    """A size that is 0 where a loop is known to have no step from axes; else 1."""
    if place.node.primitive is not SCAN or place.node.params["length"] is None:
        return 1
    length = substitute(place.node.params["length"], place.sizes)
    of_axes = all(symbol.origin is None for symbol in symbols_in(length))
    return length if of_axes and dims.less_equal(1, length) is not True else 1


def _product(left: Size, right: Size) -> Size:
    """A size that is 0 where one of two is."""
    return left * right if left is not right else left


def guard_of_divisor(size: Size) -> Guard:
    """The guard that a size used as a divisor is not 0."""
    size = size if dims.less_equal(0, size) else dims.maximum(size, -size)
    return Guard("<=", 1, size, "a size is divided by zero", kind="zero")


def guard_of_sizes(guard: Guard, sizes: Mapping[Symbol, Size]) -> Guard:
    """Substitute sizes in a guard."""
    if not sizes:
        return guard
    left, right, steps = (
        substitute(n, sizes) for n in (guard.left, guard.right, guard.steps)
    )
    return replace(guard, left=left, right=right, steps=steps)
