"""Plans and programs explained to people.

In: a graph, a plan or a compiled function.
Out: text: which segments there are, why, and how to remove a cut.
Begin at `summary`, then `report` (in full) and `dump`.
"""
