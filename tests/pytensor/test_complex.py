"""Ops that compute complex numbers although PyTensor declares real dtypes for them."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import graphc.pytensor

pytestmark = pytest.mark.usefixtures("compiled_quickly", "python_only")
RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))
H = A @ A.conj().T + np.eye(3)
V = np.array([1, 2j, 3])
m, v = pt.zmatrix("m"), pt.zvector("v")
la = pt.linalg


def vectors():
    return la.eigh(m)[1]


_, W = np.linalg.eigh(H)
PROGRAMS = {
    "eigh": (vectors, H, W),
    "function": (lambda: pt.exp(vectors()) * 2, H, np.exp(W) * 2),
    "sum": (lambda: vectors().sum(axis=0), H, W.sum(axis=0)),
    "product": (lambda: vectors() @ v, H, W @ V),
    "items": (lambda: pt.stack([vectors()[0, 0], vectors()[1, 0]]), H, W[:2, 0]),
    "rows": (lambda: pt.stack([vectors()[0], vectors()[1]]), H, W[:2]),
    "write": (lambda: pt.set_subtensor(vectors()[0], v), H, np.vstack([V, W[1:]])),
    "add": (lambda: pt.inc_subtensor(pt.zeros((3,))[:], vectors()[0]), H, W[0]),
    "qr": (lambda: la.qr(m)[0], A, np.linalg.qr(A)[0]),
    "values": (lambda: la.svd(m)[1], A, np.linalg.svd(A)[1]),
    "symmetric": (
        lambda: la.solve(m, v, b_ndim=1, assume_a="sym"),
        A + A.T,
        np.linalg.solve(A + A.T, V),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_complex_results_stay_complex(name):
    build, matrix, expected = PROGRAMS[name]
    for backend in ("numpy", "jax"):
        mode = graphc.pytensor.mode(backend=backend)
        f = pytensor.function([m, v], build(), mode=mode, on_unused_input="ignore")
        found = f(matrix, V)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, 1e-10, 1e-12)
