"""Programs of a function for many sizes, or for one, as families of calls hold them."""

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
        """The function that runs it."""
        ...

    @property
    def decisions(self) -> Decisions:
        """The decisions by sizes that the function takes."""
        ...

    @property
    def facts(self) -> list[str]:
        """The facts about sizes that it holds for, with the lines that ask for them."""
        ...

    @property
    def opaque(self) -> SourceLocation | None:
        """The line that asks for more of a size than facts, where one does."""
        ...

    def beside(self, sizes: ShapesOfCall) -> list[ConcreteArray]:
        """The arguments of the graph after the leaves of a call of these sizes."""
        ...

    @property
    def asked(self) -> Sequence[Decision]:
        """The questions about sizes by whose answers it is chosen."""
        ...

    @property
    def is_compared(self) -> bool:
        """Whether it serves sizes only after a comparison, each by itself."""
        ...

    @property
    def foreign(self) -> tuple[str, ...]:
        """Equations that JAX runs in it, and why."""
        ...


class OneSize(Protocol):
    """A program for single sizes."""

    @property
    def source(self) -> str:
        """Its text."""
        ...

    def compilations(self) -> list[Compilation]:
        """Each of them."""
        ...

    def report(self, full: bool) -> Iterator[str]:
        """Lines about how it is compiled, the first after the sizes."""
        ...
