"""Values in lists, tuples and dicts, as users hand parameters over."""

from collections.abc import Callable
from typing import Any

from graphc.errors import graph_error
from graphc.ir.graph import Value


def _need_value(x: Any) -> Value:
    if isinstance(x, Value):
        return x
    raise graph_error(
        "needs a symbolic value, or a list or dict of them",
        got=type(x).__name__,
    )


def flatten(
    given: Any, leaf: Callable[[Any], Value] = _need_value, none: bool = False
) -> tuple[list[Value], Any]:
    """The values of a structure in order, and the structure to give back.

    With `none`, None may stand in it and holds no value.
    Raises GraphError where something else than a value stands in it.
    """
    found: list[Value] = []

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            for item in part.values():
                walk(item)
        elif isinstance(part, (list, tuple)):
            for item in part:
                walk(item)
        elif part is not None or not none:
            found.append(leaf(part))

    walk(given)
    return found, given


def unflatten(like: Any, values: list[Any]) -> Any:
    """The structure of `like` with other values in it."""
    rest = iter(values)

    def walk(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: walk(item) for key, item in part.items()}
        if isinstance(part, tuple) and hasattr(part, "_fields"):
            return type(part)(*map(walk, part))
        if isinstance(part, (list, tuple)):
            return type(part)(map(walk, part))
        return None if part is None else next(rest)

    return walk(like)
