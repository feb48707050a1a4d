"""Loops over tiles and chunks, so that large values are never whole.

In: reductions of large temporaries, and scans that stack more than is needed.
Out: a loop over tiles, or nested loops over chunks of iterations.
Begin at `reductions`, then `tile_consumers` and `strip_mine`.
"""
