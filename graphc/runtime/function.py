"""Compiled functions: binding arguments and calling the program."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from graphc.backends.linear import emit_unjitted
from graphc.backends.program import entry, segment_text
from graphc.errors import CallError, graph_error
from graphc.explain.report import explain
from graphc.explain.summary import summary
from graphc.ir.sizes.names import naming
from graphc.rewriting.engine.fixpoint import Application, applied
from graphc.runtime.ahead_of_calls import AheadOfCalls
from graphc.runtime.cache.prepared import Prepared
from graphc.runtime.cache.whole_files import StrPath, write_whole
from graphc.runtime.call import nan_checks
from graphc.runtime.call.arguments import Signature
from graphc.runtime.call.copying import (
    are_small,
    on_borrowed,
    on_copies,
    on_small_copies,
)
from graphc.runtime.call.dispatch import (
    ANY,
    CALL,
    LEND,
    Route,
    Run,
    acquiring,
    dispatcher,
    kept_by,
)
from graphc.runtime.call.lines import CallSite
from graphc.runtime.call.planned_calls import PlannedCalls
from graphc.runtime.driver import stance, xla
from graphc.runtime.driver.ahead import OnlySegment
from graphc.runtime.driver.failure import (
    Program,
    ProgramCallError,
    call_error,
    not_pickled,
    running,
)
from graphc.runtime.driver.log import Compilation, Log, Stats
from graphc.runtime.driver.misfits import fitting, missed
from graphc.runtime.driver.programs import loader
from graphc.runtime.driver.xla import EVENTS
from graphc.runtime.making import Making
from graphc.runtime.pictured import Pictured
from graphc.runtime.pipeline import Pipeline
from graphc.runtime.save.remedies import remedy
from graphc.runtime.variants.adapt import Change
from graphc.runtime.variants.decided import decided
from graphc.runtime.variants.decisions import SavedDecisions
from graphc.runtime.variants.generations import Generation, Generations
from graphc.runtime.variants.tiering import Tiers
from graphc.transform.planning.forecast import SizesGiven, sizes_of_calls
from graphc.transform.planning.plan import Plan


class Function(Pictured, AheadOfCalls):
    """A compiled program; call it with one argument per input.

    `source` is the very text that runs (with two tiers, that on JAX). A copy of it,
    and one from a pickle, is compiled anew, by its `making`.
    """

    making: Making | None = None

    def __init__(self, pipeline: Pipeline, defaults: Mapping[int, Any]) -> None:
        how = pipeline.how
        self._pipeline = pipeline
        self._target = how.target
        self._load = loader()
        self._names = pipeline.names  # of sizes, where not their own
        self.backend = how.backend
        self._outputs = pipeline.outputs
        self._defaults = defaults
        self._watching = pipeline.watching()
        self._changing = pipeline.adapts and how.tier != "auto"
        self._routes: list[Route] = []
        self._failed = 0
        self._placements = stance.Placements()
        self._before: list[Compilation] = []
        self._generations = Generations()
        self._changes: list[str] = []
        prepared, numpy = pipeline.prepared(), pipeline.on_numpy()
        self._tiers = numpy and Tiers(*numpy, self._outputs, self._changes.append)
        self._install(prepared)
        if pipeline.adapts:
            self._resume()

    def _install(self, prepared: Prepared, since: str = "") -> None:
        """Go on with this program, since sizes were seen to vary."""
        self._prepared = prepared
        self.source = prepared.facts.text
        graph = self._pipeline.written
        self._count = len(graph.inputs)
        name = xla.file_name(self.backend, self.source)
        self._program = Program(self.source, name, prepared.foreigns)
        self._loaded = self._load(self._program)
        self.jax: Any = self._loaded.jax  # which NumPy programs lack
        module, announced = self._loaded.module, self._loaded.announced
        self._pending = announced.pending
        self._log = Log(prepared, self._names, announced, since)
        self._signature = Signature(
            graph.inputs,
            graph.input_names,
            self._defaults,
            self.backend,
            module.check_inputs,
            self._pipeline.how.casting,
            self.jax if self._tiers is None else None,
            prepared.facts.padded_inputs,
        )
        self._plain, self._direct = self._signature.plain, self._signature.direct
        self._dtypes = tuple([v.dtype for v in graph.inputs])
        self._segment = (
            OnlySegment(module.segment_0, prepared.facts.wide, self._target)
            if prepared.facts.alone
            else None
        )
        self._run = self._runner(prepared, module)
        self._planned = self._plans(prepared, module)
        self._choose_routes()

    def _resume(self) -> None:
        """Go on from the sizes that functions before had of the same programs."""
        told = None
        while self._loaded is not told and self._loaded.compilations:
            told = self._loaded
            self._adapt(told.compilations)
            for sizes in [*told.left] if self._loaded is told else ():
                self._foresee(sizes)

    def _runner(self, prepared: Prepared, module: Any) -> Callable[..., object]:
        """The function that runs a call on this program, or an older."""
        run: Callable[..., Any] = module.program
        segment, facts = self._segment, prepared.facts
        if segment is not None and segment.wide:
            name = entry(facts.padded)
            within = xla.wide(self.jax, getattr(module, name), segment.jitted)
            setattr(module, name, fitting(within, segment.jitted))
            run = module.program
        run = self._target.around(self.jax, run)
        if self.jax is not None and facts.padded:
            run = nan_checks.around(self.jax, run)
        self._newest = Generation(prepared, self._program, run, self._log)
        if self._changing and (facts.segments > 1 or self._newest.is_open):
            run = self._newest.observed(run, self._instead)
        run = self._generations.around(run)
        if self._tiers is not None:
            run = self._tiers.around(prepared, run, self._loaded.announced)
        return run

    def _plans(self, prepared: Prepared, module: Any) -> PlannedCalls | None:
        """The call plans of the program; None where calls need more than they tell."""
        padded = self.jax is not None and prepared.facts.padded
        if not padded or self._tiers is not None or self._target.is_chosen:
            return None
        newest = self._newest
        if self._changing and (prepared.facts.segments > 1 or newest.is_open):
            return None  # each call is observed
        site = CallSite(
            self.jax,
            getattr(module, entry(padded=True)),
            getattr(module, "on_device", None),
            self._call,
            lambda: self._newest is newest,
            self._fail,
            lambda: bool(self._pending),
            self._settle,
        )
        return PlannedCalls(prepared, self._dtypes, self._outputs, site)

    def _choose_routes(self) -> None:
        """Choose the route of calls: where all is one jitted function, JAX's own."""
        self._on_host = self._on_device = Route(self._call)
        self._on_small = self._on_copies = self._on_borrowed = self._on_host
        self._on_plans = self._on_host
        elsewhere = self._tiers, self._target.device
        alone = elsewhere == (None, None) and not self._generations.older
        if self._segment is not None and alone and not self._prepared.facts.padded:
            self._route_to(self._segment)
        if self._planned is not None:
            self._on_plans = Route(self._planned.around(self._leave))
        small = self._on_small, self._on_copies, self._on_borrowed
        self._routes += {self._on_host, self._on_device, self._on_plans, *small}
        self._acquire = self._on_device.acquire
        self._acquire_borrowed = self._on_borrowed.acquire

    @property
    def rewrites(self) -> tuple[Application, ...]:
        """The rules that changed the graph before it was planned, and where."""
        return self._pipeline.log

    def _route_to(self, segment: OnlySegment) -> None:
        """Let calls go straight to a jitted function, if JAX can."""
        miss = kept_by(segment.jitted)
        dispatched = partial(dispatcher, self.jax, segment.jitted, plainly=self._call)
        plain = dispatched(self._missed)
        borrowing = dispatched(partial(self._missed, borrowed=True))
        if miss is None or plain is None or borrowing is None:
            return
        miss = missed(miss, segment.jitted)
        if segment.wide:
            miss = self.jax.enable_x64(True)(miss)
            borrowing = xla.wide(self.jax, self._call, borrowing)
        self._miss, dtypes = miss, self._dtypes
        self._on_device = Route(plain)
        self._on_borrowed = Route(on_borrowed(borrowing, dtypes, self._call))
        self._on_small = Route(on_small_copies(borrowing, dtypes, self._leave))
        self._on_copies = Route(on_copies(borrowing, dtypes, self._plain, self._leave))

    if TYPE_CHECKING:

        def __call__(self, /, *args: object, **named: object) -> Any:
            """Run the program."""

        lend = __call__

    else:
        __call__, lend = acquiring(CALL), acquiring(LEND, "_acquire_borrowed")
        __signature__ = ANY

    def _call(self, /, *args: object, **named: object) -> object:
        """Run the program on arguments that may have to be bound, and admitted."""
        start = len(EVENTS)
        try:
            if named or len(args) != self._count:
                args = self._signature.bind(args, named)
            kinds = set(map(type, args))
            if kinds <= self._direct:
                self._acquire = self._on_device.acquire
            elif not kinds <= self._plain:
                args = self._admitted(args)
            self._require_placed(args)
            result = self._run(*args)
        except Exception as error:
            failure = self._fail(error, args)
            raise failure from failure.__cause__
        except BaseException:  # the user interrupts
            self._log.interrupt()
            raise
        if self._pending or len(EVENTS) != start:
            self._settle(args, start)
        elif self._planned is not None and self._plan_like(args) is not None:
            self._acquire = self._on_plans.acquire
        return result

    def _plan_like(self, args: tuple[object, ...]) -> Run | None:
        """The function that runs calls like this one by a plan of this program, if any.

        Programs before it run the calls of sizes that they are compiled for.
        """
        if self._planned is None or self._generations.serve(args):
            return None
        return self._planned.find(args)

    def runner(self, args: tuple[Any, ...]) -> Run:
        """The function that runs calls like this one, now done, and counts them."""
        run = self._plan_like(args)
        if run is None:
            return self
        acquire = self._on_plans.acquire

        def counted(*args: object) -> Any:
            acquire()
            return run(*args)

        return counted

    def _admitted(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """The arguments as the program takes them; others alike have a route then."""
        admitted = self._signature.admit(args)
        if self._on_copies is not self._on_host and self._signature.need_copies(args):
            route = self._on_small if are_small(args, self._dtypes) else self._on_copies
            self._acquire = route.acquire
        return admitted

    def _missed(self, /, *args: object, borrowed: bool = False, **named: object) -> Any:
        """A call that JAX has no program for: results, and what it shall keep.

        Arrays of JAX in the dtypes of the inputs need nothing the next time, nor do
        those of NumPy that are `borrowed`.
        """
        if named or not self._signature.fits(args, borrowed):
            self._acquire = self._on_host.acquire
            return self._call(*args, **named), None, False
        return self._watched(self._met, args)

    def _met(self, /, *args: object) -> object:
        """As `_miss`, unless another program is to run the call."""
        self._require_placed(args)
        other = self._instead(args) if self._changing else None
        return self._miss(*args) if other is None else (other(*args), None, False)

    def _leave(self, /, *args: object, **named: object) -> object:
        """A call that its route is not for."""
        self._acquire = self._on_host.acquire
        return self._call(*args, **named)

    def _watched(self, run: Callable[..., object], args: tuple[object, ...]) -> object:
        """Run on arguments; faults and compilations are recorded."""
        start = len(EVENTS)
        try:
            results = run(*args)
        except Exception as error:
            failure = self._fail(error, args)
            raise failure from failure.__cause__
        except BaseException:  # the user interrupts
            self._log.interrupt()
            raise
        if self._pending or len(EVENTS) != start:
            self._settle(args, start)
        return results

    def _settle(self, args: tuple[object, ...], start: int) -> None:
        """Record what the call has compiled, and change the program if that helps."""
        self._placements.note(partial(self._newest.key, args), args)
        new = self._log.settle(xla.since(max(start, self._generations.start)))
        self._loaded.compilations += new
        if self._changing and new:
            self._newest.note(args)
        self._adapt(new)

    def _require_placed(self, args: tuple[object, ...]) -> None:
        sizes = partial(self._newest.key, args)
        self._placements.require(self._loaded.announced, sizes, args)

    def _adapt(self, new: list[Compilation]) -> None:
        """Change the program where sizes have turned out to vary."""
        change = self._watching.notice(new, self._prepared, self._calls())
        if change:
            self._go_on(change)

    def _go_on(self, change: Change) -> None:
        """Run another program from now on; this one for what it is compiled for."""
        plan, source, why = change
        if not self._changing:
            self._before += self._log.done
        elif self._log.done:
            self._generations.older.append(self._newest)
        self._changes.append(why)
        self._install(Prepared.of(plan, source), why.partition(", from now on")[0])

    def _instead(self, args: tuple[object, ...]) -> Callable[..., object] | None:
        """The function to run calls by, if these sizes, which are new, change that."""
        if stance.refusing(self._loaded.announced) is not None:
            return None  # nothing changes where nothing may be compiled
        loaded, sizes = self._loaded, self._newest.sizes(args)
        self._foresee(sizes)
        if self._loaded is not loaded:
            loaded.left.append(sizes)
        return None if self._loaded is loaded else self._run

    def _foresee(self, sizes: dict[str, int]) -> None:
        """Change the program, if that is better than to compile for these sizes."""
        change = self._watching.foresee(sizes, self._prepared, self._calls())
        if change:
            self._go_on(change)

    def vary(self, sizes: Mapping[str, SizesGiven]) -> None:
        """With `dims="auto"`, take these sizes to be some of many that will come."""
        if not self._changing:
            return
        calls = sizes_of_calls(sizes, sizes, "compile")
        change = self._watching.vary(calls, self._prepared, self._calls())
        if change:
            self._go_on(change)

    def _calls(self) -> int:
        """The calls so far that have not failed."""
        return sum(route.calls for route in self._routes) - self._failed

    def _fail(self, error: Exception, args: tuple[object, ...]) -> Exception:
        """The error of a failed call, which is not counted."""
        self._failed += 1
        return self._failure(error, args)

    def _failure(self, error: Exception, args: tuple[object, ...]) -> Exception:
        """The error of a failure; segments that were compiled stay compiled."""
        if type(error) is CallError:  # from the signature
            return error.with_traceback(None)
        older = self._generations.running
        if isinstance(error, stance.Refused):
            return self._refusal(error, older or self._newest, args)
        program = self._program if older is None else older.program
        self._log.fail(running(error, program))
        misfit = self._signature.check(args)  # sees the arguments as they were given
        if misfit is not None:
            return misfit
        if isinstance(error, ProgramCallError):
            return error.chosen(self._signature.misfit(error, args))
        if self._tiers is not None and self._tiers.program.frames(error):
            program = self._tiers.program
        return call_error(error, program, self._signature.text(args))

    def _refusal(
        self, refused: stance.Refused, program: Generation, args: tuple[object, ...]
    ) -> Exception:
        """The error of a call that needs a compilation, where there is to be none."""
        if program is not self._newest:
            program.leave(args)  # `compile` compiles the newest
        reason = program.log.needed(refused.segment, refused.sizes)
        told = remedy(program.prepared, args, refused)
        error = stance.refusal(refused, reason, self._signature.text(args), told)
        error.function = self
        return error

    def compiles(self, owner: object) -> bool:
        """Whether the owner of a compilation is a program of this function."""
        programs = [self._newest, *self._generations.older]
        return owner is self or any(owner is p.log.announced for p in programs)

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
        source = emit_unjitted(self._unjitted, self._outputs)
        name = xla.file_name("un-jitted", source.text)
        program = Program(source.text, name, source.foreigns)
        run: Callable[..., Any] = program.load().program
        return run

    def took(self, sizes: Mapping[str, int]) -> None:
        """Count sizes, by name, that calls had which another program did.

        With `dims="auto"`, they are among those that tell which sizes vary.
        """
        self._watching.took(sizes)

    @property
    def decisions(self) -> SavedDecisions:
        """The decisions about sizes so far, for other processes; see `function`."""
        padded = self.plan.padded
        policies = self._watching.policies or (padded.policies if padded else {})
        programs = *self._generations.older, self._newest
        return SavedDecisions((decided(self._pipeline.written, policies, programs),))

    def stats(self) -> Stats:
        """Calls and compilations so far."""
        done = [*self._before, *self._generations.compilations, *self._log.done]
        numpy = 0 if self._tiers is None else self._tiers.calls
        return Stats(self._calls(), done, list(self._changes), numpy)

    def explain(self, full: bool = False) -> str:
        """Why the program is split as it is: a line per segment and per reason.

        `full`: each step, with the user's lines, guards, and the rules applied before.
        """
        tier = "" if self._tiers is None else self._tiers.explain()
        with naming(self.plan.names(self._names)):
            if not full:
                return summary(self.plan, self.backend) + tier
            return explain(self.plan, self.backend) + tier + applied(self.rewrites)

    @property
    def numpy_source(self) -> str:
        """The text that runs on NumPy; with one tier "", or `source` itself."""
        if self._tiers is not None:
            return self._tiers.program.text
        return self.source if self.backend == "numpy" else ""

    def segment_source(self, index: int) -> str:
        """The lines of `source` that segment `index` of the plan is printed as."""
        text = segment_text(self.source, index)
        if text is not None:
            return text
        problem = f"there is no segment {index}"
        got = f"{self._prepared.facts.segments} segments on {self.backend}"
        raise graph_error(problem, op="segment_source", got=got)

    def save(self, path: StrPath) -> None:
        """Write the program to a file that runs without graphc."""
        write_whole(path, self.source.encode())

    def __reduce__(self) -> tuple[object, ...]:
        if self.making is None:
            raise not_pickled(repr(self))
        return methodcaller("function"), (self.making,)

    def __repr__(self) -> str:
        with naming(self._names):
            graph = self._pipeline.written
            inputs = ", ".join(map(str, (v.type for v in graph.inputs)))
            outputs = ", ".join(map(str, (v.type for v in graph.outputs)))
        return f"<graphc.Function ({inputs}) -> ({outputs}) on {self.backend}>"
