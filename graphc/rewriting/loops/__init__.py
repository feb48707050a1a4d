"""Rules that look at loops: reductions moved into bodies, and what bodies recompute.

In: loops with their producers and consumers, and large temporaries.
Out: loops that do this work slice by slice.
Begin at `fuse_consumers`, then `find`, `fuse`, `tile` and `roll`.
"""
