"""Pieces of source text: docstrings, indented lines."""

from collections.abc import Iterable

from graphc.errors import printable


def docstring(text: str) -> str:
    """A docstring of one line that contains `text`, escaped as needed."""
    quoted = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{quoted}"""'


def indent(lines: Iterable[str]) -> list[str]:
    """The lines, indented by one level."""
    return [f"    {line}" if line else line for line in lines]
