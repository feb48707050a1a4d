"""Decisions by sizes that Python code takes while JAX traces it.

A size that is a symbol must answer `n % 4 == 0` with yes or no, and the trace holds for
the sizes that answer alike. So each question that the symbols leave open is answered
for the sizes of the call that is traced, and recorded with the line that asks. (JAX by
itself answers an open `==` with no, "which is really unsound" as its source says, and
an open `>=` with an exception.)

Code that asks for the text, the hash or the number of a size may do anything with it,
so no list of questions describes it. Such a trace is opaque: it has to be compared with
a trace of each new size.
"""

import dis
import math
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from numbers import Integral, Real
from types import FrameType
from typing import Any, Literal

import jax.export

from graphc.errors import NOWHERE, GraphError, SourceLocation, user_place
from graphc.importers.jax.sizes import JaxSizes
from graphc.ir.dims import (
    Dim,
    Size,
    equal,
    evaluate,
    expression,
    less_equal,
    symbol_dim,
)
from graphc.ir.polynomials import Symbol, polynomial

Relation = Literal["==", ">="]
_NEGATED = {"==": "!=", ">=": "<"}
_PACKAGES = {"graphc", "jax", "jaxlib", "opt_einsum"}  # not the user's code
DIMENSION: Any = type(jax.export.symbolic_shape("n")[0])
_Question = tuple[Any, Relation, Any]  # of dimensions of JAX, or integers


@dataclass(frozen=True)
class Decision:
    """The answer to a question about two sizes, and the line that asked it."""

    left: Size
    relation: Relation
    right: Size
    answer: bool
    place: SourceLocation
    by_user: bool  # not by JAX, which asks where sizes must be equal

    def holds(self, sizes: Mapping[Symbol, int]) -> bool:
        """Whether the question has the same answer for these sizes."""
        try:
            left, right = (evaluate(side, sizes) for side in (self.left, self.right))
        except GraphError:  # a size is divided by 0
            return False
        is_so = left == right if self.relation == "==" else left >= right
        return is_so is self.answer

    def pinned_by(self, answer: bool) -> Symbol | None:
        """The symbol of which only one number is left by an answer, if there is one."""
        difference = self.left - self.right
        if self.relation != "==" or not answer or not isinstance(difference, Dim):
            return None
        atoms = polynomial(difference).atoms()
        (atom,) = atoms if len(atoms) == 1 else (None,)
        return atom if isinstance(atom, Symbol) else None

    def text(self, words: Mapping[Symbol, str]) -> str:
        """The fact, with words for symbols: `x.shape[0] % 4 == 0`."""
        relation = self.relation if self.answer else _NEGATED[self.relation]
        left, right = (
            expression(side, lambda symbol: words.get(symbol, symbol.name))
            for side in (self.left, self.right)
        )
        return f"{left} {relation} {right}"

    def __str__(self) -> str:
        return self.text({})


@dataclass(frozen=True)
class Decisions:
    """The decisions of a trace, by the symbols of its sizes.

    `opaque` is the line where something was asked that cannot be recorded, or None.
    The user's `words` for sizes are by their names.
    """

    symbols: Mapping[str, Symbol]
    taken: tuple[Decision, ...] = ()
    opaque: SourceLocation | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    def hold(self, sizes: Mapping[str, int]) -> bool:
        """Whether all have the same answers for these sizes, by names."""
        return not self.otherwise(sizes)

    def otherwise(self, sizes: Mapping[str, int]) -> list[Decision]:
        """The decisions that have another answer for these sizes."""
        numbers = self._numbers(sizes)
        return [d for d in self.taken if not d.holds(numbers)]

    def pin(self, sizes: Mapping[str, int]) -> bool:
        """Whether no other sizes have the answers that these have."""
        numbers = self._numbers(sizes)
        answers = ((d, d.answer is d.holds(numbers)) for d in self.taken)
        pinned = {d.pinned_by(answer) for d, answer in answers}
        return bool(self.taken) and pinned.issuperset(self.symbols.values())

    def needed(self) -> list[str]:
        """The names of sizes of which JAX takes one number only."""
        pinned = {d.pinned_by(d.answer) for d in self.taken if not d.by_user}
        return [name for name, symbol in self.symbols.items() if symbol in pinned]

    def told(self, decisions: Iterable[Decision]) -> list[str]:
        """Decisions in the user's words, each with its line."""
        words = {self.symbols[name]: text for name, text in self.words.items()}
        by_jax = {d: "" if d.by_user else ", asked by JAX" for d in decisions}
        return [f"{d.text(words)} ({d.place}{who})" for d, who in by_jax.items()]

    def _numbers(self, sizes: Mapping[str, int]) -> dict[Symbol, int]:
        return {symbol: sizes[name] for name, symbol in self.symbols.items()}


class Recorder:
    """Answers open questions for the sizes of one call, and writes them down.

    JAX asks for order where it could also do without the answer, so its own questions
    about order stay open, unless the recorder `answers_jax`; `was_silent` tells whether
    there were any.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        words: Mapping[str, str] | None = None,
        answers_jax: bool = False,
    ) -> None:
        self.sizes = sizes
        self.answers_jax = answers_jax
        self.was_silent = False
        self._words = words or {}
        self._numbers = JaxSizes(sizes)
        self._scope: object = None
        self._answers: dict[_Question, bool] = {}
        self._open: dict[_Question, tuple[SourceLocation, bool]] = {}
        self._opaque: SourceLocation | None = None if WATCHED else NOWHERE

    @contextmanager
    def recording(self, symbols: Iterable[Any] = ()) -> Iterator[None]:
        """Record what is asked in this thread: about these symbols, from now on."""
        for symbol in symbols:
            self._scope = symbol.scope
        outer, _THREAD.recorder = _THREAD.recorder, self
        try:
            with _TYPES.watched():
                yield
        finally:
            _THREAD.recorder = outer

    def knows(self, size: Any) -> bool:
        """Whether a dimension of JAX is made of the symbols of the trace."""
        return size.scope is self._scope

    def number(self, size: Any) -> int:
        """The number that a size is in the call."""
        number = self._numbers.of(size)
        assert isinstance(number, int)
        return number

    def answer(
        self, left: Any, relation: Relation, right: Any, frame: FrameType
    ) -> bool:
        """The answer to a question, recorded where the symbols leave it open."""
        question = left, relation, right
        answer = self._answers.get(question)
        if answer is None:
            difference = left - right
            number = self.number(difference)
            answer = number == 0 if relation == "==" else number >= 0
            self._answers[question] = answer
            if isinstance(difference, DIMENSION):
                self._open[question] = user_place(), _is_users(frame)
        return answer

    def observe(self) -> None:
        """Note that the user's code asks for what cannot be recorded."""
        if self._opaque is None:
            self._opaque = user_place()

    def decisions(self, symbols: Mapping[str, Symbol]) -> Decisions:
        """The decisions by the symbols of a graph, but for those that these decide."""
        sizes = JaxSizes({name: symbol_dim(symbol) for name, symbol in symbols.items()})
        taken = []
        for question, asked in self._open.items():
            relation = question[1]
            left, right = sizes.of(question[0]), sizes.of(question[2])
            is_equality = relation == "=="
            known = equal(left, right) if is_equality else less_equal(right, left)
            if known is None:
                answer = self._answers[question]
                taken.append(Decision(left, relation, right, answer, *asked))
        return Decisions(symbols, tuple(taken), self._opaque, self._words)


class Undecided(Exception):
    """Raised where user code decides by sizes of which no number is known."""

    def __init__(self, question: str, place: SourceLocation) -> None:
        super().__init__(question)
        self.question = question
        self.place = place


class NoNumbers(Recorder):
    """Refuses open questions of the user's code: the trace is to hold for all sizes.

    Questions by JAX are answered as JAX does, which takes sizes to be 1 or more.
    """

    def __init__(self) -> None:
        super().__init__({})

    def answer(
        self, left: Any, relation: Relation, right: Any, frame: FrameType
    ) -> bool:
        """The answer that holds for all sizes. Raises Undecided if there is none."""
        if not _is_users(frame) or _never_equal(left, right):
            return False
        raise Undecided(f"{left} {relation} {right}", user_place())

    def observe(self) -> None:
        """Do nothing: there is one trace, with nothing to compare it with."""


def _never_equal(left: Any, right: Any) -> bool:
    for larger, smaller in ((left, right), (right, left)):
        try:
            if larger >= smaller + 1:
                return True
        except Exception:  # the symbols leave it open
            continue
    return False


class _Thread(threading.local):
    recorder: Recorder | None = None


_THREAD = _Thread()


def _is_users(frame: FrameType | None) -> bool:
    """Whether a question comes from code of the user's, not from JAX or graphc."""
    while frame is not None:
        answer = _has_users(frame.f_globals.get("__name__", ""))
        if answer is not None:
            return answer
        frame = frame.f_back
    return False


@cache
def _has_users(module: str) -> bool | None:
    """Whether a module has user code; None of Python's own, which any code calls."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names:
        return None
    return package not in _PACKAGES


class _WatchedTypes:
    """Lets `isinstance(n, int)` be true in the user's code while a recorder watches.

    It asks for `__class__`. A method that sees all attributes slows all of them, so it
    is there only while one watches in some thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watching = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Answer for types from here on."""
        with self._lock:
            self._watching += 1
            DIMENSION.__getattribute__ = _attribute
        try:
            yield
        finally:
            with self._lock:
                self._watching -= 1
                if not self._watching:
                    del DIMENSION.__getattribute__


def _attribute(size: Any, name: str) -> Any:
    asks_type = name == "__class__" and _THREAD.recorder is not None
    if asks_type and _is_users(sys._getframe(1)):
        return int
    return object.__getattribute__(size, name)


_TYPES = _WatchedTypes()


def _is_written(frame: FrameType) -> bool:
    """Whether a frame compares sizes by what is written in it.

    JAX's caches compare keys from C, or by `__eq__` of what holds the sizes: to say
    that two keys are equal would give what was traced for other sizes.
    """
    code = frame.f_code
    if code.co_name in ("__eq__", "__ne__"):
        return False
    return dis.opname[code.co_code[frame.f_lasti]] in ("COMPARE_OP", "CONTAINS_OP")


@dataclass(slots=True)
class _MethodCall:
    """A call of a method of a dimension of JAX while a recorder watches."""

    recorder: Recorder
    original: Callable[..., Any]
    frame: FrameType

    @property
    def is_users(self) -> bool:
        return _is_users(self.frame)

    def answer(self, left: Any, relation: Relation, right: Any) -> bool:
        return self.recorder.answer(left, relation, right, self.frame)


_Answer = Callable[..., Any]  # of a _MethodCall, and the arguments of the method


def _watched(original: Callable[..., Any], answer: _Answer) -> Callable[..., Any]:
    """A method of dimensions that a recorder answers, where one watches them."""

    def method(self: Any, *args: Any) -> Any:
        recorder = _THREAD.recorder
        if recorder is None or not recorder.knows(self):
            return original(self, *args)
        _THREAD.recorder = None  # it compares sizes itself
        try:
            call = _MethodCall(recorder, original, sys._getframe(1))
            return answer(call, self, *args)
        finally:
            _THREAD.recorder = recorder

    return method


def _is_comparable(call: _MethodCall, other: Any) -> bool:
    """Whether `other` is a size of the same trace, or an integer."""
    if isinstance(other, DIMENSION):
        return call.recorder.knows(other)
    return isinstance(other, Integral)


_EQUAL: Callable[[Any, Any], bool] = DIMENSION.__eq__  # as JAX decides it


def _equals(call: _MethodCall, size: Any, other: Any) -> Any:
    if size is other or _EQUAL(size, other):
        return True
    if isinstance(other, Real) and not isinstance(other, Integral):
        number = float(other)
        if not number.is_integer():
            return False
        other = int(number)
    if not call.is_users:
        asks = _is_comparable(call, other) and _is_written(call.frame)
        return asks and call.answer(size, "==", other)
    if _is_comparable(call, other):
        return call.answer(size, "==", other)
    return False if isinstance(other, DIMENSION) else NotImplemented  # as of an array


def _differs(call: _MethodCall, size: Any, other: Any) -> Any:
    answer = _equals(call, size, other)
    return answer if answer is NotImplemented else not answer


def _order(
    compare: Callable[[Any, Any], bool], swapped: bool, negated: bool
) -> _Answer:
    """The answer of an order, as `>=`: with the sides swapped, or negated, or both."""

    def answer(call: _MethodCall, size: Any, other: Any) -> Any:
        if isinstance(other, Real) and not isinstance(other, Integral):
            number = float(other)
            if not math.isfinite(number):
                return compare(0, number)
            # n >= 2.5 is n >= 3, and 2.5 >= n is 2 >= n.
            other = math.floor(number) if swapped else math.ceil(number)
        if not _is_comparable(call, other):
            by_user = not isinstance(other, DIMENSION) and call.is_users
            return NotImplemented if by_user else call.original(size, other)
        try:
            return call.original(size, other)
        except Exception:  # the symbols leave it open
            if not (call.recorder.answers_jax or call.is_users):
                call.recorder.was_silent = True
                raise
        left, right = (other, size) if swapped else (size, other)
        return call.answer(left, ">=", right) is not negated

    return answer


def _is_true(call: _MethodCall, size: Any) -> bool:
    return not call.answer(size, "==", 0)


def _written(call: _MethodCall, size: Any, *args: Any) -> Any:
    """The text of a size: for the user's code, that of the number."""
    if not (call.is_users and call.recorder.sizes):
        return call.original(size, *args)
    call.recorder.observe()
    return format(call.recorder.number(size), *args)


def _opaque(call: _MethodCall, size: Any) -> Any:
    """The hash or number of a size, as JAX has it: it may be used for anything."""
    if call.is_users:
        call.recorder.observe()
    return call.original(size)


def _refusal(kind: str) -> Callable[[Any], Any]:
    """Raises TypeError as Python does where there is no method."""

    def refuse(size: Any) -> Any:
        name = type(size).__name__
        raise TypeError(f"{name!r} object cannot be interpreted as {kind}")

    return refuse


# The methods of a dimension of JAX that tell something of it. Those that it has not got
# are given as Python understands their absence.
_ANSWERS: dict[str, _Answer] = {
    "__eq__": _equals,
    "__ne__": _differs,
    "__ge__": _order(operator.ge, swapped=False, negated=False),
    "__lt__": _order(operator.lt, swapped=False, negated=True),
    "__le__": _order(operator.le, swapped=True, negated=False),
    "__gt__": _order(operator.gt, swapped=True, negated=True),
    "__hash__": _opaque,
    "__int__": _opaque,
    "__str__": _written,
    "__repr__": _written,
}
_ABSENT: dict[str, tuple[Callable[..., Any], _Answer]] = {
    "__bool__": (lambda _: True, _is_true),
    "__float__": (_refusal("a number"), _opaque),
    "__index__": (_refusal("an integer"), _opaque),
    "__format__": (object.__format__, _written),
}


def _watch_dimensions() -> bool:
    """Let recorders answer for dimensions; False where this JAX has other methods.

    Where there is no recorder, the methods do what they did.
    """
    own = vars(DIMENSION)
    if not own.keys() >= _ANSWERS.keys():
        return False
    for name, answer in _ANSWERS.items():
        setattr(DIMENSION, name, _watched(own[name], answer))
    for name, (original, answer) in _ABSENT.items():
        setattr(DIMENSION, name, _watched(own.get(name, original), answer))
    return True


WATCHED = _watch_dimensions()
