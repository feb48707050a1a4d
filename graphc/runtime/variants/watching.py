"""A watcher of the sizes of calls, made only when a size may have changed."""

from collections.abc import Callable, Mapping, Sequence

from graphc.ir.sizes.dims import Symbol
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.driver.log import Compilation
from graphc.runtime.variants.adapt import Adapter, Change
from graphc.runtime.variants.advice import Advisor, Overseer
from graphc.transform.policies import Policy

Watcher = Adapter | Advisor | Overseer


class Watching:
    """Holds observations for a watcher, until there is something to see.

    A watcher needs the plan. For a program that came without one, the first compilation
    of each segment tells nothing about sizes that vary.
    """

    def __init__(self, make: Callable[[], Watcher]) -> None:
        self._make = make
        self._watcher: Watcher | None = None
        self._held_compilations: list[Compilation] = []
        self._held_sizes: list[Mapping[str, int]] = []

    @property
    def policies(self) -> Mapping[Symbol, Policy]:
        """The policies that sizes have come to."""
        watcher = self._get_watcher()
        return watcher.policies if isinstance(watcher, Adapter) else {}

    def record_sizes(self, sizes: Mapping[str, int]) -> None:
        """Record sizes, by name, of calls that another program ran."""
        if isinstance(self._watcher, Adapter):
            self._watcher.record_sizes(sizes)
        elif self._watcher is None:
            self._held_sizes.append(dict(sizes))

    def notice(
        self, new: Sequence[Compilation], prepared: PreparedProgram, calls: int
    ) -> Change | None:
        """Return the program to go on with, and why; None where nothing changes."""
        self._held_compilations += new
        if not prepared.planned and not self._may_vary():
            return None
        return self._ask_watcher(self._get_watcher(), prepared, calls)

    def foresee(
        self, sizes: Mapping[str, int], prepared: PreparedProgram, calls: int
    ) -> Change | None:
        """Return the program to run in place of compiling for these sizes, and why.

        None where the present program may as well be compiled for them.
        """
        if self._watcher is None and not self._may_differ(sizes):
            return None
        watcher = self._get_watcher()
        if not isinstance(watcher, Adapter):
            return None
        is_held = bool(self._held_compilations)
        change = self._ask_watcher(watcher, prepared, calls) if is_held else None
        return change or watcher.foresee(sizes, calls, prepared.plan)

    def vary(
        self, sizes: Sequence[Mapping[str, int]], prepared: PreparedProgram, calls: int
    ) -> Change | None:
        """Return the program to go on with where all of these sizes are to come."""
        watcher = self._get_watcher()
        if not isinstance(watcher, Adapter):
            return None
        is_held = bool(self._held_compilations)
        change = self._ask_watcher(watcher, prepared, calls) if is_held else None
        return change or watcher.vary(sizes, calls, prepared.plan)

    def _ask_watcher(
        self, watcher: Watcher, prepared: PreparedProgram, calls: int
    ) -> Change | None:
        """Tell a watcher what was held back, and return its answer."""
        held, self._held_compilations = self._held_compilations, []
        plan = prepared.plan
        sizes = {k: plan.originals.get(s, s) for k, s in prepared.sizes.items()}
        return watcher.notice(held, sizes, calls, plan)

    def _may_vary(self) -> bool:
        """Whether a size may have been another number before."""
        segments = [c.segment for c in self._held_compilations]
        return bool(self._held_sizes) or len(set(segments)) < len(segments)

    def _may_differ(self, sizes: Mapping[str, int]) -> bool:
        """Whether one of these sizes may be another number in what is held."""
        known = [*self._held_sizes, *(c.sizes for c in self._held_compilations)]
        return any(one.get(name, n) != n for one in known for name, n in sizes.items())

    def _get_watcher(self) -> Watcher:
        if self._watcher is None:
            self._watcher = self._make()
            taken, self._held_sizes = self._held_sizes, []
            for sizes in taken:
                self.record_sizes(sizes)
        return self._watcher
