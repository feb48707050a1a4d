"""Structures of arrays, as a file stores them: "single", "none", or parts.

Parts are a pair: "list", "tuple" or a list of keys, and a list of structures.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from graphc_serving.kinds import list_of, of

Structure = Any
DEEPEST = 64  # structures within structures


class Unlike(ValueError):
    """Raised for a structure other than expected: where, and what was expected."""


def structure_of(stored: Any, depth: int = 0) -> Structure:
    """Read a structure; raise TypeError or ValueError for anything else."""
    if stored in ("single", "none"):
        return stored
    kind, parts = list_of(stored)
    if depth >= DEEPEST:
        raise ValueError("a structure is nested too deeply")
    if kind not in ("list", "tuple"):
        keys = [of(str, key) for key in list_of(kind)]
        if len(keys) != len(list_of(parts)):
            raise ValueError("a dict must have as many keys as parts")
    return [kind, [structure_of(part, depth + 1) for part in list_of(parts)]]


def leaves(structure: Structure) -> int:
    """The number of arrays in a structure."""
    if structure in ("single", "none"):
        return int(structure == "single")
    return sum(map(leaves, structure[1]))


def structured(structure: Structure, values: Iterator[Any]) -> Any:
    """Build a structure from values in order."""
    if structure == "single":
        return next(values)
    if structure == "none":
        return None
    kind, parts = structure
    built = [structured(part, values) for part in parts]
    if kind == "list":
        return built
    return tuple(built) if kind == "tuple" else dict(zip(kind, built, strict=True))


def flat(structure: Structure, tree: Any, where: str) -> list[Any]:
    """The arrays in a tree; raise Unlike where it does not have this structure."""
    if structure == "single":
        return [tree]
    if structure == "none":
        _require(tree is None, where, "None")
        return []
    kind, parts = structure
    if kind in ("list", "tuple"):
        fits = isinstance(tree, list if kind == "list" else tuple)
        _require(fits and len(tree) == len(parts), where, f"a {kind} of {len(parts)}")
        return _all(parts, tree, [f"{where}[{i}]" for i in range(len(parts))])
    fits = isinstance(tree, dict) and tree.keys() == set(kind)
    _require(fits, where, f"a dict of {', '.join(kind) or 'nothing'}")
    return _all(parts, [tree[k] for k in kind], [f"{where}[{k!r}]" for k in kind])


def _all(parts: Any, trees: Sequence[Any], places: Sequence[str]) -> list[Any]:
    triples = zip(parts, trees, places, strict=True)
    return [leaf for triple in triples for leaf in flat(*triple)]


def _require(holds: bool, where: str, expected: str) -> None:
    if not holds:
        raise Unlike(f"{where} must be {expected}")
