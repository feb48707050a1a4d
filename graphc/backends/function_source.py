"""Functions in programs: the text of helpers, and stubs of functions without text."""

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from graphc.backends.names import Names
from graphc.ir.syntax import parsed, source_of


def plain_source(
    item: Callable[..., object], names: Mapping[str, str] | None = None
) -> str:
    """The source of a function or class of graphc, without annotations.

    `names` maps the names of functions in it to new ones.
    """
    return _plain_source(item, tuple((names or {}).items()))


@cache
def _plain_source(
    item: Callable[..., object], new_names: tuple[tuple[str, str], ...]
) -> str:
    names = dict(new_names)
    tree = parsed(source_of(item))
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
            node.name = names.get(node.name, node.name)
        elif isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(tree)


@cache
def globals_used(function: Callable[..., object]) -> dict[str, object]:
    """The objects outside of a function to which names in it refer."""
    nodes = list(ast.walk(parsed(source_of(function))))
    named = [node for node in nodes if isinstance(node, ast.Name)]
    inside = {node.id for node in named if isinstance(node.ctx, ast.Store)}
    names = {node.id for node in named} - inside  # `_` may be a rule outside
    outside: dict[str, Any] = getattr(function, "__globals__", {})
    return {name: outside[name] for name in sorted(names & outside.keys())}


class Foreigns:
    """Functions without text, which whoever loads a program must put into it."""

    def __init__(self, names: Names) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        self._names = names

    def add(self, name: str, function: Callable[..., object]) -> str:
        """Add a function; return its name in the program."""
        name = self._names.unique(name)
        self.functions[name] = function
        return name

    def stubs(self) -> Iterator[list[str]]:
        """Yield the lines of the stubs that stand for these functions in the text."""
        for name in self.functions:
            text = f"{name} has no text: only graphc, which wrote this program, has it"
            yield [
                f"def {name}(sizes, arrays):",
                '    """Stands for a function without text, which graphc puts in."""',
                f"    raise NotImplementedError({text!r})",
            ]
