"""Loops of Python that a trace has unrolled, as scans whose lengths are sizes.

In: graphs of a function at several sizes, in which loops are unrolled.
Out: one graph for all sizes, in which scans run the bodies.
Begin at `by_size`, then `folding`.
"""
