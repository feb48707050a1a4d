"""Rearranging, joining, cutting and repeating, which compute nothing."""

import numpy as np

import graphc.tensor as gt
from tests.samples.spec import a, call, sample

ONE = (call(a()), call(a(0, 3)), call(a(1)), call(a(2, 3)))
PAIR = (call([a(2, 3), a(2, 3)]), call([a(3), a(3)]), call([a(0, 3), a(2, 3)]))


def method_reshape(x, *shape):
    return x.reshape(*shape)


SAMPLES = [
    sample(
        "reshape",
        call(a(2, 3), (3, 2)),
        call(a(2, 3), -1),
        call(a(2, 3), (-1, 3, 1)),
        call(a(0, 3), (3, 0)),
        call(a(0, 3), (-1, 3)),
        call(a(), (1, 1)),
        call(a(2, 3), (4, 2)),
        call(a(2, 3), (-1, 4)),
    ),
    sample("reshape", call(a(2, 3), 3, 2), ours=method_reshape, numpy=method_reshape),
    sample("ravel", *ONE),
    sample("flatten", *ONE, numpy=np.ravel),
    sample("transpose", *ONE, call(a(2, 3, 4), (2, 0, -2)), call(a(2, 3), (0, 0))),
    sample("permute_dims", call(a(2, 3, 4), (1, 2, 0))),
    sample("matrix_transpose", call(a(2, 3)), call(a(2, 3, 4)), call(a(3))),
    sample("swapaxes", call(a(2, 3, 4), 0, -1), call(a(2, 3), 0, 2)),
    sample("moveaxis", call(a(2, 3, 4), 0, -1), call(a(2, 3, 4), [0, 1], [-1, 0])),
    sample("expand_dims", call(a(2, 3), -1), call(a(3), (0, 2)), call(a(), 0)),
    sample("expand_dims", call(a(2, 3), 5)),
    sample("squeeze", call(a(1, 3, 1), axis=(0, -1)), call(a(2, 3), axis=0)),
    sample("broadcast_to", call(a(3), (2, 3)), call(a(), (0,)), call(a(3), (2, 4))),
    sample("broadcast_to", call(a(2, 1), (3, 2, 4)), static=True),
    sample("specify_shape", call(a(2, 3), (2, None)), numpy=lambda x, shape: x),
    sample("flip", *ONE, call(a(2, 3), axis=-1), call(a(2, 3), axis=(0, 1))),
    sample("roll", call(a(2, 3), 1), call(a(2, 3), -2, axis=1), call(a(0, 3), 1)),
    sample("roll", call(a(2, 3), 7, axis=0), call(a(4), 3)),
    sample("concatenate", *PAIR, call([a(2, 3), a(2, 1)], axis=-1)),
    sample("concatenate", call([a(2, 3), a()], axis=None), call([a(), a()])),
    sample("concatenate", call([a(3), a(2, dtype="int64")]), call([a(3), a(2, 3)])),
    sample("concat", *PAIR),
    sample("stack", *PAIR[:2], call([a(), a()]), call([a(2, 3)] * 3, axis=-1)),
    sample("stack", call([a(3), a(2)]), call([a(3), a(3, dtype="float64")], axis=1)),
    sample("split", call(a(5), [1, 3]), call(a(3, 5), [3, 1, 9], axis=1)),
    sample(
        "split", call(a(4, 3), 2), call(a(2, 6), 3, axis=-1), call(a(5), 2), static=True
    ),
    sample("tile", call(a(2, 3), 2), call(a(3), (2, 1, 2)), call(a(2, 3), (0, 1))),
    sample("repeat", call(a(2, 3), 2), call(a(2, 3), 2, axis=-1), call(a(3), 0)),
    sample("repeat", call(a(3), [0, 2, 1]), call(a(2, 3), [2, 0], axis=0)),
    sample("repeat", call(a(3), [2]), call(a(2, 3), np.array([0]), axis=1)),
    sample("repeat", call(a(2, 3), [1]), call(a(1, 3), [2], axis=0), call(a(), [3])),
    sample("shape", *ONE),
    sample("size", *ONE, call(a(2, 3), 1), call(a(2, 3), (0, -1)), call(a(2, 3), 2)),
    sample("ndim", *ONE),
    sample("known", *ONE, ours=lambda x: gt.known(gt.size(x)), numpy=np.size),
    sample(
        "same_size",
        *ONE,
        ours=lambda x: gt.same_size(2 * gt.size(x), gt.size(x) + gt.size(x)),
        numpy=lambda x: True,
    ),
    sample(
        "size_value",
        call(a(2, 3)),
        ours=lambda x: x.shape[0] * 2 + x.size,
        numpy=lambda x: np.asarray(x.shape[0] * 2 + x.size),
    ),
    sample(
        "astype",
        *[call(a(2, 3), t) for t in ("int32", "uint8", "bool", "float16")],
        numpy=lambda x, dtype: np.abs(x).astype(dtype),
        ours=lambda x, dtype: gt.abs(x).astype(dtype),
    ),
]
