"""Sizes that are numbers of the call give the same at a capacity as at true sizes."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

x = gt.tensor("x", "float32", ("n",))
k = gt.tensor("k", "int64", ())
X = np.arange(1.0, 13.0, dtype="float32")
LABELS = (x % 3).astype("int32")
USES = {
    "arange": lambda n: gt.arange(n) * 2,
    "bincount": lambda n: gt.bincount(LABELS, minlength=n),
    "broadcast_to": lambda n: gt.broadcast_to(x[0], (n,)) + 1,
    "eye": lambda n: gt.eye(n),
    "eye, k": lambda n: gt.eye(3, 5, k=n),
    "fft": lambda n: gt.real(gt.fft.fft(x, n=n)),
    "full": lambda n: gt.full((n, 2), x[0]),
    "geomspace": lambda n: gt.geomspace(1.0, 2.0, n),
    "indices": lambda n: gt.indices((n, 2)),
    "insert": lambda n: gt.insert(x, n, 5.0),
    "irfft": lambda n: gt.fft.irfft(x.astype("complex64"), n=n),
    "linspace": lambda n: gt.linspace(0.0, 1.0, n),
    "max_pool": lambda n: gt.nn.max_pool(x[None, None], (n,)),
    "one_hot": lambda n: gt.nn.one_hot(LABELS, n),
    "pad": lambda n: gt.pad(x, (n, 1)),
    "pad, both": lambda n: gt.pad(x, (n, n)),
    "pad, after": lambda n: gt.pad(x, (1, n)),
    "pad, edge": lambda n: gt.pad(x, (n, 2), "edge"),
    "pad, mean": lambda n: gt.pad(x, (n, 2), "mean"),
    "pad, ramp": lambda n: gt.pad(x, (n, 2), "linear_ramp"),
    "pad, wrap": lambda n: gt.pad(x, (n, 2), "wrap"),
    "repeat": lambda n: gt.repeat(x, n),
    "resize": lambda n: gt.resize(x, (n,)),
    "rfft": lambda n: gt.real(gt.fft.rfft(x, n=n)),
    "roll": lambda n: gt.roll(x, n),
    "slice": lambda n: gt.concatenate([x[n:], x[:n], x[::n]]),
    "tile": lambda n: gt.tile(x, n),
    "tri": lambda n: gt.tri(n, n + 1),
    "tril": lambda n: gt.tril(gt.outer(x, x), k=n),
    "vander": lambda n: gt.vander(x[:3], n),
}
FORMULAS = (k, gt.maximum(k, 1), 2 * k, gt.minimum(k, 3), k // 2 + 1, x.shape[0] - k)


@pytest.mark.parametrize("use", USES)
def test_each_use_of_a_number_as_a_size(use):
    """Widths and lengths that were padded themselves once moved other elements."""
    found = [USES[use](n) for n in FORMULAS]
    outputs = [*found, *[gt.sum(y * 1.0) for y in found]]
    exact = graphc.function([x, k], outputs, backend="numpy", dims="specialize")
    padded = graphc.function([x, k], outputs, backend="numpy", dims="pad")
    for n in (1, 5):
        for a, b in zip(padded(X, n), exact(X, n), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("use", ["fft", "irfft", "pad", "pad, both"])
def test_on_jax(use):
    outputs = [USES[use](k), USES[use](2 * k)]
    padded = graphc.function([x, k], outputs, backend="jax", dims="pad")
    exact = graphc.function([x, k], outputs, backend="numpy", dims="specialize")
    for a, b in zip(padded(X, 3), exact(X, 3), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
