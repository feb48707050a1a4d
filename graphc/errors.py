"""The exceptions that users see, the places they name, and the layout of messages."""

import contextlib
import functools
import linecache
import os
import re
import sys
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Literal, get_args

from graphc.entries import entry_of, pointing

_ASSIGNMENT = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?::[^=]*)?=\s*\(?$")
OWN_FILES = os.path.dirname(os.path.abspath(__file__)) + os.sep
_BETWEEN = functools.__file__, contextlib.__file__  # they call graphc's functions
_OURS = OWN_FILES, OWN_FILES[:-1] + "_serving" + os.sep, "<graphc ", *_BETWEEN
_LIBRARY = re.compile(
    r"[\\/](site|dist)-packages[\\/](jax|jaxlib|numpy|scipy|torch|pytensor|pymc)[\\/]"
)
_INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/]")
_LONGEST = 100  # characters of a line of code in a message


class GraphError(ValueError):
    """A graph that cannot be built or compiled as asked.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.tensor("x", "float32", (2, 3))
    >>> try:
    ...     x @ x
    ... except graphc.GraphError as error:
    ...     print(error.args[0].splitlines()[0])
    matmul: the inner sizes must agree: 3 and 2 differ

    `entry` names the part of docs/troubleshooting.md that explains such errors, which
    `graphc help ENTRY` prints. The message is `args[0]`; `str` points to the entry too.
    """

    def __init__(self, message: str = "", entry: str = "") -> None:
        super().__init__(message)
        self.entry = entry
        if _MADE.errors is not None:
            _MADE.errors.append(self)

    def __str__(self) -> str:
        return pointing(super().__str__(), self.entry)


class _Made(threading.local):
    errors: "list[GraphError] | None" = None


_MADE = _Made()


@contextlib.contextmanager
def errors_made() -> Generator[list[GraphError]]:
    """Collect the errors made within the context by this thread, even caught ones."""
    outer, _MADE.errors = _MADE.errors, []
    try:
        yield _MADE.errors
    finally:
        _MADE.errors = outer


ErrorKind = Literal[
    "argument",  # no array and no number: a list, a symbolic value, a masked array
    "broadcast",  # sizes that differ where arrays are to broadcast
    "check",  # the condition of a check does not hold
    "divisibility",  # a size that the wanted number does not divide
    "dtype",  # another dtype than that of the input
    "index",  # an index that leaves its axis
    "matrix",  # no square matrix, or a singular one: nothing to compute from it
    "missing",  # an input without an argument
    "other",  # raised by a library while the program ran
    "process",  # a call that differs from those of other processes, or none
    "range",  # an integer that its dtype cannot hold
    "shape",  # other sizes than the program needs, or another number of axes
    "stated",  # another size than `specify_shape` states
    "traced",  # a size that must be a number, and is traced by JAX
    "unexpected",  # an argument without an input, or a second one
    "zero",  # a size that is divided by 0
]
ERROR_KINDS: tuple[str, ...] = get_args(ErrorKind)


class CallError(GraphError):
    """A compiled function was called with arguments that do not fit it.

    >>> import graphc, graphc.tensor as gt
    >>> f = graphc.function([x := gt.vector("x")], x + 1)
    >>> try:
    ...     f([[1.0]])
    ... except graphc.CallError as error:
    ...     print(error.kind)
    shape

    `kind` says in one word what is wrong, for programs that act on it or translate it.
    """

    def __init__(self, message: str, kind: ErrorKind) -> None:
        super().__init__(message, f"call-{kind}")
        self.kind: ErrorKind = kind

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.kind)


def raise_of_processes(error: BaseException) -> None:
    """Raise an error that all processes have, so that none of them tries again."""
    if isinstance(error, CallError) and error.kind == "process":
        raise error


class NoCompileError(GraphError):
    """A call needs a compilation where none is allowed; see `graphc.stance`.

    >>> import graphc, graphc.tensor as gt
    >>> f = graphc.function([x := gt.vector("x", shape=("n",))], x + 1)
    >>> try:
    ...     with graphc.stance("no_compile"):
    ...         f([1.0, 2.0])
    ... except graphc.NoCompileError as error:
    ...     print(error.sizes)
    {'n': 2}

    `sizes` are the sizes of the call by name, as far as they are known; `read` are
    those of them that were read from the device. `remedy` is the code that compiles a
    function `f` for these sizes, or "".
    """

    def __init__(
        self,
        message: str,
        sizes: Mapping[str, int] = {},
        read: Mapping[str, int] = {},
        remedy: str = "",
    ) -> None:
        super().__init__(message, "compilations")
        self.sizes: dict[str, int] = dict(sizes)
        self.read: dict[str, int] = dict(read)
        self.remedy = remedy
        self.function: Any = None  # the one called, within a larger one

    def of(self, function: str) -> "NoCompileError":
        """The same error, with `function` in place of `f` in the code of the remedy."""
        code = self.remedy.replace("f.", f"{function}.", 1)
        text: str = self.args[0]
        if code:
            text = text.replace(self.remedy, code)
        return type(self)(text, self.sizes, self.read, code)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.sizes, self.read, self.remedy)


class TooManyCompilationsError(NoCompileError, AssertionError):
    """More compilations than a test allows; see `graphc.assert_compiles`.

    >>> import graphc, graphc.tensor as gt
    >>> f = graphc.function([x := gt.vector("x", shape=("n",))], x + 1)
    >>> try:
    ...     with graphc.assert_compiles(f, at_most=0):
    ...         f([1.0, 2.0])
    ... except graphc.TooManyCompilationsError as error:
    ...     print(error.sizes)
    {'n': 2}
    """


class ForkError(GraphError):
    """JAX is needed in a process that was forked from one in which JAX had run.

    >>> import multiprocessing
    >>> processes = multiprocessing.get_context("spawn")  # it forks none
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, "fork")


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of user code, and the instruction of the code object that runs there.

    `called` is the function of graphc called there. `within` names the functions around
    the line where the code object does not: "mlp.softmax", the innermost last. `block`
    is the innermost function that the user marked with `graphc.block`.
    """

    filename: str
    line: int
    instruction: int = -1
    bytecode: CodeType | None = field(default=None, repr=False, compare=False)
    called: str = field(default="", repr=False, compare=False)
    within: str = field(default="", repr=False, compare=False)
    block: str = field(default="", repr=False, compare=False)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the functions around the line, the innermost last."""
        code = self.bytecode
        name = self.block or self.within or ("" if code is None else code.co_name)
        return tuple([part for part in name.split(".") if part.isidentifier()])

    @property
    def code(self) -> str:
        """The text of the line, or "" if the file cannot be read."""
        return linecache.getline(self.filename, self.line).strip()

    @property
    def span(self) -> tuple[int, int, int, int] | None:
        """The first and last line of the expression, and its first and last column."""
        if self.bytecode is None:
            return None
        first, last, start, end = _position(self.bytecode, self.instruction)
        if first is None or last is None or start is None or end is None:
            return None
        return first, last, start, end

    @property
    def columns(self) -> tuple[int, int] | None:
        """The column where the expression starts, and the one where it ends."""
        span = self.span
        return None if span is None else span[2:]

    @property
    def assigned(self) -> str:
        """The variable to which the whole expression here is assigned, or ""."""
        columns = self.columns
        line = linecache.getline(self.filename, self.line)
        if columns is None or not line.isascii():
            return ""
        match = _ASSIGNMENT.match(line[: columns[0]])
        remainder = line[columns[1] :].split("#")[0].strip()
        return match.group(1) if match and remainder in ("", ")") else ""

    @property
    def plain(self) -> "SourceLocation":
        """The line alone, for nodes made on its behalf that are not assigned in it."""
        return SourceLocation(
            *(self.filename, self.line),
            called=self.called,
            within=".".join(self.functions),
            block=self.block,
        )

    def __str__(self) -> str:
        return f"{_shown(self.filename)}:{self.line}"


# Keyed by the id of a code object, which an entry keeps alive: hashing the object, or
# searching its tables, takes time in proportion to the length of the code.
_tables: dict[int, tuple[CodeType, list[tuple[int | None, ...]]]] = {}


def _position(code: CodeType, instruction: int) -> tuple[int | None, ...]:
    """The first and last line, and first and last column, of an instruction."""
    entry = _tables.get(id(code))
    if entry is None:
        if len(_tables) >= 16:
            _tables.clear()
        entry = _tables[id(code)] = code, list(code.co_positions())
    return entry[1][instruction // 2]


NOWHERE = SourceLocation("<unknown>", 0)


@functools.cache
def _shown(filename: str) -> str:
    return printable(os.path.basename(filename))


def printable(text: str) -> str:
    """The text on one line, with "?" for unprintable characters and line ends."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "?" for c in text)


def label(name: str) -> str:
    """A name as it may stand anywhere in a text, in code too: letters and digits.

    >>> label('x"); import os'), label("a\\nb"), label("β_2")
    ('x_import_os', 'a_b', 'β_2')
    """
    return re.sub(r"\W+", "_", name)[:40]


def shortened(text: str, longest: int = _LONGEST) -> str:
    """The text, cut if it is longer than a message should repeat."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def in_number(count: int, noun: str) -> str:
    """A count with its noun, as "1 call" and "2 calls"."""
    return f"{count} {noun}{'s' * (count != 1)}"


class _Inside(dict[str, bool]):
    """Whether a file belongs to graphc, or to a library that calls graphc back."""

    def __missing__(self, filename: str) -> bool:
        inside = filename.startswith(_OURS) or _LIBRARY.search(filename) is not None
        self[filename] = inside
        return inside


_INSIDE = _Inside()


def is_own(filename: str) -> bool:
    """Whether a file belongs to graphc, or is the text of a program."""
    return filename.startswith(_OURS) and filename not in _BETWEEN


def is_library(filename: str) -> bool:
    """Whether a file belongs to graphc, or to a library that calls graphc back."""
    return _INSIDE[filename]


def _user_frame() -> tuple[FrameType | None, CodeType | None]:
    """The innermost frame outside graphc, and the code of graphc that it called."""
    called, inside = None, _INSIDE
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not inside[code.co_filename]:
            break
        called, frame = code, frame.f_back
    return frame, called


def user_level() -> int:
    """The `stacklevel` with which a warning of the caller names the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _INSIDE[frame.f_code.co_filename]:
        level, frame = level + 1, frame.f_back
    return level


def called_by_user() -> bool:
    """Whether user code, not a library, called the function that asks."""
    return is_user_file(sys._getframe(2).f_code.co_filename)


def is_user_file(filename: str) -> bool:
    """Whether a file belongs neither to graphc nor to an installed package."""
    return not (_INSIDE[filename] or _INSTALLED.search(filename))


def own_caller() -> str:
    """The function of graphc that the user called, "" for operators and other code."""
    _, called = _user_frame()
    if called is None or not called.co_filename.startswith(OWN_FILES):
        return ""
    name = called.co_name
    return "" if name.startswith("__") else _operation(called)


# Keyed by the id of a code object, which its place keeps alive, by the instruction, the
# name of the function called, and the marked block.
_places: dict[tuple[int, int, str, str], SourceLocation] = {}
_MOST_PLACES = 100_000


class _Stand(threading.local):
    """The line for which a transformation makes nodes, instead of its caller's line."""

    place: SourceLocation | None = None
    block: str = ""


_STAND = _Stand()


class standing_at:
    """Within the context, make nodes for this line of the user's, which errors name."""

    __slots__ = "_outer", "_place"

    def __init__(self, place: SourceLocation) -> None:
        self._place = place

    def __enter__(self) -> None:
        self._outer, _STAND.place = _STAND.place, self._place

    def __exit__(self, *_: object) -> None:
        _STAND.place = self._outer


@contextlib.contextmanager
def within_block(name: str) -> Generator[None]:
    """Within the context, make nodes for a function that the user marked as a block."""
    outer = _STAND.block
    _STAND.block = name
    try:
        yield
    finally:
        _STAND.block = outer


def user_place() -> SourceLocation:
    """The innermost line on the call stack outside graphc, or the one stood at."""
    if _STAND.place is not None:
        return _STAND.place
    frame, called = _user_frame()
    if frame is None:
        return NOWHERE
    code, at = frame.f_code, frame.f_lasti
    key = id(code), at, "" if called is None else called.co_name, _STAND.block
    place = _places.get(key)
    if place is None:
        if len(_places) >= _MOST_PLACES:
            _places.clear()
        line = _position(code, at)[0] or frame.f_lineno
        place = SourceLocation(
            *(code.co_filename, line, at, code, _operation(called)), block=key[3]
        )
        _places[key] = place
    return place


_RETURNED = {"mapped": "vmap", "recomputed": "checkpoint"}  # inner functions, by name
_OPERATIONS = {"getitem": "index"}
_OPERATIONS |= dict.fromkeys(("getattr", "init", "array_ufunc", "array_function"), "")


def _operation(called: CodeType | None) -> str:
    """The user's name of a function: add for `__radd__`, index for `__getitem__`."""
    function = "" if called is None else called.co_name
    name = function.strip("_")
    if function.startswith("__"):
        reflected = name.startswith("r") and name not in ("round", "rshift")
        name = name[1:] if reflected else name
        name = _OPERATIONS.get(name, name)
    name = _RETURNED.get(name, name.removeprefix("method_"))
    return name if name.isidentifier() else ""


def describe(
    problem: str,
    *,
    op: str = "",
    got: str = "",
    expected: str = "",
    arguments: str = "",
    hint: str = "",
    where: SourceLocation | None = None,
) -> str:
    """Lay out one error message; empty parts are left out."""
    lines = [f"{op}: {problem}" if op else problem]
    parts = {"got": got, "expected": expected, "arguments": arguments, "hint": hint}
    lines += [f"  {name}: {text}" for name, text in parts.items() if text]
    if where is not None and where is not NOWHERE:
        code = f": {shortened(where.code)}" if where.code else ""
        lines.append(printable(f"  at {where.filename}:{where.line}{code}"))
    return "\n".join(lines)


def check_function(function: object, op: str) -> None:
    """Raise GraphError if the user passes something other than a function."""
    if not callable(function):
        got = shortened(printable(repr(function)))
        hint = f"graphc.{op}(function), or @graphc.{op} above a function"
        raise graph_error("the argument must be a function", op=op, got=got, hint=hint)


def graph_error(
    problem: str,
    *,
    op: str = "",
    got: str = "",
    expected: str = "",
    hint: str = "",
    where: SourceLocation | None = None,
    entry: str = "",
) -> GraphError:
    """A `GraphError` that names `where`, by default the user's current line.

    `op` defaults to the function of graphc that the user called, and `entry` to that of
    the module that calls this function.
    """
    place = user_place() if where is None else where
    op = op or _operation(_user_frame()[1])
    text = describe(problem, op=op, got=got, expected=expected, hint=hint, where=place)
    return GraphError(text, entry or entry_of(sys._getframe(1).f_globals["__name__"]))
