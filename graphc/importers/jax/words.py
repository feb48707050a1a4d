"""`shapes="n d, d -> n"`: which axes vary, in words."""

from typing import Any

import jax

from graphc.errors import GraphError, graph_error
from graphc.importers.jax.pattern import ShapesOfCall, SizePattern
from graphc.importers.jax.tracing import SpecShape


def pattern_of(shapes: Any, form: Any, given: ShapesOfCall) -> SizePattern:
    """The pattern that `shapes` says, for arguments of this structure.

    It is one text with a group of words per array, in the order of the leaves, or a
    pytree of such groups like the positional arguments. A word is a name, a number, or
    "_" for an axis that does not vary; "..." stands for any such axes in front. The
    text after "->" describes the results, for the reader.

    Raises GraphError where it does not fit the arguments.
    """
    groups = _groups(shapes, form)
    if len(groups) != len(given):
        raise _misfit(shapes, f"it describes {len(groups)} arrays of {len(given)}")
    pairs = zip(groups, given, strict=True)
    made = SizePattern(tuple(_shape(shapes, group, own) for group, own in pairs))
    if made.sizes(given) is None:
        shown = ", ".join(map(str, given))
        raise _misfit(shapes, f"the arrays have the shapes {shown}")
    return made


def _groups(shapes: Any, form: Any) -> list[str]:
    if isinstance(shapes, str):
        return [group.strip() for group in shapes.split("->")[0].split(",")]
    leaves, own = jax.tree.flatten((shapes, {}))
    if own != form or not all(isinstance(leaf, str) for leaf in leaves):
        raise _misfit(shapes, "it is no structure of texts like that of the arguments")
    return leaves


def _shape(shapes: Any, group: str, own: tuple[int, ...]) -> SpecShape:
    words = [] if group == "()" else group.split()
    if words[:1] == ["..."]:
        words = ["_"] * (len(own) - len(words) + 1) + words[1:]
    if len(words) != len(own):
        problem = f"{group!r} has {len(words)} axes, the array {len(own)}"
        raise _misfit(shapes, problem, group)
    return tuple(_size(shapes, w, n) for w, n in zip(words, own, strict=True))


def _size(shapes: Any, word: str, own: int) -> int | str:
    if word == "_":
        return own
    if word.isdigit():
        return int(word)
    if word.isidentifier():
        return word
    raise _misfit(shapes, f"{word!r} is no name and no number", word)


def _misfit(shapes: Any, problem: str, part: str = "") -> GraphError:
    """The error, with the part of the text underlined that is meant."""
    text = repr(shapes)
    got = f"shapes={text}"
    at = text.find(part) if part else -1
    if at >= 0:
        got += f"\n{' ' * (len('  got: shapes=') + at)}{'^' * len(part)}"
    return graph_error(f"`shapes` does not fit: {problem}", op="jit", got=got)
