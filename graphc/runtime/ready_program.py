"""One program of a function, ready to run, and the sizes that it is compiled for."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType

from graphc.backends.program import function_name
from graphc.ir.sizes.dims import symbols_in
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.call import nan_checks
from graphc.runtime.call.arguments import ArgumentValues, Signature
from graphc.runtime.call.call_counts import ServedCalls
from graphc.runtime.call.dispatch import Run
from graphc.runtime.call.key_parts import (
    PartRunner,
    capacities,
    looking_up,
    parts_of,
    shapes_and_numbers,
)
from graphc.runtime.driver import xla
from graphc.runtime.driver.ahead import OnlySegment
from graphc.runtime.driver.devices import Target
from graphc.runtime.driver.failure import Program
from graphc.runtime.driver.log import Log
from graphc.runtime.driver.misfits import without_flags
from graphc.runtime.driver.programs import Load, LoadedProgram
from graphc.runtime.pipeline import Pipeline

Key = tuple[Hashable, ...]
MOST_KNOWN = 4096  # shapes of arguments that are recognised without further work


@dataclass(eq=False)
class ReadyProgram:
    """A loaded program, with what its calls need.

    `segment` is the jitted function that makes up the whole program, if there is one,
    and `run` runs a call. `seen` are the keys of arguments that the program is compiled
    for. `served` counts the calls of each size; with `counts_all` it counts all of
    them, since JAX runs none by itself.
    """

    prepared: PreparedProgram
    loaded: LoadedProgram
    log: Log
    signature: Signature
    segment: OnlySegment | None
    run: Run
    seen: set[Key] = field(default_factory=set)
    served: ServedCalls = field(default_factory=ServedCalls)
    counts_all: bool = False
    _tally: dict[Key, int] = field(default_factory=dict)  # calls `served` lacks so far
    _sizes_by_kind: dict[Key, dict[str, int]] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        """The text of the program, and the name of its file."""
        return self.loaded.program

    @cached_property
    def _kind(self) -> PartRunner:
        return shapes_and_numbers(self.prepared)

    @cached_property
    def _parts(self) -> list[tuple[str, PartRunner]]:
        return parts_of(self.prepared)

    @property
    def is_open(self) -> bool:
        """Whether the arguments have sizes that are not padded."""
        inputs, facts = self.prepared.inputs, self.prepared.facts
        symbols = {s for v in inputs for n in v.type.shape for s in symbols_in(n)}
        statics = [v for i, v in enumerate(inputs) if i in facts.statics]
        symbols |= {v._symbol for v in statics if v._symbol is not None}
        padded = self.prepared.plan.padded if facts.padded else None
        return bool(symbols.difference(padded.policies if padded else ()))

    def key(self, args: tuple[object, ...]) -> Key:
        """Return the sizes of the arguments that the segments depend on."""
        return tuple([part(args) for _, part in self._parts])

    def sizes(self, args: ArgumentValues) -> dict[str, int]:
        """Return the sizes in `key` by name, without those that have none."""
        return {name: part(args) for name, part in self._parts if name}

    def note(self, args: tuple[object, ...]) -> None:
        """Note that the program is compiled for the sizes of these arguments."""
        self.seen.add(self.key(args))

    def leave(self, args: tuple[object, ...]) -> None:
        """Leave arguments of these sizes to the newest program from now on."""
        self.seen.discard(self.key(args))

    def count(self, args: ArgumentValues) -> None:
        """Count a call on these arguments, which has run."""
        tally = self._tally
        try:
            kind = self._kind(args)
        except (AttributeError, TypeError):  # a traced argument, for example
            self.counts_all = False
            return
        if kind in tally:
            tally[kind] += 1
        else:
            if len(tally) >= MOST_KNOWN:
                self._pass_on_counts()
            self._sizes_by_kind[kind], tally[kind] = self.sizes(args), 1

    def _pass_on_counts(self) -> None:
        """Pass the calls counted since the last time on to `served`."""
        for kind, calls in self._tally.items():
            self.served.add(self._sizes_by_kind[kind], calls)
        self._tally.clear()
        self._sizes_by_kind.clear()

    def counting(self, args: ArgumentValues, run: Run) -> Callable[[], Run]:
        """Return a function that gives `run` for calls like this one, and counts it."""
        return self.served.route(self.sizes(args), run).acquire

    def take_back(self, *args: object) -> None:
        """Take back the count of a call on these arguments, which has failed."""
        self.served.add(self.sizes(args), -1)

    def forget_runs(self) -> None:
        """Let go of the functions that `counting` gave: nobody calls them any more."""
        self.served.close()

    @property
    def counted(self) -> int:
        """The number of calls that the program has counted."""
        self._pass_on_counts()
        return self.served.counts().total()

    def calls_by_compilation(self, total: int | None) -> list[int | None]:
        """Return how many of the program's `total` calls each compilation has served.

        None where JAX has run calls by itself, and several compilations may have served
        them.
        """
        done = self.log.done
        segments = Counter(one.segment for one in done)
        calls: list[int | None] = [None] * len(done)
        if self.counted == total:
            calls = self.served.by_compilation(done, self._names_of_arguments)
        pairs = zip(done, calls, strict=True)
        return [total if segments[one.segment] == 1 else n for one, n in pairs]

    @property
    def _names_of_arguments(self) -> dict[str, str]:
        """The names that `sizes` uses, by the names of the same sizes in the text."""
        padded = self.prepared.plan.padded
        rounded = capacities(self.prepared.plan)
        pairs = () if padded is None else padded.capacities.items()
        of_capacity = {capacity: symbol for symbol, capacity in pairs}
        originals = {} if padded is None else padded.originals
        names = dict[str, str]()
        for name, symbol in self.prepared.sizes.items():
            original = of_capacity.get(symbol) or originals.get(symbol, symbol)
            if (symbol in of_capacity) == (original in rounded):
                names[name] = original.name
        return names

    def observing_run(
        self, run_for_new_sizes: Callable[[tuple[object, ...]], Run | None]
    ) -> Run:
        """Wrap `run` so that each call is observed.

        Where the sizes of a call are new, `run_for_new_sizes` is asked for another
        function to run it.
        """
        self.counts_all = True
        known = dict[Key, Callable[[], Run]]()
        run = self.run

        def not_known(*args: object) -> object:
            try:
                kind, key = self._kind(args), self.key(args)
            except (AttributeError, TypeError):  # a traced argument, for example
                self.counts_all = False
                return run(*args)
            if key not in self.seen:
                other = run_for_new_sizes(args)
                if other is not None:
                    return other(*args)
            result = run(*args)
            self.seen.add(key)
            if len(known) >= MOST_KNOWN:
                known.clear()
                self.forget_runs()
            self.count(args)
            known[kind] = self.counting(args, run)
            return result

        return looking_up(self.prepared, known, not_known, self.take_back)


def make_ready(
    prepared: PreparedProgram,
    pipeline: Pipeline,
    defaults: Mapping[int, object],
    load: Load,
    since: str,
) -> ReadyProgram:
    """Load a program of a pipeline; `since` is why the function goes on with it."""
    how, facts, graph = pipeline.how, prepared.facts, pipeline.written
    name = xla.file_name(how.backend, facts.text)
    loaded = load(Program(facts.text, name, prepared.foreigns))
    module = loaded.module
    signature = Signature(
        graph.inputs,
        graph.input_names,
        defaults,
        how.backend,
        module.check_inputs,
        how.casting,
        None if how.tier == "auto" else loaded.jax,
        facts.padded_inputs,
    )
    jitted = module.segment_0 if facts.alone else None
    segment = OnlySegment(jitted, facts.wide, how.target) if facts.alone else None
    if how.name and loaded.jax is not None:
        _name_segments(module, how.name)
    log = Log(prepared, pipeline.names, loaded.announced, since, how.name)
    run = _run_of(loaded, prepared, segment, how.target)
    return ReadyProgram(prepared, loaded, log, signature, segment, run)


def _name_segments(module: ModuleType, function: str) -> None:
    """Put the name of their function into the names by which JAX reports segments.

    Functions may share a program, which then bears the name of the newest one.
    """
    for name, segment in vars(module).items():
        traced = getattr(segment, "__wrapped__", None)
        if name.startswith("segment_") and traced is not None:
            traced.__name__ = f"{function}.{name}"


def _run_of(
    loaded: LoadedProgram,
    prepared: PreparedProgram,
    segment: OnlySegment | None,
    target: Target,
) -> Run:
    """Return the function that runs a call on a loaded program."""
    module, jax, padded = loaded.module, loaded.jax, prepared.facts.padded
    if segment is not None and segment.wide:
        name = function_name(padded)
        within = xla.with_64_bits(jax, getattr(module, name), segment.jitted)
        setattr(module, name, without_flags(within, segment.jitted))
    run: Run = target.around(jax, module.program)
    return nan_checks.with_true_checks(jax, run) if jax is not None and padded else run
