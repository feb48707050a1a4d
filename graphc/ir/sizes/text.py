"""Sizes as text: Python expressions in which parts may have names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphc.ir.sizes.polynomials import (
    UNORDERED,
    Atom,
    Call,
    Poly,
    Symbol,
    calls_in,
    polynomial,
)

if TYPE_CHECKING:
    from graphc.ir.sizes.dims import Dim, Size

CLIP = "slice({}).indices({})[1]"  # `clip` in Python
MOST_IN_A_ROW = 128  # terms of a sum, which readers of the text nest
LONG = 8  # terms of a part that is better given a name


def shared_parts(size: Size) -> list[Dim]:
    """The parts of a long size that should be named, each after its own parts."""
    parts = (x for call in calls_in(size) for x in call.formulas if x.weight > LONG)
    return list(dict.fromkeys(parts))


@dataclass
class Printer:
    """Prints sizes: symbols by `name_of`, and `named` parts by their names."""

    name_of: Callable[[Symbol], str]
    clip: str
    named: Mapping[Dim, str]

    def size(self, d: Size) -> str:
        """The text of a size, as a sum."""
        if not isinstance(d, int) and d in self.named:
            return self.named[d]
        remainders, p = moduli(polynomial(d))
        terms = [(c, -1, True, [self.atom(x, " % ")]) for c, x in remainders]
        for m, c in p.items():
            quotient = len(m) == 1 and isinstance(m[0], Call) and m[0].op == "//"
            terms.append((c, -len(m), quotient, sorted(map(self.atom, m))))
        rows, text = [], ""
        for i, (c, _, bare, factors) in enumerate(
            sorted(terms, key=lambda t: (t[0] < 0, *t[1:]))
        ):
            if i and not i % MOST_IN_A_ROW:
                rows.append(_unsigned(text))
                text = ""
            parts = [str(abs(c))] * (abs(c) != 1 or not factors) + factors
            bare = bare and len(parts) == 1 and bool(text or c > 0)
            term = factors[0][1:-1] if bare else "*".join(parts)
            text += (" - " if c < 0 else " + ") + term
        rows.append(_unsigned(text))
        return f"({') + ('.join(rows)})" if len(rows) > 1 else rows[0]

    def atom(self, atom: Atom, sign: str = "//") -> str:
        """The text of a symbol or of a function of sizes."""
        if isinstance(atom, Symbol):
            return self.name_of(atom)
        if atom.op in ("//", "*"):
            sign = sign if atom.op == "//" else "*"
            return f"({sign.join(map(self.operand, atom.args))})"
        args = (sorted if atom.op in UNORDERED else list)(map(self.size, atom.args))
        call = f"{atom.op}({', '.join(args)})"
        return self.clip.format(*args) if atom.op == "clip" else call

    def operand(self, d: Size) -> str:
        """The text of a size as an operand of `//` or `*`."""
        atom = polynomial(d).only_atom()
        whole = isinstance(d, int) or d in self.named
        if atom and not whole:
            return self.atom(atom)
        return self.size(d) if whole else f"({self.size(d)})"


def _unsigned(text: str) -> str:
    """A sum without the sign before its first term, unless that sign is a minus."""
    return "-" * text.startswith(" - ") + text[3:] or "0"


def moduli(p: Poly) -> tuple[list[tuple[int, Call]], Poly]:
    """([(c, a//b), ...], rest) with p == c*(a % b) + ... + rest."""
    collected = []
    calls = [a for a in p.atoms() if isinstance(a, Call) and a.op == "//"]
    for call in sorted(calls, key=lambda a: a.serial, reverse=True):  # outer ones first
        a, by = map(polynomial, call.args)
        whole = Poly({(call,): 1}).times(by)
        leading = next(iter(whole))
        c = -p.get(leading, 0) // whole[leading]
        remainder = p.plus(a, -c).plus(whole, c)
        if len(remainder) == len(p) - len(a) - len(whole):
            collected.append((c, call))
            p = remainder
    return collected, p


def expression(
    d: Size,
    name_of: Callable[[Symbol], str],
    clip: str = CLIP,
    named: Mapping[Dim, str] | None = None,
) -> str:
    """A Python expression for `d` in terms of variables for its symbols.

    Parts that are in `named` appear by their names.
    """
    return Printer(name_of, clip, named or {}).size(d)
