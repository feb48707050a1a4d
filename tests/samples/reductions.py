"""Reductions and running results: axes, kept axes, empty arrays, NaN."""

import numpy as np

import graphc.tensor as gt
from tests.samples.spec import ALL, FLOATS, INEXACT, REAL, a, call, sample

AXES = (
    call(a(2, 3)),
    call(a(2, 3), axis=-1),
    call(a(2, 3, 4), axis=(0, 2), keepdims=True),
    call(a(2, 3), axis=()),
    call(a()),
    call(a(3, values="holes"), keepdims=True),
)
EMPTY = (call(a(0, 3), axis=1), call(a(0, 3), axis=0), call(a(0, 3)))
ONE_AXIS = (
    call(a(2, 3)),
    call(a(2, 3), axis=-1),
    call(a(3, 4, values="ties"), axis=0, keepdims=True),
    call(a(14, values="special")),
    call(a(6, values="holes")),
    call(a(1, 3), axis=0),
    call(a(0, 3), axis=0),
    call(a(0, 3), axis=1),
)
RUNNING = (
    call(a(2, 3)),
    call(a(2, 3), axis=-1),
    call(a(3, 2), axis=0),
    call(a(0, 3), axis=0),
    call(a(6, values="holes")),
)
TYPED = (call(a(2, 3), dtype="float64"), call(a(2, 3), axis=0, dtype="int32"))
MASKED = (
    call(a(2, 3), where=np.array([True, False, True])),
    call(a(2, 3), axis=0, where=np.array([[True], [False]])),
)
STARTED = (call(a(2, 3), initial=2), call(a(0, 3), axis=0, initial=1))


def running(function):
    """NumPy's `accumulate`, which flattens the array if no axis is given."""

    def reference(x, axis=None):
        x = x.ravel() if axis is None else x
        return function.accumulate(x, axis=axis or 0)

    return reference


def log_sums(x, axis=None):
    x = x.ravel() if axis is None else x
    return np.logaddexp.accumulate(x, axis=axis or 0)


SAMPLES = [
    sample("sum", *AXES, *EMPTY, *MASKED, *STARTED, ulps=16),
    sample("sum", *TYPED, dtypes=REAL),
    sample("prod", *AXES, *EMPTY, *MASKED, *STARTED, ulps=16),
    sample("prod", *TYPED, dtypes=[t for t in REAL if t not in FLOATS]),
    sample("max", *AXES, *EMPTY),
    sample("max", *STARTED, dtypes=REAL),
    sample("min", *AXES, *EMPTY),
    sample("amax", call(a(2, 3), axis=0)),
    sample("amin", call(a(2, 3), axis=0)),
    sample("any", *AXES, *EMPTY, *MASKED),
    sample("all", *AXES, *EMPTY, *MASKED),
    sample("mean", *AXES, *EMPTY, *MASKED, ulps=16),
    sample("mean", call(a(2, 3), dtype="float64")),
    sample("var", *AXES, *EMPTY, *MASKED, call(a(2, 3), ddof=1), ulps=32),
    sample("std", *AXES, *EMPTY, call(a(2, 3), axis=1, ddof=1), ulps=32),
    sample("count_nonzero", *AXES[:3], EMPTY[0], call(a(3, values="ties"))),
    sample("argmax", *ONE_AXIS),
    sample("argmin", *ONE_AXIS),
    sample("ptp", *AXES[:3], *EMPTY, dtypes=[t for t in ALL if t != "bool"]),
    sample("cumsum", *RUNNING, ulps=16),
    sample("cumsum", *TYPED, dtypes=REAL),
    sample("cumsum", call(a(2, 3), dtype="bool"), dtypes=["float32", "complex64"]),
    sample("cumprod", *RUNNING, ulps=16),
    sample("cummax", *RUNNING, numpy=running(np.maximum), dtypes=REAL),
    sample("cummin", *RUNNING, numpy=running(np.minimum), dtypes=REAL),
    sample("cumlogsumexp", *RUNNING, numpy=log_sums, dtypes=FLOATS, ulps=16),
    sample("cumulative_sum", call(a(4)), call(a(2, 3), axis=1), ulps=16),
    sample("cumulative_sum", call(a(2, 3), axis=0, include_initial=True), ulps=16),
    sample("cumulative_prod", call(a(4)), call(a(2, 3), axis=1), ulps=16),
    sample("diff", call(a(2, 4)), call(a(4), n=2), call(a(0, 3), axis=0)),
    sample("diff", call(a(2, 4), axis=0, prepend=1, append=a(1, 4))),
    sample("ediff1d", call(a(4)), call(a(2, 3)), call(a(4), to_end=7, to_begin=[1, 2])),
    sample(
        "associative_scan",
        call(a(5)),
        call(a(3, 2)),
        ours=lambda x: gt.associative_scan(gt.multiply, x),
        numpy=lambda x: np.multiply.accumulate(x, axis=0),
        dtypes=INEXACT,
        ulps=16,
    ),
]
