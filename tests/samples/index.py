"""Reads and functional updates by every kind of index."""

import operator

import numpy as np

import graphc.tensor as gt
from tests.samples.spec import NUMBERS, a, call, i, sample

FULL = slice(None)
MASK = a(2, 3, dtype="bool")
ROWS = np.array([True, False])
YES = a(values="ones", dtype="bool")

INDICES = (
    1,
    -1,
    (1, 2),
    (FULL, -1),
    slice(1, None),
    (FULL, slice(None, None, -1)),
    (slice(None, None, 2), slice(2, 0, -1)),
    slice(5, 9),
    (None, 0, None),
    (Ellipsis, 1),
    (),
    [0, 1, 0],
    ([0, 1], [2, -1]),
    (FULL, [2, 0]),
    ([[0], [1]], [1, 2]),
    ROWS,
    MASK,
    (ROWS, 1),
    (FULL, i(2)),
    (FULL, i()),
    3,
    (0, 0, 0),
    (FULL, 5),
)


class Updates:
    """NumPy's in-place updates, applied to a copy."""

    def __init__(self, how):
        self.how = how

    def __call__(self, x, index, value):
        made = x.copy()
        if self.how == "set":
            made[index] = value
        else:
            getattr(np, self.how).at(made, index, np.asarray(value).astype(x.dtype))
        return made


def updates(how, ufunc, *calls, **options):
    """A sample of `x.at[index].how(value)`."""
    return sample(
        "updates_of",
        *calls,
        ours=lambda x, index, value: getattr(gt.updates_of(x)[index], how)(value),
        numpy=Updates(ufunc),
        **options,
    )


WRITES = (
    call(a(2, 3), 1, 2),
    call(a(2, 3), (FULL, slice(0, 2)), a(2, 2)),
    call(a(2, 3), (FULL, -1), a(2)),
    call(a(2, 3), ([1, 0], [2, 0]), a(2)),
    call(a(2, 3), (slice(None, None, -1), 0), a(2)),
    call(a(2, 3), MASK, 3),
    call(a(2, 3), ROWS, a(3)),
    call(a(2, 3), slice(0, 0), 1),
    call(a(), (), 2),
    call(a(), Ellipsis, a()),
    call(a(2, 3), True, a(2, 3)),
    call(a(2, 3), a(dtype="bool"), a(3)),
    call(a(2, 3), YES, a(1, 2, 3)),
    call(a(2, 3), (True, 0), a(3)),
    call(a(2, 3), (None, MASK), 3),
    call(a(2, 3), (FULL, False), 1),
    call(a(), True, a(1)),
)
REPEATED = call(a(3), [0, 0, 2], a(3))


def window(x, start):
    return x[start : start + 2]


def backwards(x, start):
    return x[start::-1], x[:start:-1], x[start - 3 : -3 : -2]


def any_step(x, step):
    """Slices with steps of either sign: 1 or -1, 3 or -3, and -3 to -1."""
    step = 1 - 2 * (step % 2)
    return x[::step], x[1 : -1 : 3 * step], x[:2:step], x[-1 :: step - 2]


# Masks of rank 0, which make an axis of one element or of none.
WHETHER = (
    *(True, False, (True, 0), (Ellipsis, True), (FULL, True, [0, 1]), (0, FULL, True)),
    *((None, True), (None, False, ROWS[:1]), (True, None, 0), (True, True)),
    *((None, ROWS), a(dtype="bool"), (a(dtype="bool"), 0), (FULL, a(dtype="bool"))),
    *((YES, None), (None, YES)),
)


SAMPLES = [
    sample(
        "getitem", *(call(a(2, 3), index) for index in INDICES), numpy=operator.getitem
    ),
    sample(
        "getitem",
        call(a(2, 3, 4), (0, FULL, [1, 2])),
        call(a(0, 3), FULL),
        call(a(2, 3, 4), ([0, 1], FULL, [1, 2])),
        call(a(), ()),
        call(a(), None),
        numpy=operator.getitem,
    ),
    sample("getitem", call(a(5, 3), i()), ours=window, numpy=window),
    sample("getitem", call(a(5, 3), i()), ours=backwards, numpy=backwards),
    sample("getitem", call(a(5, 3), i()), ours=any_step, numpy=any_step),
    sample(
        "getitem",
        *(call(a(2, 3), index) for index in WHETHER),
        call(a(), True),
        call(a(), (a(dtype="bool"), None)),
        numpy=operator.getitem,
    ),
    sample("take", call(a(2, 3), [0, -1]), call(a(2, 3), i(2, 2), axis=1)),
    sample("take", call(a(2, 3), [4, -5, 1], axis=1, mode="wrap")),
    sample("take", call(a(2, 3), [[4, -5], [1, 0]], mode="clip")),
    sample("take", call(a(2, 3), 2, axis=-1), call(a(3), [], axis=0), call(a(3), 7)),
    sample(
        "sliding_window_view",
        call(a(5), 3),
        call(a(3, 4), (2, 2)),
        call(a(3, 4), (2, 1), (-1, 1)),
        call(a(0, 2), 0, 0),
        call(a(2), 3),
        call(a(2, 2), 1),
        numpy=np.lib.stride_tricks.sliding_window_view,
        dtypes=["int8", "float64"],
    ),
    sample("take_along_axis", call(a(2, 3), i(2, 1), axis=1), call(a(2, 3), i(2))),
    sample("take", call(a(2, 3), [0], axis=2), call(a(), 0)),
    sample("take_along_axis", call(a(2, 3), i(2, 1), axis=2)),
    sample("take_along_axis", call(a(4, 3), i(1, 3), axis=0), call(a(3), i(4), -1)),
    updates("set", "set", *WRITES),
    updates("add", "add", *WRITES, REPEATED, dtypes=NUMBERS),
    updates("multiply", "multiply", *WRITES, REPEATED, dtypes=NUMBERS),
    updates("min", "minimum", *WRITES, REPEATED, dtypes=NUMBERS),
    updates("max", "maximum", *WRITES, REPEATED, dtypes=NUMBERS),
]
