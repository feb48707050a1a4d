"""Functions without text, for which programs hold names only."""

from collections.abc import Callable, Iterator
from typing import Any

from graphc.backends.names import Names


class Foreigns:
    """The functions of a program that whoever loads its text must put into it."""

    def __init__(self, names: Names) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        self._names = names

    def add(self, name: str, function: Callable[..., object]) -> str:
        """The name of a function in the program."""
        name = self._names.unique(name)
        self.functions[name] = function
        return name

    def stubs(self) -> Iterator[list[str]]:
        """The lines of functions that stand for them in the text."""
        for name in self.functions:
            text = f"{name} has no text: only graphc, which wrote this program, has it"
            yield [
                f"def {name}(sizes, arrays):",
                '    """Stands for a function without text, which graphc puts in."""',
                f"    raise NotImplementedError({text!r})",
            ]
