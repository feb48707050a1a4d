"""Answer questions about sizes that the user's code asks while it is traced.

Answers do for values of a graph what recorders do for sizes of JAX: see `recorder`.
"""

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import cast

from graphc.errors import GraphError, user_place
from graphc.importers.jax.trace.decisions import (
    Decision,
    Decisions,
    Relation,
    answer_for,
    known_answer,
)
from graphc.ir.graph.nodes import Value, known_sizes
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, evaluate
from graphc.ir.sizes.polynomials import Symbol

# The relation of a comparison, whether its sides are swapped, and whether it is
# negated.
_COMPARISONS: dict[object, tuple[Relation, bool, bool]] = {
    OP.equal: ("==", False, False),
    OP.not_equal: ("==", False, True),
    OP.greater_equal: (">=", False, False),
    OP.less_equal: (">=", True, False),
    OP.less: (">=", False, True),
    OP.greater: (">=", True, True),
}
_SizeQuestion = tuple[Size, Relation, Size]


class Answers:
    """Answers questions about sizes by those of one call, and records the answers."""

    def __init__(
        self,
        symbols: Mapping[str, Symbol],
        sizes: Mapping[str, int],
        words: Mapping[str, str],
    ) -> None:
        self._symbols, self._words = symbols, words
        self._numbers = {symbol: sizes[name] for name, symbol in symbols.items()}
        self._taken: dict[_SizeQuestion, Decision] = {}

    def answer(self, condition: Value) -> bool | None:
        """Whether a condition is true in the call; None if that depends on data.

        The answer is recorded if it may differ at other sizes.
        """
        asked = _question(condition)
        if asked is None:
            return None
        question, is_denied = asked
        left, relation, right = question
        known = known_answer(*question)
        if known is not None:
            return known is not is_denied
        try:
            one, other = (evaluate(side, self._numbers) for side in (left, right))
        except GraphError:  # the size depends on data, or is divided by 0
            return None
        answer = answer_for(one, relation, other)
        if question not in self._taken:
            self._taken[question] = Decision(*question, answer, user_place(), True)
        return answer is not is_denied

    @property
    def decisions(self) -> Decisions:
        """The answers so far, by the symbols of the trace."""
        return Decisions(self._symbols, tuple(self._taken.values()), None, self._words)


def _question(condition: Value) -> tuple[_SizeQuestion, bool] | None:
    """The question about two sizes that a condition asks, and whether it is negated.

    A number is compared with 0, and negated. Returns None if data are compared.
    """
    node = condition.node
    comparison = _COMPARISONS.get(node.primitive)
    if comparison is not None:
        relation, is_swapped, is_denied = comparison
        left, right = map(_size, node.inputs[::-1] if is_swapped else node.inputs)
        if left is not None and right is not None:
            return (left, relation, right), is_denied
    size = _size(condition)
    return None if size is None else ((size, "==", 0), True)


def _size(value: Value) -> Size | None:
    """The size that a value holds; None for arrays, and values that depend on data."""
    sizes = known_sizes(value)
    return None if sizes is None or sizes.ndim else cast(Size, sizes[()])


class _Answering(threading.local):
    answers: Answers | None = None  # for the function being traced


_ANSWERING = _Answering()


@contextmanager
def answering(answers: Answers | None) -> Generator[None]:
    """Within, answer conditions on sizes in this thread by these answers."""
    outer, _ANSWERING.answers = _ANSWERING.answers, answers
    try:
        yield
    finally:
        _ANSWERING.answers = outer


def answer_to(condition: object) -> bool | None:
    """The answer to a condition on sizes, or None."""
    answers = _ANSWERING.answers
    if answers is None or not isinstance(condition, Value):
        return None
    return answers.answer(condition)
