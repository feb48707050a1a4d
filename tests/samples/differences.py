"""Derivatives of samples, and angles without jumps."""

import numpy as np

from tests.samples.spec import NUMBERS, a, call, sample

POINTS = np.array([0.0, 0.5, 2.0, 2.5])

SAMPLES = [
    sample("gradient", call(a(3, 4)), call(a(5)), call(a(1)), ulps=32),
    sample(
        "gradient",
        call(a(4), 0.5),
        call(a(3, 4), axis=0),
        call(a(3, 4), 2, POINTS),
        call(a(4), POINTS, edge_order=2),
        call(a(2, 4, 3), POINTS, axis=1),
        call(a(3, 4), 0.5, 0.25, axis=(1, 0), edge_order=2),
        call(a(3), 2, edge_order=3),
        call(a(2), edge_order=2),
        call(a(3, 4), 1, 2, 3),
        call(a(3), POINTS),
        call(a(3), np.ones((3, 3))),
        dtypes=["int32", "float32", "float64"],
        ulps=64,
    ),
    sample("unwrap", call(a(2, 6)), dtypes=NUMBERS, ulps=64),
    sample(
        "unwrap",
        call(a(6), period=3),
        call(a(6), period=4),
        call(a(6, 2), axis=0, period=2),
        call(a(6), 2.5, period=3),
        call(a(0)),
        call(a(2, 6), 5),
        call(a()),
        dtypes=["int32", "float32", "float64"],
        ulps=64,
    ),
]
