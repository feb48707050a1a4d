"""Functions of ours as text: helpers that programs bring along."""

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


def plain_source(
    item: Callable[..., object], names: Mapping[str, str] | None = None
) -> str:
    """The source of a function or class of ours, without annotations.

    `names` are the new names of functions in it.
    """
    return _plain_source(item, tuple((names or {}).items()))


@cache
def _plain_source(
    item: Callable[..., object], new_names: tuple[tuple[str, str], ...]
) -> str:
    names = dict(new_names)
    tree = ast.parse(inspect.getsource(item))
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
    """The objects outside of a function that the names in it refer to."""
    nodes = list(ast.walk(ast.parse(inspect.getsource(function))))
    named = [node for node in nodes if isinstance(node, ast.Name)]
    inside = {node.id for node in named if isinstance(node.ctx, ast.Store)}
    names = {node.id for node in named} - inside  # `_` may be a rule outside
    outside: dict[str, Any] = getattr(function, "__globals__", {})
    return {name: outside[name] for name in sorted(names & outside.keys())}
