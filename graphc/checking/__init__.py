"""Rules tried on graphs that they match, to see whether both sides compute the same.

In: a rule, or a graph with two programs for it.
Out: nothing where the results agree; else an error with the smallest difference.
Begin at `check`, then `graphs` (generated graphs) and `compare`.
"""
