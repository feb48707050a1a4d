"""All modes of `pad`."""

import numpy as np

from tests.samples.spec import ALL, NUMBERS, a, call, sample

WIDTHS = (1, (0, 2), ((1, 2), (3, 0)), ((7, 9), (0, 1)), {-1: 2}, 0)
MIRRORS = ("edge", "reflect", "symmetric", "wrap")
STATISTICS = ("maximum", "minimum", "mean", "median")


def calls(mode, **options):
    """Calls with each of the widths for a matrix, and one for a row."""
    grid = [call(a(3, 4), width, mode, **options) for width in WIDTHS]
    return *grid, call(a(1, 3), (2, 1), mode, **options)


CROPS = (-1, (-1, 2), ((0, -2), (2, -3)), ((-3, 0), (0, 0)), -2, (-2, 0))


def cropping(x, widths, mode="constant", **options):
    """`numpy.pad`, with negative widths that crop, as in `jax.lax.pad`."""
    pairs = np.broadcast_to(widths, (x.ndim, 2))
    if mode != "constant":
        return np.pad(x, pairs, mode)
    wide = np.pad(x, np.maximum(pairs, 0), **options)
    crops = np.minimum(pairs, 0)
    if (wide.shape + crops.sum(1) < 0).any():
        raise ValueError("nothing is left")
    ends = zip(crops, wide.shape, strict=True)
    return wide[tuple(slice(-low, n + high) for (low, high), n in ends)]


SAMPLES = [
    sample("pad", *calls("constant"), call(a(), 1), call(a(0, 2), 1)),
    sample(
        "pad",
        *(call(a(3, 4), width) for width in CROPS),
        call(a(3), (-4, 5), constant_values=((1, 2),)),
        call(a(3, 4), -1, "edge"),
        numpy=cropping,
    ),
    sample("pad", *calls("constant", constant_values=3)),
    sample("pad", *calls("constant", constant_values=((1, 2), (3, 4)))),
    sample("pad", *(c for mode in MIRRORS for c in calls(mode))),
    sample(
        "pad",
        call(a(0, 2), 1, "edge"),
        call(a(2, 0), ((1, 1), (0, 0)), "wrap"),
        call(a(0), 0, "reflect"),
        call(a(3), 1, "no"),
        call(a(3), (1, 2, 3)),
    ),
    sample(
        "pad",
        *calls("reflect", reflect_type="odd"),
        *calls("symmetric", reflect_type="odd"),
        dtypes=NUMBERS,
    ),
    sample(
        "pad",
        *calls("linear_ramp"),
        *calls("linear_ramp", end_values=(3, 1)),
        dtypes=NUMBERS,
        ulps=32,
    ),
    sample(
        "pad", *(c for mode in STATISTICS for c in calls(mode)), dtypes=ALL[1:], ulps=16
    ),
    sample(
        "pad",
        *(c for mode in STATISTICS for c in calls(mode, stat_length=2)),
        *calls("mean", stat_length=((1, 9), (2, 1))),
        *(c for mode in STATISTICS for c in calls(mode, stat_length=-2)),
        *calls("maximum", stat_length=(0, 1)),
        dtypes=ALL[1:],
        ulps=16,
    ),
    sample(
        "pad", call(a(2), 1, "constant", end_values=3), call(a(2), np.array([1, 2]))
    ),
]
