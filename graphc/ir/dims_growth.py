"""Sizes that are no smaller where other sizes are larger."""

from collections.abc import Collection

from graphc.ir import dims
from graphc.ir.dims import Dim, Size, Symbol, symbol_dim


def grows(size: Size, symbols: Collection[Symbol]) -> bool:
    """Whether a size is provably no smaller where these symbols are larger.

    Sums, products and extremes of what grows do, which is seen part by part; other
    parts are left to the prover.
    """
    if not isinstance(size, Dim) or set(size.symbols).isdisjoint(symbols):
        return True
    if all(_term_grows(term, c, symbols) for term, c in size._terms.items()):
        return True
    more: dict[Symbol, Size] = {
        s: symbol_dim(s) + dims.fresh_axis("more") for s in symbols if s in size.symbols
    }
    return dims.less_equal(size, dims.substitute(size, more)) is True


def _term_grows(
    term: dims._Monomial, factor: int, symbols: Collection[Symbol]
) -> bool:
    """Of a product, that its factors grow from 0 on."""
    parts = [(atom, symbol_dim(atom)) for atom in term]
    if all(set(d.symbols).isdisjoint(symbols) for _, d in parts):
        return True
    if factor < 0 or not all(_atom_grows(atom, symbols) for atom in term):
        return False
    return len(parts) == 1 or all(_is_natural(d) for _, d in parts)


def _is_natural(size: Size) -> bool:
    low, _ = dims.bounds(size)
    return low is not None and low >= 0


def _atom_grows(atom: dims._Atom, symbols: Collection[Symbol]) -> bool:
    if isinstance(atom, Symbol):
        return True
    if atom.op in ("min", "max"):
        return all(grows(part, symbols) for part in atom.args)
    if atom.op != "//" or not grows(atom.args[0], symbols):
        return False
    by = atom.args[1]
    fixed = not isinstance(by, Dim) or set(by.symbols).isdisjoint(symbols)
    return fixed and dims.less_equal(1, by) is True
