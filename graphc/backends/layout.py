"""Pieces of source text: docstrings, tuples, indented lines."""

from collections.abc import Iterable

from graphc.errors import printable


def docstring(text: str) -> str:
    """A docstring of one line that contains `text`, escaped as needed."""
    quoted = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{quoted}"""'


def tuple_text(items: Iterable[str]) -> str:
    """A tuple of expressions: `(a, b)`, `(a,)` or `()`."""
    listed = list(items)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"


def indent(lines: Iterable[str]) -> list[str]:
    """The lines, indented by one level."""
    return [f"    {line}" if line else line for line in lines]
