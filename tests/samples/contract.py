"""Products that sum over axes."""

import numpy as np

import graphc.tensor as gt
from tests.samples.spec import INEXACT, NUMBERS, a, call, sample

# NumPy multiplies bools by "and" and adds them by "or"; integers wrap around.
MATRICES = (call(a(3, 4), a(4, 2)), call(a(2, 3, 4), a(4, 2)), call(a(2, 0), a(0, 3)))
VECTORS = (call(a(4), a(4, values="ones")), call(a(1), a(1)), call(a(0), a(0)))
ROWS = (*VECTORS, call(a(3, 4), a(4)), call(a(2, 3, 4), a(1, 4)), call(a(0, 4), a(4)))
ANY = (call(a(), a()), call(a(3), a(4)), call(a(2, 3), a(4)), call(a(0, 2), a(1)))
SPACE = (
    call(a(3), a(3, values="ones")),
    call(a(2, 3), a(3)),
    call(a(4, 1, 3), a(2, 3)),
)
SQUARES = (call(a(3, 3)), call(a(2, 3, 4)), call(a(0, 3)), call(a(1, 1)))
ULPS = 64  # sums may run in another order


def matvec(x, y):
    return np.squeeze(x @ y[..., None], -1)


def vecmat(x, y):
    row = np.conj(x) if x.dtype.kind == "c" else x
    return np.squeeze(row[..., None, :] @ y, -2)


def method(name):
    """A method of values as a function."""
    return lambda x, *args, **options: getattr(x, name)(*args, **options)


def path(namespace):
    """The order from `einsum_path` as an array; its table is text."""
    return lambda *x, **options: steps(namespace.einsum_path(*x, **options)[0])


def steps(order):
    """The operands of each step, in rows padded to the longest step."""
    assert order[0] == "einsum_path"
    most = max(map(len, order[1:]))
    return np.array([[*step, *[-1] * (most - len(step))] for step in order[1:]])


SAMPLES = [
    sample("matmul", *MATRICES, *VECTORS, call(a(3, 4), a(4)), ulps=ULPS),
    sample("matmul", call(a(3), a()), call(a(2, 3), a(4, 2)), ulps=ULPS),
    sample("linalg.matmul", *MATRICES, ulps=ULPS),
    sample(
        "matvec", call(a(3, 4), a(4)), call(a(2, 3, 4), a(4)), numpy=matvec, ulps=ULPS
    ),
    sample(
        "vecmat", call(a(3), a(3, 4)), call(a(2, 3), a(3, 4)), numpy=vecmat, ulps=ULPS
    ),
    sample("dot", *MATRICES, *VECTORS, call(a(3), a()), call(a(), a(2, 3)), ulps=ULPS),
    sample("dot", call(a(2, 3), a(5, 3, 2)), call(a(3), a(4)), ulps=ULPS),
    sample("dot", *MATRICES, ours=method("dot"), numpy=method("dot"), ulps=ULPS),
    sample("vdot", *VECTORS, call(a(2, 3), a(3, 2)), call(a(), a()), ulps=ULPS),
    sample("vecdot", *ROWS, call(a(3, 2), a(3, 1), axis=0), ulps=ULPS),
    sample("vecdot", call(a(2, 1), a(2, 3)), call(a(3), a()), ulps=ULPS),
    sample("linalg.vecdot", *ROWS, ulps=ULPS),
    sample("inner", *VECTORS, call(a(3, 4), a(2, 4)), call(a(), a(2, 3)), ulps=ULPS),
    sample("inner", call(a(2, 3), a(2)), ulps=ULPS),
    sample("outer", *ANY),
    sample("linalg.outer", *ANY[1:2], call(a(0), a(2)), call(a(2, 2), a(2))),
    sample("tensordot", call(a(2, 3, 4), a(4, 3, 5), axes=([1, 2], [1, 0])), ulps=ULPS),
    sample("tensordot", *MATRICES[:1], call(a(2, 3), a(4), axes=0), ulps=ULPS),
    sample("tensordot", call(a(2, 3), a(4, 3), axes=(-1, -1)), ulps=ULPS),
    sample("tensordot", call(a(2, 3), a(2, 3)), call(a(2, 3), a(3), axes=2), ulps=ULPS),
    sample("linalg.tensordot", call(a(2, 3), a(3, 2), axes=1), ulps=ULPS),
    sample("kron", *ANY, call(a(2, 3), a(4, 5)), call(a(2, 1, 2), a(3, 2))),
    sample("cross", *SPACE, call(a(3, 2), a(2, 3), axisa=0, axisc=0), dtypes=NUMBERS),
    sample("cross", call(a(3, 2), a(3, 2), axis=0), call(a(4), a(4)), dtypes=NUMBERS),
    sample("linalg.cross", *SPACE, call(a(3, 2), a(3, 2), axis=0), dtypes=NUMBERS),
    sample("trace", *SQUARES, call(a(3, 4), 1), call(a(3, 4), offset=-5)),
    sample("trace", call(a(2, 3, 4), 0, 2, 0), call(a(3, 4), dtype="float64")),
    sample("trace", call(a(3)), call(a(3, 3), axis2=0)),
    sample("trace", *SQUARES, ours=method("trace"), numpy=method("trace")),
    sample("linalg.trace", *SQUARES, call(a(3, 4), offset=1), call(a(3))),
    sample("linalg.multi_dot", call([a(3, 4), a(4, 2), a(2, 3)]), ulps=ULPS),
    sample("linalg.multi_dot", call([a(3), a(3, 4), a(4)]), call([a(3)]), ulps=ULPS),
    sample("einsum", call("ij,jk", a(3, 4), a(4, 2)), ulps=ULPS),
    sample("einsum", call("ij,jk->ki", a(3, 4), a(4, 2)), ulps=ULPS),
    sample("einsum", call("ij->", a(3, 4)), call("ji", a(3, 4)), ulps=ULPS),
    sample("einsum", call("ii", a(3, 3)), call("ii->i", a(3, 3)), ulps=ULPS),
    sample("einsum", call("i,i->i", a(4), a(4)), call("i,j", a(4), a(3))),
    sample("einsum", call("...ij,jk", a(2, 3, 4), a(4, 2)), ulps=ULPS),
    sample("einsum", call("i...i", a(3, 2, 3)), call("b...a", a(2, 3, 4)), ulps=ULPS),
    sample("einsum", call("ij,jk,kl->il", a(3, 4), a(4, 2), a(2, 5)), ulps=ULPS),
    sample("einsum", call(a(3, 4), [0, 1], a(4, 2), [1, 2], [2, 0]), ulps=ULPS),
    sample("einsum", call("ij,jk", a(2, 0), a(0, 3)), call(",i", a(), a(3)), ulps=ULPS),
    sample("einsum", call("ij,kj", a(2, 3), a(2, 4)), call("ij->ii", a(3, 3))),
    sample("einsum", call("i->j", a(3)), call("ij", a(3)), call("...i->i", a(2, 3))),
    sample("einsum", call("ij->j", a(3, 4), dtype="complex128"), dtypes=INEXACT),
    sample(
        "einsum_path",
        call("ij,jk,kl->il", a(3, 4), a(4, 2), a(2, 5)),
        call("ij,jk,kl", a(2, 9), a(9, 9), a(9, 2), optimize="optimal"),
        call("ab,bc,cd->ad", a(2, 9), a(9, 9), a(9, 2), optimize=False),
        call(a(3, 4), [0, 1], a(4, 2), [1, 2], [2, 0]),
        ours=path(gt),
        numpy=path(np),
        dtypes=["float32"],
        static=True,  # symbolic sizes are guessed
    ),
]
