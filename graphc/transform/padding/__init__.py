"""Padding: programs at capacities that give the results of true sizes.

In: a graph at true sizes, and a policy for each size.
Out: a graph at capacities, with masks by the rule of each op.
Begin at `pad`, then `storage` (the capacity and the true size of each axis).
"""
