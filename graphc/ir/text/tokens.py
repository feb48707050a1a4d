"""Split text into tokens, which are read one after another; errors name the line."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import NoReturn, TypeVar

from graphc.errors import graph_error, shortened

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*")
    |(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)
    |(?P<name>\?[A-Za-z_][A-Za-z0-9_]*|[A-Za-z_][A-Za-z0-9_]*\??)
    |(?P<sign>//|[-+*%(){}\[\],:;=])
    |(?P<bad>.)""",
    re.VERBOSE,
)
T = TypeVar("T")
_DEEPEST = 50  # nested parentheses


class Tokens:
    """The tokens of a text, and the position of the next one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        matches = [m for m in _TOKEN.finditer(text) if m.lastgroup != "skip"]
        self._tokens = [(m.lastgroup or "", m.group(), m.start()) for m in matches]
        self._tokens += [("end", "the end", len(text))] * 2
        self.at: int = 0
        self._depth = 0

    def fail(self, problem: str, at: int | None = None) -> NoReturn:
        """Raise GraphError with the line of the next token, or of the token `at`."""
        number = self.line(self.at if at is None else at)
        start = self._starts[number - 1]
        shown = shortened(self._text[start:].split("\n", 1)[0].strip())
        problem = f"line {number}: {problem}"
        raise graph_error(problem, op="parse_graph", got=shown) from None

    def line(self, at: int) -> int:
        """The line number of the token at `at`."""
        return bisect_right(self._starts, self._tokens[at][2])

    def next_is(self, kind: str) -> bool:
        """Whether the next token is of a kind."""
        return self._tokens[self.at][0] == kind

    def after_next(self) -> str:
        """The text of the token after the next one."""
        return self._tokens[self.at + 1][1]

    def peek(self) -> str:
        """The text of the next token, or "" if it is quoted."""
        kind, text, _ = self._tokens[self.at]
        return "" if kind == "text" else text

    def take(self, kind: str, what: str) -> str:
        """Take the next token, which must be of a kind."""
        next_kind, text, _ = self._tokens[self.at]
        if next_kind != kind:
            self.fail(f"expected {what}, not {shortened(text, 20)}")
        self.at += 1
        return text

    def accept(self, sign: str) -> bool:
        """Pass `sign` if it is next; returns whether it was."""
        is_next = self.peek() == sign
        self.at += is_next
        return is_next

    def expect(self, sign: str) -> None:
        """Pass `sign`, which must be next."""
        if not self.accept(sign):
            self.fail(f"expected {sign!r}, not {shortened(self.peek(), 20)}")

    def string(self) -> str:
        """Read a quoted text."""
        quoted = self.take("text", "a quoted text")
        try:
            return str(json.loads(quoted))
        except ValueError:
            self.fail("this quoted text cannot be decoded", self.at - 1)

    def several(self, read: Callable[[], T], end: str) -> list[T]:
        """Read items up to `end`, separated by commas; the last may have one too."""
        items: list[T] = []
        while not self.accept(end):
            items.append(read())
            if not self.accept(","):
                self.expect(end)
                break
        return items

    def nested(self, read: Callable[[], T]) -> T:
        """Call `read` one level deeper; the number of levels is limited."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self.fail("parentheses are nested too deeply")
        result = read()
        self._depth -= 1
        return result
