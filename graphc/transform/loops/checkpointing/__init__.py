"""The carries that a gradient keeps, and those that it computes again.

In: a scan, and how many carries there is room for.
Out: the carries before all steps, the last first.
Begin at `segments`, then `treeverse` and `nesting`.
"""
