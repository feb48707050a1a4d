"""Parts of a plan that follow slices of stacked arrays, and give results only.

The update of a parameter follows the slice of the gradients of all blocks that is its
own; nothing else takes the updated parameter. Parts that do the same at several places
are found by their structure, so that they can be compiled once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphc.control.call import CALL
from graphc.ir.graph.build import CONSTANT
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.walk import depth_first, operands
from graphc.ir.primitives import OP
from graphc.rewriting.loops.roll.repeats import place_of
from graphc.transform.planning.plan import (
    Check,
    HostNode,
    Plan,
    PythonLoop,
    Read,
    Segment,
)
from graphc.transform.printed_sizes import printed

MOVING = (OP.reshape, OP.transpose, OP.expand_dims, OP.squeeze, OP.broadcast_to)


@dataclass
class ResultPart:
    """Nodes that nothing but results depends on, behind slices at one place.

    `slices` are those that they take, with their arrays, `arguments` the values they
    take from elsewhere, `results` those of all these values that are results.
    """

    place: int
    results: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    slices: dict[Value, Value] = field(default_factory=dict)
    arguments: list[Value] = field(default_factory=list)


def result_parts(plan: Plan) -> list[list[ResultPart]]:
    """Groups of parts that do the same to slices of the same arrays, in order."""
    return _ResultParts(plan).groups()


class _ResultParts:
    """The search through one plan."""

    def __init__(self, plan: Plan) -> None:
        self._resolve = plan.resolve
        self._results = dict.fromkeys(map(plan.resolve, plan.graph.outputs))
        self._nodes = [
            node
            for step in plan.steps
            if isinstance(step, Segment) and step.rows is None
            for node in step.nodes
        ]
        self._users = self._all_users(plan)
        self._light: dict[Any, bool] = {}  # by bodies of calls

    def _all_users(self, plan: Plan) -> dict[Value, list[Node | None]]:
        """The nodes that take a value; None for the driver."""
        users: dict[Value, list[Node | None]] = defaultdict(list)
        for node in self._nodes:
            for value in operands(node):
                users[self._resolve(value)].append(node)
        for value in _of_the_driver(plan):
            users[self._resolve(value)].append(None)
        return users

    def groups(self) -> list[list[ResultPart]]:
        """Groups of parts that do the same, each in the order of places."""
        alike: dict[Any, list[ResultPart]] = defaultdict(list)
        seen: dict[Any, int] = defaultdict(int)
        owned = self._owned()
        for part in self._components(owned):
            structure = self._structure(part, owned)
            if structure is None or not part.slices:
                continue
            number = seen[structure, part.place]  # of equals at one place
            seen[structure, part.place] += 1
            alike[structure, number].append(part)
        return [sorted(parts, key=lambda p: p.place) for parts in alike.values()]

    def _owned(self) -> dict[Node, int]:
        """The nodes that belong to one place, and to nothing else."""
        last = self._ending(lambda node: True)
        places: dict[Node, frozenset[int]] = {}
        for node in self._nodes:
            if node in last:
                places[node] = self._places_of(node, places)
        owned_at_most_once = self._ending(lambda node: len(places.get(node, ())) < 2)
        owned: dict[Node, int] = {}
        for node in reversed(self._nodes):
            if node not in owned_at_most_once:
                continue
            owners = places[node] | {
                owned.get(user, -1)
                for value in node.outputs
                for user in self._users.get(value, ())
                if user is not None
            }
            if len(owners) == 1 and -1 not in owners:
                owned[node] = next(iter(owners))
        return owned

    def _places_of(
        self, node: Node, known: Mapping[Node, frozenset[int]]
    ) -> frozenset[int]:
        """The places of the slices that a node is made of, where they are known."""
        places = set[int]()
        for value in (*node.outputs, *map(self._resolve, node.inputs)):
            place = self._sliced(value)
            places |= known.get(value.node, frozenset()) if place is None else {place}
        return frozenset(places)

    def _ending(self, fits: Callable[[Node], bool]) -> set[Node]:
        """The light nodes that fit, of which others depend on no value."""
        ending: set[Node | None] = set()
        for node in reversed(self._nodes):
            users = [u for v in node.outputs for u in self._users.get(v, ())]
            used = users or any(v in self._results for v in node.outputs)
            if (
                used
                and ending.issuperset(users)
                and fits(node)
                and self._is_light(node)
            ):
                ending.add(node)
        return {node for node in ending if node is not None}

    def _sliced(self, value: Value) -> int | None:
        """The place of a slice of an array that is computed, and of known length."""
        place = place_of(value)
        if place is None or value._symbol is not None:
            return None
        stack = self._resolve(value.node.inputs[0])
        known = isinstance(stack.type.shape[0], int)
        return place if known and not stack.node.primitive.inline else None

    def _is_slice(self, node: Node) -> bool:
        return bool(node.outputs) and self._sliced(node.outputs[0]) is not None

    def _is_light(self, node: Node) -> bool:
        """Whether a node may be computed place by place: it is no work for a device."""
        if node.demands or node.guards or printed(node):
            return False
        if any(v._symbol is not None for v in node.outputs):
            return False
        if self._is_slice(node):
            return True
        if node.primitive is CALL:
            return not node.params["sizes"] and self._is_light_body(node)
        return _is_elementwise(node)

    def _is_light_body(self, call: Node) -> bool:
        body = call.params["body"].content
        if body not in self._light:
            work = [n for n in body.nodes if not n.primitive.inline]
            self._light[body] = all(map(_is_elementwise, work))
        return self._light[body]

    def _components(self, owned: Mapping[Node, int]) -> Iterator[ResultPart]:
        """Connected nodes of a place as parts, with their results in order."""
        beside: dict[Node, list[Node]] = defaultdict(list)
        for node in owned:
            for value in self._within(owned, node):
                beside[node].append(value.node)
                beside[value.node].append(node)
        parts: dict[Node, ResultPart] = {}
        for result in self._results:
            end = result.node
            if end not in owned:
                continue
            if end not in parts:
                parts |= dict.fromkeys(_connected(end, beside), ResultPart(owned[end]))
            parts[end].results.append(result)
        yield from {id(part): part for part in parts.values()}.values()

    def _within(self, owned: Mapping[Node, int], node: Node) -> list[Value]:
        """The values that a node takes from its own part, slices left out."""
        values = map(self._resolve, () if self._is_slice(node) else node.inputs)
        return [v for v in values if v.node in owned and not self._is_slice(v.node)]

    def _structure(self, part: ResultPart, owned: Mapping[Node, int]) -> Any | None:
        """Fill in a part from its results: what is equal for parts that do the same.

        None where it takes what no compiled function is given.
        """
        ends = [v.node for v in part.results if not self._is_slice(v.node)]
        part.nodes = depth_first(ends, lambda node: self._within(owned, node))
        inner_numbers = {
            v: i for i, v in enumerate(v for n in part.nodes for v in n.outputs)
        }
        numbers: dict[Value, int] = {}

        def taken(value: Value) -> Any:
            if value in inner_numbers:
                return inner_numbers[value]
            if self._is_slice(value.node):
                stack = self._resolve(value.node.inputs[0])
                return part.slices.setdefault(value, stack)
            if value.node.primitive is CONSTANT:
                return value
            return "given", numbers.setdefault(value, len(numbers)), value.type

        structures = [
            (n.primitive, _params(n), *[taken(self._resolve(v)) for v in n.inputs])
            for n in part.nodes
        ]
        results = tuple(map(taken, part.results))
        part.arguments = list(numbers)
        of_the_host = any(map(_is_of_the_host, numbers))
        return None if of_the_host else (results, tuple(structures))


def _params(node: Node) -> tuple[object, ...]:
    """The params of a node; those of calls of one function are equal."""
    if node.primitive is CALL:
        return (node.params["body"].content,)
    return tuple(node.params.items())


def _is_elementwise(node: Node) -> bool:
    return node.primitive.elementwise or node.primitive in MOVING


def _is_of_the_host(value: Value) -> bool:
    """Whether a value is a size, or a Python number: no array for a function."""
    inline = value.node.primitive.inline
    return inline or value.type.weak or value._symbol is not None


def _connected(first: Node, beside: Mapping[Node, Sequence[Node]]) -> set[Node]:
    """The nodes that are reached from one."""
    reached, waiting = {first}, [first]
    while waiting:
        for node in beside.get(waiting.pop(), ()):
            if node not in reached:
                reached.add(node)
                waiting.append(node)
    return reached


def _of_the_driver(plan: Plan) -> Iterator[Value]:
    """The values that the driver takes, other than results."""
    for step in plan.steps:
        if isinstance(step, (HostNode, PythonLoop)):
            yield from operands(step.node)
        elif isinstance(step, Check):
            yield step.condition
        elif isinstance(step, Read):
            yield step.value
        elif step.rows is not None:
            yield from step.inputs
