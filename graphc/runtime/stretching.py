"""Functions with axes that may be 1, which have a program for each set of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from graphc.errors import (
    CallError,
    GraphError,
    NoCompileError,
    graph_error,
)
from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import Dim, Symbol, evaluate, named_axes, symbol_dim
from graphc.ir.sizes.names import naming_sizes
from graphc.runtime.driver.ahead import structs_of
from graphc.runtime.driver.failure import refused_call
from graphc.runtime.driver.log import Compilation, Stats
from graphc.runtime.function import Function
from graphc.runtime.variants.decisions import SavedDecisions
from graphc.transform.padding.stretching import (
    InputAxis,
    ResolvedGraph,
    axes_maybe_one,
    plain_name,
    resolve_ones,
)

Ones = frozenset[Symbol]
CompileResolved = Callable[[ResolvedGraph], Function]


class Family:
    """A graph as it was written, and its programs by `ones`, the axes that are 1.

    The program of the `first` set is not among them: it is the function itself. In it
    no axis is 1, or as few as possible.
    """

    def __init__(self, written: Graph, compile: CompileResolved) -> None:
        self.written = written
        self.axes: dict[Symbol, list[InputAxis]] = axes_maybe_one(written)
        self.programs: dict[Ones, Function] = {}
        self._compile = compile
        self.first, self.graph = self._start()

    def _start(self) -> tuple[Ones, ResolvedGraph]:
        """Find the smallest set of ones for which sizes agree, and its graph."""
        failures = []
        for count in range(len(self.axes) + 1):
            for ones in map(frozenset, combinations(self.axes, count)):
                try:
                    return ones, resolve_ones(self.written, ones)
                except GraphError as error:
                    failures.append(error)
        raise failures[0]

    def program(self, ones: Ones) -> Function:
        """Return the program where these axes are 1. Raises GraphError without one."""
        program = self.programs.get(ones)
        if program is None:
            compiled = self._compile(resolve_ones(self.written, ones))
            program = self.programs.setdefault(ones, compiled)
        return program

    def ones(self, args: Sequence[object]) -> Ones:
        """Return the axes that are 1 in all arguments that have them."""
        single = [s for s, places in self.axes.items() if _are_one(args, places)]
        return frozenset(single)

    def axes_named(self, names: Iterable[object]) -> Ones:
        """Return the axes of these names, with or without the question mark."""
        known = {plain_name(s): s for s in self.axes}
        symbols: list[Symbol] = []
        for name in names:
            symbol = known.get(name.removesuffix("?")) if type(name) is str else None
            if symbol is None:
                raise graph_error(
                    f"there is no axis {name!r} that may be 1",
                    op="program",
                    expected=", ".join(s.name for s in self.axes),
                )
            symbols.append(symbol)
        return frozenset(symbols)

    def text(self, ones: Ones) -> str:
        """Say in words which axes are 1, as in `where b? is 1`."""
        names = [s.name for s in self.axes if s in ones]
        if not names:
            return f"where none of {', '.join(s.name for s in self.axes)} is 1"
        return f"where {' and '.join(names)} {'is' if len(names) == 1 else 'are'} 1"

    def sources(self, symbols: Iterable[Symbol]) -> Iterator[str]:
        """Yield lines that tell which axes of inputs have these sizes."""
        plain = {plain_name(s): s for s in self.axes}
        for symbol in symbols:
            declared = symbol
            if symbol.origin is None and symbol.name in plain:
                declared = plain[symbol.name]
            for value, name in zip(
                self.written.inputs, self.written.input_names, strict=True
            ):
                matches = [n is symbol_dim(declared) for n in value.type.shape]
                if any(matches):
                    axis = matches.index(True)
                    maybe = ", and may be 1" if declared.may_be_one else ""
                    yield (
                        f"\n  where {symbol.name} is axis {axis} of input "
                        f"{name}, declared at {value.node.place}{maybe}"
                    )
                    break


class Stretching(Function):
    """A compiled function with axes that may be 1, and stretch where they are.

    There is a program for each set of axes that are 1, made when the set first comes
    up. The function's own `plan` and `source` are of the program where no axis is 1 (or
    as few as possible); `program("b")` is the one where `b?` is 1. `stats` and
    `explain` are of all of them.
    """

    def __init__(self, family: Family, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._family = family

    def __call__(self, /, *args: object, **named: object) -> Any:
        """Run the program of the axes that are 1 in these arguments.

        Raises CallError where the arguments do not fit.
        """
        return self._run("__call__", args, named)

    def lend(self, /, *args: object, **named: object) -> Any:
        """Run that program on arrays that it may keep."""
        return self._run("lend", args, named)

    def _run(
        self, method: str, args: tuple[object, ...], named: dict[str, object]
    ) -> Any:
        """Call a method of the program for these arguments."""
        bound = args
        if named or len(args) != self._programs.newest.signature.count:
            try:
                bound = self._programs.newest.signature.bind(args, named)
            except CallError:
                return getattr(super(), method)(*args, **named)  # it refuses the call
        ones = self._family.ones(bound)
        try:
            first = ones == self._family.first
            program = super() if first else self._family.program(ones)
            return getattr(program, method)(*args, **named)
        except NoCompileError:
            raise
        except CallError as error:
            if error.kind != "broadcast":
                raise
            failure = self._name_inputs(ones, error, bound)
        except GraphError as error:
            failure = self._misfit(ones, error, bound)
        raise failure from None

    def _misfit(
        self, ones: Ones, error: GraphError, args: tuple[object, ...]
    ) -> CallError:
        """Return the error of a call for which there is no program."""
        whole, *place = error.args[0].split("\n  at ")
        problem, *more = whole.splitlines()
        asked = [f"  asked for by {line}" for line in place]
        lines = [f"{problem}, {self._family.text(ones)}", *more, *asked]
        problem = "\n".join(lines) + "".join(self._family.sources(ones))
        arguments = self._programs.newest.signature.text(args)
        return refused_call(problem, "shape", arguments=arguments)

    def _name_inputs(
        self, ones: Ones, error: CallError, args: tuple[object, ...]
    ) -> CallError:
        """Add the inputs to an error of axes that do not broadcast."""
        symbols = _unequal_symbols(resolve_ones(self._family.written, ones).graph, args)
        sources = "".join(self._family.sources(symbols))
        mark = "\n  arguments: "
        problem, *arguments_text = error.args[0].split(mark, 1)
        return CallError(mark.join([problem + sources, *arguments_text]), error.kind)

    def program(self, *ones: str) -> Function:
        """Return the program where these axes are 1, by name, and the others are not.

        Raises GraphError for a name of no such axis, and where sizes cannot agree.
        """
        symbols = self._family.axes_named(ones)
        return self if symbols == self._family.first else self._family.program(symbols)

    def compiled(self, *shapes: object) -> Any:
        """Return the bare executable of the program for these shapes."""
        bound = self._programs.newest.signature.bind(shapes, {})
        args = structs_of(self.jax, bound, self._pipeline.written)
        ones = self._family.ones(args)
        if ones == self._family.first:
            return super().compiled(*args)
        return self._family.program(ones).compiled(*args)

    def compiles(self, owner: object) -> bool:
        """Whether the owner of a compilation is a program of this function."""
        programs = self._family.programs.values()
        return super().compiles(owner) or any(p.compiles(owner) for p in programs)

    @property
    def decisions(self) -> SavedDecisions:
        """The decisions about sizes so far, of all programs."""
        others = [p.decisions for p in self._family.programs.values()]
        return super().decisions.merged(*others)

    def stats(self) -> Stats:
        """Calls and compilations so far, of all programs."""
        total = super().stats()
        for ones, program in self._family.programs.items():
            where = self._family.text(ones)
            more = program.stats()
            total.calls += more.calls
            total.numpy_calls += more.numpy_calls
            total.compilations += [_with_place(c, where) for c in more.compilations]
            total.changes += [f"{change}, {where}" for change in more.changes]
        return total

    def explain(self, full: bool = False) -> str:
        """Why the programs made so far are split as they are, one after another."""
        family = self._family
        first = next(iter(family.axes))
        lines = [
            f"one program for each set of axes that are 1, of {len(family.axes)} that "
            f"may be; f.program({plain_name(first)!r}) is that where {first.name} is",
        ]
        programs = [(family.first, super().explain(full))]
        programs += [(ones, p.explain(full)) for ones, p in family.programs.items()]
        for ones, text in programs:
            lines += ["", f"{family.text(ones)}:", text]
        return "\n".join(lines)

    @cached_property
    def jax_callable(self) -> Callable[..., object]:
        """The program of the axes that are 1 as plain JAX, chosen by shapes."""
        whole = super().jax_callable

        def program(*args: object) -> Any:
            ones = self._family.ones(args)
            if ones == self._family.first:
                return whole(*args)
            return self._family.program(ones).jax_callable(*args)

        return program

    def __repr__(self) -> str:
        with naming_sizes(self._pipeline.names):
            signature = self._family.written.signature
        return f"<graphc.Function {signature} on {self.backend}>"


def _are_one(args: Sequence[object], places: Sequence[InputAxis]) -> bool:
    """Whether axes of arguments have one element; false where an axis is missing."""
    for i, axis in places:
        shape = _shape(args[i])
        if axis >= len(shape) or shape[axis] != 1:
            return False
    return True


def _shape(argument: Any) -> tuple[int, ...]:
    """Return the shape of an argument; () for an argument that is refused later."""
    shape = getattr(argument, "shape", None)
    if shape is None:
        try:
            return np.shape(argument)
        except ValueError:  # rows of different lengths
            return ()
    return shape if isinstance(shape, tuple) and type(argument) is not Value else ()


def _with_place(compilation: Compilation, where: str) -> Compilation:
    return replace(compilation, reason=f"{compilation.reason}, {where}")


def _unequal_symbols(graph: Graph, args: Sequence[object]) -> list[Symbol]:
    """Return the symbols of the first two sizes of a graph that do not broadcast."""
    sizes: dict[Symbol, int] = {}
    for value, arg in zip(graph.inputs, args, strict=True):
        sizes.update(named_axes(value.type.shape, _shape(arg)))
    for node in with_inner_nodes(ancestors(graph.outputs)):
        for guard in node.guards:
            pair = [n for n in (guard.left, guard.right) if isinstance(n, Dim)]
            symbols = list(dict.fromkeys(s for n in pair for s in n.symbols))
            known = guard.kind == "broadcast" and all(s in sizes for s in symbols)
            if known and evaluate(guard.left, sizes) != evaluate(guard.right, sizes):
                return symbols
    return []
