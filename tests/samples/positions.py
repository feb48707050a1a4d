"""Positions in arrays of a given shape."""

import numpy as np

from tests.samples.spec import INTEGERS, a, call, i, sample

F32 = ("float32",)
BOTH = (i(3), i(3))
TRIANGLES = (
    call(3),
    call(3, 1),
    call(4, -2),
    call(3, 0, 5),
    call(5, 1, 3),
    call(2, 4, 3),
    call(3, -4),
    call(3, -1, 0),
    call(0),
)
MATRICES = (call(a(3, 4)), call(a(4, 2), -1), call(a(2, 3), k=1), call(a(3)))

SAMPLES = [
    sample("unravel_index", call(a(2, 3, values="small"), (3, 4)), dtypes=INTEGERS),
    sample(
        "unravel_index",
        call(i(4), (1, 3, 2)),
        call(i(), (3,)),
        call(i(3), (2, 3), order="F"),
        call(np.array([5, 6]), (2, 3)),
        call(np.array([-1]), (2, 3)),
        call(0, ()),
        call(a(2), (2, 3)),
        dtypes=F32,
    ),
    sample(
        "ravel_multi_index",
        call(BOTH, (3, 4)),
        call((i(2, 1), i(3)), (3, 3), order="F"),
        call((a(4, dtype="int8"), i(4)), (3, 2), mode=("wrap", "clip")),
        call((a(4, dtype="int32"), i()), (3, 2), mode="clip"),
        call((np.array([2, 0]), np.array([1, 4])), (3, 4)),
        call((np.array([2, 0]), np.array([1, 3])), (3, 4)),
        call(BOTH, (3, 2, 2)),
        call(BOTH, (3, 2), mode="other"),
        dtypes=F32,
    ),
    sample("diag_indices", call(3), call(2, 3), call(0), dtypes=F32),
    sample("diag_indices_from", call(a(3, 3)), call(a(2, 3)), call(a(2, 2, 2))),
    sample("tril_indices", *TRIANGLES, dtypes=F32),
    sample("triu_indices", *TRIANGLES, dtypes=F32),
    sample("tril_indices_from", *MATRICES, dtypes=["float32", "int32"]),
    sample("triu_indices_from", *MATRICES, dtypes=["float32", "int32"]),
    sample(
        "ix_",
        call(i(2), i(3)),
        call(i(2), a(3, dtype="bool"), [1, 0]),
        call([], i(2)),
        call(i(2, 2)),
        dtypes=F32,
    ),
]
