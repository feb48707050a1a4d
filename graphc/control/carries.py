"""Carries: values that keep their structure and types from step to step."""

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from graphc.control.pytree import Compound, flatten, indexed_items, require_shallow
from graphc.errors import graph_error, shortened
from graphc.ir.graph.bodies import Body
from graphc.ir.graph.build import as_strong_value, as_value, body_input, cast, strong
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import type_error
from graphc.ir.namespace import F
from graphc.ir.types import BOOL, DType, TensorType, name_of, same_shape


def variable_like(value: Value) -> Value:
    """A new variable of the same type as a value."""
    return body_input(value.name or "value", value.type)


def indices_of_equal(
    first: Iterable[Hashable], after: Callable[[list[int]], Iterable[Hashable]]
) -> list[int]:
    """For each carry, the index of the first carry equal to it in all steps.

    Carries with the same init are taken to be equal until a step gives them different
    values: `after` returns keys of the carries after a step, given which carries are
    equal before it.
    """
    same = _first_equal(first)
    while True:
        finer = _first_equal(zip(same, after(same), strict=True))
        if finer == same:
            return same
        same = finer


def _first_equal(keys: Iterable[Hashable]) -> list[int]:
    """For each key, the place of the first key equal to it."""
    places: dict[Hashable, int] = {}
    return [places.setdefault(key, i) for i, key in enumerate(keys)]


def carried_views(
    node: Node, body: Body, carries: int
) -> Iterator[tuple[Value, Value]]:
    """The `views` of a loop whose body takes the inputs of the node, carries first.

    Without any iteration, the final carries are the init.
    """
    yield from zip(body.inputs, node.inputs, strict=False)
    for i in range(carries):
        yield body.inputs[i], body.outputs[i]
        yield node.outputs[i], body.outputs[i]


def flatten_values(structure: object) -> tuple[list[Value], object]:
    """The values of a structure, where None counts as no value; and the structure."""
    return flatten(structure, leaf=as_strong_value, none=True)


def flatten_numbers(structure: object) -> tuple[list[Value], object]:
    """Like `flatten_values`, but Python numbers stay weak."""
    return flatten(structure, leaf=as_value, none=True)


def carry_and_output(result: object, op: str) -> tuple[object, object]:
    """Return the carry and the output of a body.

    Raises GraphError if `result` is no pair.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        problem = "the body must return a pair: the next carry, and an output"
        raise graph_error(problem, op=op, got=type(result).__name__)
    return result


def condition_value(test: object, op: str) -> Value:
    """The user's condition for a loop to go on, as a bool value.

    Raises GraphError if `test` is no bool scalar.
    """
    if not isinstance(test, (Value, bool, np.bool_, np.ndarray)):
        got = f"{type(test).__name__} {shortened(repr(test))}"
        raise graph_error("the condition must be a bool scalar", op=op, got=got)
    value = as_value(test)
    if value.type.rank:
        hint = "reduce it: gt.all(...) or gt.any(...)"
        problem = "the condition must be a scalar"
        raise graph_error(problem, op=op, got=str(value.type), hint=hint)
    if value.dtype != BOOL:
        hint = "compare it: x != 0, or x > 0"
        problem = "the condition must be a bool scalar"
        raise graph_error(problem, op=op, got=str(strong(value).type), hint=hint)
    return value


def call_user(
    function: object, args: Sequence[Value], op: str, what: str = "the body"
) -> Any:
    """Call a user's function and return its result.

    Raises GraphError if it is no function, or cannot take this many arguments.
    """
    if not callable(function):
        hint = "write lambda: value, or lambda x: value"
        problem = f"{what} must be a function"
        raise graph_error(problem, op=op, got=shortened(repr(function)), hint=hint)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # Python knows no signature of it
        return function(*args)
    try:
        signature.bind(*args)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise graph_error(
            f"{what} is called with {len(args)} arguments: {error}",
            op=op,
            got=f"{name}{signature}",
        ) from None
    return function(*args)


def leaves_with_paths(structure: object) -> list[tuple[str, object]]:
    """The leaves of a structure, each with the index path that leads to it."""
    listed: list[tuple[str, Any]] = []

    def walk(part: object, path: str) -> None:
        inside = indexed_items(part)
        if inside is not None:
            for place, item in inside:
                walk(item, path + place)
        elif part is not None:
            listed.append((path, part))

    walk(structure, "")
    return listed


def ordered_like(structure: object, like: object, problem: str, op: str) -> object:
    """The structure with its dicts ordered as in `like`, whose form it must have.

    Raises GraphError with the place in the structure where the two differ.
    """

    def walk(part: object, form: object, path: str) -> object:
        part_items = dict(indexed_items(part) or ())
        form_items = dict(indexed_items(form) or ())
        same_kind = _kind_of_part(part) is _kind_of_part(form)
        if not same_kind or part_items.keys() != form_items.keys():
            where = f" at {path}" if path else ""
            got, expected = _describe_part(part), _describe_part(form)
            raise graph_error(f"{problem}{where}", op=op, got=got, expected=expected)
        if indexed_items(form) is None:
            return part
        return [walk(part_items[k], v, path + k) for k, v in form_items.items()]

    require_shallow(structure)
    return walk(structure, like, "")


def _kind_of_part(part: object) -> object:
    if isinstance(part, dict):
        return dict
    if indexed_items(part) is not None:
        return type(part)
    return None if part is None else Value


def _describe_part(part: object) -> str:
    if isinstance(part, dict):
        return f"a dict of {', '.join(map(repr, part)) or 'nothing'}"
    if isinstance(part, (list, tuple)):
        return f"a {type(part).__name__} of {len(part)}"
    if isinstance(part, Compound):
        return f"a {type(part).__name__}"
    return "None" if part is None else str(as_value(part).type)


def values_after_step(like: object, after: object, op: str) -> list[Value]:
    """The values of a carry after a step; `like` is the structure of the carry.

    Raises GraphError if the step changes that structure.
    """
    ordered = ordered_like(after, like, "a step changes the structure of the carry", op)
    return flatten_numbers(ordered)[0]


def carry_as_before(
    like: object, before: Sequence[Value], after: object, op: str
) -> list[Value]:
    """The carry after a step; Python numbers take the dtype of the carry before it.

    `like` is the structure of the carry. Raises GraphError if a step changes the
    structure, or the type of a value.
    """
    values = values_after_step(like, after, op)
    names = [path for path, _ in leaves_with_paths(like)]
    triples = zip(names, before, values, strict=True)
    return [_value_as_before(name, old, new, op) for name, old, new in triples]


def _value_as_before(name: str, old: Value, new: Value, op: str) -> Value:
    value = adapt_number(new, old.dtype)
    if not value.type.may_equal(old.type):
        where = f" at {name}" if name else ""
        raise graph_error(
            f"a step changes the type of the carry{where}",
            op=op,
            got=f"{value.type} after it",
            expected=f"{old.type}, as before it",
            hint=_hint_for(old, value),
        )
    if same_shape(value.type.shape, old.type.shape):
        return value
    return F.specify_shape(value, old.type.shape)


def adapt_number(value: Value, dtype: DType) -> Value:
    """Convert a Python number to a dtype that has its kind; return others unchanged."""
    if not value.type.weak or "biufc".index(value.dtype.kind) > _rank_of_kind(dtype):
        return value
    return cast(value, dtype)


def _rank_of_kind(dtype: DType) -> int:
    """The rank of a dtype's kind: bool, integer, float, then complex."""
    return "biufc".find(dtype.kind) if dtype.kind in "biufc" else 3  # small floats


def _hint_for(before: Value, after: Value) -> str:
    if after.dtype == before.dtype:
        return "start from the shape of later steps: gt.broadcast_to(start, shape)"
    dtypes = [name_of(v.dtype) for v in (before, after)]
    return 'convert it, y.astype("{}"), or start from gt.asarray(start, "{}")'.format(
        *dtypes
    )


def require_same_types(
    before: Sequence[TensorType], after: Sequence[TensorType]
) -> None:
    """Require, in a type rule, that carries after a body have the types from before."""
    for old, new in zip(before, after):  # noqa: B905
        if old.dtype != new.dtype or old.rank != new.rank:
            raise type_error(f"a carry is {old} before a step and {new} after it")
