"""Patterns of nodes, parts that are alike, and what rules ask about shapes.

In: a pattern, as nodes or as a function, and a node; or the last nodes of parts.
Out: values of its variables, or no match; or rows of nodes that do the same.
Begin at `pattern`, then `traced_patterns`; `lockstep` walks parts.
"""
