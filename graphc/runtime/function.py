"""Compiled functions: from the arguments of a call to its results.

    arguments -> Signature -> CallPlan (cached) -> Executable -> results

A call takes the shortest of its `Routes`. The signature binds and admits arguments, the
`ProgramSet` says which program serves their sizes, and a call plan holds everything
that follows from the sizes as straight lines, so that later calls like it do just that.
For a program of one segment, JAX's own dispatch takes arrays of JAX to its executable.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NoReturn

from graphc.backends.linear import emit_unjitted
from graphc.backends.program import segment_text
from graphc.backends.sharding.agreement import withdraw_from
from graphc.errors import CallError, graph_error, in_number
from graphc.explain.program_text import ProgramText
from graphc.explain.report import explain
from graphc.explain.summary import summary
from graphc.ir.called_first import called_first
from graphc.ir.foreign_names import OF_FUNCTION
from graphc.ir.namespace import misspelled
from graphc.ir.sizes.names import naming_sizes
from graphc.ir.tracebacks import hide_own_frames
from graphc.rewriting.engine.fixpoint import Application, rules_report
from graphc.runtime.ahead_of_calls import AheadOfCalls
from graphc.runtime.cache.whole_files import StrPath, write_whole
from graphc.runtime.call.arguments import ArgumentValues, Backend
from graphc.runtime.call.arrangement import Arrangement
from graphc.runtime.call.copying import are_small
from graphc.runtime.call.dispatch import ANY, CALL, LEND, Route, Run, acquiring
from graphc.runtime.call.lines import CallSite, Ending
from graphc.runtime.call.planned_calls import PlannedCalls
from graphc.runtime.call.routes import Calls, Routes
from graphc.runtime.call.segment_call import SegmentCalls
from graphc.runtime.driver import stance, xla
from graphc.runtime.driver.failure import (
    Program,
    ProgramCallError,
    call_error,
    not_pickled,
)
from graphc.runtime.driver.log import Stats
from graphc.runtime.driver.xla import EVENTS
from graphc.runtime.function_picture import Pictured
from graphc.runtime.making import Making
from graphc.runtime.pipeline import Pipeline
from graphc.runtime.program_set import ProgramSet
from graphc.runtime.ready_program import ReadyProgram
from graphc.runtime.save.remedies import remedy
from graphc.runtime.variants.decisions import SavedDecisions
from graphc.runtime.variants.program_decisions import collect_decisions
from graphc.transform.planning.forecast import SizesGiven
from graphc.transform.planning.plan import Plan

# Methods that other parts of graphc call, which `dir` leaves out:
_NOT_FOR_USERS = {"compiles", "contents", "making", "planned_run", "shown_programs"}
_NOT_FOR_USERS |= {"compile_all_ways", "compile_listed", "record_sizes", "vary"}


class Function(Pictured, AheadOfCalls):
    """A compiled program; call it with one argument per input.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x = gt.vector("x", shape=("n",))
    >>> f = graphc.function([x], gt.sum(x * x))
    >>> print(f(np.array([3, 4], "float32")), f.stats().calls)
    25.0 1

    `source` is the very text that runs (with two tiers, the text on JAX). Copies and
    unpickled functions are compiled anew, by `making`.
    """

    backend: Backend
    making: Making | None = None

    def __init__(self, pipeline: Pipeline, defaults: Mapping[int, object]) -> None:
        self._pipeline = pipeline
        self.backend = pipeline.how.backend
        self._counted: set[Route] = set()
        self._failed = 0
        self._placements = stance.Placements()
        changed = self._choose_routes
        self._programs = ProgramSet(pipeline, defaults, self._calls, changed)
        self._choose_routes()
        self._programs.resume()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _NOT_FOR_USERS]

    if not TYPE_CHECKING:  # which knows all attributes

        def __getattr__(self, name: str) -> NoReturn:
            message = f"a compiled function has no attribute {name!r}"
            way = OF_FUNCTION.get(name)
            message += f"; {way}" if way else misspelled(name, dir(self))
            raise AttributeError(message, name=name, obj=self)

    def _choose_routes(self) -> None:
        """Choose the routes of calls for the newest program."""
        newest = self._programs.newest
        self._planned = self._make_call_plans(newest)
        plans = self._planned
        planned = None if plans is None else plans.by_plans(self._reroute)
        self._routes = Routes.of(self._call, planned)
        target, older = self._pipeline.how.target, self._programs.older
        alone = self._programs.tiers is None and target.device is None and not older
        segment, padded = newest.segment, newest.prepared.facts.padded
        if segment is not None and alone and not padded:
            jax, signature = newest.loaded.jax, newest.signature
            calls = Calls(self._call, self._missed, self._reroute)
            self._routes.shorten(segment, jax, signature, calls)
        self._counted.update(self._routes.all)
        self._acquire = self._routes.device.acquire
        self._acquire_borrowed = self._routes.borrowed.acquire

    def _make_call_plans(self, newest: ReadyProgram) -> PlannedCalls | None:
        """Make the call plans of the program; None if plans cannot do all of a call."""
        programs, prepared, loaded = self._programs, newest.prepared, newest.loaded
        jax, padded = loaded.jax, prepared.facts.padded
        chosen = programs.tiers is not None or self._pipeline.how.target.is_chosen
        if jax is None or not padded or chosen or programs.observes:
            return None
        newest.counts_all = True
        target = self._pipeline.how.target
        site = CallSite(
            jax,
            SegmentCalls(loaded, prepared, newest.segment, target),
            getattr(loaded.module, "on_device", None),
            target.costs.launches,
            loaded.announced,
            self._call,
            programs,
            newest,
            self._fail,
            self._interrupt,
            getattr(loaded.module, "ROOMS", None),
            loaded.announced.pending,
            self._settle,
        )
        dtypes, outputs = newest.signature.dtypes, self._pipeline.outputs
        return PlannedCalls(prepared, dtypes, outputs, site)

    @property
    def source(self) -> ProgramText:
        """The text of the program that runs; `source.model` is the part to read."""
        return ProgramText.of(self._programs.newest.program.text)

    @property
    def jax(self) -> Any:
        """The module of JAX that the program uses; None for one on NumPy."""
        return self._programs.newest.loaded.jax

    @property
    def rewrites(self) -> tuple[Application, ...]:
        """The rules that changed the graph before it was planned, and where."""
        return self._pipeline.log

    if TYPE_CHECKING:

        def __call__(self, /, *args: object, **named: object) -> Any:
            """Run the program."""

        lend = __call__

    else:
        __call__, lend = acquiring(CALL), acquiring(LEND, "_acquire_borrowed")
        __signature__ = ANY

    def _call(self, /, *args: object, **named: object) -> object:
        """Run the program on arguments that may have to be bound and admitted."""
        start, programs = EVENTS.count, self._programs
        signature, is_run = programs.newest.signature, False
        try:
            if named or len(args) != signature.count:
                args = signature.bind(args, named)
            kinds = set(map(type, args))
            if kinds <= signature.direct:
                self._acquire = self._routes.device.acquire
            elif not kinds <= signature.plain:
                args = self._admitted(args)
            self._require_placed(args)
            is_run = True
            result = programs.run(*args)
        except Exception as error:
            failure = self._fail(error, args)
            if not is_run:
                self._withdraw(failure, args)
            raise failure from failure.__cause__
        except BaseException:
            self._interrupt()
            raise
        newest = programs.newest
        may_be_planned = self._planned is not None and not programs.serves_older(args)
        if newest.log.is_pending or EVENTS.count != start:
            self._settle(args, start)
        elif self._planned is not None and may_be_planned and self._planned.find(args):
            self._acquire = self._routes.plans.acquire
        if may_be_planned:  # else the program has counted the call
            newest.count(args)
        return result

    def planned_run(
        self, args: ArgumentValues, finish: Callable[[list[Any]], object], default: Run
    ) -> Run | None:
        """Return a function that runs calls like this one, now done, by a plan.

        It counts the calls, and returns what `finish` makes of the list of results,
        which are arrays of their own. Where no plan holds any longer, `default` runs
        the call. The result is None where there is no such plan.
        """
        if self._planned is None or self._programs.serves_older(args):
            return None
        newest = self._programs.newest
        try:
            sizes = newest.sizes(args)
        except ValueError:  # one has no capacity: the program says so
            return None
        counter = newest.served.counter(sizes)
        self._counted.add(counter)
        ending = Ending(counter.acquire, finish)
        return self._planned.run_with_ending(args, ending, default)

    def _admitted(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """Return the arguments as the program takes them; route others like them."""
        signature, routes = self._programs.newest.signature, self._routes
        admitted = signature.admit(args)
        if routes.copies is not routes.host and signature.need_copies(args):
            small = are_small(args, signature.dtypes)
            self._acquire = (routes.small if small else routes.copies).acquire
        return admitted

    def _missed(self, /, *args: object, borrowed: bool = False, **named: object) -> Any:
        """Run a call that JAX has no program for: results, and what JAX is to keep.

        Arrays of JAX in the dtypes of the inputs need nothing the next time, nor do
        NumPy arrays that are `borrowed`.
        """
        if named or not self._programs.newest.signature.fits(args, borrowed):
            self._acquire = self._routes.host.acquire
            return self._call(*args, **named), None, False
        return self._run_watched(self._run_miss, args)

    def _run_miss(self, /, *args: object) -> object:
        """Do as JAX's cache miss does, unless another program is to run the call."""
        self._require_placed(args)
        miss = self._routes.miss
        programs = self._programs
        other = programs.run_for_new_sizes(args) if programs.adapts else None
        if other is None:
            return miss(*args)
        results = other(*args)
        if self._planned is not None:  # else the program has counted the call
            self._programs.newest.count(args)
        return results, None, False

    def _reroute(self, /, *args: object, **named: object) -> object:
        """Run a call that came to a route that is not for it."""
        self._acquire = self._routes.host.acquire
        return self._call(*args, **named)

    def _run_watched(
        self, run: Callable[..., object], args: tuple[object, ...]
    ) -> object:
        """Call `run` on arguments, and record faults and compilations."""
        start = EVENTS.count
        try:
            results = run(*args)
        except Exception as error:
            failure = self._fail(error, args)
            raise failure from failure.__cause__
        except BaseException:
            self._interrupt()
            raise
        if self._programs.newest.log.is_pending or EVENTS.count != start:
            self._settle(args, start)
        return results

    def _settle(self, args: tuple[object, ...], start: int) -> None:
        """Record what the call has compiled, and change the program if that helps."""
        self._placements.note(partial(self._programs.newest.key, args), args)
        self._programs.settle(args, start)

    def _require_placed(self, args: tuple[object, ...]) -> None:
        newest = self._programs.newest
        announced = newest.loaded.announced
        self._placements.require(announced, partial(newest.key, args), args)

    def vary(self, sizes: Mapping[str, SizesGiven]) -> None:
        """With `dims="auto"`, take these sizes to be some of many that will come."""
        self._programs.vary(sizes)

    def _calls(self) -> int:
        """Return how many calls so far have not failed."""
        routes = tuple(self._counted)  # other threads may add to them
        return sum(route.calls for route in routes) - self._failed

    def _withdraw(self, failure: Exception, args: tuple[object, ...]) -> None:
        """Let other processes know of a call that was refused before it could run."""
        mesh, jax = self._pipeline.how.target.mesh, self.jax
        if mesh is not None and mesh.processes:
            withdraw_from(jax, mesh.processes, str(failure), args)

    def _interrupt(self) -> None:
        """Note that the user has ended a call, which is not counted."""
        self._failed += 1
        self._programs.end_failed_run().log.interrupt()

    def _fail(self, error: Exception, args: tuple[object, ...]) -> Exception:
        """Return the error of a failed call, which is not counted."""
        self._failed += 1
        return self._failure(error, args)

    def _failure(self, error: Exception, args: tuple[object, ...]) -> Exception:
        """Return the error that explains a failure; compiled segments stay compiled."""
        programs = self._programs
        running_program = programs.end_failed_run()
        if type(error) is CallError:  # from the signature
            return error.with_traceback(None)
        if isinstance(error, stance.Refused):
            refusal = self._refusal(error, running_program, args)
            running_program.log.fail(())  # what was compiled before it is compiled
            return refusal
        program, signature = running_program.program, programs.newest.signature
        running_program.log.fail({name for name, _ in program.frames(error)})
        misfit = signature.check(args)  # sees the arguments as they were given
        if misfit is not None:
            return misfit
        if isinstance(error, ProgramCallError):
            return error.for_users(signature.misfit(error, args))
        if programs.tiers is not None and programs.tiers.program.frames(error):
            program = programs.tiers.program
        return call_error(error, program, signature.text(args))

    def _refusal(
        self, refused: stance.Refused, program: ReadyProgram, args: tuple[object, ...]
    ) -> Exception:
        """Return the error of a call that needs a compilation but may not have one."""
        newest = self._programs.newest
        if program is not newest:
            program.leave(args)  # `compile` compiles the newest
        reason = program.log.reason_for(refused.segment, refused.sizes)
        hint = remedy(program.prepared, args, refused)
        error = stance.refusal(refused, reason, newest.signature.text(args), hint)
        error.function = self
        return error

    def compiles(self, owner: object) -> bool:
        """Whether the owner of a compilation is a program of this function."""
        return owner is self or self._programs.compiles(owner)

    @cached_property
    def _unjitted(self) -> Plan:
        """The plan at true sizes, without tests that the host makes."""
        return self._pipeline.unjitted()

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """Positions of the inputs that must be static when users jit themselves."""
        return self._unjitted.static_inputs

    @cached_property
    def jax_callable(self) -> Callable[..., Any]:
        """The program as plain JAX, un-jitted, to transform and compile yourself."""
        source = emit_unjitted(self._unjitted, self._pipeline.outputs)
        name = xla.file_name("un-jitted", source.text)
        program = Program(source.text, name, source.foreigns)
        run: Callable[..., Any] = program.load().program
        return run

    def record_sizes(self, sizes: Mapping[str, int]) -> None:
        """Count sizes, by name, of calls that another program ran.

        With `dims="auto"`, they are among those that tell which sizes vary.
        """
        self._programs.record_sizes(sizes)

    @property
    def decisions(self) -> SavedDecisions:
        """The decisions about sizes so far, for other processes; see `function`."""
        programs, graph = self._programs, self._pipeline.written
        compiled = [(one.prepared, one.log.done) for one in programs.in_use]
        return SavedDecisions((collect_decisions(graph, programs.policies, compiled),))

    @called_first
    def stats(self) -> Stats:
        """Calls and compilations so far."""
        programs = self._programs
        numpy = 0 if programs.tiers is None else programs.tiers.calls
        changes = list(programs.changes)
        return Stats(self._calls(), programs.compilations, changes, numpy)

    @hide_own_frames
    def explain(self, full: bool = False) -> str:
        """Why the program is split as it is: a line per segment and per reason.

        `full`: each step, with the user's lines, guards, and the rules applied before.
        """
        tiers = self._programs.tiers
        tier = "" if tiers is None else tiers.explain()
        with naming_sizes(self.plan.names(self._pipeline.names)):
            if not full:
                return summary(self.plan, self.backend) + tier
            return explain(self.plan, self.backend) + tier + rules_report(self.rewrites)

    @property
    def numpy_source(self) -> ProgramText:
        """The text that runs on NumPy; with one tier "", or `source` itself."""
        if self._programs.tiers is not None:
            return ProgramText.of(self._programs.tiers.program.text)
        return self.source if self.backend == "numpy" else ProgramText.of("")

    @hide_own_frames
    def segment_source(self, index: int) -> str:
        """The lines of `source` that segment `index` of the plan is printed as."""
        text = segment_text(self.source, index) if type(index) is int else None
        if text is not None:
            return text
        problem = f"there is no segment {index!r}"
        parts = self._programs.newest.prepared.facts.segments
        got = f"{in_number(parts, 'segment')} on {self.backend}"
        raise graph_error(problem, op="segment_source", got=got)

    @hide_own_frames
    def save(self, path: StrPath) -> None:
        """Write the program to a file that runs without graphc."""
        write_whole(path, self.source.encode())

    def __reduce__(self) -> tuple[object, ...]:
        if self.making is None:
            raise not_pickled(repr(self))
        return methodcaller("function"), (self.making,)

    def __repr__(self) -> str:
        with naming_sizes(self._pipeline.names):
            signature = self._pipeline.written.signature
        return f"<graphc.Function {signature} on {self.backend}>"


class ArrangedFunction(Function):
    """A compiled program that is called with arrays in structures like its inputs'."""

    def __init__(
        self,
        arrangement: Arrangement,
        pipeline: Pipeline,
        defaults: Mapping[int, object],
    ) -> None:
        super().__init__(pipeline, defaults)
        self._arrangement = arrangement

    def __call__(self, /, *args: object, **named: object) -> Any:
        """Run the program."""
        return super().__call__(*self._arrangement.flat(args, named))

    def lend(self, /, *args: object, **named: object) -> Any:
        """Run the program on arrays that it may keep."""
        return super().lend(*self._arrangement.flat(args, named))
