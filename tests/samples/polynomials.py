"""Values and products of polynomials, and convolutions of vectors."""

from tests.samples.spec import a, call, sample

MODES = ("full", "same", "valid")
ODD = tuple(call(a(5), a(3), mode) for mode in MODES)
EVEN = tuple(call(a(2), a(4, values="small"), mode) for mode in MODES)
ENDS = (
    call(a(1), a(1)),
    call(a(3), a()),
    call(a(3), 2),
    call(a(0), a(2)),
    call(a(2), a(0)),
    call(a(2, 2), a(2)),
    call(a(3), a(2), mode="other"),
)
SAMPLES = [
    sample("convolve", *ODD[:2], *ENDS, ulps=64),
    sample("convolve", ODD[2], *EVEN, dtypes=["int8", "float64"], ulps=64),
    sample("correlate", *ODD[:2], *ENDS, ulps=64),
    sample("correlate", ODD[2], *EVEN, dtypes=["int8", "float64"], ulps=64),
    sample("polyval", call(a(3), a(2, 2)), ulps=64),
    sample(
        "polyval",
        call(a(3), a()),
        call(a(0), a(2)),
        call(a(2, 3), a(3)),
        call([1, 2, 3], a(2)),
        call(a(), a(2)),
        dtypes=["int8", "float64"],
        ulps=64,
    ),
    sample("polyfit", call(a(5), a(5), 2), dtypes=["int64", "float64"], ulps=4096),
    sample(
        "polyfit",
        call(a(5), a(5, 2), 1, w=a(5), cov=True),
        call(a(4), a(4), 1, cov="unscaled"),
        call(a(3), a(3), 0),
        call(a(3, 2), a(3), 1),
        dtypes=["float64"],
        ulps=4096,
    ),
    sample("polyadd", call(a(3), a(2)), call(a(0), a(2)), call(a(2), a())),
    sample("polysub", call(a(2), a(3)), call(a(2, 2), a(3))),
]
