"""Rules that look at loops: reductions moved into bodies, and what bodies recompute."""
