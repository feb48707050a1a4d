"""Sorting, searching, selecting and counting; sizes that depend on data."""

import numpy as np

import graphc.tensor as gt
from tests.samples.spec import FLOATS, INTEGERS, REAL, a, call, i, sample

ORDERS = (
    call(a(2, 3)),
    call(a(6, values="ties")),
    call(a(2, 5, values="holes"), axis=0),
    call(a(14, values="special")),
    call(a(0, 3)),
    call(a(1)),
    call(a(2, 3), axis=None),
    call(a()),
)
MASKED = (call(a(2, 3, values="ties")), call(a(5)), call(a(0, 3)), call(a(2, 2, 2)))
ODD = np.array([True, False, True])
TABLE = a(6, values="ordered")


def stable(x, axis=-1):
    return np.argsort(x, axis=axis, kind="stable")


def descending(x, axis=-1):
    return np.flip(np.sort(x, axis=axis), axis=axis)


SAMPLES = [
    sample("sort", *ORDERS),
    sample(
        "sort",
        call(a(2, 3)),
        call(a(6, values="ties")),
        numpy=descending,
        ours=lambda x: gt.sort(x, descending=True),
    ),
    sample("argsort", *ORDERS[:-1], numpy=stable),
    sample(
        "searchsorted",
        call(TABLE, a(2, 3)),
        call(TABLE, a(), side="right"),
        call(TABLE, a(4, values="ordered")),
        call(a(0), a(3)),
        dtypes=REAL,
    ),
    sample("searchsorted", call(TABLE, 2), call(TABLE, 2.5), dtypes=FLOATS),
    sample("searchsorted", call(a(6, values="ordered"), a(3), side="middle")),
    sample("nonzero", *MASKED, call(a())),
    sample("flatnonzero", *MASKED),
    sample("argwhere", *MASKED),
    sample("where", call(a(2, 3, values="ties")), call(a(5, dtype="bool"))),
    sample(
        "compress",
        call(ODD, a(3)),
        call(ODD, a(2, 3), axis=1),
        call(ODD, a(4)),
        call(a(3, dtype="bool"), a(3, 2), axis=0),
    ),
    sample("extract", call(a(2, 3, dtype="bool"), a(2, 3)), call(ODD, a(3))),
    sample(
        "bincount",
        call(a(6, values="small")),
        call(a(0, values="small")),
        call(a(6, values="small"), minlength=7),
        dtypes=INTEGERS,
    ),
    sample("bincount", call(i(4), a(4)), call(i(4), a(4), minlength=2), dtypes=REAL),
]
