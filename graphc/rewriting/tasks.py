"""What a loop does for one reduction of rows: its carries, a step, and the end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.ir.namespace import F
from graphc.rewriting.running import Carry, Running
from graphc.rewriting.stepwise import Place
from graphc.rewriting.views import View

Rows = Mapping[Place, Value]
Known = Callable[[Value], Value]  # what stands for a value that came before


@dataclass(frozen=True)
class Task:
    """A reduction of the rows at `places`.

    `step` takes the carries, the rows and the number of the step; `end` makes the
    result of the last carries. `placed`: the number is asked for.
    """

    places: list[Place]
    start: Carry
    step: Callable[[Carry, Rows, Value], Carry]
    end: Callable[[Carry, Known], Value]
    placed: bool


def of_rows(node: Node, run: Running, view: View, length: Size) -> Task:
    """The task of a reduction of one value."""
    place = node.inputs[0], view

    def step(carry: Carry, rows: Rows, number: Value) -> Carry:
        after = run.step(carry, rows[place], view.position(number))
        return counted(after, carry, view.holds(number, length))

    placed = run.placed or not view.covers(length)
    return Task([place], run.start, step, lambda carry, _: run.end(carry), placed)


def counted(after: Carry, before: Carry, held: Value | None) -> Carry:
    """The carries behind a step, which counts where a position belongs to it."""
    if held is None:
        return after
    return [F.where(held, a, b) for a, b in zip(after, before, strict=True)]


def of_product(node: Node, axis: int, views: tuple[View, View], size: Size) -> Task:
    """The task of a tensordot over rows, of which `axis` says the pair of axes."""
    x, y = zip(node.inputs, views, strict=True)
    pairs = [
        pair
        for i, pair in enumerate(zip(*node.params["axes"], strict=True))
        if i != axis
    ]
    left = tuple(a - (a > views[0].axis) for a, _ in pairs)
    right = tuple(b - (b > views[1].axis) for _, b in pairs)

    def step(carry: Carry, rows: Rows, number: Value) -> Carry:
        found = node.primitive(rows[x], rows[y], axes=(left, right))
        return counted([F.add(carry[0], found)], carry, views[0].holds(number, size))

    type = node.outputs[0].type
    start: Value = F.zeros(type.shape, type.dtype)
    placed = not views[0].covers(size)
    return Task([x, y], [start], step, lambda carry, _: carry[0], placed)
