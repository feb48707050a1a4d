"""The compiled function that a command examines, and arguments to call it with."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

import graphc
from graphc.command.errors import CommandError, without_place
from graphc.command.sizes import ArraySpec, random_array
from graphc.command.target import user_code
from graphc.errors import GraphError
from graphc.explain.program_text import ProgramText
from graphc.importers.decorated_function import DecoratedFunction
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Dim, Size, evaluate, symbol_dim
from graphc.runtime.function import Function

SizesOfCall = Mapping[str, int]
SEED = 0


class CompiledFunction(Protocol):
    """A compiled function, whichever entry point of graphc it came from."""

    def __call__(self, /, *args: object) -> object:
        """The results for these arguments."""

    def explain(self, full: bool = False) -> str:
        """Tell how the function is compiled, and why."""
        ...

    @property
    def source(self) -> ProgramText:
        """The emitted programs."""
        ...

    def stats(self) -> Any:
        """The calls and compilations so far."""

    def show(self, path: str | PathLike[str] | None = None, open: bool = True) -> Path:
        """Write the plan as a page, a drawing or data; return the path of the file."""
        ...


@dataclass(frozen=True)
class CommandSubject:
    """A compiled function, with `plain` for `jax.jit` to compile in its place, or None.

    `arguments` draws the arguments of a call from sizes by name; `wide` says whether
    the program has 64-bit arrays, whatever the settings of JAX.
    """

    name: str
    compiled: CompiledFunction
    plain: Callable[..., Any] | None
    static_argnums: tuple[int, ...]
    arguments: Callable[[SizesOfCall], list[Any]]
    wide: bool = False

    @property
    def is_planned(self) -> bool:
        """Whether the function has one plan, made before any call."""
        return isinstance(self.compiled, Function)

    def run(self, calls: Iterable[SizesOfCall]) -> None:
        """Call the function once for each of these sizes."""
        for sizes in calls:
            with user_code(f"{self.name} failed for {_sizes_text(sizes)}"):
                self.compiled(*self.arguments(sizes))


def _sizes_text(sizes: SizesOfCall) -> str:
    return ", ".join(f"{name} = {n}" for name, n in sizes.items()) or "these arguments"


def subject_of(
    name: str, target: Any, specs: Sequence[ArraySpec], options: Mapping[str, Any]
) -> CommandSubject:
    """The subject of a command: a compiled function, or one that is compiled here.

    A function that is not compiled yet is decorated with `graphc.jit(**options)`.
    Raises CommandError if the target cannot be called, or if it is compiled already and
    `options` or `specs` are given that a compiled function does not take.
    """
    if isinstance(target, Function):
        _refuse_options(name, options, specs)
        return _subject_of_function(name, target)
    if isinstance(target, type):
        raise CommandError(f"{name} is a class, not a function")
    if not callable(target):
        kind = type(target).__name__
        raise CommandError(f"{name} is of type {kind}, not a function")
    function = cast("Callable[..., Any]", target)
    compiled: Any = function
    if isinstance(target, DecoratedFunction):
        _refuse_options(name, options, ())
    else:
        try:
            compiled = graphc.jit(target, **options)
        except GraphError as error:
            raise CommandError(without_place(error)) from None
    of_numpy = options.get("frontend") == "numpy" or not hasattr(compiled, "lower")
    plain = None if of_numpy else getattr(function, "__wrapped__", function)

    def arguments(sizes: SizesOfCall) -> list[object]:
        missing = _required_parameters(function)[len(specs) :]
        if missing:
            names = ", ".join(missing)
            hint = "add --args 'float32[n]' for each, and --sizes n=8"
            raise CommandError(f"{name} is called without {names}: {hint}")
        random = np.random.default_rng(SEED)
        return [spec.drawn(sizes, random) for spec in specs]

    return CommandSubject(name, compiled, plain, (), arguments)


def _required_parameters(function: Callable[..., object]) -> list[str]:
    """The parameters that a call must pass by position, as far as Python can tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    placed = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [p.name for p in parameters if p.kind in placed and p.default is p.empty]


def _refuse_options(
    name: str, options: Mapping[str, object], specs: Sequence[ArraySpec]
) -> None:
    typed = [*(f"--{option}" for option in options), *(["--args"] if specs else [])]
    if typed:
        raise CommandError(f"{name} is compiled already: leave {typed[0]} out")


def _subject_of_function(name: str, function: Function) -> CommandSubject:
    inputs = function.plan.called.inputs

    def arguments(sizes: SizesOfCall) -> list[object]:
        random = np.random.default_rng(SEED)
        return [_argument(value, sizes, random) for value in inputs]

    plain = function.jax_callable if function.backend == "jax" else None
    wide = "NEEDS_X64" in getattr(plain, "__globals__", {})  # its text checks for it
    statics = function.static_argnums
    return CommandSubject(name, function, plain, statics, arguments, wide)


def _argument(value: Value, sizes: SizesOfCall, random: np.random.Generator) -> object:
    """An argument for an input: a size by its name for an integer, else an array."""
    symbol = value._symbol
    if symbol is not None:
        return _size(symbol_dim(symbol), sizes)
    shape = tuple(_size(n, sizes) for n in value.type.shape)
    return random_array(value.dtype, shape, random)


def _size(size: Size, sizes: SizesOfCall) -> int:
    if not isinstance(size, Dim):
        return int(size)
    missing = [s.name for s in size.symbols if s.name not in sizes]
    if missing:
        raise CommandError(f"the size {missing[0]} is open: add --sizes {missing[0]}=8")
    return int(evaluate(size, {s: sizes[s.name] for s in size.symbols}))
