"""Programs that are lowered and compiled before they are called.

The steps of the driver are taken on types of arrays, and each segment is lowered for
the arguments that it meets. JAX keeps what it has lowered and compiled, so that a call
for which this was done ahead finds it there.
"""

import os
import warnings
from collections.abc import Collection, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import ModuleType
from typing import Any

from graphc.errors import GraphError, graph_error, shortened, user_level
from graphc.ir.graph.nodes import Value
from graphc.ops.effects.guesses import guess_ahead
from graphc.runtime.cache.jax_cache import Executables
from graphc.runtime.driver.devices import Target
from graphc.runtime.driver.meshes import jax_sharding
from graphc.runtime.driver.misfits import has_flags
from graphc.runtime.save.abstract_calls import AbstractCall, StageKey, Stages
from graphc.runtime.save.file_driver import FileDriver
from graphc.runtime.save.file_steps import file_steps
from graphc.transform.planning.driver import driver_of, is_direct
from graphc.transform.planning.forecast import SizesGiven
from graphc.transform.planning.guesses import GuessingSegment
from graphc.transform.planning.plan import Check, Plan
from graphc.transform.tied_sizes import KnownRooms
from graphc.warning_kinds import AheadWarning
from graphc_serving.kinds import Shaped


class _MissingSize(Exception):
    """Raised for a size that depends on data, is needed, and was not given.

    The argument is its name.
    """


class _SizesOfCall(dict[str, int]):
    def __missing__(self, name: str) -> int:
        raise _MissingSize(name)


class Lowering(Stages):
    """Lowers the segments of a program, `module`, for the sizes of calls."""

    def __init__(
        self,
        jax: ModuleType,
        plan: Plan,
        module: object,
        target: Target,
        wide: bool,
        kinds: Mapping[str, complex],
        op: str,
        weak: Collection[int] = (),
    ) -> None:
        """Take arguments of rank 0 for Python's numbers, if `kinds` has their kind.

        Those at the positions `weak` are arrays of JAX of weak types.
        """
        super().__init__(jax, plan, steps_without_checks(plan, op), module, target)
        self.wide = wide
        self.rooms: KnownRooms | None = getattr(module, "ROOMS", None)
        self.lowered: dict[StageKey, Any] = {}
        self.unknown: dict[str, None] = {}  # sizes that are needed to go on
        inputs = plan.graph.inputs
        sizes = inputs[len(plan.called.inputs) :]
        self._numbers: dict[Value, complex] = dict.fromkeys(sizes, 0)
        self._numbers |= {
            v: kinds[v.dtype.kind] for v in inputs if _is_one_of(v, kinds)
        }
        same = zip(inputs, plan.called.inputs, strict=False)
        self._weak = {v for i, (v, old) in enumerate(same) if i in weak and v is old}
        direct = is_direct(plan)
        self.inputs: dict[int, tuple[Value, ...]] = {
            s.index: inputs if direct else s.inputs
            for s in plan.segments
            if s.rows is None  # its driver makes arrays of numbers
        }
        self._guessing: dict[object, GuessingSegment] = {
            s.index: s for s in plan.segments if isinstance(s, GuessingSegment)
        }
        self._op = op
        self._layout = plan.layout

    def reads(self, sizes: Container[str]) -> Sequence[str]:
        """Return the sizes that depend on data, as far as they are given."""
        return [name for name in self.driver.reads if name in sizes]

    def take(self, call: AbstractCall) -> None:
        """Lower for a call, up to where a size is needed that was not given."""
        try:
            call.take()
        except _MissingSize as error:
            self.unknown[str(error)] = None

    def calls(self, sizes: Mapping[str, SizesGiven], op: str) -> list[AbstractCall]:
        """Return the calls that `sizes` list, which may turn out to need more sizes."""
        abstract_calls = super().calls(sizes, op)
        return [AbstractCall(self, _SizesOfCall(call.sizes)) for call in abstract_calls]

    def _arguments(
        self, stage: int, structs: Sequence[Shaped], numbers: Sequence[object]
    ) -> Sequence[object]:
        """Pass true sizes of padded arguments as integers of Python."""
        index = self.driver.segments[stage]
        inputs = self.inputs.get(index, ()) if isinstance(index, int) else ()
        arguments: list[object] = list(structs)
        for i, value in enumerate(inputs):
            struct = self._placed_struct(value, structs[i])
            arguments[i] = self._numbers.get(value, struct)
        return arguments

    def _placed_struct(self, value: Value, struct: Shaped) -> Shaped:
        """Return the type of an argument, with its sharding if there is a mesh."""
        layout, options = self._layout, dict[str, object]()
        if value in self._weak:
            options["weak_type"] = True
        axes = None if layout is None else layout.of(value)
        if layout is not None and axes is not None:
            options["sharding"] = jax_sharding(layout.mesh, axes)
        if not options:
            return struct
        placed: Shaped = self.jax.ShapeDtypeStruct(
            struct.shape, struct.dtype, **options
        )
        return placed

    def make(self, key: StageKey, arguments: Sequence[object]) -> Sequence[Shaped]:
        """Lower the program of a stage for these arguments; return its result types."""
        stage, statics, _ = key
        jitted = self.jitted(stage)
        with self.settings(stage):
            if self.is_on_host(stage):
                return self._leaves(self.jax.eval_shape(jitted, *arguments))
            lowered = self.lowered[key] = jitted.lower(*arguments, *statics)
        self._record_guesses(stage, statics, arguments)
        return self._leaves(lowered.out_info)

    def _record_guesses(
        self, stage: int, statics: Sequence[int], arguments: Sequence[object]
    ) -> None:
        """Make later calls guess the capacities that a stage is lowered for."""
        segment = self._guessing.get(self.driver.segments[stage])
        if segment is not None:
            of_statics = dict(zip(segment.statics, statics, strict=True))
            rooms = tuple([of_statics.pop(s) for s in segment.guesses])
            guesses = getattr(self._module, f"GUESSES_{segment.index}")
            guess_ahead(guesses, arguments, tuple(of_statics.values()), rooms)

    def _leaves(self, returned: Any) -> Sequence[Shaped]:
        results = returned[0] if has_flags(returned) else returned
        leaves: Sequence[Shaped] = self.jax.tree_util.tree_leaves(results)
        return leaves

    def warn_of_unlowered(self) -> None:
        """Warn of programs that were not lowered, since they depend on data."""
        if self.unknown:
            names = ", ".join(self.unknown)
            example = ", ".join(f'"{name}": [...]' for name in self.unknown)
            problem = (
                f"{self._op}: what depends on {names} is left to the first call: the "
                f"program reads it from the device\n"
                f"  hint: also give numbers that it may take, as {{{example}}}"
            )
            warnings.warn(problem, AheadWarning, stacklevel=user_level())


def _is_one_of(value: Value, kinds: Mapping[str, object]) -> bool:
    return not value.type.rank and value.dtype.kind in kinds


def executables_of(
    jax: ModuleType, lowered: Sequence[object], threads: int | None
) -> list[object]:
    """Compile lowered programs to executables, with XLA on several threads."""
    executables = Executables(jax)

    def compile(one: Any) -> object:
        with executables.kept():
            return one.compile()

    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        return list(pool.map(compile, lowered))


def steps_without_checks(plan: Plan, op: str) -> FileDriver:
    """Write the driver of a plan as steps, with all checks taken to hold.

    Raises GraphError where the driver does more than steps can say.
    """
    steps = tuple([s for s in plan.steps if not isinstance(s, Check)])
    try:
        return file_steps(driver_of(replace(plan, steps=steps)), ())
    except GraphError as error:
        first = shortened(str(error).splitlines()[0])
        raise graph_error(
            "the driver computes something on the host that sizes depend on",
            op=op,
            got=first,
            hint="call the function once for each of the sizes",
        ) from None
