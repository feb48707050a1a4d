"""The driver of a plan as data: the steps of a call, in their order.

These are the steps of the plan, enclosed by the steps between true sizes and
capacities. There are two back ends: `backends.program.print_step` prints each step as
Python, and `runtime.save.file_steps` writes each to a model file. A step names arrays
by values and integers by symbols. Where a step first needs an integer, a back end takes
it from the shape of an array that it has, or reads it from a scalar.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from graphc.ir.graph.build import CONSTANT
from graphc.ir.graph.nodes import Graph, Guard, Node, Value
from graphc.ir.sizes.dims import Dim, Size, Symbol, symbols_in
from graphc.ops.effects.capacities import Capacities
from graphc.transform.padding.padded_graph import PaddedGraph
from graphc.transform.padding.storage import is_of_integers
from graphc.transform.planning.guesses import driven_steps
from graphc.transform.planning.plan import Check, Plan, PlanStep, Segment

Symbols = tuple[Symbol, ...]


@dataclass(frozen=True)
class RequireSizes:
    """Require a relation of true sizes to hold; for a branch, only if it is taken."""

    guard: Guard
    node: Node
    decided_by: Literal["integers", "shapes", "branch"]


@dataclass(frozen=True)
class ChooseCapacities:
    """Choose the capacities of `sizes` together; they are `symbols` from then on.

    `beside` are the sizes of axes without capacities; they too tell which programs fit.
    """

    sizes: tuple[Size, ...]
    symbols: Symbols
    capacities: tuple[Capacities, ...]
    beside: tuple[Dim, ...]


@dataclass(frozen=True)
class RunOnCapacities:
    """Call a driver with arguments at capacities, then with true sizes.

    Within the driver, the arguments are `stored`, and the `lengths` are `numbers`. It
    gives arrays at capacities, and then the integers `counts`.
    """

    driver: "Driver"
    arguments: tuple[Value, ...]
    stored: tuple[Value, ...]
    lengths: Symbols
    numbers: tuple[Value, ...]
    counts: Symbols


@dataclass(frozen=True)
class CutResult:
    """A result of a driver, whose axes in `cut` are cut to their true sizes."""

    value: Value
    cut: frozenset[int] = frozenset()


DriverStep = PlanStep | RequireSizes | ChooseCapacities | RunOnCapacities


@dataclass(frozen=True)
class Driver:
    """A call of a graph as data: steps on `inputs`, and results.

    A driver is `direct` if it only calls a segment with the inputs. `constants` are the
    constants that it passes on or returns itself, `conditions` the conditions of its
    checks. `aliases` maps values to the values that are computed for them, `originals`
    symbols to the symbols that they replace.
    """

    graph: Graph
    inputs: tuple[Value, ...]
    steps: tuple[DriverStep, ...]
    results: tuple[CutResult, ...]
    direct: bool
    constants: tuple[Value, ...]
    conditions: tuple[Value, ...]
    aliases: Mapping[Value, Value]
    originals: Mapping[Symbol, Symbol]

    @property
    def inner(self) -> "Driver":
        """The driver on capacities, if there is one."""
        runs = [s.driver for s in self.steps if isinstance(s, RunOnCapacities)]
        return runs[0] if runs else self

    def resolve(self, value: Value) -> Value:
        """The value that is computed for `value`."""
        return self.aliases.get(value, value)


def driver_of(plan: Plan) -> Driver:
    """Return the driver of a plan, with arguments and results at true sizes."""
    direct = is_direct(plan)
    driver = Driver(
        plan.graph,
        plan.graph.inputs,
        tuple(driven_steps(plan)),
        tuple(map(CutResult, plan.graph.outputs)),
        direct,
        () if direct else _constants(plan),
        tuple([s.condition for s in plan.steps if isinstance(s, Check)]),
        plan.aliases,
        plan.originals,
    )
    return driver if plan.padded is None else _driver_on_true_sizes(driver, plan.padded)


def is_direct(plan: Plan) -> bool:
    """Whether the program is one jitted function of exactly the inputs.

    JAX would compile it for each shape of an input, so there may be no input of
    symbolic sizes that it does not use.
    """
    if len(plan.steps) != 1 or not isinstance(plan.steps[0], Segment):
        return False
    used = set(plan.steps[0].inputs)
    unused = [v for v in plan.graph.inputs if v not in used]
    if any(isinstance(n, Dim) for v in unused for n in v.type.shape):
        return False
    return not plan.steps[0].statics


def _constants(plan: Plan) -> tuple[Value, ...]:
    operands = [v for segment in plan.segments for v in segment.inputs]
    operands += [v for loop in plan.loops for v in loop.node.inputs]
    values = dict.fromkeys(map(plan.resolve, [*operands, *plan.graph.outputs]))
    return tuple([v for v in values if v.node.primitive is CONSTANT])


def _driver_on_true_sizes(driver: Driver, padded: PaddedGraph) -> Driver:
    """Wrap a driver on capacities for true sizes; its last inputs may be constants."""
    original, inputs = padded.original, driver.inputs
    split = len(original.inputs)
    lengths = *padded.lengths, *[one.capacity.symbol for one in padded.inner]
    end = split + len(lengths)
    run = RunOnCapacities(
        driver,
        original.inputs,
        inputs[:split],
        lengths,
        inputs[split:end],
        padded.counts,
    )
    guards = [
        RequireSizes(guard, node, "integers" if is_of_integers(guard) else "shapes")
        for guard, node in padded.guards
    ]
    guards += [RequireSizes(*pair, "branch") for pair in padded.branch_guards]
    return replace(
        driver,
        graph=original,
        inputs=(*original.inputs, *inputs[end:]),
        steps=(*guards, _choice_of_capacities(padded, inputs[:split]), run),
        results=tuple(map(CutResult, original.outputs, padded.ragged)),
        direct=False,
        originals={**padded.originals, **driver.originals},
    )


def _choice_of_capacities(
    padded: PaddedGraph, stored: tuple[Value, ...]
) -> ChooseCapacities:
    """The step that chooses capacities for arguments and for sizes they determine."""
    symbols = tuple(padded.capacities.values())
    axes = [
        (true_size, size)
        for old, new in zip(padded.original.inputs, stored, strict=True)
        for true_size, size in zip(old.type.shape, new.type.shape, strict=True)
    ]
    unpadded = [n for n, size in axes if set(symbols).isdisjoint(symbols_in(size))]
    beside = tuple(dict.fromkeys([n for n in unpadded if isinstance(n, Dim)]))
    return ChooseCapacities(
        tuple([one.size for one in padded.rounded]),
        tuple([one.symbol for one in padded.rounded]),
        tuple([one.capacities for one in padded.rounded]),
        beside,
    )
