"""Find questions about a size that no symbol can answer: `n is 12`, `type(n) is int`.

They never call a method of the size. Neither do comparisons of JAX types, since JAX has
one object for each type: `jax.typeof(x) == jax.typeof(y)`. So such questions are sought
in the code of the user's functions. A function that asks one is traced at each new
size.
"""

import dis
from collections.abc import Callable, Container, Iterable, Iterator
from types import CodeType, FunctionType

from graphc.errors import SourceLocation, is_library
from graphc.importers.reachable import nested_codes, reachable_objects

_COMPARING = "IS_OP", "COMPARE_OP", "CONTAINS_OP"
_LOADING = "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD"
_NUMBERS = "LOAD_CONST", "LOAD_SMALL_INT"
_TYPES_OF_ARRAYS = frozenset({"typeof", "ShapedArray"})


def line_comparing_identity(function: Callable[..., object]) -> SourceLocation | None:
    """The first line that asks so, in any function that `function` names, or None."""
    for code in dict.fromkeys(_user_codes(function)):
        for line in _comparing_lines(code):
            return SourceLocation(code.co_filename, line)
    return None


def _user_codes(function: Callable[..., object]) -> Iterator[CodeType]:
    """The code of the user's functions, and of methods, that `function` reaches."""
    functions, classes = dict[FunctionType, None](), dict[type, None]()
    for part in (function, *reachable_objects(function)):
        if isinstance(part, FunctionType):
            functions[part] = None
        elif type(part) not in classes:
            classes[type(part)] = None
            methods = vars(type(part)).values()
            functions |= {m: None for m in methods if isinstance(m, FunctionType)}
    for code in (item.__code__ for item in functions):
        if not is_library(code.co_filename):
            yield from nested_codes(code)


def _comparing_lines(code: CodeType) -> Iterator[int]:
    """The lines that compare with an integer by identity, or compare types."""
    steps = list(dis.get_instructions(code))
    types = _lines_that_load({"type"}, steps) & _lines_that_load({"int"}, steps)
    types |= _lines_that_load({"aval"}, steps)
    if _lines_that_load(_TYPES_OF_ARRAYS, steps):
        types |= set(map(_line, steps))  # any line may compare types held in variables
    for i, step in enumerate(steps):
        is_identity = step.opname == "IS_OP" and any(map(_is_number, steps[i - 2 : i]))
        of_types = step.opname in _COMPARING and _line(step) in types
        if is_identity or of_types:
            yield _line(step)


def _is_number(step: dis.Instruction) -> bool:
    return step.opname in _NUMBERS and type(step.argval) is int


def _lines_that_load(
    names: Container[str], steps: Iterable[dis.Instruction]
) -> set[int]:
    """The lines where the code loads globals or attributes of these names."""
    loading = (s for s in steps if s.opname in _LOADING and s.argval in names)
    return set(map(_line, loading))


def _line(step: dis.Instruction) -> int:
    positions = step.positions
    return (positions.lineno if positions is not None else None) or 0
