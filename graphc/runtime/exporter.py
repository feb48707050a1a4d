"""The programs of a plan, exported for the sizes of calls."""

import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from graphc.backends.jax import emit_jax
from graphc.backends.program import Outputs
from graphc.errors import GraphError, graph_error, shortened
from graphc.ir.build import literal_of, variable
from graphc.ir.dims import evaluate
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.op import rebuild
from graphc.ir.replay import substituted
from graphc.ir.types import is_inexact
from graphc.ir.walk import ancestors
from graphc.ops.effects.capacities import Capacities, capacity_call
from graphc.runtime.ahead import OnlySegment, only_segment
from graphc.runtime.devices import Target
from graphc.runtime.failure import Program, ProgramCallError
from graphc.runtime.listed_steps import constants_of, last_run
from graphc.runtime.prepared import Prepared
from graphc.runtime.recorded import recorded
from graphc.transform.forecast import SizesGiven, asked, named_sizes
from graphc.transform.grouping import UNDIVIDED
from graphc.transform.partition import partition
from graphc.transform.plan import Plan
from graphc.transform.taking_apart import taken_apart
from graphc_serving.loops import Loop, given_to
from graphc_serving.steps import Row, Step, StepError, Walk, follow

PLATFORMS = "cpu", "cuda", "rocm", "tpu"
NAME = "<graphc exported program>"
LEAST = 1024  # bytes of a constant that is no part of programs
NDArray = np.ndarray[Any, Any]
ExportedModule = tuple[list[Any], bytes]  # the entry in the manifest, and the module


class Lifted(NamedTuple):
    """A graph whose large constants are inputs, after its own, and these constants."""

    graph: Graph
    arrays: list[NDArray]


class Exporter:
    """Exports the programs of a plan by `jax.export`, and the driver beside them.

    Their large constants are arguments.
    """

    def __init__(self, jax: Any, plan: Plan, target: Target, platform: str) -> None:
        """Print the program of a plan once more, with constants as arguments."""
        if platform not in PLATFORMS:
            problem = f"there is no platform {platform!r}"
            expected = ", ".join(map(repr, PLATFORMS))
            raise graph_error(problem, op="export", expected=expected)
        self.jax = jax
        self.platform = platform
        self._plan = plan
        self._target = target
        lift = lifted(plan.graph)
        made = taken_apart(partition(lift.graph, UNDIVIDED), target.costs)
        made = replace(made, originals=plan.originals)
        flat = Outputs("tuple", (), (Outputs("single"),) * len(lift.graph.outputs))
        source = emit_jax(made, flat)
        printed = Program(source.text, NAME, source.foreigns)
        self._module = printed.load()
        called = len(plan.called.inputs)
        self.driver = recorded(made, plan.padded, source.checked, called)
        self.arrays = [*lift.arrays, *map(_array_of, constants_of(made))]
        alone = only_segment(Prepared.of(made, source).facts, self._module, target)
        self.wide = alone.wide if source.alone else True
        self.programs: dict[tuple[Any, ...], ExportedModule] = {}
        self._alone: dict[int, Any] = {}
        self.shapes: list[list[list[int]]] = []
        self.rows: list[set[Row]] = [set() for _ in self.driver.policies]

    def calls(self, sizes: Mapping[str, SizesGiven]) -> list["Exporting"]:
        """The calls that `sizes` list, each of other ones."""
        named = named_sizes(self._plan.called, self.driver.reads, sizes, "export")
        unlike = {tuple(sorted(call.items())): call for call in named}
        return [Exporting(self, call) for call in unlike.values()]

    def settings(self) -> AbstractContextManager[None]:
        """Within: JAX has the bits and the device that the programs run under."""
        return OnlySegment(None, self.wide, self._target).settings(self.jax)

    def export(
        self, stage: int, statics: Row, structs: Sequence[Any]
    ) -> Sequence[Any]:
        """Export the program for arguments of these types: what it gives."""
        make = importlib.import_module("jax.export").export
        jitted = self._jitted(stage)
        try:
            with self.settings():
                found = make(jitted, platforms=[self.platform])(*structs, *statics)
        except (NotImplementedError, ValueError) as error:
            if isinstance(error, GraphError):
                raise
            raise _not_exported(f"{type(error).__name__}: {error}") from None
        effects = *found.ordered_effects, *found.unordered_effects
        if effects:
            raise _not_exported(", ".join(map(str, effects)))
        kinds = list(map(_kinds, (structs, found.out_avals)))
        rest = [found.calling_convention_version, list(found.module_kept_var_idx)]
        said = [stage, list(statics), *kinds, *rest]
        key = stage, statics, tuple([s.shape for s in structs])
        self.programs[key] = said, found.mlir_module_serialized
        return self.outputs(key)

    def _jitted(self, stage: int) -> Any:
        """The function of a stage: a segment, or a node that ran on the host."""
        found = self.driver.segments[stage]
        if isinstance(found, Node):
            if stage not in self._alone:
                self._alone[stage] = _alone(found)
            return self._alone[stage]
        return getattr(self._module, f"segment_{found}")

    def computed(self, stage: int, numbers: Sequence[NDArray]) -> list[NDArray]:
        """The results of a stage for numbers."""
        with self.settings():
            return list(map(np.asarray, self._jitted(stage)(*numbers)))

    def outputs(self, key: tuple[Any, ...]) -> Sequence[Any]:
        """The types that a program gives, which has been exported."""
        make = self.jax.ShapeDtypeStruct
        with self.jax.enable_x64(True):
            kinds = self.programs[key][0][3]
            return [make(tuple(shape), dtype) for _, dtype, shape in kinds]

    def steps(self) -> list[list[Any]]:
        """The steps of the driver, with the rows of capacities that were met."""
        tables = [list(map(list, sorted(rows, key=_elements))) for rows in self.rows]
        return [_with_rows(step, tables) for step in self.driver.steps]


class Exporting:
    """A call of some sizes, with the types of arrays: it exports what it needs."""

    def __init__(self, exporter: Exporter, sizes: Mapping[str, int]) -> None:
        self._exporter = exporter
        self._sizes = sizes
        self._numbers: dict[int, tuple[Any, NDArray]] = {}
        self._left: dict[str, int] = {}  # steps of loops
        known = {s: sizes[s.name] for s in asked(exporter._plan.called)}
        self.arguments = []
        for v in exporter._plan.called.inputs:
            struct = self._struct([evaluate(n, known) for n in v.type.shape], v.dtype)
            if v._symbol in known:
                self._noted(struct, np.array(known[v._symbol], v.dtype))
            self.arguments.append(struct)

    def export(self) -> None:
        """Take the steps of the driver up to the last program."""
        exporter = self._exporter
        driver, arrays = exporter.driver, exporter.arrays
        last = last_run(driver.steps)
        steps = list(map(_as_step, driver.steps))
        constants = [self._struct(a.shape, a.dtype) for a in arrays]
        try:
            follow(steps[: last + 1], [*self.arguments, *constants], [], self)
        except StepError as error:
            raise ProgramCallError(str(error)) from None
        exporter.shapes.append([list(a.shape) for a in self.arguments])

    def _struct(self, shape: Iterable[int], dtype: Any) -> Any:
        with self._exporter.jax.enable_x64(True):
            return self._exporter.jax.ShapeDtypeStruct(tuple(shape), dtype)

    def _noted(self, struct: Any, number: NDArray) -> Any:
        """The type of an array, whose numbers are known."""
        self._numbers[id(struct)] = struct, number
        return struct

    def _number_of(self, struct: Any) -> NDArray | None:
        """The numbers of an array, where they are known."""
        found = self._numbers.get(id(struct))
        return None if found is None else found[1]

    def read(self, array: Any, name: str) -> int:
        """The size that was given for a name, or that follows from others."""
        number = self._number_of(array)
        return self._sizes[name] if number is None else int(number)

    def number(self, integer: int, dtype: str) -> Any:
        """The type of an integer."""
        return self._noted(self._struct((), dtype), np.array(integer, dtype))

    def steps(self, found: Sequence[Any], carries: int, name: str) -> int:
        """The steps that a loop does in a piece, of those that were given."""
        left = self._left.setdefault(name, self._sizes[name])
        made: int = min(left, found[carries + 1].shape[0])
        self._left[name] = left - made
        return made

    def goes_on(self, found: Sequence[Any], name: str) -> bool:
        """Whether a loop has steps left after a piece."""
        return self._left[name] > 0

    def loop(self, loop: Loop, walk: Walk) -> list[Any]:
        """The types of what a loop gives: its steps have the same, but for sizes."""
        given = given_to(loop, walk)
        steps = given.length if loop.going is None else self._sizes[loop.name]
        rows = [self._struct(x.shape[1:], x.dtype) for x in given.rows]
        carries = [self._struct(x.shape, x.dtype) for x in given.carries]
        follow(loop.body, [*carries, *rows, *given.rest], loop.results, self)
        count = steps if given.length is None else given.length
        pairs = zip(loop.stacked, given.shapes, strict=True)
        made = [self._struct((count or 0, *s), dtype) for (dtype, _), s in pairs]
        told = [] if loop.going is None else [self.number(steps or 0, "int32")]
        return [*carries, *told, *made]

    def joined(self, pieces: Sequence[Any]) -> Any:
        """The type of the rows of pieces."""
        count = sum(piece.shape[0] for piece in pieces)
        return self._struct((count, *pieces[0].shape[1:]), pieces[0].dtype)

    def rows(self, array: Any, count: int) -> Any:
        """The type of so many rows of an array."""
        return self._struct((count, *array.shape[1:]), array.dtype)

    def holds(self, condition: Any) -> Sequence[int]:
        """Conditions are taken to hold."""
        return ()

    def row(self, step: Step, fixed: Row, wanted: Row) -> Row:
        """The capacities that the policies choose; they are kept."""
        number = step.parts[2]
        policies = self._exporter.driver.policies[number]
        found = tuple(map(_capacity, policies, wanted))
        self._exporter.rows[number].add((*fixed, *found))
        return found

    def padded(self, array: Any, shape: Row) -> Any:
        """The type of an array at capacities."""
        return self._struct(shape, array.dtype)

    cut = padded

    def run(self, stage: int, statics: Row, arrays: list[Any]) -> Sequence[Any]:
        """The types of what a program gives, which is exported the first time."""
        exporter, shapes = self._exporter, tuple([a.shape for a in arrays])
        if (stage, statics, shapes) in exporter.programs:
            made = exporter.outputs((stage, statics, shapes))
        else:
            made = exporter.export(stage, statics, arrays)
        numbers = [n for n in map(self._number_of, arrays) if n is not None]
        on_host = isinstance(exporter.driver.segments[stage], Node)
        if not on_host or len(numbers) < len(arrays):
            return made
        return list(map(self._noted, made, exporter.computed(stage, numbers)))


def _as_step(given: Sequence[Any]) -> Step:
    """A step as the recorder lists it."""
    word, *parts = given
    if word == "loop":
        *first, steps, results = parts[0]
        body = tuple(map(_as_step, steps)), tuple(results)
        return Step(word, (Loop._make([*first, *body]),))
    return Step(word, tuple(parts))


def _with_rows(step: list[Any], tables: Sequence[Any]) -> list[Any]:
    """A step, with rows of capacities in place of the number of policies."""
    if step[0] == "capacities":
        return [*step[:3], tables[step[3]]]
    if step[0] != "loop":
        return step
    *first, steps, results = step[1]
    return ["loop", [*first, [_with_rows(s, tables) for s in steps], results]]


def _capacity(capacities: Capacities, size: int) -> int:
    function, rest = capacity_call(capacities)
    found: int = function(size, *rest)
    return found


def _elements(row: Row) -> tuple[int, Row]:
    """Smaller capacities come first."""
    return math.prod(row), row


def _kinds(arrays: Iterable[Any]) -> list[list[Any]]:
    return [["", a.dtype.name, list(a.shape)] for a in arrays]


def _alone(node: Node) -> Any:
    """A node that runs on the host as a jitted function of what is no literal."""
    taken = [
        variable(f"x{i}", v.type) if literal_of(v) is None else v
        for i, v in enumerate(node.inputs)
    ]
    inputs = tuple([v for v in taken if literal_of(v) is None])
    made = rebuild(node, tuple(taken), node.params).outputs
    names = tuple([v.name for v in inputs]), ("",) * len(made)
    plan = partition(Graph(inputs, made, *names), UNDIVIDED)
    flat = Outputs("tuple", (), (Outputs("single"),) * len(made))
    source = emit_jax(plan, flat)
    return Program(source.text, NAME, source.foreigns).load().segment_0


def _array_of(value: Value) -> NDArray:
    array = literal_of(value)
    assert array is not None  # as of a constant
    return array


def lifted(graph: Graph) -> Lifted:
    """Take the large constants out of a graph; integers may be sizes, and stay."""
    values = [v for n in ancestors(graph.outputs) for v in n.outputs]
    found = [(v, literal_of(v)) for v in values if is_inexact(v.dtype)]
    large = [(v, a) for v, a in found if a is not None and a.nbytes >= LEAST]
    names = tuple([f"constant_{i}" for i in range(len(large))])
    pairs = zip(names, large, strict=True)
    new = {v: variable(name, v.type) for name, (v, _) in pairs}
    outputs = tuple(substituted(graph.outputs, new, {}))
    inputs = (*graph.inputs, *new.values())
    made = Graph(inputs, outputs, (*graph.input_names, *names), graph.output_names)
    return Lifted(made, [a for _, a in large])


def _not_exported(why: str) -> GraphError:
    problem = "JAX cannot export the program"
    hint = "nothing in it may print, or call Python"
    return graph_error(problem, op="export", got=shortened(why), hint=hint)
