"""A reduction of slices in a loop: init, step and projection of the final carries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.types import product
from graphc.rewriting.loops.affine_reads import View
from graphc.rewriting.loops.folds import Carry, Running
from graphc.rewriting.loops.producers import SlicePlace
from graphc.rewriting.loops.slice_rules import is_large

SliceValues = Mapping[SlicePlace, Value]
Resolve = Callable[[Value], Value]  # the replacement of a value from before the loop


@dataclass(frozen=True)
class Task:
    """A reduction of the slices at `places`.

    `step` takes the carries, the slices and the number of the iteration; `end` projects
    the final carries to the result. `placed`: `step` uses the number.
    """

    places: list[SlicePlace]
    start: Carry
    step: Callable[[Carry, SliceValues, Value], Carry]
    end: Callable[[Carry, Resolve], Value]
    placed: bool


def of_rows(node: Node, run: Running, view: View, length: Size) -> Task:
    """The reduction of one value."""
    place = node.inputs[0], view

    def step(carry: Carry, rows: SliceValues, number: Value) -> Carry:
        after = run.step(carry, rows[place], view.position(number))
        return counted(after, carry, view.holds(number, length))

    placed = run.placed or not view.covers(length)
    return Task([place], run.start, step, lambda carry, _: run.end(carry), placed)


def counted(after: Carry, before: Carry, held: Value | None) -> Carry:
    """The carries after an iteration; those before it where `held` is false."""
    if held is None:
        return after
    return [F.where(held, a, b) for a, b in zip(after, before, strict=True)]


def contracted(node: Node) -> list[tuple[int, int]]:
    """The pairs of axes that a product of vectors or matrices contracts."""
    if node.primitive is OP.tensordot:
        return list(zip(*node.params["axes"], strict=True))
    if node.primitive is not OP.matmul or max(x.type.rank for x in node.inputs) > 2:
        return []
    return [(node.inputs[0].type.rank - 1, 0)]


def stays_large(node: Node, i: int) -> bool:
    """Whether a product per position of a contracted axis is as fast as all at once.

    It is where no element is read more than once, as for a matrix and a vector.
    """
    pairs = contracted(node)
    if any(x.type.rank == len(pairs) for x in node.inputs):
        return True
    sizes = [node.inputs[0].type.shape[a] for a, _ in pairs]
    return is_large(product(sizes[:i] + sizes[i + 1 :]))


def of_product(node: Node, i: int, views: tuple[View, View], size: Size) -> Task:
    """The reduction of a product that sums over slices, along its i-th pair of axes."""
    x, y = zip(node.inputs, views, strict=True)
    pairs = contracted(node)
    rest = pairs[:i] + pairs[i + 1 :]
    left = tuple(a - (a > views[0].axis) for a, _ in rest)
    right = tuple(b - (b > views[1].axis) for _, b in rest)

    def step(carry: Carry, rows: SliceValues, number: Value) -> Carry:
        found = F.tensordot(rows[x], rows[y], axes=(left, right))
        return counted([F.add(carry[0], found)], carry, views[0].holds(number, size))

    type = node.outputs[0].type
    start: Value = F.zeros(type.shape, type.dtype)
    placed = not views[0].covers(size)
    return Task([x, y], [start], step, lambda carry, _: carry[0], placed)
