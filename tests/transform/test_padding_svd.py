"""Padded singular value decompositions give LAPACK's vectors, including signs."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

SHAPES = [(5, 3), (3, 5), (4, 4), (3, 4), (4, 3), (9, 2), (2, 9), (1, 1), (1, 7)]
EMPTY = [(0, 0), (0, 2), (3, 0)]
SPECIAL = {
    "zeros": lambda m, n: np.zeros((m, n)),
    "equal values": lambda m, n: -np.eye(m, n),
    "diagonal": lambda m, n: np.diag(np.arange(-3.0, 7))[:m, :n],
}
TURN = {"float64": 0, "complex128": 1j}
RNG = np.random.default_rng(0)


def matrices(dtype="float64"):
    """Yield matrices of each shape, random and special ones."""
    for shape in [*SHAPES, *EMPTY]:
        yield RNG.normal(size=shape) + TURN[dtype] * RNG.normal(size=shape)
    for make in SPECIAL.values():
        yield from ((1 + TURN[dtype]) * make(*shape) for shape in SHAPES)


def compared(f, given):
    for part, wanted in zip(f(given), expected(given), strict=True):
        assert part.shape == wanted.shape and part.dtype == wanted.dtype
        np.testing.assert_allclose(part, wanted, atol=1e-9, err_msg=str(given))


def expected(given):
    thin = np.linalg.svd(given, full_matrices=False)
    return [*np.linalg.svd(given), *thin]


def decomposed(x, **options):
    outputs = [*gt.linalg.svd(x), *gt.linalg.svd(x, full_matrices=False)]
    return graphc.function([x], outputs, dims="pad", **options)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_vectors_are_those_of_true_sizes(backend):
    f = decomposed(gt.tensor("x", "float64", ("m", "n")), backend=backend)
    assert not f.plan.padded.cuts
    for given in matrices():
        compared(f, given)
    if backend == "jax":
        assert len(f.stats().compilations) == 1


@pytest.mark.parametrize("shape", [("n", 3), (3, "n"), ("n", "n")])
def test_with_one_size_that_varies(shape):
    f = decomposed(gt.tensor("x", "complex128", shape))
    fixed = {i: n for i, n in enumerate(shape) if n == 3}
    for given in matrices("complex128"):
        fits = all(given.shape[i] == n for i, n in fixed.items())
        if fits and (fixed or given.shape[0] == given.shape[1]):
            compared(f, given)


def test_what_is_not_finite_spoils_its_own_matrix_alone():
    x = gt.tensor("x", "float64", ("b", "m", "n"))
    f = decomposed(x)
    for bad in (np.nan, np.inf):
        given = RNG.normal(size=(2, 5, 3))
        given[1, 2, 2] = bad
        for part, wanted in zip(f(given), expected(given[0]), strict=True):
            np.testing.assert_allclose(part[0], wanted, atol=1e-9)
            assert np.isnan(part[1]).all()


def test_gradients():
    x = gt.tensor("x", "float64", ("m", "n"))
    u, s, vh = gt.linalg.svd(x, full_matrices=False)
    cost = gt.sum(gt.sin(u)) + gt.sum(s**2) + gt.sum(gt.cos(vh))
    slopes = [graphc.grad(cost, x), graphc.grad(gt.sum(gt.linalg.pinv(x)), x)]
    padded = graphc.function([x], slopes, dims="pad", backend="numpy")
    exact = graphc.function([x], slopes, dims="specialize", backend="numpy")
    assert not padded.plan.padded.cuts
    for shape in SHAPES:
        given = RNG.normal(size=shape)
        for a, b in zip(padded(given), exact(given), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)
