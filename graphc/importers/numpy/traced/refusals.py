"""Errors that NumPy would not raise, such as for numbers that a trace does not have.

The traced function may catch such an error and then take a branch because of it, which
it would not take in NumPy. So the error is raised again once the function has returned.
"""

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any, TypeVar

import numpy as np

from graphc.errors import GraphError, errors_made, is_user_file
from graphc.importers.jax.trace.answers import answer_to
from graphc.ir.graph.nodes import Value, known_sizes
from graphc.ir.graph.repeating import repetition_error
from graphc.ir.params.concrete import no_number_error
from graphc.ir.sizes.dims import bounds
from graphc.ir.types import NDArray

T = TypeVar("T")


class _RefusedInThread(threading.local):
    refused: list[GraphError] | None = None  # since the beginning of the trace


_THREAD = _RefusedInThread()


@contextmanager
def needing_numbers() -> Generator[None]:
    """Trace a function within; at the end, raise any GraphError that it has caught."""
    outer, _THREAD.refused = _THREAD.refused, []
    try:
        with errors_made() as errors:
            yield
        for error in (*_THREAD.refused, *filter(_reached_user, errors)):
            raise error
    except Exception as raised:
        ours = getattr(raised, "of_graphc", None)
        if ours is None:
            raise
        raise ours.with_traceback(raised.__traceback__) from None
    finally:
        _THREAD.refused = outer


def _reached_user(error: GraphError) -> bool:
    """Whether the error has passed through user code, which then has caught it."""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(is_user_file(frame.f_code.co_filename) for frame in frames)


_CLASSES = (
    *(np.exceptions.AxisError, np.linalg.LinAlgError, ValueError, TypeError),
    *(IndexError, ZeroDivisionError, OverflowError, RuntimeError, AttributeError),
)
_ERRORS_OF_BOTH = {
    kind: type("GraphError", (GraphError, kind), {"__module__": "graphc.errors"})
    for kind in _CLASSES
}


def attach_error(raised: Exception, error: GraphError) -> None:
    """Attach `error`, ours, to NumPy's, raised in its place so users may catch it."""
    kind = next((k for k in _CLASSES if isinstance(raised, k)), ValueError)
    of_numpy: Any = raised
    of_numpy.of_graphc = _ERRORS_OF_BOTH[kind](error.args[0], error.entry)


def number_by(computes: Callable[..., T], content: object) -> T:
    """Compute a number from `content`. Raises GraphError where it is symbolic."""
    try:
        return computes(content)
    except GraphError as error:
        _note(error)
        raise


def number_if_settled(content: object) -> object:
    """Return `content`, or the number of a size that has reached its upper bound.

    Where `min(3, n)` is 3, for example, one program serves all sizes from 3 on.
    """
    if not isinstance(content, Value) or not is_size(content):
        return content
    size: Any = known_sizes(content)
    largest = bounds(size[()])[1]
    return largest if largest is not None and answer_to(content == largest) else content


def number_of_items(content: Value | NDArray) -> int:
    """The size of the first axis. Raises GraphError where it is not known."""
    count = _known_length(content)
    return number_by(len, content) if count is None else count


def places_of_items(content: Value | NDArray) -> Iterable[int]:
    """The positions 0, 1, 2 ... along the first axis."""
    count = _known_length(content)
    if count is None:
        return [i for i, _ in enumerate(content)]  # raises an error that says why
    return range(count)


def _known_length(content: Value | NDArray) -> int | None:
    """The size of the first axis; None for a number, or where it is not known."""
    count = number_if_settled(content.shape[0]) if content.shape else None
    return count if isinstance(count, int) else None


def truth(content: object) -> bool:
    """Whether `content` is true. Raises GraphError where that depends on data."""
    answer = answer_to(content)
    return number_by(bool, content) if answer is None else answer


def refuse_number(value: Value, asking: str) -> None:
    """Raise the GraphError for a use that needs the number behind a value."""
    _refuse(no_number_error(value, asking))


def refuse_repeating(count: Value, sequence: object) -> None:
    """Raise the GraphError for repeating a sequence a symbolic number of times."""
    _refuse(repetition_error(count, sequence))


def _refuse(error: GraphError) -> None:
    _note(error)
    raise error


def _note(error: GraphError) -> None:
    if _THREAD.refused is not None:
        _THREAD.refused.append(error)


def is_number(content: object) -> bool:
    """Whether `content` is a single symbolic number."""
    return isinstance(content, Value) and not content.type.rank


def number_class(value: Value) -> type:
    """The class that a number has for user code; a weak value is a Python number."""
    if value.type.weak:
        return {"b": bool, "i": int, "f": float}.get(value.dtype.kind, complex)
    return value.dtype.type


def is_size(content: Any) -> bool:
    """Whether `content` is a size, which would be an int in NumPy."""
    return is_number(content) and known_sizes(content) is not None
