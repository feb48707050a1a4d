"""Functions that rearrange and edit arrays, and that make grids."""

import numpy as np

import graphc.tensor as gt
from tests import newest_numpy as newest
from tests.samples.spec import FLOATS, INTEGERS, a, call, i, sample

SHAPES = (call(a()), call(a(3)), call(a(2, 3)), call(a(0, 2)), call(a(2, 1, 3)))
MATRICES = (call(a(2, 3)), call(a(3, 1, 2)), call(a(0, 2)))
PAIRS = (
    call([a(3), a(3)]),
    call([a(2, 3), a(2, 3)]),
    call([a(), a()]),
    call([a(0, 3), a(0, 3), a(0, 3)]),
    call([a(2, 3, 1)]),
    call([a(2, 3), a(3)]),
)
FEW = "bool int32 uint8 float16 float64 complex64".split()
ODD = np.array([True, False, True])


def both(name, function, *calls, **options):
    """A sample of `function(namespace, *arguments)` on both sides."""
    return sample(
        name,
        *calls,
        ours=lambda *x: function(gt, *x),
        numpy=lambda *x: function(newest.numpy, *x),
        **({"dtypes": FEW} | options),
    )


def quarter_turns(namespace, x):
    return [namespace.rot90(x, k) for k in range(-2, 5)]


def filled(namespace, x, val, wrap=False):
    if namespace is gt:
        return gt.fill_diagonal(x, val, wrap)
    copy = x.copy()
    np.fill_diagonal(copy, val, wrap)
    return copy


def window(name, *more):
    """A sample of a window as long as the argument; our weights are float32."""

    def called(namespace, x):
        return getattr(namespace, name)(x.shape[0], *more).astype("float32") + 1

    lengths = [call(a(n)) for n in (0, 1, 2, 7)]
    return both(name, called, *lengths, dtypes=["float32"], ulps=32)


def wide(result):
    """Cast NumPy's float64, made from Python numbers, to our default float."""
    return result.astype("float32")


def grids(namespace, x):
    made = [*namespace.meshgrid(x, x[..., :1], 7)]
    made += namespace.meshgrid(x, [1, 2], indexing="ij", sparse=True)
    return made


SAMPLES = [
    sample("atleast_1d", *SHAPES, dtypes=FEW),
    sample("atleast_2d", *SHAPES, dtypes=FEW),
    sample("atleast_3d", *SHAPES, dtypes=FEW),
    both("atleast_2d", lambda n, x: n.atleast_2d(x, 3), call(a(3))),
    both(
        "broadcast_arrays",
        lambda n, x, y: n.broadcast_arrays(x, y),
        call(a(2, 1), a(3)),
        call(a(), a(0, 3)),
        call(a(2), a(3)),
    ),
    sample("hstack", *PAIRS, dtypes=FEW),
    sample("vstack", *PAIRS, dtypes=FEW),
    sample("dstack", *PAIRS, dtypes=FEW),
    sample("column_stack", *PAIRS, dtypes=FEW),
    sample(
        "array_split",
        call(a(5), 3),
        call(a(2, 7), 4, axis=-1),
        call(a(3), 0),
        call(a(0, 2), 2),
        call(a(4), [1, 3]),
        call(a(), 2),
        dtypes=FEW,
    ),
    sample("hsplit", call(a(4), [1]), call(a(2, 4), [2, 3]), call(a(), 2), dtypes=FEW),
    sample("vsplit", call(a(4, 2), [3]), call(a(4), 2), dtypes=FEW),
    sample("dsplit", call(a(2, 1, 4), [1, 2]), call(a(2, 4), 2), dtypes=FEW),
    sample(
        "rot90",
        *MATRICES,
        call(a(2, 1, 3), 1, (2, 0)),
        call(a(3)),
        call(a(2, 3), 1, (1, 1)),
        dtypes=FEW,
    ),
    both("rot90", quarter_turns, call(a(2, 3)), call(a(1, 0))),
    sample("flipud", *SHAPES, dtypes=FEW),
    sample("fliplr", *SHAPES, dtypes=FEW),
    both("block", lambda n, x: n.block([[x, x], [x, x]]), *SHAPES),
    both("block", lambda n, x: n.block([x, x]), *SHAPES),
    both("block", lambda n, x: n.block(x), *SHAPES),
    sample(
        "diagonal",
        *MATRICES,
        call(a(3, 4), 1),
        call(a(3, 4), -9),
        call(a(2, 3, 2), -1, 2, 0),
        call(a(3)),
        call(a(2, 2), 0, 1, 1),
        dtypes=FEW,
    ),
    sample(
        "diag",
        call(a(3)),
        call(a(3), 1),
        call(a(3), -2),
        call(a(0)),
        call(a(3, 4), 1),
        call(a(2, 1, 2)),
        call(a()),
        dtypes=FEW,
    ),
    sample("diagflat", call(a(2, 2)), call(a(), 1), call(a(3), -1), dtypes=FEW),
    sample(
        "delete",
        call(a(4), 1),
        call(a(4), -1),
        call(a(2, 3), 1, axis=-1),
        call(a(2, 3), 4),
        call(a(4), 4),
        call(a(4), -5),
        call(a(0), 0),
        call(a(4), [0, 2]),
        call(a(4), [-1, 0, -1]),
        call(a(4), []),
        call(a(4), [-2, -3]),
        call(a(4), [4, 5]),
        call(a(5, 2), slice(None, None, 2), axis=0),
        call(a(4), slice(3, 0, -1)),
        call(a(4), slice(3, 1)),
        call(a(3, 2), ODD, axis=0),
        dtypes=FEW,
    ),
    sample(
        "delete",
        call(a(4), i(2)),
        call(a(2, 4), i(3, values="steps"), axis=1),
        dtypes=FEW,
    ),
    sample(
        "insert",
        call(a(4), 1, 3),
        call(a(4), -1, 3),
        call(a(4), 4, 3),
        call(a(4), 5, 3),
        call(a(2, 3), 2, a(4)),
        call(a(2, 3), 1, a(2), axis=1),
        call(a(2, 3), [1], a(2, 1), axis=1),
        call(a(2, 3), 1, 5, axis=0),
        call(a(2, 3), [2, 0, 2], a(2, 3), axis=1),
        call(a(4), [1, -1], [5, 6]),
        call(a(4), slice(None, 2), 7),
        call(a(3), ODD, 4),
        call(a(4), [], 4),
        call(a(0), 0, 1),
        dtypes=FEW,
    ),
    sample(
        "insert", call(a(4), i(3), a(3)), call(a(3, 2), i(2), 1, axis=0), dtypes=FEW
    ),
    sample(
        "append",
        call(a(3), a(2, 2)),
        call(a(2, 3), a(1, 3), axis=0),
        call(a(2, 3), 5),
        call(a(2, 3), a(3), axis=0),
        call(a(0), a(2)),
        dtypes=FEW,
    ),
    sample(
        "resize",
        call(a(2, 3), (3, 5)),
        call(a(2, 3), 4),
        call(a(0), (2, 2)),
        call(a(3), (0, 2)),
        call(a(), (2,)),
        call(a(3), (-1, 2)),
        dtypes=FEW,
    ),
    both(
        "fill_diagonal",
        filled,
        call(a(3, 4), 2),
        call(a(4, 2), a(3)),
        call(a(3), 1),
        call(a(2, 2, 2), 3),
        call(a(0, 3), 1),
        call(a(7, 2), 5, True),
        call(a(7, 2), a(3), True),
        call(a(2, 3, 2), 1),
    ),
    both("meshgrid", grids, call(a(3)), call(a(1)), call(a(0)), call(a(2, 2))),
    both("indices", lambda n, x: n.indices(x.shape), *SHAPES, dtypes=["int64"]),
    both(
        "indices",
        lambda n, x: n.indices(x.shape, "int32", True),
        *SHAPES[1:],
        dtypes=["int64"],
    ),
    both(
        "fromfunction",
        lambda n, x: n.fromfunction(lambda k, m: k - 2 * m, x.shape, dtype="int64"),
        call(a(2, 3)),
        call(a(0, 2)),
        dtypes=["int64"],
    ),
    sample(
        "vander",
        call(a(3)),
        call(a(3), 2),
        call(a(3), N=5, increasing=True),
        call(a(0)),
        call(a(2, 2)),
        dtypes=["bool", *INTEGERS, "float64"],
        ulps=32,
    ),
    window("hamming"),
    window("hanning"),
    window("blackman"),
    window("bartlett"),
    window("kaiser", 8.5),
    sample(
        "linspace",
        call(a(), a(), 5),
        call(a(2), a(3, 1), 4, axis=1),
        call(a(2), 3.0, 4, endpoint=False),
        call(a(), a(), 3, retstep=True),
        call(a(3), a(3), 0),
        call(a(), a(), -1),
        call(a(), 9, 5, dtype="int32"),
        dtypes=["int64", "float32", "float64", "complex64"],
    ),
    both(
        "linspace",
        lambda n, x: wide(n.linspace(-1, 2, x.shape[0])),
        call(a(4)),
        call(a(1)),
        call(a(0)),
        dtypes=["float32"],
    ),
    sample(
        "logspace",
        call(a(), a(), 5),
        call(a(2), 3.0, 4, base=2.0, axis=-1),
        dtypes=FLOATS[1:],
        ulps=64,
    ),
    sample(
        "geomspace",
        call(a(values="positive"), a(2, values="positive"), 4),
        call(a(2, values="positive"), 9.0, 3, endpoint=False, axis=1),
        dtypes=["float64"],
        ulps=64,
    ),
    both(
        "unstack",
        lambda n, x: n.unstack(n.ones((3, 2), "int8") * x),
        call(a()),
        call(a(2)),
    ),
]
