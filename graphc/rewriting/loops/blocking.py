"""Reductions of what is large are made block by block, and it is never there at once.

`gt.sum(gt.exp(-(x[:, None] - y) ** 2) * b, 1)` needs no array of all pairs: a loop
takes some of the rows at once, as many as stay in the cache, and computes what is
reduced of these. So it is for products, as `softmax(q @ k.T) @ v`, and for gradients;
what is needed again behind a reduction over the rows is computed again. How many rows
a block has follows from the sizes; where all are few, there is one block.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from graphc.errors import standing_at
from graphc.ir.dims import Size, equal, less_equal, maximum
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.namespace import F
from graphc.ir.types import product
from graphc.ir.walk import ancestors, operands
from graphc.rewriting.loops.blocks import block_source
from graphc.rewriting.loops.cone import Cone, Place, inputs_of
from graphc.rewriting.loops.joined import Joined, joined
from graphc.rewriting.loops.loop import with_made
from graphc.rewriting.loops.outer import (
    PRODUCTS,
    Large,
    kept_values,
    outer_values,
)
from graphc.rewriting.loops.rows import REDUCTIONS
from graphc.rewriting.loops.stepwise import LIGHT, Uses
from graphc.rewriting.rule import Replaced, Rule, whole_graph
from graphc.rewriting.sizes import guarded, is_one

Pair = tuple[list[Value], list[Value]]
BYTES = 2**21  # of the largest value in a block
ROWS = 32  # in a block where it is multiplied by a matrix
MOVES = ("basic_index", "reshape", "gather", "scatter", "concatenate", "stack")
BRIDGES = {*REDUCTIONS, *LIGHT, *MOVES}  # little work between two large values


@dataclass(frozen=True)
class Facts:
    """What is known of a graph."""

    nodes: list[Node]
    uses: Uses
    large: Large
    kept: set[Value]

    def is_gone(self, value: Value) -> bool:
        """Whether a value is large and need not be there as a whole."""
        return value in self.large and value not in self.kept


def _facts(graph: Graph, least: int) -> Facts | None:
    """What is known of a graph; None where nothing is large."""
    nodes = ancestors(graph.outputs)
    large = outer_values(nodes, least)
    if not large:
        return None
    kept = kept_values(nodes, graph, large)
    return Facts(nodes, Uses(nodes, graph), large, kept)


class _Region:
    """What depends on a large value, block by block along one of its axes."""

    def __init__(self, seed: Value, axis: int, facts: Facts) -> None:
        self.seed, self.facts = seed, facts
        self.length = seed.type.shape[axis]
        self._dependent = {seed.node}
        self._views = {seed: axis}
        self.rows: dict[Value, int] = {}  # less than large, a block of it per block
        self.joins: dict[Node, Joined] = {}
        for node in facts.nodes:
            if node.serial > seed.node.serial:
                self._visit(node)
        self.cone = Cone(self._within(), facts.uses)
        self._places = [*self.rows.items(), *self._joined_places()]
        self.cone.collect(self._places, self.joins)
        self._nodes = {*self.cone.nodes, *self.joins}
        self.shown = [v for v in self.rows if not facts.uses.are_among(v, self._nodes)]

    def _within(self) -> set[Value]:
        gone = {v for v in self.facts.large if v not in self.facts.kept}
        return gone | set(self._views)

    def _joined_places(self) -> list[Place]:
        return [
            (x, a)
            for node, how in self.joins.items()
            for x, a in zip(node.inputs, how.axes, strict=True)
            if a is not None
        ]

    def _visit(self, node: Node) -> None:
        if not any(v.node in self._dependent for v in operands(node)):
            return
        self._dependent.add(node)
        sized = any(v.node in self._dependent for v in node.demands)
        if sized or len(node.outputs) != 1:
            return
        closes = any(self.facts.is_gone(x) for x in node.inputs)
        how = self._joined(node) if closes else None
        if how is not None:
            self.joins[node] = how
            return
        out, axis = node.outputs[0], self._view(node)
        if axis is None:
            return
        name = node.primitive.name
        if out in self.facts.large:
            self._views[out] = axis
        elif closes:
            self._views[out] = self.rows[out] = axis
        elif node.primitive.elementwise or name in BRIDGES:
            self._views[out] = axis

    def _joined(self, node: Node) -> Joined | None:
        with standing_at(node.place.plain):
            how = joined(node, [self._views.get(x) for x in node.inputs])
        if how is None or not all(map(self._is_block, node.inputs, how.axes)):
            return None
        return how

    def _view(self, node: Node) -> int | None:
        """The axis of a result that comes in blocks."""
        views = [self._views.get(x) for x in node.inputs]
        for axis in range(node.outputs[0].type.rank):
            found = block_source(node, axis)
            if found is None:
                continue
            pairs = zip(views, found, strict=True)
            if any(v is not None and v == a for v, a in pairs):
                fits = all(map(self._is_block, node.inputs, found))
                return axis if fits else None
        return None

    def _is_block(self, value: Value, axis: int | None) -> bool:
        """Whether blocks of a value along an axis can be had; None: all of it."""
        if value.node in self._dependent:
            return axis is not None and self._views.get(value) == axis
        if axis is None:
            return True
        n = value.type.shape[axis]
        return is_one(n) or equal(n, self.length) is not False

    @property
    def gains(self) -> bool:
        """Whether something large need not be there any more."""
        if not self.joins and not self.shown:
            return False
        if not self.facts.large[self.seed].sure and not self._reduces():
            return False
        given = [v for v, _ in self.cone.given]
        whole = any(v in self.facts.large or self._is_as_large(v) for v in given)
        return not whole

    def _is_as_large(self, value: Value) -> bool:
        most = value.type.size * value.dtype.itemsize
        own = self.seed.type.size * self.seed.dtype.itemsize
        return less_equal(own, most) is True

    def _reduces(self) -> bool:
        """Whether columns are reduced otherwise than by a product, as in a softmax."""
        return any(v.node.primitive.name in REDUCTIONS for v in self.rows)

    @property
    def cost(self) -> tuple[int, int]:
        """Less for what does more in one loop, then for what carries less along."""
        return -len(self.joins) - len(self.rows), len(self.joins)


def _made(region: _Region, most: int) -> dict[Value, Value]:
    """What stands for each value that is left of something large: the loop's."""
    cone, joins, rows = region.cone, list(region.joins.values()), region.rows

    def step(carry: list[Value], blocks: list[Value], count: Size) -> Pair:
        known = cone.computed(dict(zip(cone.given, blocks, strict=True)), count)
        after = []
        for how, before in zip(joins, carry, strict=True):
            with standing_at(how.node.place.plain):
                found = how.reduced(inputs_of(how.node, how.axes, known))
                after.append(how.join(before, found))
        return after, [known[v, rows[v]] for v in region.shown]

    start = [how.start for how in joins]
    axes = [rows[v] for v in region.shown]
    extent = _extent(region, most)
    ends, found = F._run_blocks(step, start, list(cone.given), axes, **extent)
    made = dict(zip(region.shown, found, strict=True))
    for how, carry in zip(joins, ends, strict=True):
        made[how.node.outputs[0]] = how.end(carry)
    return {old: _guarded(cone, old, new) for old, new in made.items()}


def _extent(region: _Region, most: int) -> dict[str, Any]:
    """How many rows there are, and how large what is made of one."""
    sizes: dict[Size, None] = {}
    for value, axis in region.cone.made:
        if value in region.facts.large:
            shape = value.type.shape
            others = product([*shape[:axis], *shape[axis + 1 :]])
            sizes[others * value.dtype.itemsize] = None
    closing = [*region.cone.nodes, *region.joins]
    products = any(node.primitive.name in PRODUCTS for node in closing)
    least = ROWS if products else 1
    each = maximum(1, *sizes)
    return {"length": region.length, "each": each, "most": most, "least": least}


def _guarded(cone: Cone, old: Value, new: Value) -> Value:
    """Sizes must fit as before."""
    for node in cone.nodes:
        new = guarded(new, node)
    return guarded(new, old.node)


def _region_of(seed: Value, facts: Facts) -> _Region | None:
    """The best region of a large value."""
    found = []
    for axis in facts.large[seed].axes:
        region = _Region(seed, axis, facts)
        if region.gains:
            found.append(region)
    return min(found, key=lambda r: r.cost, default=None)


def _roots(facts: Facts) -> Iterable[Value]:
    """Large values that are made of none."""
    for value in facts.large:
        made = any(x in facts.large for x in value.node.inputs)
        if not made and value not in facts.kept:
            yield value


def blocking(block_bytes: int = BYTES) -> Rule:
    """The rule that makes reductions of what is large in blocks.

    The largest value in a block has about so many bytes: as many as stay in the cache.
    `graphc.rewrites.default - "large_in_blocks" + blocking(2**24)` are rules with more.
    """

    @whole_graph(
        over=(*PRODUCTS, *REDUCTIONS), exact=False, name="large_in_blocks", late=True
    )
    def rule(graph: Graph) -> Replaced | None:
        """Reductions of what is larger than what it is made of are made in blocks."""
        return _blocked(graph, block_bytes)

    return rule


def _blocked(graph: Graph, most: int) -> Replaced | None:
    facts = _facts(graph, most)
    for seed in () if facts is None else _roots(facts):
        assert facts is not None
        region = _region_of(seed, facts)
        if region is not None:
            with standing_at(seed.node.place.plain):
                made = _made(region, most)
            return with_made(graph, facts.nodes, made, {})[0], list(made.items())
    return None
