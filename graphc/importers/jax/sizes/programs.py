"""A function's programs for many sizes or for one, as families of calls hold them."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from graphc.errors import SourceLocation
from graphc.importers.jax.sizes.pattern import ShapesOfCall, SizePattern
from graphc.importers.jax.trace.decisions import Decision, Decisions
from graphc.ir.types import ConcreteArray
from graphc.runtime.driver.log import Compilation
from graphc.runtime.function import Function


class ManySizes(Protocol):
    """A program for all sizes of a pattern."""

    @property
    def pattern(self) -> SizePattern:
        """The shapes of the arguments."""
        ...

    @property
    def compiled(self) -> Function:
        """The function that runs the program."""
        ...

    @property
    def decisions(self) -> Decisions:
        """The decisions by sizes that the function takes."""
        ...

    @property
    def facts(self) -> list[str]:
        """The facts about sizes that the program relies on, with the lines that ask."""
        ...

    def trailing_arguments(self, sizes: ShapesOfCall) -> list[ConcreteArray]:
        """The graph's arguments that follow the leaves in a call of these sizes."""
        ...

    @property
    def questions(self) -> Sequence[Decision]:
        """The questions about sizes whose answers choose this program."""
        ...

    @property
    def is_compared(self) -> bool:
        """Whether each new size is compared with its own trace before it is served."""
        ...

    @property
    def steps_at(self) -> SourceLocation | None:
        """The line of steps that Python counts, in a loop that was unrolled."""
        ...

    @property
    def foreign(self) -> tuple[str, ...]:
        """The equations that JAX runs inside the program, and why."""
        ...


class OneSize(Protocol):
    """A program for a single size."""

    @property
    def source(self) -> str:
        """The text of the program."""
        ...

    def compilations(self) -> list[Compilation]:
        """The compilations of the program."""
        ...

    def report(self, full: bool) -> Iterator[str]:
        """Yield lines on how the program is compiled; the first follows its sizes."""
        ...
