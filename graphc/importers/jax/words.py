"""`shapes="n d, d -> n"`: which axes vary, in words."""

import re
from dataclasses import dataclass
from typing import Any

import jax

from graphc.errors import GraphError, graph_error
from graphc.importers.jax.pattern import ShapesOfCall, SizePattern
from graphc.importers.jax.tracing import SpecShape

_ARROW = "->"


@dataclass(frozen=True)
class Word:
    """A part of what is said, and where it starts in the text of the whole."""

    text: str
    start: int

    def words(self) -> "list[Word]":
        """The words in it, one after another."""
        found = re.finditer(r"\S+", self.text)
        return [Word(m[0], self.start + m.start()) for m in found]


def pattern_of(shapes: Any, form: Any, given: ShapesOfCall) -> SizePattern:
    """The pattern that `shapes` says, for arguments of this structure.

    It is one text with a group of words per array, in the order of the leaves, or a
    pytree of such groups like the positional arguments. A word is a name, a number, or
    "_" for an axis that does not vary; "..." stands for any such axes in front. The
    text after "->" describes the results; see `check_results`.

    Raises GraphError where it does not fit the arguments.
    """
    return SizePattern(_sizes(shapes, _groups(shapes, form), given, {}))


def describes_results(shapes: Any) -> bool:
    """Whether `shapes` says of which shapes the results are."""
    return isinstance(shapes, str) and _ARROW in shapes


def check_results(
    shapes: str, form: Any, given: ShapesOfCall, results: ShapesOfCall
) -> None:
    """Raise GraphError where results do not have the shapes that are said after "->".

    Names are those of the arguments; others stand for sizes that results alone have.
    """
    known: dict[str, int] = {}
    _sizes(shapes, _groups(shapes, form), given, known)
    before, _, after = shapes.partition(_ARROW)
    _sizes(shapes, _in_line(after, len(before) + len(_ARROW)), results, known)


def _sizes(
    shapes: Any, groups: list[Word], given: ShapesOfCall, known: dict[str, int]
) -> tuple[SpecShape, ...]:
    """The sizes that groups of words say of arrays, whose names become `known`."""
    if len(groups) != len(given):
        extra = groups[len(given) :][:1]
        problem = f"it describes {len(groups)} arrays of {len(given)}"
        raise _misfit(shapes, problem, *extra)
    pairs = zip(groups, given, strict=True)
    words = [_axes(shapes, group, own) for group, own in pairs]
    return tuple(
        tuple(_size(shapes, w, n, known) for w, n in zip(axes, own, strict=True))
        for axes, own in zip(words, given, strict=True)
    )


def _in_line(text: str, before: int) -> list[Word]:
    """The groups of a text that starts after so many letters of the whole."""
    found, start = [], 1 + before  # after the quotation mark
    for group in text.split(","):
        found.append(Word(group, start))
        start += len(group) + 1
    return found


def _groups(shapes: Any, form: Any) -> list[Word]:
    if isinstance(shapes, str):
        return _in_line(shapes.partition(_ARROW)[0], 0)
    leaves, own = jax.tree.flatten((shapes, {}))
    if own != form or not all(isinstance(leaf, str) for leaf in leaves):
        raise _misfit(shapes, "it is no structure of texts like that of the arguments")
    return _in_text(leaves, repr(shapes))


def _in_text(leaves: list[str], whole: str) -> list[Word]:
    """Texts where they stand, one after another, in the text of a structure."""
    found, end = [], 0
    for leaf in leaves:
        start = whole.find(repr(leaf), end)
        found.append(Word(leaf, start + 1))
        end = start + len(repr(leaf))
    return found


def _axes(shapes: Any, group: Word, own: tuple[int, ...]) -> list[Word]:
    """A word for each axis of an array."""
    words = [] if group.text.strip() == "()" else group.words()
    if words and words[0].text == "...":
        more = len(own) - len(words) + 1
        words = [Word("_", words[0].start)] * more + words[1:]
    if len(words) != len(own):
        shown = group.text.strip()
        problem = f"{shown!r} has {len(words)} axes, the array {len(own)}: {own}"
        start = group.start + len(group.text) - len(group.text.lstrip())
        raise _misfit(shapes, problem, Word(shown, start))
    return words


def _size(shapes: Any, word: Word, own: int, known: dict[str, int]) -> int | str:
    """The size that a word says of an axis; `known` are those of names so far."""
    text = word.text
    if text == "_":
        return own
    wanted = int(text) if text.isdigit() else known.setdefault(text, own)
    if not (text.isdigit() or text.isidentifier()):
        raise _misfit(shapes, f"{text!r} is no name and no number", word)
    if wanted != own:
        so = "" if text.isdigit() else f"{text} is {wanted} before, and "
        raise _misfit(shapes, f"{so}the axis has the size {own}", word)
    return int(text) if text.isdigit() else text


def _misfit(shapes: Any, problem: str, *parts: Word) -> GraphError:
    """The error, with the part of the text underlined that is meant."""
    got = f"shapes={shapes!r}"
    for part in parts:
        got += f"\n{' ' * (len('  got: shapes=') + part.start)}{'^' * len(part.text)}"
    return graph_error(f"`shapes` does not fit: {problem}", op="jit", got=got)
