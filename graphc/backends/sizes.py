"""Sizes written as arithmetic on traced integers, where they are not static."""

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
EXACT: Range = (-(2**62), 2**62)  # where sums of integers of 64 bits do not wrap around
CLIP = "jnp.where({0} < 0, jnp.maximum({0} + {1}, 0), jnp.minimum({0}, {1}))"


class Arithmetic(IntEnum):
    """The integers that a formula of sizes is computed with."""

    PYTHON = 0
    TRACED = 1  # arrays of the dtypes that its symbols have
    WIDE = 2  # arrays of 64 bits


def needed(size: Size, narrow: bool) -> Arithmetic:
    """The arithmetic in which a formula of arrays does not wrap around.

    `narrow`: its result is taken as an integer of 32 bits, so that sums and products
    may wrap around before that. Arrays of bytes and without signs wrap around earlier
    than those of int32: even the negative of one does. So does a number beside arrays
    of int32 that is beyond their bits.
    """
    exact = parts_fit if narrow else fits
    if not isinstance(size, int):
        numbers = [n for part in _parts(size) for n in polynomial(part).values()]
        signed = all(map(_is_signed, size.symbols))
        if not (signed and all(map(_has_32_bits, numbers))):
            return Arithmetic.WIDE
    return Arithmetic.TRACED if exact(size, _range, INT32) else Arithmetic.WIDE


def _has_32_bits(number: int) -> bool:
    return INT32[0] <= number <= INT32[1]


def computes_wide(node: Node) -> bool:
    """Whether sizes are integers of 64 bits where they are operands of a node.

    It computes numbers of Python that no formula of sizes gives, as a power or a shift,
    or compares a size with one beyond 32 bits.
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


def _parts(size: Dim) -> list[Dim]:
    """A formula, and the arguments of all functions in it."""
    return [size, *(part for call in calls_in(size) for part in call.formulas)]


def _range(symbol: Symbol) -> Range:
    if is_wide(symbol):
        return -(2**63), 2**63
    return -MOST_PADDED if symbol.lower is None else symbol.lower, MOST_PADDED


def is_wide(symbol: Symbol) -> bool:
    """Whether the array that stands for a symbol has 64 bits."""
    origin = symbol.origin
    return isinstance(origin, Value) and origin.dtype.itemsize == 8


def is_unbounded(symbol: Symbol, slice_bounds: Container[Symbol]) -> bool:
    """Whether an integer of 64 bits is neither cut off nor an argument, checked."""
    origin = symbol.origin
    if not isinstance(origin, Value) or not is_wide(symbol) or symbol in slice_bounds:
        return False
    return origin.node.primitive is not INPUT or is_body_input(origin.node)


def _is_signed(symbol: Symbol) -> bool:
    """Whether a symbol stands for an integer of Python, of int32 or of int64."""
    origin = symbol.origin
    return not isinstance(origin, Value) or origin.dtype in ("int32", "int64")


def reading(symbol: Symbol, value: str, cut: bool) -> str:
    """The call that gives the integer of a value as a size.

    One that is `cut` may be beyond any axis.
    """
    assert isinstance(symbol.origin, Value)
    remedy = symbol.origin.node.primitive.size_remedy
    more = f", {remedy!r}" * bool(remedy) + ", cut=True" * cut
    return f'integer("{label(symbol.name)}", {value}{more})'


def widened(symbol: Symbol, name: str, bounded: bool = True) -> str:
    """A traced integer as one of 64 bits.

    If `bounded`, it is cut off, so that sums of it do not wrap around.
    """
    if not is_wide(symbol):
        return f'{name}.astype("int64")'
    assert isinstance(symbol.origin, Value)
    if symbol.origin.dtype.kind == "u":
        most = "2**49" if bounded else "2**63 - 1"
        return f'jnp.minimum({name}, {most}).astype("int64")'
    return f"jnp.clip({name}, -(2**49), 2**49)" if bounded else name


def in_sums(size: Dim) -> set[Symbol]:
    """The symbols that a formula computes sums or products with.

    Others are compared only, or are all there is.
    """
    long = [polynomial(p) for p in _parts(size) if polynomial(p).only_atom() is None]
    long += [polynomial(p) for c in calls_in(size) if c.op == "*" for p in c.formulas]
    return {atom for p in long for atom in p.atoms() if isinstance(atom, Symbol)}


def bounded_sum(jnp: ModuleType, exact: object, rough: JaxArray) -> object:
    """Printed into JAX programs: a sum, cut off where integers of 64 bits wrap around.

    `rough` is the same sum of floats.
    """
    beyond = (jnp.sign(rough) * 2.0**49).astype("int64")
    return jnp.where(abs(rough) < 2.0**62, exact, beyond)


@dataclass(frozen=True)
class UnboundedSums:
    """How sums of integers that no check has bounded are written.

    `helper` prints a function into the program, `is_unbounded` tells such integers.
    """

    helper: Callable[[Callable[..., Any]], str]
    is_unbounded: Callable[[Symbol], bool]

    def may_wrap(self, size: Dim) -> bool:
        """Whether a formula is a sum or product that 64 bits may not hold."""
        atom = polynomial(size).only_atom()
        computed = atom is None or (not isinstance(atom, Symbol) and atom.op == "*")
        unbounded = computed and any(map(self.is_unbounded, size.symbols))
        return unbounded and not lies_within(size, _range, EXACT)


@dataclass
class _ArrayPrinter(Printer):
    """Writes min, max and clip as functions of arrays, sums that may wrap as `sums`."""

    sums: UnboundedSums | None = None

    def size(self, d: Size) -> str:
        """The text of a size: a sum."""
        text = super().size(d)
        if self.sums is None or isinstance(d, int) or d in self.named:
            return text
        if not self.sums.may_wrap(d):
            return text
        rough = replace(self, name_of=self._float_of, sums=None).size(d)
        return f"{self.sums.helper(bounded_sum)}(jnp, {text}, {rough})"

    def _float_of(self, symbol: Symbol) -> str:
        """A symbol as a float; it may be an array, or a capacity that is a number."""
        name = self.name_of(symbol)
        return f'jnp.asarray({name}, "float64")' if is_wide(symbol) else name

    def atom(self, atom: Atom, sign: str = "//") -> str:
        """The text of a symbol or of a function of sizes."""
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
    """A JAX expression for `d` in terms of integer arrays for its symbols.

    Parts that have a name in `named` stand there by it.
    """
    return _ArrayPrinter(name_of, CLIP, named or {}, sums).size(d)


def solved(size: Dim, symbol: Symbol, axis: str) -> str:
    """The symbol from `axis`, which holds `size`; "" where it is not linear in it."""
    line = line_of(size, symbol)
    if line is None:
        return ""
    slope, offset = line
    shifted = axis if offset == 0 else f"({axis} - {offset})"
    return shifted if slope == 1 else f"{shifted} // {slope}"


def in_pieces(value: Value) -> bool:
    """Whether a value is an output of a capacity-doubling loop, still in pieces."""
    node = value.node
    if not node.primitive.driven:
        return False
    rows = node.params["length"]
    return any(n is rows for n in value.type.shape[:1])
