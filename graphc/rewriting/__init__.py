"""Rules that replace parts of a graph by better ones, and what applies them.

In: a graph.
Out: a graph with the same results, which costs less or needs fewer sizes.
Begin at `default` (the order of all rules), then `engine` and `rules`.
"""

import graphc.ops  # noqa: F401  (rules tell ops apart: all are there before)
