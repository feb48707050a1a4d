"""Sizes written as arithmetic on traced integers where they are not static."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import reduce
from types import ModuleType
from typing import Any

from graphc.errors import label
from graphc.ir.graph.build import INPUT, is_body_input, literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.params.exactness import (
    MOST_PADDED,
    Range,
    fits,
    lies_within,
    parts_fit,
)
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Size
from graphc.ir.sizes.lines import line_of
from graphc.ir.sizes.polynomials import Atom, Symbol, calls_in, polynomial
from graphc.ir.sizes.text import Printer
from graphc.ir.types import INT64, JaxArray

INT32: Range = (-(2**31), 2**31 - 1)
EXACT: Range = (-(2**62), 2**62)  # where 64-bit sums do not wrap around
CLIP = "jnp.where({0} < 0, jnp.maximum({0} + {1}, 0), jnp.minimum({0}, {1}))"


class Arithmetic(IntEnum):
    """The kind of integers that a formula of sizes is computed with."""

    PYTHON = 0
    TRACED = 1  # arrays of the dtypes of its symbols
    WIDE = 2  # arrays of 64 bits


def arithmetic_for(size: Size, narrow: bool) -> Arithmetic:
    """The arithmetic in which a formula on arrays does not wrap around.

    With `narrow` the result is taken as a 32-bit integer, so that sums and products may
    wrap around before that. Arrays of bytes or of unsigned integers wrap around earlier
    than those of int32: even the negative of an element does. So does a number that
    does not fit into 32 bits beside arrays of int32.
    """
    exact = parts_fit if narrow else fits
    if not isinstance(size, int):
        parts = map(polynomial, _formula_parts(size))
        numbers = [n for part in parts for n in part.values()]
        signed = all(map(_is_signed, size.symbols))
        if not (signed and all(map(_has_32_bits, numbers))):
            return Arithmetic.WIDE
    return Arithmetic.TRACED if exact(size, _symbol_range, INT32) else Arithmetic.WIDE


def _has_32_bits(number: int) -> bool:
    return INT32[0] <= number <= INT32[1]


def computes_wide(node: Node) -> bool:
    """Whether sizes must be 64-bit integers where they are operands of a node.

    This holds if the node computes Python numbers by other ops than formulas of sizes
    have, such as a power or a shift, or compares a size with a number beyond 32 bits.
    """
    primitive, output = node.primitive, node.outputs[0]
    if not primitive.elementwise or primitive is OP.convert:
        return False
    if output.dtype == INT64 and output.type.weak and not primitive.picks:
        return True
    literals = [a for a in map(literal_of, node.inputs) if a is not None]
    return any(
        a.dtype.kind in "iu" and not a.ndim and not _has_32_bits(int(a))
        for a in literals
    )


def _formula_parts(size: Dim) -> list[Dim]:
    """A formula, and the arguments of all functions in the formula."""
    return [size, *(part for call in calls_in(size) for part in call.formulas)]


def _symbol_range(symbol: Symbol) -> Range:
    if is_wide(symbol):
        return -(2**63), 2**63
    return -MOST_PADDED if symbol.lower is None else symbol.lower, MOST_PADDED


def is_wide(symbol: Symbol) -> bool:
    """Whether the array that stands for a symbol has 64 bits."""
    origin = symbol.origin
    return isinstance(origin, Value) and origin.dtype.itemsize == 8


def is_unbounded(symbol: Symbol, slice_bounds: Container[Symbol]) -> bool:
    """Whether a 64-bit integer is neither clipped nor a checked argument."""
    origin = symbol.origin
    if not isinstance(origin, Value) or not is_wide(symbol) or symbol in slice_bounds:
        return False
    return origin.node.primitive is not INPUT or is_body_input(origin.node)


def _is_signed(symbol: Symbol) -> bool:
    """Whether a symbol stands for a Python integer, or for one of int32 or int64."""
    origin = symbol.origin
    return not isinstance(origin, Value) or origin.dtype in ("int32", "int64")


def reading_call(symbol: Symbol, value: str, cut: bool) -> str:
    """The call that reads a value as the integer of a size.

    With `cut`, the integer may be beyond any axis and is clipped.
    """
    assert isinstance(symbol.origin, Value)
    remedy = symbol.origin.node.primitive.size_remedy
    more = f", {remedy!r}" * bool(remedy) + ", cut=True" * cut
    return f'integer("{label(symbol.name)}", {value}{more})'


def widened_text(symbol: Symbol, name: str, bounded: bool = True) -> str:
    """The expression of a traced integer with 64 bits.

    If `bounded`, the integer is clipped so that sums of it do not wrap around.
    """
    if not is_wide(symbol):
        return f'{name}.astype("int64")'
    assert isinstance(symbol.origin, Value)
    if symbol.origin.dtype.kind == "u":
        most = "2**49" if bounded else "2**63 - 1"
        return f'jnp.minimum({name}, {most}).astype("int64")'
    return f"jnp.clip({name}, -(2**49), 2**49)" if bounded else name


def summed_symbols(size: Dim) -> set[Symbol]:
    """The symbols that enter sums or products of a formula.

    Other symbols are only compared, or are the whole formula.
    """
    parts = map(polynomial, _formula_parts(size))
    long = [p for p in parts if p.only_atom() is None]
    long += [polynomial(p) for c in calls_in(size) if c.op == "*" for p in c.formulas]
    return {atom for p in long for atom in p.atoms() if isinstance(atom, Symbol)}


def bounded_sum(jnp: ModuleType, exact: object, rough: JaxArray) -> object:
    """Printed into JAX programs: `exact`, or +-2**49 where 64 bits may wrap around.

    `rough` is the same sum, computed in floats.
    """
    beyond = (jnp.sign(rough) * 2.0**49).astype("int64")
    return jnp.where(abs(rough) < 2.0**62, exact, beyond)


@dataclass(frozen=True)
class UnboundedSums:
    """How sums of integers that no check has bounded are written.

    `helper` prints a function into the program; `is_unbounded` recognises such
    integers.
    """

    helper: Callable[[Callable[..., Any]], str]
    is_unbounded: Callable[[Symbol], bool]

    def may_wrap(self, size: Dim) -> bool:
        """Whether a formula is a sum or product that may exceed 64 bits."""
        atom = polynomial(size).only_atom()
        computed = atom is None or (not isinstance(atom, Symbol) and atom.op == "*")
        unbounded = computed and any(map(self.is_unbounded, size.symbols))
        return unbounded and not lies_within(size, _symbol_range, EXACT)


@dataclass
class _ArrayPrinter(Printer):
    """Writes min, max and clip as array functions, and guards sums that may wrap."""

    sums: UnboundedSums | None = None

    def size(self, d: Size) -> str:
        """The text of a size, guarded against wrapping around where it may."""
        text = super().size(d)
        if self.sums is None or isinstance(d, int) or d in self.named:
            return text
        if not self.sums.may_wrap(d):
            return text
        rough = replace(self, name_of=self._float_of, sums=None).size(d)
        return f"{self.sums.helper(bounded_sum)}(jnp, {text}, {rough})"

    def _float_of(self, symbol: Symbol) -> str:
        """A symbol as a float, if it is a 64-bit array; otherwise its name."""
        name = self.name_of(symbol)
        return f'jnp.asarray({name}, "float64")' if is_wide(symbol) else name

    def atom(self, atom: Atom, sign: str = "//") -> str:
        """The text of a symbol, or of a function of sizes."""
        if isinstance(atom, Symbol) or not atom.side:
            return super().atom(atom, sign)
        args = [self.size(x) for x in atom.args]
        return reduce(lambda a, b: f"jnp.{atom.op}imum({a}, {b})", args)


def array_size(
    d: Size,
    name_of: Callable[[Symbol], str],
    named: Mapping[Dim, str] | None = None,
    sums: UnboundedSums | None = None,
) -> str:
    """A JAX expression for `d`, given integer arrays for its symbols.

    Parts of `d` that have a name in `named` are written by that name.
    """
    return _ArrayPrinter(name_of, CLIP, named or {}, sums).size(d)


def solution_text(size: Dim, symbol: Symbol, axis: str) -> str:
    """The symbol solved for, given that `axis` is `size`; "" if that is not linear."""
    line = line_of(size, symbol)
    if line is None:
        return ""
    slope, offset = line
    shifted = axis if offset == 0 else f"({axis} - {offset})"
    return shifted if slope == 1 else f"{shifted} // {slope}"


def is_in_pieces(value: Value) -> bool:
    """Whether a value is an output of a capacity-doubling loop, still in pieces."""
    node = value.node
    if not node.primitive.driven:
        return False
    rows = node.params["length"]
    return any(n is rows for n in value.type.shape[:1])
