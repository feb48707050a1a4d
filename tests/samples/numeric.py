"""Elementwise functions other than ufuncs: parts, closeness, choices, lines."""

import numpy as np

import graphc.tensor as gt
from tests.samples.spec import (
    FLOATS,
    INEXACT,
    INTEGERS,
    NUMBERS,
    REAL,
    a,
    call,
    i,
    sample,
)

ONE = (
    call(a()),
    call(a(0, 3)),
    call(a(1)),
    call(a(2, 3)),
    call(a(14, values="special")),
)
NEAR = (
    call(a(2, 3), a(3)),
    call(a(14, 1, values="special"), a(14, values="special")),
    call(a(12, 12, values="special"), a(12, 12, values="across")),
    call(a(3), 1.5),
    call(a(0, 3), a(3)),
    call(a(3), a(3), 0.5, 0.25),
)


def conditions(x):
    return [x > 2, x > 0]


def select(namespace):
    return lambda x: namespace.select(conditions(x), [x, x * 2], 9)


def piecewise(namespace):
    return lambda x: namespace.piecewise(x, conditions(x), [lambda v: -v, abs, 3])


def points(namespace, **options):
    """Interpolate between fixed points: NumPy in float64, ours in the given dtype."""
    knots, heights = np.array([-2.0, 0.0, 0.5, 3.0]), np.array([1.0, -1.0, 4.0, 0.5])

    def function(x):
        return namespace.interp(x, knots, heights, **options)

    return function


def interps():
    made = [{}, {"left": -9.0, "right": 9.0}, {"period": 4}]
    return [
        sample(
            "interp",
            *ONE,
            ours=points(gt, **options),
            numpy=points(np, **options),
            dtypes=(*INTEGERS, "float64"),
        )
        for options in made
    ]


def chosen(namespace, **options):
    return lambda index, x: namespace.choose(index, [x, x * 2, -x], **options)


SAMPLES = [
    sample("real", *ONE),
    sample("imag", *ONE),
    sample("interp", call(a(3), np.array([0j, 1]), [1.0, 2.0]), dtypes=["float64"]),
    sample("angle", *ONE),
    sample("angle", call(a(2, 3), deg=True)),
    sample("frexp", *ONE),
    sample("modf", *ONE),
    sample("fix", *ONE),
    sample("fabs", *ONE),
    sample("spacing", *ONE),
    sample("float_power", call(a(2, 3, values="positive"), a(3)), call(a(3), 2)),
    sample("ldexp", call(a(2, 3), i(3)), call(a(14, values="special"), -2)),
    sample("ldexp", call(a(3), 0.5)),
    sample("isposinf", *ONE, dtypes=REAL),
    sample("isneginf", *ONE, dtypes=REAL),
    sample("isreal", *ONE),
    sample("iscomplex", *ONE),
    sample("nan_to_num", *ONE),
    sample("nan_to_num", call(a(14, values="special"), nan=7, posinf=8, neginf=-8)),
    sample("isclose", *NEAR),
    sample(
        "isclose",
        call(a(12, values="special"), a(12, values="special"), equal_nan=True),
        dtypes=INEXACT,
    ),
    sample("allclose", *NEAR),
    sample(
        "array_equal",
        call(a(2, 3), a(2, 3)),
        call(a(2, 3), a(3, 2)),
        call(a(3), a(1, 3)),
        call(a(0, 2), a(0, 2)),
        call(a(), a()),
    ),
    sample("stop_gradient", *ONE, numpy=lambda x: x),
    sample("sinc", *ONE, ulps=32),
    sample("i0", call(a(2, 3)), call(a()), call(a(0, 3)), dtypes=FLOATS[1:], ulps=64),
    sample("bitwise_count", *ONE),
    sample(
        "bits_as",
        *(call(a(*shape), "int32") for shape in ((2, 3), (0, 2), ())),
        numpy=lambda x, dtype: x.view(dtype),
        dtypes=["float32", "uint32"],
    ),
    sample("select", *ONE, ours=select(gt), numpy=select(np), dtypes=NUMBERS),
    sample("piecewise", *ONE, ours=piecewise(gt), numpy=piecewise(np), dtypes=NUMBERS),
    *interps(),
    sample(
        "choose",
        call(i(2, 3), a(3)),
        call(i(), a(2)),
        call(i(0), a(1)),
        ours=chosen(gt),
        numpy=chosen(np),
        dtypes=NUMBERS,
    ),
    sample(
        "choose",
        call(a(2, 3, values="steps"), a(3)),
        ours=chosen(gt, mode="wrap"),
        numpy=chosen(np, mode="wrap"),
        dtypes=INTEGERS,
    ),
    sample(
        "choose",
        call(a(6, values="mixed"), a(6)),
        ours=chosen(gt, mode="clip"),
        numpy=chosen(np, mode="clip"),
        dtypes=INTEGERS,
    ),
]
