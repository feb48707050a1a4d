"""The types of decorated functions for type checkers, which keep their signatures."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    overload,
)

from graphc.explain.program_text import ProgramText
from graphc.importers.jax.call.report import JitCompilation, JitStats
from graphc.importers.jax.trace.arguments import Positional, StaticNames
from graphc.ops.common.conditions import Checking
from graphc.rewriting.engine.rule import Rules
from graphc.runtime.call.arguments import Backend
from graphc.runtime.variants.decisions import SavedDecisions
from graphc.transform.planning.forecast import SizesGiven
from graphc.transform.planning.plan import Plan

if TYPE_CHECKING:
    from jax.stages import Lowered, Traced


P = ParamSpec("P")
Rest = ParamSpec("Rest")
R = TypeVar("R")
Owner = TypeVar("Owner")


class Choices(TypedDict, total=False):
    """The options of `jit`, which documents them."""

    dims: Any
    shapes: Any
    static_argnums: Positional
    static_argnames: StaticNames
    rewrites: Rules
    backend: Backend | None
    decisions: Any
    check: Checking
    mesh: Any
    donate_argnums: Any
    donate_argnames: Any
    keep_unused: bool
    inline: bool
    in_shardings: Any
    out_shardings: Any
    device: Any
    compiler_options: Any


class SizedCallable(Protocol[P, R]):
    """A function that is compiled when it is called."""

    __wrapped__: Callable[P, R]
    __name__: str

    def __call__(self, *args: P.args, **named: P.kwargs) -> R:
        """Compute the results for these arguments."""
        ...

    @overload
    def __get__(
        self, instance: None, owner: object = None
    ) -> "SizedCallable[P, R]": ...
    @overload
    def __get__(
        self: "SizedCallable[Concatenate[Owner, Rest], R]",
        instance: Owner,
        owner: object = None,
    ) -> "SizedCallable[Rest, R]": ...

    @property
    def source(self) -> ProgramText:
        """The texts of the compiled programs: of graphs, or of jaxprs."""
        ...

    def stats(self) -> JitStats:
        """Calls and compilations so far, and the reasons for exact compilations."""
        ...

    def compile(
        self,
        *args: object,
        sizes: Mapping[str, SizesGiven] | None = None,
        **named: object,
    ) -> list[JitCompilation]:
        """Compile now for calls with such arguments, so that no call has to wait."""
        ...

    @property
    def decisions(self) -> SavedDecisions:
        """The decisions about sizes so far, to save for other processes; see `jit`."""
        ...

    def explain(self, full: bool = False) -> str:
        """Describe the compiled programs, their sizes, and the reasons."""
        ...

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of the programs for many sizes; the one in use comes last."""
        ...

    def show(self, path: str | PathLike[str] | None = None, open: bool = True) -> Path:
        """Write the plans as a page and open it in a browser; return its path."""
        ...


class Jitted(SizedCallable[P, R], Protocol[P, R]):
    """A JAX function that is compiled when called, with the methods JAX gives it."""

    def lower(self, *args: P.args, **named: P.kwargs) -> "Lowered":
        """Lower one exact compilation for these arguments, as in JAX."""
        ...

    def trace(self, *args: P.args, **named: P.kwargs) -> "Traced":
        """Trace one exact compilation for these arguments, as in JAX."""
        ...

    def eval_shape(self, *args: object, **named: object) -> Any:
        """The types of the results for these arguments, as in JAX."""
        ...

    def clear_cache(self) -> None:
        """Forget what was compiled, as in JAX, and the sizes seen so far."""
        ...


class Decorator(Protocol):
    """`jit` with its options, for a function of JAX."""

    def __call__(self, function: Callable[P, R], /) -> Jitted[P, R]:
        """Return the function, which is compiled when it is called."""
        ...


class NumpyDecorator(Protocol):
    """`jit` with its options, for a function of NumPy."""

    def __call__(self, function: Callable[P, R], /) -> SizedCallable[P, R]:
        """Return the function, which is compiled when it is called."""
        ...
