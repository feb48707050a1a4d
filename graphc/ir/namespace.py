"""`F`: the public functions by name, bound late.

Rules and operators reach other ops through `F`, so that op families need not
import each other. A function joins by the decorator `public`.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from graphc.errors import user_place
from graphc.ir.elsewhere import of_tensor

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


FUNCTIONS: dict[str, Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}
UPDATES = ("set", "add", "multiply", "min", "max")  # of `x.at[index]`
OF_VALUES = ("getitem", "size_value", "updates_of")  # which users write otherwise
_INDEXING = "basic_index", "gather", "scatter", "slice_update"
_WRITTEN: dict[str, str] = dict.fromkeys(_INDEXING, "index")
SPACES = ("fft", "linalg", "nn", "random", "special")
HELP_TEXTS = ("functions", "help.txt")  # regenerated as `help`


def _help_texts() -> dict[str, str]:
    """Texts of `help` that follow each docstring, by its first name."""
    text = files("graphc.ir").joinpath(*HELP_TEXTS).read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in text.split("## ")[1:]]
    return {name: section.rstrip() for name, _, section in parts}


HELP = _help_texts()
WRITTEN: dict[str, str] = {}  # docstrings without these


def public_name(called: str) -> str:
    """How users call a function, method or operator of ours; "" where they do not."""
    if called in FUNCTIONS or called in METHODS or called in UPDATES:
        return called
    candidates = (f"{space}.{called}" for space in SPACES)
    return next((n for n in candidates if n in FUNCTIONS), called * (called == "index"))


def user_op(op: str) -> str:
    """The public function that the user called, or else `op`: what messages name."""
    called = user_place().called
    if op.endswith(f".{called}"):
        return op
    return op_as_written(called, op)


def op_as_written(called: str, op: str) -> str:
    """The function that a user called, or else a primitive as users know it."""
    return public_name(called) or _WRITTEN.get(op, op)


def misspelled(name: str, known: Sequence[str]) -> str:
    """`; did you mean ...?` where a known name is close to `name`, else ""."""
    close = [] if name.startswith("_") else get_close_matches(name, known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


_VALUE = re.compile("[abpx][12]?|element")  # what they are about


def how_called(name: str) -> str:
    """A call of a public function with all that it needs, as `gt.full(shape, value)`.

    The first argument is x where it is the value that the function is about.
    """
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    placed = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in placed]
    first, *others = needed or ["x"]
    shown = ["x" if _VALUE.fullmatch(first) else first, *others]
    return f"gt.{name}({', '.join(shown)})"


OTHER_NAMES: set[str] = set()  # of graphc.tensor, which are no functions of values


class Namespace:
    """Attribute access to the functions that have joined under a prefix."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._spaces = {} if prefix else {s: Namespace(f"{s}.") for s in SPACES}

    def __getattr__(self, name: str) -> Any:
        member = FUNCTIONS.get(self._prefix + name) or self._spaces.get(name)
        if member is None:
            raise AttributeError(self._unknown(name))
        return member

    def _unknown(self, name: str) -> str:
        """The message about a name that is not here; it may be elsewhere."""
        space = f"graphc.tensor.{self._prefix}".rstrip(".")
        message = f"{space} has no function {name!r}"
        if name.startswith("__"):  # by Python's own tools, which ask often
            return message
        known = [f"graphc.tensor.{n}" for n in FUNCTIONS if n.split(".")[-1] == name]
        if known:
            return f"{message}; there is {' and '.join(known)}"
        if not self._prefix and of_tensor(name):
            return f"{message}; {of_tensor(name)}"
        others = [] if self._prefix else sorted(OTHER_NAMES)
        return message + misspelled(name, [*dir(self), *others])

    def __dir__(self) -> list[str]:
        start = len(self._prefix)
        names = [n[start:] for n in FUNCTIONS if n.startswith(self._prefix)]
        shown = [n for n in names if "." not in n and n not in OF_VALUES]
        public = [n for n in shown if not n.startswith("_")]
        return sorted(public + list(self._spaces))


if TYPE_CHECKING:
    from graphc.ir import functions

    F = functions
else:
    F = Namespace()


def enroll(function: FunctionT, name: str, method: bool = False) -> FunctionT:
    """Let `function` join `F` as `name`, and values as a method if asked.

    A dotted name, as "linalg.solve", joins that space of `graphc.tensor`.
    """
    if name in FUNCTIONS:
        raise ValueError(f"{name} is defined twice")
    FUNCTIONS[name] = function
    F.__dict__[name] = function  # where it is found without a search
    if method:
        METHODS[name] = function
    if function.__doc__ and HELP.get(name):
        WRITTEN[name] = inspect.cleandoc(function.__doc__)
        function.__doc__ = _with_help(WRITTEN[name], HELP[name])
    return function


def _with_help(written: str, added: str) -> str:
    """A docstring with what `help` adds: the example first, facts last."""
    line, _, text = written.partition("\n\n")
    facts, mark, example = added.partition(">>> ")
    return "\n\n".join(filter(None, [line, mark + example, text, facts.rstrip()]))


def enroll_method(function: FunctionT, name: str) -> FunctionT:
    """A method of values whose arguments differ from those of the function."""
    METHODS[name] = function
    return function


def public(
    *, method: bool = False, name: str | None = None, doc: str = ""
) -> Callable[[FunctionT], FunctionT]:
    """Decorator: a function of `graphc.tensor`, and a method of values if asked.

    It is named as it is called, so that `help` shows that name. One that is made for
    several names has its `doc` here; its code is named too, which messages look at.
    """

    def join(function: FunctionT) -> FunctionT:
        called = name or function.__name__.rstrip("_")
        function.__name__ = function.__qualname__ = called.rpartition(".")[2]
        if doc:
            function.__doc__ = doc
            function.__code__ = function.__code__.replace(co_name=function.__name__)
        return enroll(function, called, method)

    return join
