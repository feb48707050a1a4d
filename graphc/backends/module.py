"""The text of one module in the making: its parts in order, names, constants."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from graphc.backends.function_source import Foreigns, globals_used, plain_source
from graphc.backends.literals import array_text
from graphc.backends.names import Hints, Names, sizes_of_same_name
from graphc.errors import SourceLocation, printable
from graphc.ir.graph import bodies
from graphc.ir.graph.build import INPUT, Data
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import MOST_SHOWN, Dim, Size, Symbol
from graphc.ir.sizes.names import SHOWN
from graphc.ir.sizes.text import expression
from graphc.ir.types import DType, name_of
from graphc.ops.effects.capacities import is_capacity
from graphc.transform.planning.joined_checks import JoinedChecks


class Module:
    """The source of one program in the making: parts in order, names, constants."""

    def __init__(
        self,
        hints: Hints,
        aliases: dict[Value, Value],
        slice_bounds: frozenset[Symbol] = frozenset(),
    ) -> None:
        self.names: Names = Names()
        self.hints = hints
        self.aliases = aliases
        self.slice_bounds = slice_bounds  # integers that may be beyond any axis
        self.helpers: dict[Callable[..., Any], tuple[str, str]] = {}
        self.imports: dict[str, None] = {}
        self.constants: dict[Data, tuple[str, str]] = {}
        self.functions: dict[bodies.Body, tuple[str, list[str]]] = {}
        self.widens = False  # whether sizes are computed with 64 bits
        self.summed: set[Symbol] = set()  # integers that enter 64-bit sizes
        self.hooks: dict[str, list[str]] = {}  # functions that a caller may replace
        self.foreigns: Foreigns = Foreigns(self.names)
        self.joined_checks: dict[int, JoinedChecks] = {}  # by segment number
        self.printed_checks: set[int] = set()  # those already printed, by `id`
        self.on_mesh = ""  # the function that makes shardings, where there is a mesh
        self.lays_by_hand = False  # whether the user places some arrays on it
        self.is_lowered_later = False  # a caller lowers it, perhaps with 32 bits
        self._values: dict[Value, str] = {}
        self._sizes: dict[Symbol, str] = {}
        self._outer: dict[Symbol, Symbol] = {}
        self._types: dict[tuple[DType, tuple[Size, ...]], str] = {}
        # Keyed by the id of a place, which the entry keeps alive: hashing it takes
        # longer.
        self._comments: dict[int, tuple[SourceLocation, str, str]] = {}

    def resolve(self, value: Value) -> Value:
        """The value that is computed in place of `value`, often `value` itself."""
        return self.aliases.get(value, value)

    def value_name(self, value: Value) -> str:
        """The identifier of a value, the same in all functions of the module."""
        name = self._values.get(value)
        if name is None:
            name = self._values[value] = self.names.unique(self.hints.hint(value))
        return name

    def share_name(self, value: Value, other: Value) -> None:
        """Give `value`, of another function, the same name as `other`."""
        self._values[value] = self.value_name(other)

    def size_name(self, symbol: Symbol) -> str:
        """The identifier of a size, the same in all functions of the module."""
        while symbol in self._outer:
            symbol = self._outer[symbol]
        name = self._sizes.get(symbol)
        if name is None:
            hint = symbol.name
            origin = symbol.origin
            of_input = isinstance(origin, Value) and origin.node.primitive is INPUT
            if of_input and not is_capacity(symbol):
                hint = f"{self.value_name(cast(Value, origin))}_size"
            name = self._sizes[symbol] = self.names.unique(hint)
        return name

    def name_sizes(self, call: bodies.BodyCall) -> dict[object, str]:
        """Give sizes of a body the names of the sizes of the same name passed for them.

        Return the names that symbols are printed with where these are not their own.
        """
        outer = sizes_of_same_name(call)
        self._outer |= outer
        return {s: SHOWN.names[n] for s, n in outer.items() if n in SHOWN.names}

    @property
    def value_names(self) -> Mapping[Value, str]:
        """The names of the values in the text."""
        return self._values

    @property
    def sizes(self) -> dict[str, Symbol]:
        """The symbols, keyed by their names in the text."""
        return {name: symbol for symbol, name in self._sizes.items()}

    def helper(self, function: Callable[..., object]) -> str:
        """Print `function` and the helpers it calls; return its name in the module."""
        if function not in self.helpers:
            name = self.names.unique(function.__name__)
            self.helpers[function] = name, ""  # it may call itself
            names = {function.__name__: name}
            for used, item in globals_used(function).items():
                if inspect.isfunction(item):
                    names[used] = self.helper(item)
                elif inspect.ismodule(item) and used != "np":
                    self.imports[f"import {item.__name__}"] = None
            self.helpers[function] = name, plain_source(function, names)
        return self.helpers[function][0]

    def helper_call(
        self, operands: str, function: Callable[..., object], options: Iterable[object]
    ) -> str:
        """The call of a helper with options after its operands."""
        return f"{self.helper(function)}({', '.join([operands, *map(repr, options)])})"

    def constant(self, data: Data) -> str:
        """The name of an array constant, defined once at the top of the module."""
        if data not in self.constants:
            name = self.names.unique("DATA")
            self.constants[data] = (name, array_text(data.array))
        return self.constants[data][0]

    def type_text(self, value: Value) -> str:
        """The type of a value, with the module's own names for sizes."""
        key = value.type.dtype, value.type.shape
        text = self._types.get(key)
        if text is None:
            sizes = ", ".join(map(self._size_text, value.type.shape))
            text = self._types[key] = f"{name_of(value.dtype)}[{sizes}]"
        return text

    def comment(self, place: SourceLocation) -> tuple[str, str]:
        """The place of a line of the user's code, and a comment with its text."""
        entry = self._comments.get(id(place))
        if entry is None:
            code = printable(place.code)
            text = f"# {place}: {code}" if code else f"# {place}"
            entry = self._comments[id(place)] = place, str(place), text
        return entry[1:]

    def _size_text(self, size: Size) -> str:
        """A size for readers: with the module's names, unless that text is long."""
        if isinstance(size, Dim) and size.weight <= MOST_SHOWN and not size.symbols[1:]:
            text = expression(size, self.size_name)
            return text if len(text) <= 20 else str(size)
        return str(size)

    def preamble(self) -> list[str]:
        """The lines of bodies, hooks, stubs, helper functions and constants."""
        lines: list[str] = []
        for _, function in self.functions.values():
            lines += ["", "", *function]
        texts = [text.splitlines() for _, text in self.helpers.values()]
        for part in (*self.hooks.values(), *self.foreigns.stubs(), *texts):
            lines += ["", "", *part]
        if self.constants:
            lines += ["", ""]
            lines += [f"{name} = {text}" for name, text in self.constants.values()]
        return lines
