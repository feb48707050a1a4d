"""A compiled function as a picture: its programs, with what each has compiled."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from graphc.errors import in_number, shortened
from graphc.explain.summary import summary
from graphc.ir.sizes.names import naming_sizes
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.call.arguments import Backend
from graphc.runtime.pipeline import Pipeline
from graphc.runtime.program_set import ProgramSet
from graphc.runtime.ready_program import ReadyProgram
from graphc.show.collect import ShownProgram
from graphc.show.picture import Picture
from graphc.show.showing import Showing
from graphc.transform.planning.plan import Plan

IN_USE = "in use"
LONGEST_TITLE = 120


class Pictured(Showing):
    """All that a function shows of its plans."""

    backend: Backend
    _pipeline: Pipeline
    _programs: ProgramSet
    _drawn: tuple[PreparedProgram, Plan] | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the program: segments, glue, and why they are there."""
        newest = self._programs.newest
        prepared = newest.prepared
        if self._drawn is None or self._drawn[0] is not prepared:
            draw = partial(self._picture_of, [newest])
            self._drawn = prepared, replace(prepared.plan, picture=draw)
        return self._drawn[1]

    @abstractmethod
    def _calls(self) -> int:
        """Return how many calls so far have not failed."""

    def _picture(self) -> Picture:
        return self._picture_of(self._programs.in_use)

    def _picture_of(self, programs: Sequence[ReadyProgram]) -> Picture:
        """Make the picture of some of the function's programs."""
        plan = programs[-1].prepared.plan
        with naming_sizes(plan.names(self._pipeline.names)):
            about = summary(plan, self.backend)
        title = shortened(about.splitlines()[0], LONGEST_TITLE)
        shown = list(self.shown_programs(programs))
        return Picture(title, shown, self._calls(), about, self._programs.changes)

    def _calls_by_compilation(self, program: ReadyProgram) -> list[int | None]:
        """Return how many calls each compilation of a program has served, if known."""
        others = [one for one in self._programs.in_use if one is not program]
        if all(one.counts_all for one in others):
            total = self._calls() - sum(one.counted for one in others)
            return program.calls_by_compilation(total)
        return program.calls_by_compilation(
            program.counted if program.counts_all else None
        )

    def shown_programs(
        self, programs: Sequence[ReadyProgram] | None = None
    ) -> Iterator[ShownProgram]:
        """Describe programs for pictures, by default all that are in use."""
        how = self._pipeline.how
        chosen = programs or self._programs.in_use
        several = len(chosen) > 1
        calls = in_number(self._calls(), "call")
        together = [f"{calls}, of this program and earlier ones"] * several
        for i, one in enumerate(chosen):
            newest = one is self._programs.newest
            yield ShownProgram(
                name=f"program {i}" if several else "program",
                plan=one.prepared.plan,
                backend=self.backend,
                compiled=self.backend == "jax" and how.jit is not False,
                source=one.prepared.facts.text,
                names=self._pipeline.names,
                sizes=one.prepared.sizes,
                values=one.prepared.value_names,
                rewrites=self._pipeline.log if newest else (),
                compilations=one.log.done,
                calls=None if several else self._calls(),
                calls_by_compilation=self._calls_by_compilation(one),
                serves=IN_USE if newest else "for the sizes it is compiled for",
                notes=together if newest else (),
            )
