"""The modules of graphc as trees: each is parsed once for all tests that read them."""

import ast
import functools


@functools.cache
def tree(path):
    """The tree of a file, which no test changes."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path):
    """All nodes of a file, those of a level before the ones below."""
    return tuple(ast.walk(tree(path)))
