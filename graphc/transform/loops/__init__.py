"""Loops and branches: nodes that have graphs inside.

They join the functions of `graphc.tensor` when they are imported.
"""

from graphc.transform.loops import (
    batches,
    branches,
    counted,
    gradient,
    scan,
    taps,
    while_loop,
)

LOOPS = (batches, branches, counted, gradient, scan, taps, while_loop)
