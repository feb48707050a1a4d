"""The programs of one function that exist beside each other, for different sizes.

    arguments -> the older program that is compiled for their sizes, else the newest

Programs that a function has changed from stay in use for what they are compiled for, so
that nothing is compiled twice. A size that is only known from data has no part in this
choice: where an older program compiles something for such a size, the sizes of its
arguments go to the newest program from then on. A watcher of the sizes of calls says
which program is compiled next.
"""

from collections.abc import Callable, Mapping

from graphc.ir.sizes.dims import Symbol
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.call.dispatch import Run
from graphc.runtime.driver import stance
from graphc.runtime.driver.log import Compilation
from graphc.runtime.driver.programs import loader
from graphc.runtime.driver.xla import EVENTS
from graphc.runtime.pipeline import Pipeline
from graphc.runtime.ready_program import Key, ReadyProgram, make_ready
from graphc.runtime.variants.adapt import Change
from graphc.runtime.variants.tiering import Tiers
from graphc.transform.planning.forecast import SizesGiven, sizes_of_calls
from graphc.transform.policies import Policy


class ProgramSet:
    """The newest program, the older ones, and the policy that chooses among them.

    `run` runs a call on the program that serves it; with two tiers, that may be the
    program on NumPy. `calls` returns how many calls there were so far, and `changed` is
    called when another program has become the newest.
    """

    newest: ReadyProgram
    run: Run

    def __init__(
        self,
        pipeline: Pipeline,
        defaults: Mapping[int, object],
        calls: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        self._pipeline = pipeline
        self._defaults = defaults
        self._calls, self._changed = calls, changed
        self._load = loader()
        self._watching = pipeline.watching()
        self._retired: list[Compilation] = []  # of programs that are out of use
        self._start = 0  # the first event of the newest program
        self.older: list[ReadyProgram] = []
        self._serving: ReadyProgram | None = None  # the older one that is running
        self.changes: list[str] = []  # described in words
        prepared, numpy = pipeline.prepared(), pipeline.on_numpy()
        self.tiers: Tiers | None = numpy and Tiers(
            *numpy, pipeline.outputs, self.changes.append
        )
        self.adapts: bool = pipeline.adapts and self.tiers is None
        self._install(prepared)

    def _install(self, prepared: PreparedProgram, why: str = "") -> None:
        """Make this the newest program; `why` tells which sizes were seen to vary."""
        newest = make_ready(prepared, self._pipeline, self._defaults, self._load, why)
        self.newest, run = newest, newest.run
        if self.observes:
            run = newest.observing_run(self.run_for_new_sizes)
        elif prepared.facts.segments > 1 and not prepared.facts.padded:
            run = newest.observing_run(lambda args: None)
        if self.older:
            run = self._on_compiled_programs(run)
        if self.tiers is not None:
            run = self.tiers.around(prepared, run, newest.loaded.announced)
        self.run = run

    @property
    def observes(self) -> bool:
        """Whether the sizes of each call may change the program."""
        newest = self.newest
        parts = newest.prepared.facts.segments
        return self.adapts and (parts > 1 or newest.is_open)

    @property
    def in_use(self) -> list[ReadyProgram]:
        """All programs in use, the newest last."""
        return [*self.older, self.newest]

    def resume(self) -> None:
        """Start from the sizes that earlier functions had of the same programs."""
        if not self._pipeline.adapts:
            return
        known = None
        while self.newest.loaded is not known and self.newest.loaded.compilations:
            known = self.newest.loaded
            self._adapt(known.compilations)
            for sizes in [*known.deferred_sizes] if self.newest.loaded is known else ():
                self._foresee(sizes)

    def serves_older(self, args: tuple[object, ...]) -> bool:
        """Whether an older program runs calls of these sizes."""
        return self._find_older(args) is not None

    def _find_older(self, args: tuple[object, ...]) -> tuple[ReadyProgram, Key] | None:
        """Return the older program compiled for the sizes of these arguments."""
        for one in self.older:
            try:
                key = one.key(args)
            except (AttributeError, TypeError):  # a traced argument, for example
                return None
            if key in one.seen:
                return one, key
        return None

    def _on_compiled_programs(self, newest: Run) -> Run:
        """Return a function that runs each call on the program compiled for it."""

        def run(*args: object) -> object:
            older = self._find_older(args)
            return self._run_older(*older, args) if older else newest(*args)

        return run

    def _run_older(
        self, one: ReadyProgram, key: Key, args: tuple[object, ...]
    ) -> object:
        start = EVENTS.count
        self._serving = one
        result = one.run(*args)
        self._serving = None
        one.count(args)
        if one.log.is_pending or EVENTS.count != start:
            one.log.settle(EVENTS.since(start))
            one.seen.discard(key)
            self._start = EVENTS.count
        return result

    def end_failed_run(self) -> ReadyProgram:
        """Return the program that was running a call, which has failed."""
        program, self._serving = self._serving or self.newest, None
        return program

    def settle(self, args: tuple[object, ...], start: int) -> None:
        """Record what a call has compiled, and change the program if that helps."""
        newest = self.newest
        new = newest.log.settle(EVENTS.since(max(start, self._start)))
        newest.loaded.compilations += new
        if self.adapts and new:
            newest.note(args)
        self._adapt(new)

    def _adapt(self, new: list[Compilation]) -> None:
        """Change the program where sizes have turned out to vary."""
        calls, prepared = self._calls(), self.newest.prepared
        self._change_program(self._watching.notice(new, prepared, calls))

    def _foresee(self, sizes: Mapping[str, int]) -> None:
        """Change the program, if that is better than compiling for these sizes."""
        calls, prepared = self._calls(), self.newest.prepared
        self._change_program(self._watching.foresee(sizes, prepared, calls))

    def _change_program(self, change: Change | None) -> None:
        """Run another program from now on, and this one for what it is compiled for."""
        if not change:
            return
        plan, source, why = change
        done = self.newest.log.done
        if not self.adapts:
            self._retired += done
        elif done:
            self.older.append(self.newest)
        self.changes.append(why)
        self._install(
            PreparedProgram.of(plan, source), why.partition(", from now on")[0]
        )
        self._changed()

    def run_for_new_sizes(self, args: tuple[object, ...]) -> Run | None:
        """Return another function to run calls by, if these new sizes ask for one."""
        loaded = self.newest.loaded
        if stance.forbidding_limit(loaded.announced) is not None:
            return None  # nothing changes where nothing may be compiled
        try:
            sizes = self.newest.sizes(args)
        except TypeError:  # JAX traces at sizes that are symbols
            return None
        self._foresee(sizes)
        if self.newest.loaded is loaded:
            return None
        loaded.deferred_sizes.append(sizes)
        return self.run

    def vary(self, sizes: Mapping[str, SizesGiven]) -> None:
        """Take these sizes to be some of many that will come."""
        if not self.adapts:
            return
        calls = sizes_of_calls(sizes, sizes, "compile")
        prepared = self.newest.prepared
        self._change_program(self._watching.vary(calls, prepared, self._calls()))

    def record_sizes(self, sizes: Mapping[str, int]) -> None:
        """Count sizes, by name, of calls that another function ran."""
        self._watching.record_sizes(sizes)

    @property
    def policies(self) -> Mapping[Symbol, Policy]:
        """The policies that sizes have so far."""
        padded = self.newest.prepared.plan.padded
        return self._watching.policies or (padded.policies if padded else {})

    @property
    def compilations(self) -> list[Compilation]:
        """All compilations so far."""
        return [*self._retired, *(c for one in self.in_use for c in one.log.done)]

    def compiles(self, owner: object) -> bool:
        """Whether the owner of a compilation is one of the programs."""
        return any(owner is one.log.announced for one in self.in_use)
