"""The modules of graphc as trees, each parsed once for all tests that read it."""

import ast
import functools


@functools.cache
def tree(path):
    """The tree of a file, which tests must not change."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path):
    """All nodes of a file, level by level from the top."""
    return tuple(ast.walk(tree(path)))
