"""Recorders answer questions about sizes while JAX traces, and record the answers.

JAX itself answers an open `==` with no, "which is really unsound" as its source says,
and an open `>=` with an exception.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

import jax.export

from graphc.errors import SourceLocation, user_place
from graphc.importers.asking import is_asked_by_user
from graphc.importers.jax.read.sizes import JaxSizes
from graphc.importers.jax.trace.decisions import (
    Decision,
    Decisions,
    Relation,
    answer_for,
    known_answer,
)
from graphc.ir.sizes.dims import symbol_dim
from graphc.ir.sizes.polynomials import Symbol

_Question = tuple[Any, Relation, Any]  # about dimensions of JAX, or integers


class Recorder:
    """Answers open questions for the sizes of one call, and records the answers.

    JAX asks about order even where it could do without the answer. So its own questions
    about order stay open unless the recorder `answers_jax`; `was_silent` tells whether
    there were any. The recorder knows the sizes in the `scope` of a trace.
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
        self.scope: Any = None
        self._words = words or {}
        self._numbers = JaxSizes(sizes)
        self._answers: dict[_Question, bool] = {}
        self._open: dict[_Question, tuple[SourceLocation, bool]] = {}
        self._opaque: SourceLocation | None = None
        self._has_text = False

    def knows(self, size: Any) -> bool:
        """Whether a dimension of JAX consists of symbols of the trace."""
        return size.scope is self.scope

    def number(self, size: object) -> int:
        """The number that a size has in the call."""
        number = self._numbers.of(size)
        assert isinstance(number, int)
        return number

    def answer(
        self, left: object, relation: Relation, right: Any, frame: FrameType
    ) -> bool:
        """Answer a question, and record the answer if the symbols leave it open."""
        question = left, relation, right
        answer = self._answers.get(question)
        if answer is None:
            difference = left - right
            answer = answer_for(self.number(difference), relation, 0)
            self._answers[question] = answer
            if jax.export.is_symbolic_dim(difference):
                self._open[question] = user_place(), is_asked_by_user(frame)
        return answer

    def holds(self, larger: object, smaller: object, frame: FrameType) -> bool:
        """Whether `larger >= smaller`; otherwise JAX raises an error."""
        return self.answer(larger, ">=", smaller, frame)

    def differ(self, left: object, right: Any) -> None:
        """Note that two sizes were said to differ, which may be wrong in the call."""
        if self.number(left - right) == 0:
            self.observe()

    def observe(
        self, place: Callable[[], SourceLocation] = user_place, tells: bool = True
    ) -> None:
        """Note that something was asked that cannot be recorded.

        `tells` is false for a hash, which reveals the size to nobody.
        """
        self._has_text = self._has_text or tells
        if self._opaque is None:
            self._opaque = place()

    @property
    def is_opaque(self) -> bool:
        """Whether something was asked that cannot be recorded."""
        return self._opaque is not None

    @property
    def how_shared(self) -> tuple[bool, bool]:
        """Whether host functions may serve all sizes, and if their contents count.

        The answers are the `is_allowed` and `whole` of `callbacks.sharing`.
        """
        return not self._has_text, self.is_opaque

    def decisions(self, symbols: Mapping[str, Symbol]) -> Decisions:
        """The decisions in a graph's symbols, except those that symbols settle."""
        sizes = JaxSizes({name: symbol_dim(symbol) for name, symbol in symbols.items()})
        taken = []
        for question, asked in self._open.items():
            relation = question[1]
            left, right = sizes.of(question[0]), sizes.of(question[2])
            if known_answer(left, relation, right) is None:
                answer = self._answers[question]
                taken.append(Decision(left, relation, right, answer, *asked))
        return Decisions(symbols, tuple(taken), self._opaque, self._words)


class Undecided(Exception):
    """Raised when user code decides by sizes whose numbers are unknown."""

    def __init__(self, question: str, place: SourceLocation) -> None:
        super().__init__(question)
        self.question = question
        self.place = place


class NoNumbers(Recorder):
    """Refuses open questions of the user's code: the trace must hold for all sizes.

    Questions by JAX are answered as JAX does, which takes sizes to be at least 1.
    """

    def __init__(self) -> None:
        super().__init__({})

    def answer(
        self, left: object, relation: Relation, right: object, frame: FrameType
    ) -> bool:
        """The answer that holds for all sizes. Raises Undecided if there is none."""
        if not is_asked_by_user(frame) or _never_equal(left, right):
            return False
        raise Undecided(f"{left} {relation} {right}", user_place())

    def holds(self, larger: object, smaller: object, frame: FrameType) -> bool:
        """Raise Undecided, since JAX raises an error for some sizes."""
        raise Undecided(f"{larger} >= {smaller}", user_place())

    def differ(self, left: object, right: object) -> None:
        """Do nothing, since no number is known."""

    def observe(
        self, place: Callable[[], SourceLocation] = user_place, tells: bool = True
    ) -> None:
        """Do nothing, since there is no other trace to compare with."""


def _never_equal(left: Any, right: Any) -> bool:
    for larger, smaller in ((left, right), (right, left)):
        try:
            if larger >= smaller + 1:
                return True
        except Exception:  # the symbols leave it open
            continue
    return False


class _Thread(threading.local):
    is_answering = False  # whether a recorder itself compares sizes


THREAD = _Thread()
RECORDING: dict[Any, Recorder] = {}  # by the scopes of sizes being traced


def recorder_of(size: Any) -> Recorder | None:
    """The recorder of a dimension of JAX, if questions about it are recorded.

    The recorder is found by the size: code may ask in a different thread from that of
    the trace, or in a trace within the trace.
    """
    if not RECORDING or THREAD.is_answering:
        return None
    return RECORDING.get(size.scope)


def scope_of(symbols: Iterable[Any]) -> object:
    """The common scope of JAX's symbols; None if there are no symbols."""
    return next((symbol.scope for symbol in symbols), None)
