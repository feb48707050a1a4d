"""Padded convolutions with kernels of unknown length: NumPy's values, with NaN."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

x = gt.tensor("x", "float64", ("n",))
w = gt.tensor("w", "float64", ("k",))
signals = gt.tensor("signals", "float64", ("b", 2, "n"))
kernels = gt.tensor("kernels", "float64", (3, 2, "k"))
images = gt.tensor("images", "float32", (2, 2, "n", "m"))
patches = gt.tensor("patches", "float32", (1, 2, "k", "l"))
SIZES = [(5, 3), (3, 5), (1, 1), (1, 9), (40, 2)]
MODES = ("full", "same", "valid")
RNG = np.random.default_rng(0)


def vectors(n, k, bad):
    """Two vectors, of which one has infinity and NaN at its ends."""
    both = [RNG.normal(size=n), RNG.normal(size=k)]
    if bad is not None:
        both[bad][-1], both[bad][0] = np.nan, np.inf
    return both


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_vectors_as_in_numpy(name, backend):
    outputs = [getattr(gt, name)(x, w, mode) for mode in MODES]
    f = graphc.function([x, w], outputs, dims="pad", backend=backend)
    assert not f.plan.padded.cuts
    for n, k in SIZES:
        for bad in (None, 0, 1):
            given = vectors(n, k, bad)
            for mode, found in zip(MODES, f(*given), strict=True):
                wanted = getattr(np, name)(*given, mode)
                np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=mode)


def compared(inputs, outputs, calls, **options):
    padded = graphc.function(inputs, outputs, dims="pad", **options)
    exact = graphc.function(inputs, outputs, dims="specialize", backend="numpy")
    assert not padded.plan.padded.cuts
    for shapes in calls:
        given = [
            RNG.normal(size=s).astype(v.dtype)
            for s, v in zip(shapes, inputs, strict=True)
        ]
        given[0].flat[-1] = np.nan
        for a, b in zip(padded(*given), exact(*given), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def with_slopes(inputs, result):
    return [result, *graphc.grad(gt.sum(gt.sin(result)), inputs)]


CALLS = [((2, 2, 9), (3, 2, 3)), ((1, 2, 3), (3, 2, 5)), ((2, 2, 17), (3, 2, 17))]
FORMS = {
    "inside": {},
    "same": {"padding": "SAME"},
    "apart": {"dilation": 2, "padding": 3},
}


@pytest.mark.parametrize("form", FORMS)
def test_channels_with_gradients(form):
    result = gt.nn.conv(signals, kernels, **FORMS[form])
    inputs = [signals, kernels]
    compared(inputs, with_slopes(inputs, result), CALLS, backend="numpy")


@pytest.mark.usefixtures("compiled_quickly")
def test_on_jax():
    slopes = with_slopes([x, w], gt.convolve(x, w, "same"))
    compared([x, w], slopes, [((9,), (4,)), ((3,), (12,))])
    outputs = [
        gt.nn.conv(signals, kernels, stride=2, padding="SAME_LOWER"),
        gt.nn.conv(signals, kernels, dilation=2, padding=3),
    ]
    compared([signals, kernels], outputs, CALLS[:2])
    both = gt.nn.conv(images, patches, padding=1)
    shapes = [((2, 2, 6, 5), (1, 2, 3, 2)), ((2, 2, 1, 3), (1, 2, 3, 4))]
    compared([images, patches], [both], shapes)
