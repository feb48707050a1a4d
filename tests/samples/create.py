"""Arrays from sizes and numbers, and facts about dtypes that need no array."""

import numpy as np

import graphc.tensor as gt
from tests.samples.spec import a, call, sample

F32 = ("float32",)
SIZES = (call(3), call((2, 3)), call(()), call((0, 2)))


def typed(function):
    """NumPy's function with our default dtype."""
    return lambda *args, dtype="float32", **more: function(*args, dtype=dtype, **more)


SAMPLES = [
    sample("full", call((2, 3), 2, "int8"), call(3, True), dtypes=F32),
    sample("full", call((2, 0), 1.5, dtype="float64"), call((), 1, "int8"), dtypes=F32),
    sample("full", call((2, 3), a(3)), call(2, a())),
    sample("full_like", call(a(2, 3), 1), call(a(0, 3), 2, dtype="float64")),
    sample("zeros", *SIZES, call(2, dtype="int8"), numpy=typed(np.zeros), dtypes=F32),
    sample("ones", *SIZES, call(2, dtype="bool"), numpy=typed(np.ones), dtypes=F32),
    sample("empty", *SIZES, numpy=typed(np.zeros), dtypes=F32),
    sample("zeros_like", call(a(2, 3)), call(a(), dtype="int32")),
    sample("ones_like", call(a(2, 3)), call(a(2, 3), dtype="bool")),
    sample("empty_like", call(a(2, 3)), numpy=np.zeros_like),
    sample("arange", call(5), call(2, 7), call(7, 2, -2), call(1, 8, 3), dtypes=F32),
    sample("arange", call(0), call(5, 2), call(3, dtype="int8"), dtypes=F32),
    sample("arange", call(5, dtype="float64"), call(1, 9, 4, "int32"), dtypes=F32),
    sample(
        "arange",
        call(0.5, 3.0),
        call(1.0, 0.0, -0.25),
        call(2.0),
        numpy=typed(np.arange),
        dtypes=F32,
    ),
    sample(
        "eye",
        call(3),
        call(2, 3),
        call(3, 2, 1),
        call(3, k=-1),
        call(0),
        numpy=typed(np.eye),
        dtypes=F32,
    ),
    sample("identity", call(3), call(0), numpy=typed(np.identity), dtypes=F32),
    sample(
        "tri",
        call(3),
        call(2, 4),
        call(3, 3, 1),
        call(3, k=-1),
        numpy=typed(np.tri),
        dtypes=F32,
    ),
    sample(
        "tril", call(a(3, 4)), call(a(3, 4), 1), call(a(2, 3, 3), -1), call(a(0, 3))
    ),
    sample("triu", call(a(3, 4)), call(a(3, 4), 1), call(a(2, 3, 3), -1)),
    sample("asarray", call(a(2, 3)), call([a(3), a(3)]), call([[1, 2], [3, 4]])),
    sample("array", call([a(), a()]), call(a(2, 3), dtype="float64")),
    sample("constant", call([1.5, 2.5], "float32"), numpy=np.array, dtypes=F32),
    sample("from_dlpack", call(np.arange(3.0)), dtypes=F32),
    sample(
        "result_type",
        call("int8", "uint8"),
        call("float16", "int32"),
        call("bool", "int64"),
        call("complex64", "float64"),
        ours=lambda *types: gt.zeros((), gt.result_type(*types)),
        numpy=lambda *types: np.zeros((), np.result_type(*types)),
        dtypes=F32,
    ),
    sample(
        "can_cast",
        call("int8", "int64"),
        call("float64", "int8"),
        call("int64", "float32", "same_kind"),
        dtypes=F32,
    ),
    sample(
        "isdtype",
        call(np.dtype("int8"), "integral"),
        call(np.dtype("int8"), "bool"),
        call(np.dtype("float32"), ("bool", "complex floating")),
        dtypes=F32,
    ),
    sample(
        "finfo",
        call("float32"),
        call("float64"),
        call("complex64"),
        ours=lambda t: gt.finfo(t).eps,
        numpy=lambda t: np.finfo(t).eps,
        dtypes=F32,
    ),
    sample(
        "iinfo",
        call("int8"),
        call("uint32"),
        call("int64"),
        ours=lambda t: gt.iinfo(t).max,
        numpy=lambda t: np.iinfo(t).max,
        dtypes=F32,
    ),
]
