"""Code of libraries that fails on a traced array: an error in the user's words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb
from types import TracebackType

from graphc.errors import (
    GraphError,
    SourceLocation,
    graph_error,
    is_user_file,
    standing_at,
)
from graphc.importers.numpy.arrays import INTO_OUTSIDE, OWN_ARRAY
from graphc.ir.types import DTYPES

_HINT = "use a function of NumPy or gt, or call it outside of the function"
_WRITING = "setting an array element"  # of an array in memory, in NumPy's words
_OF_JAX = "JAX "
_INTERNAL = re.compile(  # or a value, as it is printed
    rf"TracedArray|_method_|symbolic value|<[^<>]*: (?:weak )?(?:{'|'.join(DTYPES)})\["
)


@contextmanager
def explaining_libraries() -> Iterator[None]:
    """Within: errors of libraries that speak of our classes name the user's line."""
    try:
        yield
    except GraphError:
        raise
    except (TypeError, AttributeError, ValueError, NotImplementedError) as error:
        text = "\n".join(map(str, _with_causes(error)))
        if isinstance(error.__cause__, GraphError) and _WRITING in text:
            place, _ = _blamed(error.__traceback__)
            with standing_at(place):
                raise graph_error(INTO_OUTSIDE, op="index", hint=OWN_ARRAY) from error
        if _OF_JAX in text or not _INTERNAL.search(text):
            raise
        place, library = _blamed(error.__traceback__)
        of_jax = library.startswith("jax.")  # another error names what to write
        if of_jax or (not library and "TracedArray" not in text):
            raise
        reader = library or "code of C"
        problem = f"{reader} takes arrays in memory, no symbolic values"
        with standing_at(place):
            raise graph_error(problem, op="numpy", hint=_HINT) from error


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that it was raised for."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _blamed(trace: TracebackType | None) -> tuple[SourceLocation, str]:
    """The user's innermost line, and the function of a library that it called."""
    place, library = SourceLocation("<unknown>", 0), ""
    for frame, line in walk_tb(trace):
        file = frame.f_code.co_filename
        if is_user_file(file) and not file.endswith(".pyx"):
            place, library = SourceLocation(frame.f_code.co_filename, line), ""
        elif not library:
            module = str(frame.f_globals.get("__name__", ""))
            root = module.partition(".")[0]
            ours = root in ("graphc", "contextlib")
            library = "" if ours else f"{root}.{frame.f_code.co_name}"
    return place, library
