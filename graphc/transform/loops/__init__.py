"""Loops and branches: nodes that have graphs inside.

These modules join the functions of `graphc.tensor` when they are imported.

In: a user's functions of one step or one branch; nodes of loops in a graph.
Out: nodes of `graphc.control`, their gradients and batches.
Begin at `scan_api`, then `gradient` and `doubling`.
"""

from graphc.control import scan, switch, tiled_loop
from graphc.transform.loops import (
    associative,
    batching,
    cond,
    counted_loops,
    gradient,
    scan_api,
    switch_rules,
    taps,
    tensor_array,
    while_loop,
)

LOOPS = (
    associative,
    batching,
    cond,
    counted_loops,
    gradient,
    scan,
    scan_api,
    switch,
    switch_rules,
    taps,
    tensor_array,
    tiled_loop,
    while_loop,
)
