"""The forecast of a function that adapts, whose calls are rehearsed one by one.

Nothing runs. The very `Adapter` that watches a function is told what each call would
compile, and chooses the plans to go on with.
"""

from collections.abc import Mapping

from graphc.ir.sizes.dims import Symbol
from graphc.runtime.driver.log import Compilation
from graphc.runtime.variants.adapt import Adapter
from graphc.transform.planning.forecast import Forecast, SizesGiven
from graphc.transform.planning.plan import Plan
from graphc.transform.tied_sizes import KnownRooms

SizesOfSegment = tuple[int, ...]
SECONDS = 1.0  # assumed time of a compilation: more than padding costs in any call


class _Program:
    """A plan, and the sizes that it would be compiled for."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sizes = plan.sizes
        self.compiled: list[dict[SizesOfSegment, None]] = [{} for _ in self.sizes.keys]
        self.called: set[tuple[SizesOfSegment, ...]] = set()
        self.unknown: dict[str, None] = {}
        self.rooms: KnownRooms = {}  # the capacities that calls had

    def keys(self, call: Mapping[Symbol, int]) -> tuple[SizesOfSegment, ...]:
        """Return the sizes that each segment would be compiled for."""
        return self._keys(self.known(call))

    def known(self, call: Mapping[Symbol, int]) -> dict[Symbol, int]:
        """Return the sizes of a call, without doing it."""
        return self.sizes.known(call, {**self.rooms})

    def _keys(self, known: Mapping[Symbol, int]) -> tuple[SizesOfSegment, ...]:
        for s in (s for symbols in self.sizes.keys for s in symbols if s not in known):
            self.unknown[s.name] = None
        return tuple(
            tuple(known[s] for s in symbols if s in known)
            for symbols in self.sizes.keys
        )

    def run(self, call: Mapping[Symbol, int]) -> list[dict[Symbol, int]]:
        """Do a call, and return the sizes of each of its compilations."""
        known = self.sizes.known(call, self.rooms)
        keys = self._keys(known)
        self.called.add(keys)
        new = []
        for key, before, symbols in zip(
            keys, self.compiled, self.sizes.keys, strict=True
        ):
            if key not in before:
                before[key] = None
                new.append({s: known[s] for s in symbols if s in known})
        return new


def forecast_calls(
    adapter: Adapter, plan: Plan, keeps: bool, sizes: Mapping[str, SizesGiven]
) -> Forecast:
    """Forecast calls of a function that begins with `plan`.

    With `keeps`, programs that the function has changed from stay in use for what they
    have compiled, and it changes before it compiles for a size.
    """
    programs = [_Program(plan)]
    calls = programs[0].sizes.calls(sizes)
    true = stored = 0
    for number, call in enumerate(calls):
        newest = programs[-1]
        older = programs[:-1] if keeps else []
        used = next((p for p in older if p.keys(call) in p.called), newest)
        if keeps and used is newest and newest.keys(call) not in newest.called:
            named = {s.name: n for s, n in call.items()}
            foreseen = adapter.foresee(named, number, newest.plan)
            if foreseen is not None:
                used = _Program(foreseen[0])
                programs.append(used)
        true += used.sizes.true_elements(call)
        stored += used.sizes.elements(used.known(call))
        change = _next_plan(adapter, used, call, number)
        if change is not None:
            programs.append(_Program(change))
    counts = [len(sizes_compiled) for p in programs for sizes_compiled in p.compiled]
    unknown = dict.fromkeys(name for p in programs for name in p.unknown)
    waste = stored / true if true else 1.0
    reads = programs[-1].plan.reads
    memory = [n for p in programs for n in p.sizes.memory([*map(p.known, calls)])]
    totals = sum(counts), tuple(counts), waste, reads, tuple(unknown)
    return Forecast(*totals, tuple(memory))


def _next_plan(
    adapter: Adapter, program: _Program, call: Mapping[Symbol, int], number: int
) -> Plan | None:
    """Return the plan to go on with after a call, if there is another."""
    new = program.run(call)
    if not new:
        return None
    names = {s: f"{s.name} {s.serial}" for sizes in new for s in sizes}
    compilations = [
        Compilation(0, SECONDS, "", {names[s]: n for s, n in sizes.items()})
        for sizes in new
    ]
    originals = program.plan.originals
    symbols = {name: originals.get(s, s) for s, name in names.items()}
    change = adapter.notice(compilations, symbols, number, program.plan)
    return None if change is None else change[0]
