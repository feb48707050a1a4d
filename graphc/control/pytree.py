"""Values in lists, tuples and dicts, the structures in which users pass parameters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

from graphc.errors import GraphError, graph_error
from graphc.ir.graph.nodes import Value
from graphc.ir.types import is_inexact


class Compound(ABC):
    """An object that holds values and takes their place in a structure."""

    @abstractmethod
    def parts(self) -> dict[str, object]:
        """The values, by name."""

    @abstractmethod
    def with_parts(self, parts: Sequence[object]) -> Self:
        """The same kind of object with other values, in the order of `parts`."""

    @abstractmethod
    def result(self) -> Value:
        """The value that stands for the object where one is needed, as an output."""


MOST_NESTED = 100  # levels; Python cannot parse text nested twice as deep


def require_shallow(structure: object) -> None:
    """Raise GraphError for a structure nested too deeply for the text of a program."""
    level, depth = [structure], 0
    while level:
        if depth > MOST_NESTED:
            raise graph_error(
                f"lists, tuples and dicts are nested more than {MOST_NESTED} deep",
                got=type(structure).__name__,
                hint="give the values in one list",
            )
        inside = [item for part in level for _, item in indexed_items(part) or ()]
        level = list({id(item): item for item in inside}.values())
        depth += 1


def indexed_items(part: object) -> list[tuple[str, Any]] | None:
    """The items of a part of a structure, each with the text that indexes it.

    None for a value, which is no structure.
    """
    if isinstance(part, dict):
        return [(f"[{key!r}]", item) for key, item in part.items()]
    if isinstance(part, (list, tuple)):
        return [(f"[{i}]", item) for i, item in enumerate(part)]
    if isinstance(part, Compound):
        return [(f".{name}", item) for name, item in part.parts().items()]
    return None


def _rebuilt(part: Any, new_items: list[Any]) -> object:
    """Rebuild a part of a structure with other items."""
    if isinstance(part, dict):
        return dict(zip(part, new_items, strict=True))
    if isinstance(part, Compound):
        return part.with_parts(new_items)
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*new_items)
    return type(part)(new_items)


def _require_value(x: object) -> Value:
    if isinstance(x, Value):
        return x
    raise graph_error(
        "needs a symbolic value, or a list or dict of them", got=type(x).__name__
    )


def function_error(op: str, function: Callable[..., object], call: str) -> GraphError:
    """The error for a Python function where values are expected.

    `call` is the line to write, with {} for the result of the function.
    """
    name = getattr(function, "__name__", type(function).__name__)
    name = name if name.isidentifier() else "f"
    return graph_error(
        "takes values, not functions",
        op=op,
        got=f"the Python function {name}",
        hint=f'call it first: x = gt.vector("x"); {call.format(f"{name}(x)")}',
    )


def flatten(
    structure: object, leaf: Callable[[Any], Value] = _require_value, none: bool = False
) -> tuple[list[Value], object]:
    """The values of a structure in order, and the structure itself.

    With `none`, the structure may contain None, which holds no value. Raises GraphError
    if it contains anything else than values.
    """
    leaves: list[Value] = []

    def walk(part: object) -> None:
        inside = indexed_items(part)
        if inside is not None:
            for _, item in inside:
                walk(item)
        elif part is not None or not none:
            leaves.append(leaf(part))

    require_shallow(structure)
    walk(structure)
    return leaves, structure


def weak_numbers_in(structure: object) -> set[Value]:
    """The values without floats that belong to objects holding values of their own."""
    numbers: set[Value] = set()

    def walk(part: object) -> None:
        for _, item in indexed_items(part) or ():
            walk(item)
            if isinstance(part, Compound) and isinstance(item, Value):
                numbers.update(() if is_inexact(item.dtype) else (item,))

    walk(structure)
    return numbers


def unflatten(like: object, values: Sequence[object]) -> Any:
    """Rebuild the structure of `like` with other values."""
    leaves = iter(values)

    def walk(part: object) -> object:
        inside = indexed_items(part)
        if inside is not None:
            return _rebuilt(part, [walk(item) for _, item in inside])
        return None if part is None else next(leaves)

    return walk(like)
