"""Structures of arrays: "single", "none", or parts. A file stores parts as a pair."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from graphc_serving.kinds import list_of, of

Structure: TypeAlias = "str | Parts"
DEEPEST = 64  # structures within structures


class Parts(NamedTuple):
    """A list, a tuple, or a dict with the keys `kind`, of parts."""

    kind: str | Sequence[str]
    parts: Sequence[Structure]


class Unlike(ValueError):
    """Raised for a structure other than expected: where, and what was expected."""


def structure_of(stored: object, depth: int = 0) -> Structure:
    """Read a structure; raise TypeError or ValueError for anything else."""
    if stored in ("single", "none"):
        return of(str, stored)
    kind, parts = list_of(stored)
    if depth >= DEEPEST:
        raise ValueError("a structure is nested too deeply")
    structures = [structure_of(part, depth + 1) for part in list_of(parts)]
    if kind in ("list", "tuple"):
        return Parts(of(str, kind), structures)
    keys = [of(str, key) for key in list_of(kind)]
    if len(keys) != len(structures):
        raise ValueError("a dict must have as many keys as parts")
    return Parts(keys, structures)


def leaves(structure: Structure) -> int:
    """The number of arrays in a structure."""
    if isinstance(structure, str):
        return int(structure == "single")
    return sum(map(leaves, structure.parts))


def structured(structure: Structure, values: Iterator[object]) -> object:
    """Build a structure from values in order."""
    if isinstance(structure, str):
        return next(values) if structure == "single" else None
    kind = structure.kind
    built = [structured(part, values) for part in structure.parts]
    if kind == "list":
        return built
    return tuple(built) if kind == "tuple" else dict(zip(kind, built, strict=True))


def flat(structure: Structure, tree: object, where: str) -> list[object]:
    """The arrays in a tree; raise Unlike where it does not have this structure."""
    if structure == "single":
        return [tree]
    if isinstance(structure, str):
        _require(tree is None, where, "None")
        return []
    kind, parts = structure
    if isinstance(kind, str):
        items = tree if isinstance(tree, list if kind == "list" else tuple) else None
        fits = items is not None and len(items) == len(parts)
        _require(fits, where, f"a {kind} of {len(parts)}")
        return _all(parts, items or (), [f"{where}[{i}]" for i in range(len(parts))])
    named = tree if isinstance(tree, dict) else {}
    fits = isinstance(tree, dict) and named.keys() == set(kind)
    _require(fits, where, f"a dict of {', '.join(kind) or 'nothing'}")
    return _all(parts, [named[k] for k in kind], [f"{where}[{k!r}]" for k in kind])


def _all(
    parts: Iterable[Structure], trees: Iterable[object], places: Sequence[str]
) -> list[object]:
    triples = zip(parts, trees, places, strict=True)
    return [leaf for triple in triples for leaf in flat(*triple)]


def _require(holds: bool, where: str, expected: str) -> None:
    if not holds:
        raise Unlike(f"{where} must be {expected}")
