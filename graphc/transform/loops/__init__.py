"""Loops and branches: nodes that have graphs inside.

They join the functions of `graphc.tensor` when they are imported.
"""

from graphc.transform.loops import (
    associative,
    batches,
    blocks,
    branches,
    counted,
    gradient,
    scan,
    taps,
    tensor_array,
    while_loop,
)

LOOPS = (
    associative,
    batches,
    blocks,
    branches,
    counted,
    gradient,
    scan,
    taps,
    tensor_array,
    while_loop,
)
