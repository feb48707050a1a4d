"""Quantiles, means, correlations, integrals, groups, and functions that skip NaN."""

import numpy as np

import graphc.tensor as gt
from tests.samples.spec import (
    ALL,
    FLOATS,
    INEXACT,
    INTEGERS,
    REAL,
    a,
    call,
    i,
    sample,
)

METHODS = (
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "linear",
    "median_unbiased",
    "normal_unbiased",
    "lower",
    "higher",
    "midpoint",
    "nearest",
)
HALF = np.float16(0.5)
SHARES = np.array([0.0, 0.1, 0.25, 0.5, 1.0])
PLACES = (
    call(a(7), 0.3),
    call(a(3, 4), SHARES),
    call(a(3, 4), SHARES.reshape(1, 5), axis=0, keepdims=True),
    call(a(2, 3, 2), 0.8, axis=(0, -1), keepdims=True),
    call(a(4), 1),
    call(a(), 0.5),
    call(a(1), [0.2]),
    call(a(4), 1.5),
    call(a(4), 0.5, method="no"),
)
MIDDLES = (
    call(a(5)),
    call(a(3, 4)),
    call(a(3, 4), axis=0),
    call(a(2, 3, 2), axis=(0, 2), keepdims=True),
    call(a()),
    call(a(0, 3), axis=0),
    call(a(0, 3), axis=1),
    call(a(3, 5, values="holes"), axis=-1),
    call(a(3, 6, values="holes")),
)
MISSING = (
    call(a(4, 5, values="holes")),
    call(a(4, 5, values="holes"), axis=0),
    call(a(3, 2, 4, values="holes"), axis=(0, -1), keepdims=True),
    call(a()),
    call(a(3, values="holes"), keepdims=True),
)
NONE = (call(a(0, 3), axis=0), call(a(0)))
# Variances are real numbers, in the dtype that is asked for.
BROAD = ["int8", *INEXACT[1:]]  # NumPy rounds differences to float16 on the way
SPREADS = ("var", "std", "nanvar", "nanstd")
SPREAD_AS = (call(a(4), axis=0, dtype="complex128"),)
SPREAD_IN_32_BITS = (call(a(2, 3), dtype="complex64"),)
SPREAD = (call(a(4, 5, values="holes"), axis=1, ddof=1),)
TABLES = (
    call(a(2, 5)),
    call(a(5)),
    call(a(5, 2), rowvar=False),
    call(a(2, 4), a(2, 4)),
)
EDGES = np.array([-1.0, 0.0, 0.5, 0.5, 2.0])
WIDE = [t for t in INEXACT if t != "float16"]
EXACT = ["bool", *INTEGERS]
# NumPy computes these in float64 for any dtype.
DOUBLE = [*INTEGERS, "float64"]


def segments(combine, start):
    def reference(x, ids, count):
        out = np.full((count, *x.shape[1:]), start(x.dtype), x.dtype)
        inside = (ids >= 0) & (ids < count)
        combine.at(out, ids[inside], x[inside])
        return out

    return reference


def lowest(dtype):
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -np.inf


def highest(dtype):
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    return True if dtype.kind == "b" else np.inf


GROUPED = (
    call(a(4), i(4), 3),
    call(a(4, 2), i(4), 2),
    call(a(0, 2), i(0), 2),
    call(a(3), np.array([-1, 0, 5]), 2),
)


def mean_of(namespace, weights, **options):
    def function(x):
        return namespace.average(x, weights=weights, **options)

    return function


def averages():
    grid = np.arange(1.0, 13).reshape(3, 4)
    made = [
        (np.array([0.5, 1.0, 2.0]), {"axis": 0}),
        (grid, {}),
        (grid, {"axis": 1, "returned": True, "keepdims": True}),
        (np.arange(1, 5), {"axis": -1}),
        (grid.astype("float32"), {"axis": (0, 1), "returned": True}),
        (np.ones(3), {}),
    ]
    return [
        sample(
            "average",
            call(a(3, 4)),
            ours=mean_of(gt, w, **options),
            numpy=mean_of(np, w, **options),
            ulps=32,
        )
        for w, options in made
    ]


def counted(namespace, **options):
    return lambda x: namespace.histogram(x, **options)


def histograms():
    made = [
        {"bins": 4, "range": (-2, 2)},
        {"bins": 3, "range": (0.1, 0.7)},
        {"bins": EDGES},
        {"bins": np.array([-3, 0, 1, 2]), "density": True},
        {"bins": 5, "weights": np.arange(6) / 4, "range": (-1, 3)},
        {"bins": 0},
        {"bins": 3, "range": (2, 1)},
        {"bins": np.array([1, 0])},
    ]
    made_from_data = [{}, {"bins": 3}]
    numbers = call(a(6)), call(a(0)), call(a())
    return [
        *(
            sample(
                "histogram",
                call(a(6)),
                ours=counted(gt, **options),
                numpy=counted(np, **options),
                dtypes=REAL[1:],
            )
            for options in made
        ),
        *(
            sample(
                "histogram",
                *numbers,
                ours=counted(gt, **options),
                numpy=counted(np, **options),
                dtypes=[*INTEGERS, *FLOATS[1:]],
            )
            for options in made_from_data
        ),
    ]


SAMPLES = [
    *(
        sample(
            name,
            *PLACES[:4],
            ours=lambda x, q, m=method, f=getattr(gt, name), **o: f(
                x, q, method=m, **o
            ),
            numpy=lambda x, q, m=method, f=getattr(np, name), **o: f(
                x, q, method=m, **o
            ),
            dtypes=["int64", "float32", "float64"],
            ulps=32,
        )
        for name in ("quantile", "nanquantile")
        for method in METHODS
    ),
    sample("quantile", *PLACES, dtypes=[*INTEGERS, "float32", "float64", "complex64"]),
    sample("quantile", call(a(5), 0.5, method="lower"), dtypes=["bool"]),
    sample("quantile", call(a(5), 0.5), dtypes=["bool", "float16"]),
    sample(
        "quantile", call(a(3, 5, values="holes"), SHARES, axis=1), dtypes=FLOATS[1:]
    ),
    sample(
        "quantile",
        call(a(5), SHARES, weights=np.arange(1, 6), method="inverted_cdf"),
        call(a(5), 0.5, weights=np.arange(1, 6)),
        call(a(2, 3), 0.5, axis=1, weights=np.arange(1, 4), method="inverted_cdf"),
        dtypes=DOUBLE,
    ),
    sample(
        "percentile",
        call(a(7), 30),
        call(a(3, 4), [0, 50, 99.5], axis=1),
        call(a(4), 101),
        dtypes=["int64", "float32", "float64"],
    ),
    sample(
        "nanpercentile",
        call(a(3, 5, values="holes"), [0, 50, 99.5], axis=1),
        call(a(4), 101),
        dtypes=["int64", "float64"],
    ),
    sample("nanquantile", call(a(3, 5, values="holes"), 0.3, axis=1), dtypes=WIDE[:2]),
    sample("median", *MIDDLES, dtypes=ALL),
    sample("nanmedian", *MIDDLES, dtypes=REAL[1:]),
    sample(
        "average",
        call(a(3, 4)),
        call(a(3, 4), axis=0, returned=True),
        call(a(2, 3, 2), axis=(0, 2), keepdims=True),
        ulps=16,
    ),
    *averages(),
    sample("nansum", *MISSING, *NONE, call(a(3), dtype="complex64"), ulps=16),
    sample("nanprod", *MISSING, *NONE, ulps=16),
    sample("nanmean", *MISSING, *NONE, ulps=16),
    sample("nanvar", *MISSING, *SPREAD, *NONE, ulps=64),
    sample("nanstd", *MISSING, *SPREAD, *NONE, ulps=64),
    sample("nanmean", call(a(2, 3), dtype="int8"), dtypes=INTEGERS, ulps=16),
    *(
        sample(name, call(a(2, 3), dtype="int8"), dtypes=INEXACT)
        for name in ("nanmean", "nanvar", "nanstd")
    ),
    *(sample(n, *SPREAD_AS, dtypes=BROAD, ulps=64) for n in SPREADS),
    *(
        sample(n, *SPREAD_IN_32_BITS, dtypes=["float32", "complex64"], ulps=64)
        for n in SPREADS
    ),
    sample("nanmax", *MISSING, call(a(0)), dtypes=REAL),
    sample("nanmin", *MISSING, call(a(0)), dtypes=REAL),
    sample("nanargmax", call(a(2, 5)), call(a(2, 5), axis=1), call(a(0)), dtypes=REAL),
    sample(
        "nanargmin", call(a(2, 5)), call(a(2, 5), axis=1, keepdims=True), dtypes=REAL
    ),
    sample("nancumsum", *MISSING[:2], call(a()), ulps=16),
    sample("nancumprod", *MISSING[:2], call(a()), ulps=16),
    sample(
        "cov",
        *TABLES,
        call(a(2, 5), bias=True),
        call(a(2, 5), ddof=0),
        call(a(2, 4), fweights=np.arange(1, 5)),
        call(a(2, 2, 2)),
        call(a(2, 4), aweights=np.arange(1, 5) / 4),
        call(a(2, 4), ddof=0, fweights=np.arange(4), aweights=np.ones(4)),
        dtypes=DOUBLE,
        ulps=64,
    ),
    sample("cov", call(a(2, 5), dtype="float32"), dtypes=FLOATS[1:], ulps=64),
    sample("cov", call(a(2, 5), dtype="int64"), dtypes=DOUBLE),
    sample("corrcoef", *TABLES, dtypes=DOUBLE, ulps=64),
    sample(
        "trapezoid",
        call(a(3)),
        call(a(2, 4), axis=0),
        call(a(2, 4), dx=2),
        call(a(2, 3), np.array([0.0, 0.5, 2.0])),
        call(a(1)),
        call(a(0, 3), axis=0),
        call(a(2, 3), a(2, 3), axis=0),
        call(a()),
        ulps=16,
    ),
    sample(
        "digitize",
        call(a(2, 3), EDGES),
        call(a(2, 3), EDGES[::-1]),
        call(a(14, values="special"), EDGES, right=True),
        call(a(), EDGES),
        call(a(3), np.array([0, 2, 1])),
        call(a(3), a(4, values="ordered")),
        call(a(3), np.array([0j, 1])),
        call(a(3), np.ones((2, 2))),
    ),
    *histograms(),
    sample(
        "histogram_bin_edges",
        call(a(6), 3),
        call(a(0), 2, range=(0, 1)),
        dtypes=[*INTEGERS, *FLOATS[1:]],
    ),
    sample("segment_sum", *GROUPED, numpy=segments(np.add, lambda d: 0), ulps=16),
    sample("segment_prod", *GROUPED, numpy=segments(np.multiply, lambda d: 1), ulps=16),
    sample("segment_max", *GROUPED, numpy=segments(np.maximum, lowest), dtypes=REAL),
    sample("segment_min", *GROUPED, numpy=segments(np.minimum, highest), dtypes=REAL),
]
