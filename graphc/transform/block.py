"""block: a function that the user marks as one that a program repeats.

The graph holds nothing of a mark, except that the places of its nodes bear the name of
the block. Calls of a block are compared when they are made, while the user's lines are
at hand.
"""

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple

from graphc.control.pytree import indexed_items
from graphc.errors import (
    SourceLocation,
    shortened,
    user_level,
    user_place,
    within_block,
)
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.replay import region_between
from graphc.ir.graph.structure import param_form
from graphc.ir.graph.walk import depth_first, operands
from graphc.ir.sizes.dims import Dim, Symbol
from graphc.ir.sizes.text import expression
from graphc.ir.types import TensorType
from graphc.warning_kinds import BlockWarning

MOST_SHOWN = 100  # characters of a param
MOST_KINDS = 64  # kinds of arguments whose first call is kept, which holds sizes


@dataclass(frozen=True)
class _Compared:
    """A type or a param, which is compared by its `form` and shown as `part`."""

    form: Hashable
    part: object = field(compare=False)


class _Entry(NamedTuple):
    """One node of a call, in the form in which it is compared with other calls'."""

    op: str
    takes: tuple[Hashable, ...]
    params: tuple[tuple[str, _Compared], ...]
    types: tuple[_Compared, ...]
    place: SourceLocation


def block(function: Callable[..., object]) -> Callable[..., Any]:
    """Mark `function` as a block that a program repeats.

    A call that differs from the first one on arguments of its kind gives a warning.
    """
    name = getattr(function, "__name__", "block").strip("<>")
    first: dict[Hashable, tuple[list[_Entry], SourceLocation]] = {}

    @wraps(function)
    def marked(*args: object, **named: object) -> object:
        with within_block(name):
            result = function(*args, **named)
        inputs = list(dict.fromkeys(_values([args, named])))
        outputs = list(dict.fromkeys(_values(result)))
        if inputs and outputs:
            place = user_place()
            kind = tuple(map(_kind_of_leaf, _leaves([args, named])))
            entries = _entries(outputs, inputs)
            if len(first) >= MOST_KINDS and kind not in first:
                first.clear()
            entries_before, first_place = first.setdefault(kind, (entries, place))
            difference = _difference(entries, entries_before)
            if difference:
                text = f"block {name}: unlike its first call at {first_place}: "
                text += difference
                warnings.warn(text, BlockWarning, stacklevel=user_level())
        return result

    return marked


def _leaves(part: object) -> Iterator[object]:
    """The leaves of a structure."""
    stack = [part]
    while stack:
        one = stack.pop()
        children = None if isinstance(one, Value) else indexed_items(one)
        if children is None:
            yield one
        else:
            stack += [inner for _, inner in reversed(children)]


def _values(part: object) -> Iterator[Value]:
    return (leaf for leaf in _leaves(part) if isinstance(leaf, Value))


def _kind_of_leaf(leaf: object) -> Hashable:
    """Return a key that is equal for arguments on which calls should do the same."""
    if isinstance(leaf, Value):
        return leaf.type
    dtype, shape = getattr(leaf, "dtype", None), getattr(leaf, "shape", None)
    return repr(leaf) if shape is None else (str(dtype), tuple(shape))


def _entries(outputs: Sequence[Value], inputs: Sequence[Value]) -> list[_Entry]:
    """Return the nodes of a call, in an order that follows from their wiring alone."""
    region = set(region_between(outputs, inputs))

    def edges(node: Node) -> list[Value]:
        return [v for v in operands(node) if v.node in region]

    roots = [v.node for v in outputs if v.node in region]
    nodes = depth_first(roots, edges)
    places = _CallPlaces(inputs)
    entries: list[_Entry] = []
    for node in nodes:
        for value in node.outputs:
            places.known.setdefault(value, (len(entries), value.index))
        takes = tuple(map(places.operand_form, node.inputs))
        types = tuple([places.type(v.type) for v in node.outputs])
        params = tuple([(k, places.param(p)) for k, p in node.params.items()])
        entries.append(_Entry(node.primitive.name, takes, params, types, node.place))
    return entries


class _CallPlaces:
    """The values of one call, and the sizes that they give, by their places in it.

    Sizes from outside stand for themselves.
    """

    def __init__(self, inputs: Sequence[Value]) -> None:
        self.known: dict[Value, Hashable] = {}
        for i, value in enumerate(inputs):
            self.known[value] = _Argument(i, self.type(value.type))

    def type(self, type: TensorType) -> _Compared:
        return _Compared((type.dtype, self.form(type.shape), type.weak), type)

    def param(self, param: object) -> _Compared:
        return _Compared(self.form(param_form(param)), param)

    def form(self, part: object) -> Hashable:
        """Return a form to compare, in which sizes are text.

        Whether two sizes are equal may not be provable.
        """
        if isinstance(part, tuple):
            return tuple(map(self.form, part))
        return expression(part, self._name_of) if isinstance(part, Dim) else part

    def _name_of(self, symbol: Symbol) -> str:
        origin = symbol.origin
        place = self.known.get(origin) if isinstance(origin, Value) else None
        if isinstance(place, _Argument):
            return f"argument{place.place}"
        return f"{symbol.name}_{id(symbol)}" if place is None else f"entry{place}"

    def operand_form(self, value: Value) -> Hashable:
        """Describe an operand by its place in the call.

        A literal stands for itself, and other values from outside are told by type.
        """
        if value in self.known:
            return self.known[value]
        node = value.node
        if not node.primitive.inline or node.inputs or value.type.rank:
            return self.type(value.type)
        data = node.params.get("data")
        return _Number(str(node.params if data is None else data.array), value.type)


class _Argument(NamedTuple):
    """An argument of a call."""

    place: int
    type: _Compared


class _Number(NamedTuple):
    """A literal, without the graph that it was written in."""

    text: str
    type: TensorType


def _difference(entries: Sequence[_Entry], others: Sequence[_Entry]) -> str:
    """Describe the first difference of two calls; "" where there is none."""
    for here, there in zip(entries, others, strict=False):
        difference = _entry_difference(here, there)
        if difference:
            return f"{difference} (at {here.place}, and {there.place})"
    if len(entries) != len(others):
        is_here = len(entries) > len(others)
        longer, where = (entries, "here") if is_here else (others, "there")
        extra = longer[min(len(entries), len(others))]
        return f"{extra.op} is only {where} (at {extra.place})"
    return ""


def _entry_difference(here: _Entry, there: _Entry) -> str:
    if here.op != there.op:
        return f"{here.op} here, {there.op} there"
    if here.params != there.params:
        return f"{here.op} with {_param_differences(here, there)}"
    if here.types != there.types:
        types = f"{_type_texts(here.types)} here, {_type_texts(there.types)} there"
        return f"{here.op} gives {types}"
    for mine, other in zip(here.takes, there.takes, strict=False):
        if not _are_alike(mine, other):
            texts = _operand_text(mine), _operand_text(other)
            return f"{here.op} takes {texts[0]} here, {texts[1]} there"
    if len(here.takes) != len(there.takes):
        return f"{here.op} of {len(here.takes)} values here, {len(there.takes)} there"
    return ""


def _are_alike(mine: Hashable, other: Hashable) -> bool:
    """Whether operands are alike; an argument may match a value from outside."""
    kinds = {type(mine), type(other)}
    if kinds == {_Argument, _Compared}:
        types = [x.type if isinstance(x, _Argument) else x for x in (mine, other)]
        return types[0] == types[1]
    return mine == other


def _param_differences(here: _Entry, there: _Entry) -> str:
    """Describe the params that differ."""
    pairs = zip(here.params, there.params, strict=False)
    differences = [
        f"{name}={_param_text(mine.part)} here, {name}={_param_text(other.part)} there"
        for (name, mine), (_, other) in pairs
        if mine != other
    ]
    return "; ".join(differences)


def _param_text(param: object) -> str:
    return shortened(repr(param), MOST_SHOWN)


def _type_texts(types: Iterable[_Compared]) -> str:
    return ", ".join([str(type.part) for type in types])


def _operand_text(operand: object) -> str:
    """Describe an operand in words."""
    if isinstance(operand, _Number):
        return f"the {operand.type.dtype} {operand.text}"
    if isinstance(operand, _Compared):
        return f"{operand.part} from outside"
    if isinstance(operand, _Argument):
        return f"argument {operand.place}"
    return "another value"
