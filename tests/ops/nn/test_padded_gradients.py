"""Gradients of windows in padded programs: those at true sizes, in one segment.

In pooling, infinite elements tie with the infinities that pad the array. The gradient
still goes to the first of the elements.
"""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

pytestmark = pytest.mark.usefixtures("compiled_quickly")
RNG = np.random.default_rng(5)
SIZES = (7, 5), (6, 8), (12, 3), (1, 1), (5, 17)
PADDINGS = ["SAME", "SAME_LOWER", "VALID", ((1, 2), (0, 1))]
WINDOWS = [  # with strides and dilations
    {"window": (3, 2), "stride": (2, 1)},
    {"window": (2, 5), "stride": (1, 3)},
    {"window": (3, 2), "stride": (2, 2), "dilation": (2, 1)},
]
WORST = {"max": -np.inf, "min": np.inf}


def of_ties(shape, worst):
    """Arrays with many ties, some of them with the fill around the array."""
    x = RNG.normal(size=shape).astype("float32")
    yield x.round()
    yield np.where(x > 0.5, x.round(), np.float32(worst))
    yield np.full_like(x, worst)
    x.flat[RNG.integers(x.size)] = np.nan
    yield x


def gradient_of_pool(x, how, padding, named):
    y = getattr(gt.nn, f"{how}_pool")(x, padding=padding, **named)
    weights = gt.cos(gt.arange(y.size)).reshape(y.shape).astype("float32")
    return graphc.grad((y * weights).sum(), x)


@pytest.mark.parametrize("padding", PADDINGS, ids=str)
def test_positions_are_those_at_true_sizes(padding):
    """Maxima and minima take turns, so that each meets all windows and paddings."""
    x = gt.tensor("x", "float32", ("n", "m"))
    hows = list(WORST) if PADDINGS.index(padding) % 2 else list(WORST)[::-1]
    cases = zip([*hows, hows[0]], WINDOWS, strict=True)
    gradients = [gradient_of_pool(x, how, padding, named) for how, named in cases]
    padded = graphc.function([x], gradients, dims="pad")
    plain = graphc.function([x], gradients, backend="numpy")
    for shape in SIZES:
        for array in [a for worst in WORST.values() for a in of_ties(shape, worst)]:
            for ours, exact in zip(padded(array), plain(array), strict=True):
                np.testing.assert_allclose(ours, exact, rtol=1e-5)
    assert len(padded.plan.segments) == 1


CONVOLVED = [  # channels, results, options of the convolution
    (2, 3, {"stride": 2, "padding": "SAME"}),
    (2, 3, {"stride": 3, "padding": "VALID"}),
    (1, 2, {"stride": 2, "padding": ((1, 2),), "dilation": 2}),
    (4, 2, {"groups": 2, "padding": "SAME"}),
    (4, 4, {"groups": 4, "stride": 2, "padding": "SAME_LOWER"}),
    (2, 6, {"groups": 2, "stride": 3, "padding": ((3, 0),)}),
]


@pytest.mark.parametrize(("channels", "results", "named"), CONVOLVED, ids=str)
def test_convolutions_of_more_or_fewer_examples(channels, results, named):
    shape = (results, channels // named.get("groups", 1), 3)
    x = gt.tensor("x", "float32", ("b", channels, "n"))
    kernel = gt.tensor("kernel", "float32", shape)
    y = gt.nn.conv(x, kernel, **named)
    weights = gt.cos(gt.arange(y.size)).reshape(y.shape).astype("float32")
    outputs = [y, *graphc.grad((y * weights).sum(), [x, kernel])]
    padded = graphc.function([x, kernel], outputs, dims="pad")
    plain = graphc.function([x, kernel], outputs, backend="numpy")
    for b, n in ((1, 9), (5, 7), (17, 20), (0, 8)):
        arrays = RNG.normal(size=(b, channels, n)), RNG.normal(size=shape)
        arrays = [a.astype("float32") for a in arrays]
        pairs = zip(padded(*arrays), plain(*arrays), strict=True)
        for result, expected in pairs:
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert len(padded.plan.segments) == 1
