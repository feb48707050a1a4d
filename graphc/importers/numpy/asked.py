"""Numbers that a function of NumPy asks for while it is traced, where there are none.

The error may be caught by the function itself, which then decides by there being no
number: so it is raised again when the function has returned.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from graphc.errors import GraphError
from graphc.ir.graph.nodes import Value, known_sizes
from graphc.ir.graph.repeating import no_repeating
from graphc.ir.params.concrete import no_number

T = TypeVar("T")


class _Asked(threading.local):
    refused: list[GraphError] | None = None  # since the beginning of the trace


_THREAD = _Asked()


@contextmanager
def needing_numbers() -> Iterator[None]:
    """Trace a function. Raises GraphError at its end where a number was asked for."""
    outer, _THREAD.refused = _THREAD.refused, []
    try:
        yield
        if _THREAD.refused:
            raise _THREAD.refused[0]
    finally:
        _THREAD.refused = outer


def number_by(computes: Callable[..., T], content: object) -> T:
    """The number of some content. Raises GraphError where it is symbolic."""
    try:
        return computes(content)
    except GraphError as error:
        _note(error)
        raise


def refuse_number(value: Value, asking: str) -> None:
    """Raise the GraphError of a use that needs the number of a value."""
    _refuse(no_number(value, asking))


def refuse_repeating(count: Value, sequence: object) -> None:
    """Raise the GraphError of a sequence that a symbolic number is to repeat."""
    _refuse(no_repeating(count, sequence))


def _refuse(error: GraphError) -> None:
    _note(error)
    raise error


def _note(error: GraphError) -> None:
    if _THREAD.refused is not None:
        _THREAD.refused.append(error)


def is_number(content: object) -> bool:
    """Whether content is one symbolic number."""
    return isinstance(content, Value) and not content.type.rank


def is_size(content: Any) -> bool:
    """Whether content is a size, which is an int in NumPy."""
    return is_number(content) and known_sizes(content) is not None
