"""Sizes of axes: integers, and integer expressions over symbols.

In: numbers, symbols, and arithmetic on them.
Out: one normal form; comparisons that answer yes, no, or not provable.
Begin at `dims`, then `polynomials` (the normal form) and `proofs` (comparisons).
"""
