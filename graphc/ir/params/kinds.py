"""Kinds of params: the objects that a param may be, by its annotation.

The type rule of an op declares its params: `*, axis: int, mode: Literal["r", "raw"]`.
The annotations become checks when the op is declared, and the checks run whenever a
node is built. A checked param is never text that could be taken for code: words are
from a closed set, and free text that people write is a `Text`, which cannot be
formatted into a string by accident.
"""

import inspect
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from graphc.errors import graph_error, printable, shortened
from graphc.ir.params.concrete import no_number_error
from graphc.ir.sizes.dims import Dim
from graphc.ir.types import DTYPES

MOST_AXES = 64  # NumPy has no arrays with more axes
LARGEST = 2**63  # integers are below it, as in int64
_WORD = re.compile(r"\w[\w -]*|", re.ASCII)
_SUPPORTED = frozenset(DTYPES.values())


@dataclass(frozen=True, repr=False)
class Text:
    """Free text that people write: a name or a message. Params hold it as this type.

    It cannot be formatted: code that uses `content` must make it safe first.
    """

    content: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", str(self.content))

    def __repr__(self) -> str:
        return f"Text({self.content!r})"

    def __str__(self) -> str:
        raise TypeError("a text is not formatted: quote it, or take its content")

    def __format__(self, spec: str) -> str:
        return str(self)


@dataclass(frozen=True)
class Letters:
    """In an annotation: strings that match a pattern, none of which is code."""

    pattern: str
    text: str  # the pattern in words


@dataclass(frozen=True)
class AxisOf:
    """In an annotation: an axis of that input, or a `new` axis that the result adds."""

    input: int = 0
    new: bool = False


Param = Hashable  # of a node: nodes with equal params are equal
AxisParam = Annotated[int, AxisOf()]
AxesParam = tuple[AxisParam, ...]
NewAxisParam = Annotated[int, AxisOf(new=True)]
NewAxesParam = tuple[NewAxisParam, ...]


@dataclass(frozen=True)
class ParamKind:
    """A kind of param: a check for its objects, and a text that describes it."""

    text: str
    allows: Callable[[Any], bool]
    record: Any = None  # makes the object from the tuple in a graph's text


def _is_integer(x: object) -> bool:
    return type(x) is int and -LARGEST <= x < LARGEST


def _is_axis(x: object) -> bool:
    return type(x) is int and 0 <= x < MOST_AXES


def _is_number(x: object) -> bool:
    return type(x) is float or _is_integer(x)


def _is_dtype(x: object) -> bool:
    return isinstance(x, np.dtype) and x in _SUPPORTED


def _is_text(x: object) -> bool:
    return type(x) is Text and type(x.content) is str


KINDS: dict[Any, ParamKind] = {  # by annotation
    int: ParamKind("an integer", _is_integer),
    bool: ParamKind("True or False", lambda x: x is True or x is False),
    float: ParamKind("a number", _is_number),
    Dim: ParamKind("a symbolic size", lambda x: type(x) is Dim),
    int | Dim: ParamKind("a size", lambda x: type(x) is Dim or _is_integer(x)),
    None: ParamKind("None", lambda x: x is None),
    NoneType: ParamKind("None", lambda x: x is None),
    np.dtype[Any]: ParamKind("a dtype", _is_dtype),
    Text: ParamKind("a text", _is_text),
}


def kind_of(annotation: object) -> ParamKind:
    """The kind for an annotation. Raises TypeError where there is none."""
    known = KINDS.get(annotation) if annotation is not Any else None
    if known is not None:
        return known
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _word_kind(args)
    if origin in (Union, UnionType):
        return _union_kind([kind_of(a) for a in _with_one_size_kind(args)])
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _tuple_kind(kind_of(args[0]))
    if origin is tuple:
        return _fixed_tuple_kind([kind_of(a) for a in args])
    if origin is Annotated and args[0] is str and isinstance(args[1], Letters):
        letters = re.compile(args[1].pattern, re.ASCII)
        return ParamKind(
            args[1].text, lambda x: type(x) is str and bool(letters.fullmatch(x))
        )
    if _axis_of(annotation) is not None:
        return ParamKind("an axis, 0 or more", _is_axis)
    if is_record(annotation):
        return _named_tuple_kind(annotation)
    if is_dataclass(annotation) and isinstance(annotation, type):
        return _data_class_kind(annotation)
    raise TypeError(f"{annotation!r} is not a kind of param")


def _axis_of(annotation: object) -> AxisOf | None:
    """The mark that tells whose axes the params of an annotation are, if any."""
    args = get_args(annotation)
    if get_origin(annotation) is tuple:
        return _axis_of(args[0])
    marks = args[1:] if get_origin(annotation) is Annotated else ()
    return next((m for m in marks if isinstance(m, AxisOf)), None)


def _with_one_size_kind(args: tuple[object, ...]) -> list[object]:
    """The members of a union, with `int` and `Dim` joined into one."""
    if not {int, Dim} <= set(args):
        return list(args)
    return [int | Dim, *(a for a in args if a not in (int, Dim))]


def _word_kind(words: tuple[object, ...]) -> ParamKind:
    for word in words:
        if type(word) is not str or not _WORD.fullmatch(word):
            raise TypeError(f"{word!r} is not a word")
    allowed = frozenset(words)
    shown = " or ".join(f'"{word}"' for word in words)
    return ParamKind(shown, lambda x: type(x) is str and x in allowed)


def _union_kind(kinds: list[ParamKind]) -> ParamKind:
    checks = [kind.allows for kind in kinds]
    text = " or ".join(kind.text for kind in kinds)
    record = next((kind.record for kind in kinds if kind.record is not None), None)
    if len(checks) == 2:
        first, second = checks
        return ParamKind(text, lambda x: first(x) or second(x), record)
    return ParamKind(text, lambda x: any([allows(x) for allows in checks]), record)


def _tuple_kind(item: ParamKind) -> ParamKind:
    allows = item.allows
    return ParamKind(
        f"a tuple in which each item is {item.text}",
        lambda x: type(x) is tuple and all(map(allows, x)),
        _words_to_texts if item is KINDS[Text] else None,
    )


def _words_to_texts(*words: object) -> tuple[object, ...]:
    """Convert words, which stand for free texts in texts of graphs, to `Text`."""
    return tuple([Text(word) if type(word) is str else word for word in words])


def _fixed_tuple_kind(items: list[ParamKind]) -> ParamKind:
    checks = [kind.allows for kind in items]

    def allows(x: object) -> bool:
        if type(x) is not tuple or len(x) != len(checks):
            return False
        return all(check(y) for check, y in zip(checks, x, strict=True))

    return ParamKind(f"a tuple of {' and '.join(kind.text for kind in items)}", allows)


def is_record(x: object) -> bool:
    """Whether an object or class is a named tuple, which holds several params."""
    return hasattr(x, "_fields")


def _named_tuple_kind(cls: Any) -> ParamKind:
    """The kind for a named tuple of params, each field of its own kind."""
    checks = [kind_of(a).allows for a in get_type_hints(cls).values()]

    def allows(x: Any) -> bool:
        if type(x) is not cls:
            return False
        return all(check(y) for check, y in zip(checks, x, strict=True))

    return ParamKind(f"a {cls.__name__}", allows, cls)


def _data_class_kind(cls: type) -> ParamKind:
    """The kind for a data class of params, whose fields are checked one by one."""
    parts = [(f.name, kind_of(f.type).allows) for f in fields(cls)]

    def allows(x: object) -> bool:
        return type(x) is cls and all(check(getattr(x, n)) for n, check in parts)

    return ParamKind(f"a {cls.__name__}", allows, cls)


class ParamKinds:
    """The kinds of the params of an op, and the check of the params of a node."""

    def __init__(self, op: str, rule: Callable[..., object]) -> None:
        """Read the rule's annotations. Raises TypeError for one that is no kind."""
        self._op = op
        self._kinds: dict[str, ParamKind] = {}
        self._checks: tuple[tuple[str, Callable[[Any], bool]], ...] = ()
        self._axes: tuple[tuple[str, AxisOf], ...] = ()
        self.names: tuple[str, ...] = ()
        self._required: frozenset[str] = frozenset()
        for parameter in inspect.signature(rule).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                raise TypeError(f"{op}: the rule takes any params: **{parameter.name}")
            if parameter.kind is parameter.KEYWORD_ONLY:
                optional = parameter.default is not parameter.empty
                self.declare(parameter.name, parameter.annotation, optional=optional)

    def declare(self, name: str, annotation: object, *, optional: bool = False) -> None:
        """Add a param with the kind that its annotation stands for."""
        try:
            kind = kind_of(annotation)
        except TypeError as error:
            raise TypeError(f"{self._op}: the param {name}: {error}") from None
        self._kinds[name] = kind
        self._checks += ((name, kind.allows),)
        self.names += (name,)
        axis = _axis_of(annotation)
        self._axes += ((name, axis),) if axis is not None else ()
        if not optional:
            self._required |= {name}

    def checked(
        self, params: dict[str, Param], inputs: Sequence[object] = ()
    ) -> dict[str, Any]:
        """Return params in the rule's order. Raises GraphError for a wrong one.

        This runs for each node, so checking correct params must be cheap.
        """
        if not params and not self._required:
            return params
        if tuple(params) != self.names:
            params = self._in_order(params)
        for name, allows in self._checks:
            if name in params and not allows(params[name]):
                self._refuse(name, params[name], self._kinds[name].text)
        for name, axis in self._axes:
            if axis.input < len(inputs):
                self._require_axes(name, params[name], axis, inputs[axis.input])
        return params

    def _require_axes(self, name: str, value: object, axis: AxisOf, x: Any) -> None:
        axes = value if type(value) is tuple else (value,)
        limit = x.type.rank + (len(axes) if axis.new else 0)
        if axes and max(axes) >= limit:  # pyright: ignore[reportArgumentType]
            self._refuse(name, value, f"an axis below {limit}, of {x.type}")

    def _in_order(self, params: Mapping[str, Param]) -> dict[str, Param]:
        for name in params:
            if name not in self._kinds:
                has = f"only {', '.join(self.names)}" if self.names else "nor any other"
                problem = f"there is no param {_short_text(name)}, {has}"
                raise graph_error(problem, op=self._op)
        for name in self.names:
            if name in self._required and name not in params:
                raise graph_error(f"the param {name} is missing", op=self._op)
        return {name: params[name] for name in self.names if name in params}

    def _refuse(self, name: str, value: Any, expected: str) -> NoReturn:
        if hasattr(value, "node"):  # a symbolic value
            raise no_number_error(value, self._op)
        got = f"{_short_text(value)} of type {type(value).__name__}"
        problem = f"the param {name} is {got}, but must be {expected}"
        raise graph_error(problem, op=self._op)

    def read(self, params: Mapping[str, Param]) -> dict[str, Param]:
        """Convert params read from a text: words to `Text`, tuples to records."""
        return {name: self._read(name, value) for name, value in params.items()}

    def _read(self, name: str, value: Param) -> Param:
        kind = self._kinds.get(name)
        if type(value) is str and kind is KINDS[Text]:
            return Text(value)
        record = None if kind is None else kind.record
        return value if record is None or type(value) is not tuple else record(*value)


def _short_text(value: object) -> str:
    """A short text for any value in a message, on one line."""
    if type(value) is int and abs(value) >= LARGEST:
        return f"an integer of {value.bit_length()} bits"
    try:
        return shortened(printable(repr(value)), 60)
    except Exception:  # it may be any object at all
        return "something"
