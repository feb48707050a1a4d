"""Functions that are compiled when they are called, for their sizes or for many."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import update_wrapper
from types import MethodType
from typing import Any, Generic, TypeVar

from graphc.importers.jax.arguments import Arguments, JaxCall
from graphc.importers.jax.family import SizeFamily
from graphc.importers.jax.program import Options
from graphc.importers.jax.report import JitStats, explained, source_of, stats_of
from graphc.importers.jax.tracing import Spec

FamilyT = TypeVar("FamilyT", bound=SizeFamily[Any, Any])


class SizedFunction(ABC, Generic[FamilyT]):
    """A function that is compiled when it is called.

    Calls that differ in sizes alone are of one family, and may share a program.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Arguments,
        shapes: Any,
        options: Options,
    ) -> None:
        update_wrapper(self, function)
        self._function = function
        self._arguments = arguments
        self._shapes, self._options = shapes, options
        self._families: dict[Hashable, FamilyT] = {}
        self._calls = 0

    @abstractmethod
    def _new_family(self, form: JaxCall, specs: list[Spec]) -> FamilyT:
        """The family of calls of this form."""

    def _family(self, call: JaxCall, specs: list[Spec]) -> FamilyT:
        kind = call.kind(specs)
        found = self._families.get(kind)
        if found is None:
            form = JaxCall([None] * len(call.leaves), call.form, call.statics)
            found = self._families[kind] = self._new_family(form, specs)
        return found

    @abstractmethod
    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """The results for these arguments."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def stats(self) -> JitStats:
        """Calls and compilations so far, and what is compiled exactly for a reason."""
        return stats_of(self._calls, self._families.values())

    def explain(self, full: bool = False) -> str:
        """The compiled programs, their sizes, and the reasons."""
        return explained(self._function, self._families.values(), full)

    @property
    def source(self) -> str:
        """The text of the compiled programs: of graphs, or jaxprs."""
        return source_of(self._families.values())

    def __repr__(self) -> str:
        return f"<graphc.jit of {self._function!r}>"
