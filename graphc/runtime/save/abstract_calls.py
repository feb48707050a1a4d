"""Calls of a driver's programs on types of arrays, without computing anything.

This tells exports, and compilations ahead of calls, which arguments programs will get.
"""

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy as np

from graphc.backends.jax import emit_jax
from graphc.backends.program import Outputs, Source
from graphc.ir.graph.accepted_types import DTypeLike
from graphc.ir.graph.build import literal_of, variable
from graphc.ir.graph.nodes import Graph, Node
from graphc.ir.graph.op import rebuild
from graphc.ir.sizes.dims import evaluate
from graphc.ir.types import NDArray
from graphc.ops.effects.capacities import rounded_up
from graphc.runtime.driver.devices import Target
from graphc.runtime.driver.failure import Program, ProgramCallError
from graphc.runtime.save.file_driver import FileDriver
from graphc.transform.planning.forecast import SizesGiven, sizes_of_calls
from graphc.transform.planning.grouping import UNDIVIDED
from graphc.transform.planning.partition import partition
from graphc.transform.planning.plan import Plan
from graphc.transform.tied_sizes import KnownRooms
from graphc_serving.kinds import Shaped
from graphc_serving.loops import Loop, values_for
from graphc_serving.steps import Row, Step, StepError, StepValue, Walk, follow
from graphc_serving.ufuncs import Computes, on_numbers

NAME = "<graphc exported program>"
StageKey = tuple[int, Row, tuple[tuple[int, ...], ...]]


class Stages(ABC):
    """The stages of a driver, which are made for the types that calls give them.

    `rows` are the capacities that came up, for each choice of the driver. `rooms` are
    the capacities that calls of the program had, if the program chooses among them.
    """

    rooms: KnownRooms | None = None

    def __init__(
        self,
        jax: ModuleType,
        plan: Plan,
        driver: FileDriver,
        module: object,
        target: Target,
    ) -> None:
        self.jax = jax
        self.plan = plan
        self.driver = driver
        self.constants: Sequence[NDArray] = driver.constants
        self.wide = True
        self.rows: list[set[Row]] = [set() for _ in driver.policies]
        self._module, self._target = module, target
        self._result_types: dict[StageKey, list[tuple[tuple[int, ...], Any]]] = {}
        self._alone: dict[int, Any] = {}

    def settings(self, stage: int) -> AbstractContextManager[None]:
        """Within: JAX has the bits and the device that a stage runs under."""
        wide = self.wide or self.is_on_host(stage)
        return self._target.settings(self.jax, wide)

    def calls(self, sizes: Mapping[str, SizesGiven], op: str) -> list["AbstractCall"]:
        """Return the calls that `sizes` list, those of the same sizes once."""
        symbols = self.plan.called.argument_symbols
        named = sizes_of_calls([*symbols, *self.reads(sizes)], sizes, op)
        unlike = {tuple(sorted(call.items())): call for call in named}
        return [AbstractCall(self, call) for call in unlike.values()]

    def reads(self, sizes: Container[str]) -> Sequence[str]:
        """Return the sizes that depend on data, which must be given as well."""
        return self.driver.reads

    @abstractmethod
    def make(self, key: StageKey, arguments: Sequence[object]) -> Sequence[Shaped]:
        """Make the program of a stage for types, or numbers; return its result types.

        The static arguments are those in the key.
        """

    def result_types(
        self,
        stage: int,
        statics: Row,
        structs: Sequence[Shaped],
        numbers: Sequence[object],
    ) -> list[Shaped]:
        """Return the result types of a stage, whose program is made the first time.

        `numbers` are those in the arrays, None where they are not known.
        """
        key = stage, statics, tuple([x.shape for x in structs])
        if key not in self._result_types:
            outputs = self.make(key, self._arguments(stage, structs, numbers))
            self._result_types[key] = [(tuple(x.shape), x.dtype) for x in outputs]
        make = self.jax.ShapeDtypeStruct
        with self.jax.enable_x64(True):
            return [make(*kind) for kind in self._result_types[key]]

    def _arguments(
        self, stage: int, structs: Sequence[Shaped], numbers: Sequence[object]
    ) -> Sequence[object]:
        """Return the arguments that a program is called with."""
        return structs

    def is_on_host(self, stage: int) -> bool:
        """Whether a stage is a node that the driver ran on the host."""
        return isinstance(self.driver.segments[stage], Node)

    def jitted(self, stage: int) -> Any:
        """Return the function of a stage: a segment, or a node that ran on the host."""
        segment = self.driver.segments[stage]
        if isinstance(segment, Node):
            if stage not in self._alone:
                self._alone[stage] = _jitted_node(segment)
            return self._alone[stage]
        return getattr(self._module, f"segment_{segment}")

    def computed(self, stage: int, numbers: Sequence[NDArray]) -> list[NDArray]:
        """Compute the results of a stage from numbers."""
        with self.settings(stage):
            return list(map(np.asarray, self.jitted(stage)(*numbers)))


class AbstractCall:
    """A call of given sizes on types of arrays, which makes the programs it needs."""

    def __init__(self, stages: Stages, sizes: Mapping[str, int]) -> None:
        self._stages = stages
        self.sizes = sizes
        self._numbers: dict[int, tuple[Shaped, NDArray]] = {}
        self._left: dict[str, int] = {}  # steps of loops that remain
        self._names: dict[int, str] = {}  # of sizes that are read, by their numbers
        self.capacities: dict[str, int] = {}  # of sizes that are read
        self.stored: dict[int, Row] = {}  # shapes at capacities, by the types' ids
        known = {s: sizes[s.name] for s in stages.plan.called.argument_symbols}
        self.arguments: list[Shaped] = []
        for v in stages.plan.called.inputs:
            struct = self._struct([evaluate(n, known) for n in v.type.shape], v.dtype)
            if v._symbol in known:
                self._record_numbers(struct, np.array(known[v._symbol], v.dtype))
            self.arguments.append(struct)

    def take(self) -> None:
        """Take the steps of the driver up to the last program."""
        driver, arrays = self._stages.driver, self._stages.constants
        constants = [self._struct(a.shape, a.dtype) for a in arrays]
        try:
            walk = Walk([*self.arguments, *constants], self)
            for step in driver.steps[: driver.running]:
                if step.word == "read":
                    self._names[len(walk)] = step.parts[1]
                walk.take(step)
        except StepError as error:
            raise ProgramCallError(str(error)) from None

    @property
    def numbers(self) -> list[StepValue]:
        """The arguments: integers of Python where these are known, else types."""
        known = map(self._known_numbers, self.arguments)
        pairs = zip(known, self.arguments, strict=True)
        return [a if n is None else int(n) for n, a in pairs]

    def _struct(self, shape: Iterable[int], dtype: DTypeLike) -> Shaped:
        with self._stages.jax.enable_x64(True):
            struct: Shaped = self._stages.jax.ShapeDtypeStruct(tuple(shape), dtype)
        return struct

    def _record_numbers(self, struct: Shaped, number: NDArray) -> Shaped:
        """Record the numbers that an array of this type holds; return the type."""
        self._numbers[id(struct)] = struct, number
        return struct

    def _known_numbers(self, struct: object) -> NDArray | None:
        """Return the numbers of an array, if they are known."""
        entry = self._numbers.get(id(struct))
        return None if entry is None else entry[1]

    def read(self, array: object, name: str) -> int:
        """Return the size that was given for a name, or that follows from others."""
        number = self._known_numbers(array)
        return self.sizes[name] if number is None else int(number)

    def number(self, number: float, dtype: str) -> Shaped:
        """Return the type of an integer or a float."""
        return self._record_numbers(self._struct((), dtype), np.array(number, dtype))

    def computed(self, function: Computes, operands: Sequence[Shaped]) -> Shaped:
        """Return the type of a result of NumPy, with its numbers if they are known."""
        numbers = list(map(self._known_numbers, operands))
        known = [n for n in numbers if n is not None]
        if len(known) == len(numbers):
            result = on_numbers(function, known)
            struct = self._struct(result.shape, result.dtype)
            return self._record_numbers(struct, result)
        dtype = on_numbers(function, [np.ones((), x.dtype) for x in operands]).dtype
        shape = np.broadcast_shapes(*[x.shape for x in operands])
        return self._struct(shape, dtype)

    def zeros(self, shape: Row, dtype: str) -> Shaped:
        """Return the type of an array of zeros."""
        return self._struct(shape, dtype)

    def steps(self, results: Sequence[Shaped], carries: int, name: str) -> int:
        """Return how many steps a loop does in a piece, of those that were given."""
        left = self._left.setdefault(name, self.sizes[name])
        steps_done: int = min(left, results[carries + 1].shape[0])
        self._left[name] = left - steps_done
        return steps_done

    def goes_on(self, results: Sequence[Shaped], name: str) -> bool:
        """Whether a loop has steps left after a piece."""
        return self._left[name] > 0

    def loop(self, loop: Loop, walk: Walk) -> list[Shaped]:
        """Return the result types of a loop, by one step: all have the same types."""
        operands = values_for(loop, walk)
        rows = [self._struct(x.shape[1:], x.dtype) for x in operands.rows]
        carries = [self._struct(x.shape, x.dtype) for x in operands.carries]
        follow(loop.body, [*carries, *rows, *operands.captures], loop.results, self)
        steps = operands.length if loop.going is None else self.sizes[loop.name]
        count = steps if operands.length is None else operands.length
        pairs = zip(loop.stacked, operands.shapes, strict=True)
        stacked = [self._struct((count or 0, *s), dtype) for (dtype, _), s in pairs]
        going = [] if loop.going is None else [self.number(steps or 0, "int32")]
        return [*carries, *going, *stacked]

    def joined(self, pieces: Sequence[Shaped]) -> Shaped:
        """Return the type of the rows of all pieces together."""
        count = sum(piece.shape[0] for piece in pieces)
        return self._struct((count, *pieces[0].shape[1:]), pieces[0].dtype)

    def rows(self, array: Shaped, count: int) -> Shaped:
        """Return the type of the first `count` rows of an array."""
        return self._struct((count, *array.shape[1:]), array.dtype)

    def holds(self, condition: object) -> Sequence[int]:
        """Take every condition to hold."""
        return ()

    def row(self, step: Step, fixed: Row, sizes: Row) -> Row:
        """Return the capacities that the policies choose, and record them."""
        number = step.parts[2]
        policies = self._stages.driver.policies[number]
        capacities = tuple(rounded_up(policies, sizes, self._stages.rooms))
        self._stages.rows[number].add((*fixed, *capacities))
        for formula, room in zip(step.parts[1], capacities, strict=True):
            if len(formula) == 1 and formula[0][0] == len(formula[0][1]) == 1:
                name = self._names.get(formula[0][1][0])
                self.capacities |= {} if name is None else {name: room}
        return capacities

    def padded(self, array: Shaped, shape: Row) -> Shaped:
        """Return the type of an array at capacities."""
        self.stored[id(array)] = shape
        return self._struct(shape, array.dtype)

    def cut(self, array: Shaped, shape: Row) -> Shaped:
        """Return the type of the part of an array that counts."""
        return self._struct(shape, array.dtype)

    def run(
        self, stage: int, statics: Row, arrays: Sequence[Shaped]
    ) -> Sequence[Shaped]:
        """Return the result types of a program, which is made the first time."""
        numbers = list(map(self._known_numbers, arrays))
        structs = self._stages.result_types(stage, statics, arrays, numbers)
        known = [n for n in numbers if n is not None]
        if not self._stages.is_on_host(stage) or len(known) < len(arrays):
            return structs
        results = self._stages.computed(stage, known)
        return list(map(self._record_numbers, structs, results))


def _jitted_node(node: Node) -> object:
    """Compile a node of the host to a jitted function of its inputs but literals."""
    taken = [
        variable(f"x{i}", v.type) if literal_of(v) is None else v
        for i, v in enumerate(node.inputs)
    ]
    inputs = [v for v in taken if literal_of(v) is None]
    outputs = rebuild(node, tuple(taken), node.params).outputs
    plan = partition(Graph.of(inputs, outputs), UNDIVIDED)
    return load_segments(plan)[0].segment_0


def load_segments(plan: Plan) -> tuple[Any, Source]:
    """Print a plan for true sizes, whose results are a tuple, and load the program."""
    flat = Outputs("tuple", (), (Outputs("single"),) * len(plan.graph.outputs))
    source = emit_jax(plan, flat, joining=False)
    return Program(source.text, NAME, source.foreigns).load(), source
