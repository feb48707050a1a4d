"""Rules, sets of rules, and their application to a graph.

In: a graph and a set of rules.
Out: the graph after all rules, which refuses what the given graph refused.
Begin at `rule`, then `fixpoint`.
"""
