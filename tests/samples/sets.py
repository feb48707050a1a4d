"""Sets of elements, sorting by several keys, and partial sorting."""

import numpy as np

import graphc.tensor as gt
from tests.samples.spec import ALL, NUMBERS, REAL, a, call, i, sample

ONE = (
    call(a(3, 4, values="ties")),
    call(a(6, values="holes")),
    call(a(9, values="special")),
    call(a()),
    call(a(0, 3)),
    call(a(1)),
)
TWO = (
    call(a(5, values="ties"), a(2, 3, values="small")),
    call(a(6, values="holes"), a(4, values="holes")),
    call(a(0), a(3)),
    call(a(3), a(0)),
    call(a(), a(20, values="ties")),
    call(a(40, values="small"), a(20, values="ties")),
)
KEPT = {"return_index": True, "return_inverse": True, "return_counts": True}
ROWS = (
    call(a(4, 2, values="ties"), axis=0, **KEPT),
    call(a(2, 5, values="ties"), axis=-1, return_inverse=True),
    call(a(3, 2, 2, values="ties"), axis=1, return_counts=True),
    call(a(0, 2), axis=0),
    call(a(2, 0), axis=0),
    call(a(4, values="ties"), axis=0, **KEPT),
    call(a(3), axis=1),
)


def sorted_values(x):
    return np.sort(np.unique_values(x))


def ordered(function, **options):
    """A full sort: our partitions sort what NumPy leaves in any order."""
    return lambda x, kth, axis=-1: function(x, axis=axis, **options)


def largest(x, k, axis=-1):
    """The `k` largest in descending order; of equal ones the first comes first."""
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(k)
    keys = -x.astype("float64") if x.dtype.kind == "f" else ~x
    order = np.argsort(keys, axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis)
    return np.take_along_axis(x, order, axis), order


def written(x, indices, values, axis):
    copy = x.copy()
    np.put_along_axis(copy, indices, values, axis)
    return copy


def keys_of(namespace):
    return lambda x, y, **options: namespace.lexsort((x, y), **options)


SAMPLES = [
    sample("unique", *ONE, dtypes=ALL),
    sample("unique", *(call(*c.args, **KEPT) for c in ONE), dtypes=ALL),
    sample("unique", call(a(6, values="holes"), equal_nan=False, **KEPT), dtypes=ALL),
    sample("unique", *ROWS, dtypes=REAL),
    sample("unique_all", *ONE),
    sample("unique_counts", *ONE),
    sample("unique_inverse", *ONE),
    sample("unique_values", *ONE, numpy=sorted_values),
    sample("union1d", *TWO),
    sample("intersect1d", *TWO),
    sample("intersect1d", *(call(*c.args, return_indices=True) for c in TWO)),
    sample("setdiff1d", *TWO),
    sample("setdiff1d", call(a(3, values="steps"), a(2), assume_unique=True)),
    sample("setxor1d", *TWO),
    sample("isin", *TWO, call(a(2, 3), [1, 2]), call(a(3), a(2), invert=True)),
    sample(
        "lexsort",
        call(a(2, 5, values="ties"), a(2, 5, values="small")),
        call(a(3, 2, values="ties"), a(3, 2, values="holes"), axis=0),
        call(a(0), a(0)),
        call(a(2), a(3)),
        ours=keys_of(gt),
        numpy=keys_of(np),
        dtypes=REAL,
    ),
    sample(
        "partition",
        call(a(5), 2),
        call(a(2, 5), -1),
        call(a(3, 2), 0, axis=0),
        call(a(2, 3), 4, axis=None),
        numpy=ordered(np.sort),
    ),
    sample(
        "argpartition",
        call(a(5, values="ties"), 2),
        call(a(3, 2), 0, axis=0),
        numpy=ordered(np.argsort, kind="stable"),
    ),
    sample(
        "top_k",
        call(a(2, 5, values="ties"), 3),
        call(a(4, 2), 2, axis=0),
        call(a(3), 0),
        call(a(3), 3),
        call(a(3), 4),
        numpy=largest,
        dtypes=REAL,
    ),
    sample(
        "put_along_axis",
        call(a(2, 3), i(2, 2), a(2, 2), 1),
        call(a(3), i(3), 7, -1),
        call(a(3, 2), i(1, 2), 1, 0),
        call(a(2, 2), i(3), a(3), None),
        call(a(2, 2), i(2, 1), a(2, 1), None),
        call(a(2, 3), i(2), 1, 1),
        numpy=written,
        dtypes=NUMBERS,
    ),
]
