"""Read `shapes="n d, d -> n"`, which tells in words which axes vary."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

import jax

from graphc.errors import GraphError, graph_error
from graphc.importers.jax.read.sizes import names_in
from graphc.importers.jax.sizes.pattern import (
    ShapesOfCall,
    SizePattern,
    can_have_values,
)
from graphc.importers.jax.trace.in_order import sorted_places, with_keys_sorted
from graphc.importers.jax.trace.tracing import Spec, SpecShape

_ARROW = "->"
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


@dataclass(frozen=True)
class Word:
    """A part of the text in `shapes`, and where it starts in the whole text."""

    text: str
    start: int

    def words(self) -> "list[Word]":
        """The single words that it consists of."""
        matches = re.finditer(r"\S+", self.text)
        return [Word(m[0], self.start + m.start()) for m in matches]


def pattern_of(
    shapes: object, form: object, argument_shapes: ShapesOfCall
) -> SizePattern:
    """The pattern that `shapes` describes, for arguments of this structure.

    `shapes` is one text with a group of words per array, in the order of JAX's leaves
    (the keys of dicts are sorted), or a pytree of such groups like the positional
    arguments. A word is a name, a number, a formula in names such as "n+1", or "_" for
    an axis that does not vary; "..." stands for any number of such axes in front. The
    text after "->" describes the results; see `check_results`.

    Raises GraphError if `shapes` does not fit the arguments.
    """
    places = sorted_places(form)
    ordered = tuple(argument_shapes[i] for i in places)
    sizes = _sizes_from_words(shapes, _groups(shapes, form), ordered, {})
    by_place = dict(zip(places, sizes, strict=True))
    return SizePattern(tuple(by_place[i] for i in range(len(places))))


def pattern_of_specs(
    specs: Sequence[Spec], shapes: object, form: object
) -> SizePattern:
    """The pattern of types that may name sizes; if none does, that of `shapes`."""
    shapes_of_types = tuple(tuple(s.shape) for s in specs)
    pattern = SizePattern(shapes_of_types)
    if shapes is None or pattern.names:
        return pattern
    numbers = tuple(tuple(map(int, shape)) for shape in shapes_of_types)
    return pattern_of(shapes, form, numbers)


def describes_results(shapes: object) -> bool:
    """Whether `shapes` describes the shapes of results."""
    return isinstance(shapes, str) and _ARROW in shapes


def check_results(
    shapes: str, form: object, argument_shapes: ShapesOfCall, results: ShapesOfCall
) -> None:
    """Raise GraphError if results do not have the shapes given after "->".

    Names refer to sizes of the arguments; new names stand for sizes of the results
    alone.
    """
    known: dict[str, int] = {}
    ordered = tuple(argument_shapes[i] for i in sorted_places(form))
    _sizes_from_words(shapes, _groups(shapes, form), ordered, known)
    before, _, after = shapes.partition(_ARROW)
    _sizes_from_words(
        shapes, _groups_in_line(after, len(before) + len(_ARROW)), results, known
    )


def _sizes_from_words(
    shapes: object,
    groups: list[Word],
    array_shapes: ShapesOfCall,
    known: dict[str, int],
) -> tuple[SpecShape, ...]:
    """The sizes that groups of words give to arrays; names are put in `known`."""
    for group in groups:
        if "(" in group.text and group.text.strip() != "()":
            problem = "an axis is a name, a number or a formula like n+1: no brackets"
            raise _misfit(shapes, problem, group)
    if len(groups) != len(array_shapes):
        extra = groups[len(array_shapes) :][:1]
        problem = f"it describes {len(groups)} arrays, not {len(array_shapes)}"
        raise _misfit(shapes, problem, *extra)
    pairs = zip(groups, array_shapes, strict=True)
    words = [_words_of_axes(shapes, group, actual) for group, actual in pairs]
    # Formulas are compared once the names are known.
    rows = zip(words, array_shapes, strict=True)
    axes = [axis for row in rows for axis in zip(*row)]  # noqa: B905
    for word, actual in sorted(axes, key=lambda axis: not _is_plain(axis[0].text)):
        _require_fit(shapes, word, actual, known)
    return tuple(
        tuple(_size(w.text, n) for w, n in zip(row, actual, strict=True))
        for row, actual in zip(words, array_shapes, strict=True)
    )


def _is_plain(text: str) -> bool:
    return text == "_" or text.isdigit() or text.isidentifier()


def _groups_in_line(text: str, before: int) -> list[Word]:
    """The groups of a text that starts `before` characters into the whole."""
    groups, start = [], 1 + before  # after the quotation mark
    for group in text.split(","):
        groups.append(Word(group, start))
        start += len(group) + 1
    return groups


def _groups(shapes: object, form: object) -> list[Word]:
    if isinstance(shapes, str):
        return _groups_in_line(shapes.partition(_ARROW)[0], 0)
    leaves, structure = jax.tree.flatten((shapes, {}))
    if structure != with_keys_sorted(form) or not all(
        isinstance(leaf, str) for leaf in leaves
    ):
        problem = "it is not a structure of texts like that of the arguments"
        raise _misfit(shapes, problem)
    return _locate_leaves(leaves, repr(shapes))


def _locate_leaves(leaves: list[str], whole: str) -> list[Word]:
    """Locate texts, one after another, in the text of the structure that holds them."""
    words, end = [], 0
    for leaf in leaves:
        start = whole.find(repr(leaf), end)
        words.append(Word(leaf, start + 1))
        end = start + len(repr(leaf))
    return words


def _words_of_axes(
    shapes: object, group: Word, array_shape: tuple[int, ...]
) -> list[Word]:
    """One word for each axis of an array."""
    words = [] if group.text.strip() == "()" else group.words()
    if words and words[0].text == "...":
        more = len(array_shape) - len(words) + 1
        words = [Word("_", words[0].start)] * more + words[1:]
    if len(words) != len(array_shape):
        shown = group.text.strip()
        axes = "1 axis" if len(words) == 1 else f"{len(words)} axes"
        got = f"{len(array_shape)}: {array_shape}"
        problem = f"{shown!r} names {axes}, the array has {got}"
        start = group.start + len(group.text) - len(group.text.lstrip())
        raise _misfit(shapes, problem, Word(shown, start))
    return words


def _size(text: str, actual: int) -> int | str:
    """The size that a word gives to an axis."""
    if text == "_":
        return actual
    return int(text) if text.isdigit() else text_as_formula(text)


def _require_fit(
    shapes: object, word: Word, actual: int, known: dict[str, int]
) -> None:
    """Raise GraphError if an axis has a different size than its word gives.

    `known` holds the sizes of the names so far, and receives new ones.
    """
    text = word.text
    if text == "_":
        return
    if not _is_plain(text):
        _require_formula_fit(shapes, word, actual, known)
        return
    expected = int(text) if text.isdigit() else known.setdefault(text, actual)
    if expected != actual:
        so = "" if text.isdigit() else f"{text} was {expected} before, and "
        raise _misfit(shapes, f"{so}the axis has the size {actual}", word)


def _require_formula_fit(
    shapes: object, word: Word, actual: int, known: dict[str, int]
) -> None:
    text = text_as_formula(word.text)
    if not text:
        problem = f"{word.text!r} is not a name, a number or a formula like n+1"
        raise _misfit(shapes, problem, word)
    before = dict(known)
    if can_have_values({text: actual}, known):
        return
    unknown = [name for name in names_in(text) if name not in before]
    if unknown and len(unknown) + text.count("(") > 1:
        problem = f"{unknown[0]} is not known: give an axis this name alone"
        raise _misfit(shapes, problem, word)
    meanings = ", ".join(f"{n} was {before[n]}" for n in names_in(text) if n in before)
    so = f"{meanings} before, and " if meanings else ""
    raise _misfit(shapes, f"{so}the axis of {word.text} has the size {actual}", word)


def text_as_formula(word: str) -> str:
    """Rewrite a word as JAX reads sizes, of names, numbers, + - * and //; else ""."""
    try:
        return _formula(ast.parse(word, mode="eval").body)
    except (SyntaxError, ValueError):
        return ""


def _formula(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return str(value)
        case ast.BinOp(left, ast.FloorDiv(), ast.Constant(value=int(number))) if number:
            return f"floordiv({_formula(left)}, {number})"
        case ast.BinOp(left, sign, right) if type(sign) in _SIGNS:
            return f"{_inner_text(left)} {_SIGNS[type(sign)]} {_inner_text(right)}"
        case _:
            raise ValueError(ast.unparse(node))


def _inner_text(node: ast.expr) -> str:
    text = _formula(node)
    return f"({text})" if " " in text and not text.startswith("floordiv(") else text


def _misfit(shapes: object, problem: str, *parts: Word) -> GraphError:
    """Return the error, underlining the parts of the text that are meant."""
    got = f"shapes={shapes!r}"
    for part in parts:
        margin = " " * (len("  got: shapes=") + part.start)
        # An empty part is underlined where its text would stand.
        got += f"\n{margin}{'^' * max(len(part.text), 1)}"
    return graph_error(f"`shapes` does not fit: {problem}", op="jit", got=got)
