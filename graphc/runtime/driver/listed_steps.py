"""Lists of steps: the driver, and facts about it and the plan that it is made of."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from graphc.backends.jax import is_direct
from graphc.ir.graph.build import CONSTANT
from graphc.ir.graph.nodes import Node, Value
from graphc.ops.effects.capacities import Capacities
from graphc.transform.planning.plan import Plan, PythonLoop

NAMED = {"read": 1, "grow": 4}  # steps that give a size, and the place of its name
RUNNING = "run", "grow", "loop"  # steps that run programs


class Driver(NamedTuple):
    """Steps, the numbers of the results, and what the steps do not say themselves.

    A capacity step holds the number of its `policies` in place of rows. `segments` are
    those that stages run, or nodes that the driver computes on the host; `reads` sizes
    that depend on data, without which not all of them can be run.
    """

    steps: list[list[Any]]
    results: list[int]
    policies: list[list[Capacities]]
    segments: list[int | Node]
    reads: list[str]


def last_run(steps: Sequence[Sequence[object]]) -> int:
    """The place of the last step that runs a program; -1 if none does."""
    return max([i for i, s in enumerate(steps) if s[0] in RUNNING], default=-1)


def names_in(steps: Iterable[list[Any]]) -> Iterator[str]:
    """The names of sizes that steps give, those within loops included."""
    for word, *parts in steps:
        if word in NAMED:
            yield parts[NAMED[word]]
        elif word == "loop":
            *_, name, _, inner, _ = parts[0]
            yield from [name] * bool(name)
            yield from names_in(inner)


def constants_of(plan: Plan) -> list[Value]:
    """Constants that the driver itself passes on or returns."""
    if is_direct(plan):
        return []
    operands = [v for segment in plan.segments for v in segment.inputs]
    operands += [v for loop in _loops(plan) for v in loop.node.inputs]
    values = dict.fromkeys(map(plan.resolve, [*operands, *plan.graph.outputs]))
    return [v for v in values if v.node.primitive is CONSTANT]


def _loops(plan: Plan) -> Iterator[PythonLoop]:
    """The loops that the driver of a plan does, those within others included."""
    for step in plan.steps:
        if isinstance(step, PythonLoop):
            yield step
            yield from _loops(step.body)
