"""Joins of empty arrays, run in a process of its own, since XLA aborts if it fails."""

import subprocess
import sys

PROGRAM = """
import numpy as np, graphc, graphc.tensor as gt
x, z = gt.vector("x"), gt.vector("z")
tail = gt.concatenate([x, z])[x.shape[0] :]
for dims in ("specialize", "pad"):
    f = graphc.function([x, z], tail, dims=dims)
    for n, m in ((2, 0), (0, 0), (0, 3)):
        found = f(np.ones(n, "float32"), np.arange(m, dtype="float32"))
        np.testing.assert_array_equal(found, np.arange(m))
"""


def test_what_is_left_of_joined_arrays_may_be_empty():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=300)
