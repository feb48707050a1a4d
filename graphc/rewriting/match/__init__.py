"""Patterns of nodes, and the questions that rules ask about shapes.

In: a pattern, written as nodes or as a function, and a node.
Out: the values that its variables stand for, or no match.
Begin at `pattern`, then `traced`.
"""
