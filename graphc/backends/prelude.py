"""The helpers that every emitted module contains, and the checks of its arguments."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, SupportsIndex

from graphc.backends.function_source import plain_source
from graphc.backends.layout import indent
from graphc.backends.module import Module
from graphc.backends.sizes import solution_text
from graphc.backends.source import PrintedBody
from graphc.errors import shortened
from graphc.ir.graph.build import tuple_text
from graphc.ir.graph.nodes import Graph, Guard, Node, Value
from graphc.ir.sizes.dims import Dim, Size, Symbol
from graphc.ir.sizes.lines import Quotient, message_end, next_determining, quotient_of
from graphc.ir.sizes.names import shown_name
from graphc.ir.sizes.unsolvable_axes import UndeterminedAxes
from graphc.ir.types import ConcreteArray
from graphc_serving.casting import castable, converted, described, fits, misfit, remedy

LONGEST = 60  # characters of a name in a message


class ProgramError(ValueError):
    """A call that does not fit the program; `kind` says in one word how.

    `error` names the exception class that a check asks for.
    """

    def __init__(
        self, problem: str, place: str = "", kind: str = "shape", error: str = ""
    ) -> None:
        asked = f"\n  asked for by {place}" if place else ""
        super().__init__(f"{problem}{asked}")
        self.problem, self.kind, self.error = problem, kind, error


def require(
    holds: bool, message: str, place: str, *sizes: int, kind: str = "shape"
) -> None:
    """Raise ProgramError unless a relation between sizes holds."""
    if not holds:
        got = f"; got {' and '.join(map(str, sizes))}" if sizes else ""
        raise ProgramError(f"{message}{got}", place, kind)


def integer(
    name: str, value: SupportsIndex, remedy: str = "", cut: bool = False
) -> int:
    """The Python integer of a size; `remedy` is for where it is being traced.

    One that is `cut` is the bound of a slice: it may be beyond any axis.
    """
    type_name = type(value).__name__
    try:
        number: int = value.__index__()
    except (AttributeError, TypeError):
        if type_name.endswith("Tracer"):
            remedy = remedy or "jit its jax_callable with static_argnums"
            raise ProgramError(
                f"the size {name} must be known, and it is being traced\n"
                "  hint: call the function outside of jax.jit, jax.vmap and jax.grad, "
                f"or {remedy}",
                kind="traced",
            ) from None
        got = f"{type_name} {value!r}"
        problem = f"{name} must be an integer, got {got}"
        raise ProgramError(problem, kind="dtype") from None
    if cut:
        return max(-(2**49), min(number, 2**49))
    if not -(2**48) <= number <= 2**48:
        problem = f"{name} is used as a size, which is at most 2**48, got {number}"
        raise ProgramError(problem, kind="range")
    return number


def kind(scalar: ConcreteArray) -> object:
    """The type of a scalar, by which it may fit or may not."""
    scalar_type = type(scalar)
    if hasattr(scalar, "dtype"):
        weak = getattr(scalar, "weak_type", False)
        return scalar_type, scalar.dtype, scalar.shape, weak
    return scalar_type


def expect(
    name: str,
    value: object,
    dtype: str,
    shape: tuple[object, ...],
    place: str,
    casting: str = "safe",
) -> object:
    """`value` in this dtype, as NumPy's rules of `casting` allow it.

    Raise ProgramError unless it has this dtype then, this rank and static sizes.
    """
    dtype_name, sizes = described(value)
    value = converted(value, dtype, casting)
    problem, kind = misfit(value, dtype, shape)
    if not problem:
        return value
    sizes_text = "" if sizes is None else f"[{', '.join(map(str, sizes))}]"
    hint = remedy(value, dtype)
    rules = [r for r in ("safe", "same_kind") if castable(value, dtype, r)]
    if rules:
        hint = f'graphc.function(..., casting="{rules[0]}") takes it; or {hint}'
        if (dtype_name, dtype) == ("float64", "float32"):
            hint += '; graphc.config.float = "float64" before that input loses none'
    raise ProgramError(
        f"input {name} {problem}\n  got: {dtype_name}{sizes_text}\n"
        f"  expected: {dtype}[{', '.join(map(str, shape))}], declared at {place}"
        + f"\n  hint: {hint}" * (kind in ("argument", "dtype")),
        kind=kind,
    )


def agree(
    name: str, axis: int, size: int, wanted: int, formula: str, source: str, place: str
) -> None:
    """Raise ProgramError unless an axis has the size that others give it."""
    if size != wanted:
        raise ProgramError(
            f"axis {axis} of input {name} has {size} elements, not {formula} = {wanted}"
            f"\n  where {source}\n  declared at {place}\n"
            "  hint: sizes of one name must agree; name another where it may differ"
        )


TEXTS: tuple[Any, ...] = (ProgramError, require, integer, kind, expect, described)
TEXTS += (misfit, remedy, castable, converted, fits, agree)


@cache
def helpers() -> str:
    """The error and the checks that every emitted module ends with, as text."""
    return "".join(f"\n\n{plain_source(item)}\n" for item in TEXTS)


def check_inputs(
    module: Module,
    graph: Graph,
    names: list[str],
    guards: Iterable[tuple[Guard, Node]],
    casting: str,
) -> list[str]:
    """The function `check_inputs` of a program, which checks dtypes, ranks and sizes.

    It returns the arguments, cast to the dtypes of the inputs where `casting` allows
    that. `guards` are relations of sizes that must hold for the arguments as passed.
    """
    body = PrintedBody(module, "np", reads=False)
    axes = list(_symbolic_axes(graph, names))
    sources = _sources_of_symbols(axes)
    for symbol, axis in sources.items():
        name = module.size_name(symbol)
        body.line(f"{name} = {_symbol_text(axis, symbol)}")
        body.bind_size(symbol, name)
    lines = [
        _expectation(value, name, shown, casting)
        for value, name, shown in zip(
            graph.inputs, names, graph.input_names, strict=True
        )
    ]
    lines += [*body.lines, *_agreement_lines(body, axes, sources)]
    lines += _guard_lines(module, graph, names, guards)
    head = f"def check_inputs({', '.join(names)}):"
    doc = '"""The arguments in their dtypes; raise ProgramError unless they fit."""'
    end = [f"return {', '.join(names)}"] if names else []
    return [head, *indent([doc, *lines, *end])]


def check_line(names: list[str]) -> str:
    """The line that checks arguments and rebinds their names to the cast values."""
    call = f"check_inputs({', '.join(names)})"
    return f"{', '.join(names)} = {call}" if names else call


def _guard_lines(
    module: Module,
    graph: Graph,
    names: list[str],
    guards: Iterable[tuple[Guard, Node]],
) -> list[str]:
    """The lines that test guards, preceded by lines for the sizes that they need."""
    body = PrintedBody(module, "np", reads=True)
    body.bind_all(graph.inputs, names)
    for guard, node in guards:
        body.line(body.guard_text(guard, node))
    return body.lines


def _expectation(value: Value, name: str, shown: str, casting: str) -> str:
    """The line that checks one input by itself; `shown` is the name that users know."""
    shape = tuple_text(
        str(n) if isinstance(n, int) else repr(str(n)) for n in value.type.shape
    )
    place, shown = str(value.node.place), shortened(shown, LONGEST)
    rule = "" if casting == "safe" else f", {casting!r}"
    described = f'{shown!r}, {name}, "{value.dtype.name}", {shape}, {place!r}{rule}'
    return f"{name} = expect({described})"


@dataclass(frozen=True)
class Axis:
    """An axis of an input whose size is not a constant."""

    input_name: str  # the user's name of the input
    name: str  # its name in the program
    index: int
    size: Dim
    place: str

    @property
    def text(self) -> str:
        """The size of the axis as an expression of the program."""
        return f"{self.name}.shape[{self.index}]"


def _symbolic_axes(graph: Graph, names: list[str]) -> Iterable[Axis]:
    triples = zip(graph.inputs, names, graph.input_names, strict=True)
    for value, name, input_name in triples:
        for index, size in enumerate(value.type.shape):
            if isinstance(size, Dim):
                shown = shortened(input_name, LONGEST)
                yield Axis(shown, name, index, size, str(value.node.place))


def _sources_of_symbols(axes: list[Axis]) -> dict[Symbol, Axis]:
    """The axis that each symbol is taken from.

    An axis whose size is the symbol itself is preferred to one whose size contains it.
    """
    sources: dict[Symbol, Axis] = {}
    for axis in axes:
        if axis.size.is_symbol:
            sources.setdefault(axis.size.symbols[0], axis)
    for axis in axes:
        if len(axis.size.symbols) == 1 and _symbol_text(axis, axis.size.symbols[0]):
            sources.setdefault(axis.size.symbols[0], axis)
    return sources


def _symbol_text(axis: Axis, symbol: Symbol) -> str:
    """The expression of a symbol by the size of an axis, "" if not determined."""
    if axis.size.is_symbol:
        return axis.text
    return solution_text(axis.size, symbol, axis.text)


def _agreement_lines(
    body: PrintedBody, axes: list[Axis], sources: dict[Symbol, Axis]
) -> Iterable[str]:
    """The lines that compare axes with sizes that other axes have fixed."""
    for axis in axes:
        if not sources.keys() >= set(axis.size.symbols):
            continue  # `_partial_agreement_lines` is about these
        if sources[axis.size.symbols[0]] is axis:
            yield from _own_agreement_line(body, axis)
        else:
            yield _agreement_line(body, axis, sources)
    yield from _partial_agreement_lines(body, axes, sources)


def _agreement_line(
    body: PrintedBody, axis: Axis, sources: Mapping[Symbol, Axis]
) -> str:
    origins = _origins_text(axis, sources)
    return (
        f"agree({axis.input_name!r}, {axis.index}, {axis.text}, "
        f"{body.code(axis.size)}, {str(axis.size)!r}, {origins!r}, {axis.place!r})"
    )


def _origins_text(axis: Axis, sources: Mapping[Symbol, Axis]) -> str:
    """Say in words which axes the sizes within the size of `axis` come from."""
    pairs = [(shown_name(s), sources[s]) for s in axis.size.symbols if s in sources]
    return ", ".join(
        f"{name} is from axis {source.index} of input {source.input_name}"
        for name, source in pairs
    )


def _own_agreement_line(body: PrintedBody, axis: Axis) -> Iterable[str]:
    """The line that checks that an axis of 2*n + 1 has such a size, for an n >= 0."""
    if not axis.size.is_symbol:
        n = body.size(axis.size.symbols[0])
        which = f"axis {axis.index} of input {axis.input_name}"
        shown = f"{which} must have {axis.size} elements"
        holds = f"0 <= {n} and {body.code(axis.size)} == {axis.text}"
        yield f"require({holds}, {shown!r}, {axis.place!r}, {axis.text})"


def _partial_agreement_lines(
    body: PrintedBody, axes: list[Axis], sources: dict[Symbol, Axis]
) -> Iterable[str]:
    """Yield lines that check that an axis of n + m has n elements or more.

    The axis then determines m.
    """
    waiting = [axis for axis in axes if not sources.keys() >= set(axis.size.symbols)]
    untold = UndeterminedAxes()
    while waiting:
        axis = waiting[next_determining([axis.size for axis in waiting], sources)]
        waiting.remove(axis)
        if sources.keys() >= set(axis.size.symbols):
            yield _agreement_line(body, axis, sources)
            continue
        part = quotient_of(axis.size, sources)
        axis_symbol = Symbol(f"axis {axis.index} of input {axis.input_name}")
        body.bind_size(axis_symbol, axis.text)
        known = [body.size(s) for s in axis.size.symbols if s in sources]
        sizes = ", ".join([axis.text, *known])
        end = message_end(part, _origins_text(axis, sources))
        message = f"{axis_symbol.name} must have {axis.size}{end}"
        quotient, holds = ("", "") if part is None else _quotient(body, axis, part)
        if holds:
            yield f"require({holds}, {message!r}, {axis.place!r}, {sizes})"
        limits = untold.relations(axis.size, axis_symbol, sources, part)
        for left, relation, right, words in limits:
            holds = f"{body.code(left)} {relation} {body.code(right)}"
            problem = message + words
            yield f"require({holds}, {problem!r}, {axis.place!r}, {sizes})"
        if part is None:
            continue
        symbol = part.determined_symbol
        if symbol and any(symbol in other.size.symbols for other in waiting):
            name = body.module.size_name(symbol)
            yield f"{name} = {quotient}"
            body.bind_size(symbol, name)
            sources[symbol] = axis


def _in_brackets(body: PrintedBody, size: Size) -> str:
    text = body.code(size)
    return text if text.isalnum() else f"({text})"


def _quotient(body: PrintedBody, axis: Axis, part: Quotient) -> tuple[str, str]:
    """The part of an axis that nothing else tells, and the condition that it exists.

    The condition is "" where every size has such a part, as with a size of n - m.
    """
    offset, slope = part.offset, _in_brackets(body, part.slope)
    product = axis.text
    if isinstance(offset, Dim) or offset:
        product = f"({axis.text} - {_in_brackets(body, offset)})"
    if slope == "1":
        return product, f"0 <= {product}" if part.never_negative else ""
    divisor = slope if isinstance(part.slope, int) else f"({slope} or 1)"
    quotient = f"{product} // {divisor}"
    holds = f"{quotient} * {slope} == {product}"
    return quotient, f"0 <= {quotient} and {holds}" if part.never_negative else holds
