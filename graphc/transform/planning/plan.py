"""The compilation plan as data: segments, glue, and why each of them is there."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Protocol

from graphc.errors import ErrorKind, SourceLocation, graph_error, in_number, shortened
from graphc.ir.called_first import NotCalled
from graphc.ir.config import Casting
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.op import EMISSION
from graphc.ir.sizes.dims import Size, Symbol
from graphc.ir.sizes.names import CAPACITY, distinct_names
from graphc.ir.tracebacks import hide_own_frames
from graphc.ops.common.conditions import is_reporting
from graphc.transform.padding.padded_graph import PaddedGraph
from graphc.transform.planning.forecast import (
    Forecast,
    PlannedSizes,
    SizesGiven,
    forecast,
)
from graphc.transform.planning.grouping import varying_symbols
from graphc.transform.policies import sizes_of
from graphc.transform.printed_sizes import printed_symbols
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.layout import MeshLayout, layout_of
from graphc.transform.sharding.meshes import DeviceMesh


@dataclass(frozen=True)
class Segment:
    """A part of the graph that is compiled as one jitted function.

    It is compiled anew for each value of its `keys`; the keys in `statics` are passed
    as static arguments, the others follow from the shapes of `inputs`. `derived` are
    sizes that follow from keys by arithmetic on the host, done when the segment is
    traced. `rows` counts the slices of a capacity-doubling loop.
    """

    index: int
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    statics: tuple[Symbol, ...]
    outputs: tuple[Value, ...]
    keys: tuple[Symbol, ...]
    reason: str
    rows: Symbol | None = None
    derived: tuple[Symbol, ...] = ()

    def __repr__(self) -> str:
        count = len(self.nodes)
        keys = ", ".join(symbol.name for symbol in self.keys)
        per = f"compiled per {keys}" if keys else "compiled once"
        noun = "node" if count == 1 else "nodes"
        return f"<graphc segment {self.index}: {count} {noun}, {per}>"


@dataclass(frozen=True, repr=False)
class LoopInPieces(Segment):
    """A segment whose last node is a capacity-doubling loop, called until that ends.

    The nodes before it compute the inputs of the loop that are `opened`, in the first
    of these calls; later calls take what was given back.
    """

    opened: frozenset[Value] = frozenset()

    @property
    def loop(self) -> Node:
        """The node of the loop."""
        return self.nodes[-1]

    def captures_opened(self, resolve: Callable[[Value], Value]) -> list[Value]:
        """The captures of the loop that are opened, each once."""
        first = self.loop.params["carries"]
        captures = dict.fromkeys(map(resolve, self.loop.inputs[first:-1]))
        return [v for v in captures if v in self.opened]

    def arguments(self, resolve: Callable[[Value], Value]) -> list[Value]:
        """The inputs of all calls: captures not opened, and inputs of opening nodes."""
        first = self.loop.params["carries"]
        captures = [resolve(v) for v in self.loop.inputs[first:-1]]
        if not self.opened:
            return captures
        known = {*map(resolve, self.loop.inputs[:first]), *captures}
        opening = [v for v in self.inputs if v not in known]
        captures = [v for v in captures if v not in self.opened]
        return list(dict.fromkeys([*captures, *opening]))


@dataclass(frozen=True)
class Read:
    """The read of one integer from the device: a size that depends on data."""

    value: Value
    place: SourceLocation  # the line that asks for the size
    reason: str
    remedy: str


@dataclass(frozen=True)
class HostNode:
    """A node that runs on the host: arithmetic on sizes, or an op with no JAX form."""

    node: Node
    place: SourceLocation
    reason: str
    remedy: str


@dataclass(frozen=True)
class PythonLoop:
    """A host-driven loop: its body is not one segment, so a plan runs each step.

    `sizes` are passed after the inputs: sizes in that plan that no input determines.
    """

    node: Node
    body: "Plan"
    sizes: tuple[Symbol, ...]
    place: SourceLocation
    reason: str
    remedy: str


class JoinedPieces(HostNode):
    """Joins the pieces that a capacity-doubling loop has given into one array."""


@dataclass(frozen=True)
class Check:
    """A condition that must hold; it is read on the host."""

    condition: Value
    message: str
    kind: ErrorKind
    error: str
    place: SourceLocation
    reason: str = "a check asked for by the graph"
    remedy: str = "remove the check"

    @property
    def texts(self) -> list[str]:
        """The message in parts, between which the numbers of the condition stand."""
        if not is_reporting(self.condition.type):
            return [self.message]
        (count,) = self.condition.type.shape
        assert isinstance(count, int)
        return self.message.rsplit("{}", count - 1)

    @property
    def shown(self) -> str:
        """The message, with dots in place of the numbers that a call gives."""
        return "...".join(self.texts)


def needs_device(step: "Glue") -> bool:
    """Whether a glue step waits for the device, so that one jit cannot hold everything.

    Host arithmetic on arguments does not wait, nor do checks before or after the
    segments.
    """
    if isinstance(step, HostNode):
        return step.node.primitive not in EMISSION["jax"]
    return isinstance(step, (Read, PythonLoop))


Glue = Read | HostNode | Check | PythonLoop
Rehearsal = Callable[[Mapping[str, SizesGiven]], Forecast]


class PlanPicture(Protocol):
    """The picture of a plan: see `graphc.show`."""

    def to_dict(self) -> dict[str, object]:
        """Return the data of the picture."""
        ...

    def to_svg(self) -> str:
        """Return the picture as an SVG, for papers."""
        ...

    def summary_html(self) -> str:
        """Return a few lines of the picture, for notebooks."""
        ...


PlanStep = Segment | Read | HostNode | Check | PythonLoop


def values_read_by(step: PlanStep) -> Iterable[Value]:
    """The values that a step reads but does not compute."""
    match step:
        case Segment():
            return step.inputs
        case Read():
            return [step.value]
        case Check():
            return [step.condition]
        case HostNode() | PythonLoop():
            return step.node.inputs


@dataclass(frozen=True, repr=False)
class Plan(NotCalled):
    """Steps in the order of execution.

    `static_inputs` are positions of the inputs whose numbers must be known before
    compilation. `aliases` maps values to equal values (checked ones to their operands).
    `originals` maps symbols to the symbols that they replace. `casting` says which
    arguments the program takes in other dtypes, `budget` how many compilations the
    policies were chosen for, or which sizes they leave alone. `mesh` are the devices
    that arrays are spread over, `donated` the positions of inputs that calls give away.
    `rehearse` forecasts for functions that change their plans, and `picture` draws the
    plan of a function.
    """

    graph: Graph
    steps: tuple[PlanStep, ...]
    static_inputs: tuple[int, ...]
    aliases: dict[Value, Value] = field(default_factory=dict)
    padded: PaddedGraph | None = None
    originals: dict[Symbol, Symbol] = field(default_factory=dict)
    casting: Casting = "safe"
    budget: str = ""
    mesh: DeviceMesh | None = None
    donated: frozenset[int] = frozenset()
    rehearse: Rehearsal | None = field(default=None, compare=False)
    picture: Callable[[], PlanPicture] | None = field(default=None, compare=False)
    _read = "f.plan"

    @cached_property
    def layout(self) -> MeshLayout | None:
        """The layout of the arrays on the mesh; None where there is no mesh."""
        if self.mesh is None:
            return None
        pad = self.padded
        sizes = ({}, {}) if pad is None else (pad.policies, pad.capacities)
        return layout_of(self.mesh, *sizes, self.graph.nodes)

    def place(self, value: Value) -> MeshAxes | None:
        """The place of a segment's argument or result; None where JAX decides that.

        A result that is cut afterwards is stored with room, and so is spread evenly.
        """
        assert self.layout is not None
        place = self.layout.of(value)
        alone = self.padded is not None and len(self.steps) == 1
        return self.layout.place_with_room(value) if place is None and alone else place

    @property
    def called(self) -> Graph:
        """The graph as it is called: the graph of true sizes where it is padded."""
        return self.graph if self.padded is None else self.padded.original

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The compiled parts, including those within loops in Python."""
        segments: list[Segment] = []
        for step in self.steps:
            if isinstance(step, PythonLoop):
                segments += step.body.segments
            elif isinstance(step, Segment):
                segments.append(step)
        return tuple(segments)

    @property
    def parts(self) -> int:
        """The number of compiled parts, including those that open a loop in pieces."""
        opening = [s for s in self.segments if isinstance(s, LoopInPieces) and s.opened]
        return len(self.segments) + len(opening)

    @property
    def loops(self) -> tuple[PythonLoop, ...]:
        """The loops that run step by step, each before the loops in its steps."""
        loops: list[PythonLoop] = []
        for step in self.steps:
            if isinstance(step, PythonLoop):
                loops += [step, *step.body.loops]
        return tuple(loops)

    @property
    def glue(self) -> tuple[Glue, ...]:
        """The steps that the driver runs between segments."""
        return tuple(s for s in self.steps if not isinstance(s, Segment))

    @hide_own_frames
    def forecast(self, sizes: Mapping[str, SizesGiven]) -> Forecast:
        """Forecast the cost of calls with these sizes, before anything has run.

        `sizes` gives by name the sizes of axes and the numbers of integer inputs: one
        per call, or one for all calls; or a distribution, a dict from each size to how
        many calls have it. Raises GraphError for a name that is missing or unknown.

        >>> import graphc, graphc.tensor as gt
        >>> x = gt.tensor("x", "float32", ("n",))
        >>> f = graphc.function([x], gt.mean(x), dims={"n": graphc.Pad()})
        >>> forecast = f.plan.forecast({"n": [3, 20, 9, 31, 100]})
        >>> forecast.compilations, round(forecast.waste, 2)
        (3, 1.37)
        """
        if self.rehearse is not None:
            return self.rehearse(sizes)
        return forecast(self.sizes, self.reads, sizes)

    @property
    def sizes(self) -> PlannedSizes:
        """The sizes that the segments are compiled for."""
        keys = [segment.keys for segment in self.segments]
        held = [self.bytes_held(segment) for segment in self.segments]
        return PlannedSizes(self.called, self.graph.inputs, self.padded, keys, held)

    def bytes_held(self, segment: Segment) -> Size:
        """The bytes of a segment's arguments and results on each device.

        These are in terms of stored sizes. An array whose place JAX decides counts as
        whole. Arrays that XLA makes on the way come on top: only its compiler knows
        them.
        """
        arguments = dict.fromkeys(map(self.resolve, segment.inputs))
        results = dict.fromkeys(map(self.resolve, segment.outputs))
        return sum(map(self._bytes_on_device, [*arguments, *results]))

    def _bytes_on_device(self, value: Value) -> Size:
        axes = None if self.layout is None else self.place(value)
        if self.layout is None or axes is None:
            return value.type.nbytes
        return self.layout.local_bytes(value, axes)

    @property
    def reads(self) -> int:
        """The number of integers that a call reads from the device."""
        return sum(isinstance(step, Read) for step in self.steps)

    def names(self, known: Mapping[object, str]) -> dict[object, str]:
        """The names to print sizes with, also for symbols that replace others."""
        return names_in(self.graph, self.originals, self.padded, known)

    def resolve(self, value: Value) -> Value:
        """The value that is computed for `value`."""
        return self.aliases.get(value, value)

    def needed_by(self, last_steps: Iterable[PlanStep]) -> set[Value]:
        """The values that the last steps and the results need."""
        needed = chain(self.graph.outputs, *map(values_read_by, last_steps))
        return set(map(self.resolve, needed))

    def __repr__(self) -> str:
        named = zip(self.called.input_names, self.called.inputs, strict=True)
        inputs = ", ".join(f"{name}: {value.type}" for name, value in named)
        counted = f"{in_number(len(self.segments), 'segment')}, {len(self.glue)} glue"
        return f"<graphc.Plan of ({shortened(inputs)}): {counted}>"

    def _repr_html_(self) -> str | None:
        return None if self.picture is None else self.picture().summary_html()

    def _pictured(self) -> PlanPicture:
        if self.picture is None:
            hint = "use the plan of a compiled function: f.plan"
            raise graph_error("this plan belongs to no function", op="plan", hint=hint)
        return self.picture()

    def to_dict(self) -> dict[str, object]:
        """Return the data of the plan's picture: see docs/show.md for the fields."""
        return self._pictured().to_dict()

    @hide_own_frames
    def to_json(self, indent: int | None = None) -> str:
        """Return the data of the plan's picture as JSON.

        >>> import graphc, json, graphc.tensor as gt
        >>> x = gt.tensor("x", "float32", ("n",))
        >>> f = graphc.function([x], gt.tanh(x), dims="specialize")
        >>> [program] = json.loads(f.plan.to_json())["programs"]
        >>> [step["kind"] for step in program["steps"]]
        ['segment']
        """
        return json.dumps(self.to_dict(), indent=indent)

    def to_svg(self) -> str:
        """Return the plan's picture as an SVG, for papers."""
        return self._pictured().to_svg()


def names_in(
    graph: Graph,
    originals: Mapping[Symbol, Symbol],
    padded: PaddedGraph | None,
    known: Mapping[object, str],
) -> dict[object, str]:
    """The names to print sizes with, in a graph that is planned.

    Rules that rebuild parts of the graph have symbols of their own there.
    """
    names = {**known, **_names_of_replacements(originals, padded, known)}
    sizes = sizes_of(graph)
    known_sizes: dict[object, str] = {s: names[s] for s in sizes if s in names}
    return {**names, **distinct_names(sizes, known_sizes)}


def _names_of_replacements(
    originals: Mapping[Symbol, Symbol],
    padded: PaddedGraph | None,
    known: Mapping[object, str],
) -> dict[object, str]:
    """Names for symbols that replace others, from the names of the replaced symbols."""
    names: dict[object, str] = {}
    if padded is not None:
        for new, old in padded.originals.items():
            names[new] = known.get(old, old.name)
        for new, old in padded.stored_as.items():
            names[new] = f"{known.get(old, old.name)}{CAPACITY}"
    for new, old in originals.items():
        names[new] = names.get(old, known.get(old, old.name))
    return names


def first_node_with_size(segment: Segment, symbol: Symbol) -> Node:
    """The first node of a segment whose text or types contain a size."""
    for node in segment.nodes:
        if symbol in printed_symbols(node) or symbol in varying_symbols(node):
            return node
    return segment.nodes[0]
