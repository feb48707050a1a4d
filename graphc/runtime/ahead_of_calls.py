"""Functions ahead of their calls: lowered, compiled, exported."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from graphc.errors import CallError, GraphError, graph_error
from graphc.ir.sizes.names import naming_sizes
from graphc.ir.tracebacks import hide_own_frames
from graphc.runtime.cache.whole_files import StrPath, write_whole
from graphc.runtime.call.arguments import Backend
from graphc.runtime.driver import stance
from graphc.runtime.driver.ahead import OnlySegment, structs_of
from graphc.runtime.driver.collectives import (
    Collective,
    beside_predictions,
    collectives_in,
)
from graphc.runtime.driver.log import Compilation
from graphc.runtime.pipeline import Pipeline
from graphc.runtime.program_set import ProgramSet
from graphc.runtime.ranges import (
    Ways,
    few_of,
    go_in_all_ways,
    of_capacities,
    ranges_in,
)
from graphc.runtime.save.abstract_calls import StageKey
from graphc.runtime.save.export import Contents, contents_of, file_bytes
from graphc.runtime.save.exporter import Exporter, platforms_of
from graphc.runtime.save.lowering import Lowering, executables_of
from graphc.transform.planning.forecast import SizesGiven
from graphc.transform.planning.foreseen_messages import foreseen_bytes
from graphc.transform.planning.plan import Plan
from graphc_serving.packages import needed

if TYPE_CHECKING:
    from jax.stages import Lowered


class AheadOfCalls:
    """All that a function does before it is called; a subclass holds the program."""

    backend: Backend
    jax: Any
    _pipeline: Pipeline
    _programs: ProgramSet

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """The plan of the program."""

    @abstractmethod
    def vary(self, sizes: Mapping[str, SizesGiven]) -> None:
        """With `dims="auto"`, treat these sizes as some of many that will come."""

    @abstractmethod
    def _failure(self, error: Exception, args: tuple[object, ...]) -> Exception:
        """Return the error to raise for a failure."""

    @hide_own_frames
    def compiled(self, *shapes: object) -> Any:
        """Return the bare executable for arguments of these shapes, as JAX has it.

        Pass one shape per input, or anything that has a shape. The executable takes
        arrays of JAX in the dtypes of the inputs, checks and casts nothing, and is not
        counted in `stats()`; calls of these shapes find it compiled. Raises GraphError
        unless the program is one segment at true sizes.
        """
        segment = self._only_segment("compiled")
        bound = self._programs.newest.signature.bind(shapes, {})
        args = structs_of(self.jax, bound, self._pipeline.written)
        lowered = self._make_for_call(args, segment.lowered, self.jax, args)
        (executable,) = self._compile_lowered([lowered], 1, [args])
        return executable

    @hide_own_frames
    def compile(
        self,
        sizes: Mapping[str, SizesGiven],
        threads: int | None = None,
        *,
        numbers: bool = True,
    ) -> list[Compilation]:
        """Compile for these sizes now, so that no call has to wait.

        `sizes` are given as to `plan.forecast`, together with sizes that depend on
        data, by their names in `plan`: whatever depends on sizes that are not given is
        left for the first call, with an AheadWarning. With `dims="auto"`, a `range`
        says that a size varies, so that it is padded where it can be, and a list says
        that there are few; ranges of different lengths are combined in all ways that
        fit the program, up to capacities. Sizes in ranges that the program refuses are
        left out, if others fit. Arguments without axes are taken to be Python numbers
        if `numbers`, or else arrays. XLA compiles on `threads` threads, by
        default as many as there are processors. Returns what was compiled, as in
        `stats()`.
        """
        if threads is not None and threads < 1:
            problem = "at least one thread is needed to compile on"
            raise graph_error(problem, op="compile", got=f"threads={threads}")
        ranges = ranges_in(sizes)
        if go_in_all_ways(ranges):
            others = {name: n for name, n in sizes.items() if name not in ranges}
            return self.compile_all_ways([ranges], others, threads, numbers=numbers)
        if ranges:
            self.vary(ranges)
        return self.compile_listed(
            sizes, threads, numbers=numbers, leave_out=bool(ranges)
        )

    def compile_all_ways(
        self,
        several: Sequence[Ways],
        others: Mapping[str, SizesGiven],
        threads: int | None = None,
        *,
        numbers: bool = True,
        weak: Collection[int] = (),
    ) -> list[Compilation]:
        """Compile for sizes that go together in all ways that fit the program.

        Sizes that are padded are compiled for up to capacities.
        """
        self.vary(few_of(several))
        sizes = {**others, **of_capacities(self.plan.padded, several)}
        return self.compile_listed(
            sizes, threads, numbers=numbers, leave_out=True, weak=weak
        )

    def compile_listed(
        self,
        sizes: Mapping[str, SizesGiven],
        threads: int | None = None,
        *,
        numbers: bool = True,
        leave_out: bool = False,
        weak: Collection[int] = (),
    ) -> list[Compilation]:
        """Compile for the calls that `sizes` list.

        Arguments at the places `weak` are arrays of JAX whose types are weak. With
        `leave_out`, calls that do not fit are left out if another one fits.
        """
        newest = self._programs.newest
        done, module = newest.log.done, newest.loaded.module
        before = len(done)
        with stance.lift_limits():
            lowering, calls = self._lower_calls(
                "compile", module, sizes, numbers, leave_out, weak
            )
            self._compile_lowered([*lowering.lowered.values()], threads, calls)
        lowering.warn_of_unlowered()
        return done[before:]

    @hide_own_frames
    def lower(self, sizes: Mapping[str, SizesGiven]) -> "list[Lowered]":
        """Return the program lowered for these sizes, as `jax.jit(...).lower` gives it.

        `sizes` are given as to `compile`; there is one `jax.stages.Lowered` for each
        compilation that `compile` would make. `as_text()` is its StableHLO. Nothing is
        compiled or counted.
        """
        module = self._loaded_anew()
        with stance.lift_limits():
            leave_out = bool(ranges_in(sizes))
            lowering, _ = self._lower_calls("lower", module, sizes, leave_out=leave_out)
        lowering.warn_of_unlowered()
        return [*lowering.lowered.values()]

    @hide_own_frames
    def collectives(self, sizes: Mapping[str, SizesGiven]) -> list[Collective]:
        """List the messages between devices in a call of these sizes, compiled by XLA.

        `sizes` are given as to `compile`. Each kind in a segment is listed with its
        number and bytes, beside the bytes that rules predict if all ops have such a
        rule; a program on one device has none.
        """
        module = self._loaded_anew()
        with stance.lift_limits():
            lowering, calls = self._lower_calls("collectives", module, sizes)
            lowered = lowering.lowered
            args = calls[0] if calls else ()
            compiled = self._make_for_call(
                args, executables_of, self.jax, [*lowered.values()], None
            )
        return [
            collective
            for key, executable in zip(lowered, compiled, strict=True)
            for collective in _collectives(lowering, key, executable)
        ]

    def _loaded_anew(self) -> ModuleType:
        """Load the program as a module whose traces are its own, and not counted."""
        module: ModuleType = self._programs.newest.program.load()
        return module

    def _lower_calls(
        self,
        op: str,
        module: ModuleType,
        sizes: Mapping[str, SizesGiven],
        numbers: bool = True,
        leave_out: bool = False,
        weak: Collection[int] = (),
    ) -> tuple[Lowering, Sequence[tuple[object, ...]]]:
        """Lower segments for the calls that `sizes` list, and return their arguments.

        Calls whose sizes do not fit together raise CallError; with `leave_out` they are
        left out, if another one fits.
        """
        self._require_jax(op)
        newest, target = self._programs.newest, self._pipeline.how.target
        wide, signature = newest.prepared.facts.wide, newest.signature
        kinds = signature.numbers if numbers else {}
        description = self.jax, self.plan, module, target, wide, kinds
        lowering, numbers_of_calls = Lowering(*description, op, weak), []
        misfits: list[CallError] = []
        for call in lowering.calls(sizes, op):
            args = tuple(call.arguments)
            try:
                if (misfit := signature.check(args)) is not None:
                    raise misfit
                self._make_for_call(args, lambda call=call: lowering.take(call))
            except CallError as misfit:
                misfits.append(misfit)
                if not leave_out:
                    break
            else:
                numbers_of_calls.append(tuple(call.numbers))
        if misfits and not (leave_out and numbers_of_calls):
            raise misfits[0]
        return lowering, numbers_of_calls

    @hide_own_frames
    def export(
        self,
        path: StrPath,
        sizes: Mapping[str, SizesGiven],
        *,
        graph: bool = False,
        platform: str | None = None,
        platforms: Sequence[str] | None = None,
    ) -> None:
        """Write a model for these sizes to a file, which `graphc.load` reads.

        `sizes` are given as to `compile`, together with sizes that depend on data, by
        their names in `plan`, as far as programs depend on them. A padded program
        serves all sizes that fit into the capacities of these. With `graph`, the graph
        is written too, so that the model can be compiled for other sizes; functions
        have no text. The model is for the `platform` of JAX on which the program runs,
        or for another one, as "tpu" or "cuda", or for several `platforms`. Raises
        GraphError where the driver does more than run programs and compute sizes,
        CallError for sizes that it refuses, and ModuleNotFoundError without the
        packages of the extra `export`. The file is written as a whole, or not at all.
        """
        self._require_jax("export")
        needed("export")
        default_platform = self._pipeline.how.target.platform(self.jax)
        contents = self.contents(
            sizes, platforms_of(platform, platforms, default_platform)
        )
        content = file_bytes(contents, self._pipeline.written if graph else None)
        write_whole(path, content)

    def contents(
        self, sizes: Mapping[str, SizesGiven], platforms: Sequence[str]
    ) -> Contents:
        """Return the contents of a model file for these sizes.

        Raises GraphError for a program on a mesh, which files cannot describe.
        """
        target, graph = self._pipeline.how.target, self._pipeline.written
        if target.mesh is not None:
            problem = "a program whose sizes are sharded cannot be exported yet"
            hint = "f.save(path) writes its text; with graphc.Pad() it can be exported"
            got = f"a mesh of {target.mesh}"
            raise graph_error(problem, op="export", got=got, hint=hint)
        with naming_sizes(self._pipeline.names):
            exporter = Exporter(self.jax, self.plan, target, platforms)
            for call in exporter.calls(sizes, "export"):
                args = tuple(call.arguments)
                self._make_for_call(args, lambda call=call: exporter.export(call))
            if not exporter.served:
                problem = "these sizes list no calls: nothing would be served"
                hint = 'list at least one, as {"n": [16]}'
                raise graph_error(problem, op="export", got=repr(sizes), hint=hint)
            rule = self._pipeline.how.casting
            return contents_of(exporter, graph, self._pipeline.outputs, rule)

    def _require_jax(self, op: str) -> None:
        if self.backend == "numpy":
            raise graph_error(
                "a NumPy program runs line by line: none of it is compiled",
                op=op,
                hint='leave backend="numpy" out',
            )
        if self._pipeline.how.jit is False:
            hint = "jax.jit(f.jax_callable, static_argnums=f.static_argnums).lower(...)"
            problem = "the program is compiled by its caller, since jit=False"
            raise graph_error(problem, op=op, hint=hint)

    def _only_segment(self, op: str) -> OnlySegment:
        """Return the jitted function that is all there is to compile."""
        self._require_jax(op)
        newest = self._programs.newest
        facts = newest.prepared.facts
        if newest.segment is None:
            problem = "the program is more than one jitted function"
            got = f"{facts.segments} segments on {self.backend}"
            if facts.segments == 1:
                got = "1 segment, and steps of Python beside it"
            hint = 'explain() says what splits it; jit="fewest" keeps more in one'
            raise graph_error(problem, op=op, got=got, hint=hint)
        if facts.padded:
            problem = "the program is padded: nothing is compiled for true sizes"
            hint = 'compile(sizes) takes it as it is; or pass dims="specialize"'
            raise graph_error(problem, op=op, hint=hint)
        return newest.segment

    def _compile_lowered(
        self,
        lowered: list[object],
        threads: int | None,
        calls: Sequence[tuple[object, ...]],
    ) -> list[object]:
        """Compile what was lowered for calls, and record the compilations."""
        args = calls[0] if calls else ()
        arguments = self.jax, lowered, threads
        executables = self._make_for_call(args, executables_of, *arguments)
        newest = self._programs.newest
        newest.log.settle()
        for call in calls if self._programs.adapts else ():
            newest.note(call)
        return executables

    def _make_for_call(
        self, args: tuple[object, ...], make: Callable[..., object], *arguments: object
    ) -> Any:
        """Make something for a call; an error becomes the error of that call."""
        try:
            target = self._pipeline.how.target
            return target.around(self.jax, make)(*arguments)
        except Exception as error:
            if type(error) is GraphError:
                raise
            failure = self._failure(error, args)
            raise failure from failure.__cause__


def _collectives(
    lowering: Lowering, key: StageKey, executable: Any
) -> Iterable[Collective]:
    """Return the collectives compiled for a stage, beside those predicted."""
    segment = lowering.driver.segments[key[0]]
    if not isinstance(segment, int):
        return []
    read = [*collectives_in(segment, executable.as_text() or "")]
    shapes = [a.shape for a in lowering.jax.tree.leaves(lowering.lowered[key].in_avals)]
    inputs = lowering.inputs.get(segment, ())
    predicted = foreseen_bytes(lowering.plan, segment, inputs, shapes)
    return read if predicted is None else beside_predictions(read, segment, predicted)
