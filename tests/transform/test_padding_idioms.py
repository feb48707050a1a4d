"""Idioms of everyday programs, padded: they stay in one segment and agree with NumPy.

Padding holds garbage, sizes come from arrays and from integers, and 0 and 1 are among
the sizes. Gradients are padded like any other graph.
"""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.transform.dirty import dirty_function

x = gt.tensor("x", "float64", ("n",))
rows = gt.tensor("rows", "float64", ("n", "m"))
pairs = gt.tensor("pairs", "float64", ("n", 2))
square = gt.tensor("square", "float64", ("n", "n"))
few = gt.tensor("few", "float64", (3, 2))
k = gt.iscalar("k")
key = gt.random.key(3)
r = gt.random
n = x.shape[0]
positive = gt.abs(rows) + 0.1
chances = gt.where(gt.arange(n) == 1, 0, gt.nn.softmax(x))


def slope(cost, of=x):
    return graphc.grad(gt.sum(cost**2), of)


COPIES = {
    "reshape": lambda: gt.reshape(x[: 2 * k], (k, 2)),
    "reshape of rows": lambda: gt.reshape(pairs[: 3 * k], (k, 3, 2)),
    "reshape to rows": lambda: gt.reshape(pairs[: 2 * k], (k, 4)),
    "reshape by halves": lambda: gt.reshape(x[: 2 * (n // 2)], (-1, 2)),
    "slope of reshape": lambda: slope(gt.reshape(x[: 2 * k], (k, 2))[:, 0]),
    "repeat": lambda: gt.repeat(x, k),
    "repeat of rows": lambda: gt.repeat(rows, k, axis=0),
    "repeat of columns": lambda: gt.repeat(rows, k, axis=1),
    "repeat of a known axis": lambda: gt.repeat(few, k, axis=0),
    "repeat by its own size": lambda: gt.repeat(x, n),
    "slope of repeat": lambda: slope(gt.repeat(x, k) * gt.tile(x, k)),
    "tile": lambda: gt.tile(x, k),
    "tile of both axes": lambda: gt.tile(rows, (2, k)),
    "tile with a new axis": lambda: gt.tile(rows, (k, 1, 3)),
    "tile of a known axis": lambda: gt.tile(few, (k, 1)),
    "join": lambda: gt.concatenate([x[:k], *[x] * 3]),
}
TRANSFORMS = {
    "fft": lambda: gt.fft.fft(x),
    "fft of columns": lambda: gt.fft.fft(rows, axis=0, norm="ortho"),
    "ifft": lambda: gt.fft.ifft(rows, norm="forward"),
    "rfft": lambda: gt.fft.rfft(x),
    "irfft": lambda: gt.fft.irfft(gt.fft.rfft(x) * 2, n=n),
    "irfft by default": lambda: gt.fft.irfft(rows + 1j * rows[::-1], axis=1),
    "hfft": lambda: gt.fft.hfft(x + 2j),
    "fft2": lambda: gt.fft.fft2(rows, norm="forward"),
    "rfftn": lambda: gt.fft.rfftn(rows, norm="ortho"),
    "irfft2": lambda: gt.fft.irfft2(rows),
    "slope": lambda: slope(gt.abs(gt.fft.rfft(x))),
    "eigenvalues": lambda: gt.linalg.eigvals(square),
    "eigenvectors": lambda: gt.linalg.eig(square)[1],
    "schur": lambda: gt.linalg.schur(square)[0],
}
POINTS = {
    "a cut": lambda: gt.fft.fft(x, n=k, norm="ortho"),
    "more or fewer": lambda: gt.fft.irfft(x, n=k),
}
DRAWS = {
    "normal": lambda: r.normal(key, (3, n)),
    "uniform": lambda: r.uniform(key, rows.shape),
    "bernoulli": lambda: r.bernoulli(key, gt.tanh(positive)),
    "gamma": lambda: r.gamma(key, positive),
    "beta": lambda: r.beta(key, positive, 2.0),
    "t": lambda: r.t(key, positive),
    "dirichlet": lambda: r.dirichlet(key, np.array([0.1, 2, 3]), (n,)),
    "split": lambda: r.split(key, (2, n)),
    "categories": lambda: r.categorical(key, x),
    "categories of rows": lambda: r.categorical(key, rows),
    "categories by column": lambda: r.categorical(key, rows, 0, (2, rows.shape[1])),
    "impossible categories": lambda: r.categorical(key, gt.log(rows), shape=(3, n)),
    "permutation": lambda: r.permutation(key, x),
    "permutation of columns": lambda: r.permutation(key, rows, axis=1),
    "permutation of a number": lambda: r.permutation(key, k),
    "choice": lambda: r.choice(key, x, (4,)),
    "choice of each": lambda: r.choice(key, x, (n // 2,), replace=False),
    "choice by chances": lambda: r.choice(key, x, (n, 9), p=chances),
    "choice of each by chances": lambda: r.choice(key, n, (n // 2,), False, chances),
}
SIZES = [(7, 5, 2), (9, 1, 3), (1, 3, 0), (2, 2, 1), (12, 12, 4)]
INPUTS = [x, rows, pairs, square, few, k]


def arguments(sizes):
    named = dict(zip("nm", sizes, strict=False))
    rng = np.random.default_rng(0)
    return [
        rng.normal(size=[named.get(str(s), s) for s in v.type.shape])
        if v.type.rank
        else sizes[2]
        for v in INPUTS
    ]


def compared(outputs, backend, calls, rtol=1e-9, reference=None):
    """The padded program, after comparing its results and errors with true sizes.

    These run on `reference`, or else on the same backend.
    """
    how = {"backend": backend, "unused": "ignore"}
    padded = dirty_function(INPUTS, outputs, **how)
    how["backend"] = reference or backend
    exact = graphc.function(INPUTS, outputs, dims="specialize", **how)
    for sizes in calls:
        try:
            expected = exact(*arguments(sizes))
        except graphc.CallError:
            with pytest.raises(graphc.CallError):
                padded(*arguments(sizes))
            continue
        pairs = zip(padded(*arguments(sizes)), expected, strict=True)
        for i, (a, b) in enumerate(pairs):
            assert a.shape == b.shape and a.dtype == b.dtype, (sizes, i)
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=str(i))
    return padded


EACH = {**COPIES, **TRANSFORMS, **POINTS, **DRAWS}


@pytest.mark.parametrize("name", EACH)
def test_as_numpy_without_cuts(name):
    padded = compared([EACH[name]()], "numpy", SIZES)
    assert not padded.plan.padded.cuts


ON_JAX = {
    "copies": ("reshape", "repeat", "tile"),
    "transforms": ("rfft", "irfft", "eigenvectors", "schur"),
    "draws": ("uniform", "gamma", "permutation", "choice of each"),
    "chances": ("choice by chances", "choice of each by chances"),
    "categories": ("categories", "categories by column"),
}


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("group", ON_JAX)
def test_one_segment_on_jax(group):
    outputs = [EACH[name]() for name in ON_JAX[group]]
    alike = group in ("copies", "transforms")  # draws differ on NumPy
    padded = compared(outputs, "jax", SIZES[:1], reference=alike and "numpy")
    assert len(padded.plan.segments) == len(padded.stats().compilations) == 1


@pytest.mark.parametrize("size", [2, 1625, 1626, 5000])
def test_orders_of_many(size):
    """The more elements there are, the more often they are sorted."""
    order = r.permutation(key, gt.arange(n))
    outputs = [order, r.choice(key, n, (n // 3,), replace=False)]
    padded = dirty_function([x], outputs, backend="numpy")
    exact = graphc.function([x], outputs, backend="numpy", dims="specialize")
    given = np.zeros(size)
    for a, b in zip(padded(given), exact(given), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_transform_is_told_to_have_a_price():
    f = graphc.function([x], gt.abs(gt.fft.rfft(x)), dims="pad")
    line = "is padded at a price: it takes about six times as long as a transform of "
    assert "fft.rfft at test_padding_idioms.py:" in f.explain()
    assert line in f.explain() and line in f.explain(full=True)


def test_special_values_spread_as_in_a_transform_of_true_size():
    f = dirty_function([rows], gt.fft.fft(rows), backend="numpy")
    given = np.ones((3, 5))
    given[1, 2] = np.nan
    found = f(given)
    assert np.isnan(found[1]).all() and np.isfinite(found[[0, 2]]).all()
