"""Chains of blocks that are alike, as loops.

In: a graph in which a block of nodes is repeated.
Out: a scan over the parts in which the blocks differ.
Begin at `chains`, then `repeats`.
"""
