"""Parts of a graph that are alike, printed once as a function.

In: a graph, when nothing else changes it any more.
Out: the graph with a call in the place of each part that is alike.
Begin at `share`, then `parts`.
"""
