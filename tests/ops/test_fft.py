"""Fourier transforms: both backends against NumPy."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.ops.comparing import BACKENDS, agree
from tests.ops.refusing import refused

DTYPES = ("float64", "complex128", "float16")  # samples cover the other dtypes
ALONG_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
OVER_SEVERAL = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
OF_REALS = ("rfft", "ihfft", "rfft2", "rfftn")
# NumPy scales float16 transforms by float16 factors.
ROUNDING = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12}
ROUNDING |= {"complex64": 1e-5, "complex128": 1e-12}
HALF = {**ROUNDING, "complex64": 1e-3, "float32": 1e-3}
ONE_AXIS = (
    {},
    {"n": 5},
    {"n": 9, "axis": 0},
    {"axis": -2, "norm": "ortho"},
    {"n": 3, "norm": "forward"},
    {"n": 1, "norm": "backward"},
)
SEVERAL_AXES = (
    {},
    {"s": (5, 3), "axes": (0, 1)},
    {"s": (-1, 8), "axes": (1, 0), "norm": "ortho"},
    {"axes": (1,), "norm": "forward"},
    {"s": (3,), "axes": (-2,)},
)


def array(*shape, dtype="float64"):
    rng = np.random.default_rng(shape)
    parts = rng.normal(scale=3, size=(2, *shape))
    return (parts[0] + 1j * parts[1] if dtype[0] == "c" else parts[0]).astype(dtype)


def call(name, **named):
    """graphc's transform and NumPy's, with the same arguments."""
    return (
        lambda x: getattr(gt.fft, name)(x, **named),
        lambda x: getattr(np.fft, name)(x, **named),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_transforms_are_those_of_numpy(dtype):
    names = [(n, kw) for n in ALONG_ONE for kw in ONE_AXIS]
    names += [(n, kw) for n in OVER_SEVERAL for kw in SEVERAL_AXES]
    cases = {
        f"{name} {named}": call(name, **named)
        for name, named in names
        if dtype[0] != "c" or name not in OF_REALS
    }
    agree(
        cases,
        array(4, 6, dtype=dtype),
        rounding=HALF if dtype == "float16" else ROUNDING,
    )


def test_many_axes_and_axes_that_are_named_twice():
    cases = {
        "five": call("fftn"),
        "five real": call("rfftn"),
        "five to real": call("irfftn"),
        "twice": call("fftn", axes=(0, 1, 0)),
        "twice real": call("rfftn", axes=(0, 3, 3)),
        "twice to real": call("irfftn", axes=(3, 1, 3)),
        "twice cut": call("ifftn", s=(4, 5), axes=(3, 3)),
        "none": call("fftn", axes=()),
    }
    agree(cases, array(2, 3, 2, 4, 3))


def test_transforms_of_no_rows_and_of_one_point():
    one_axis = {n: call(n) for n in ALONG_ONE}
    agree(one_axis | {"fftn": call("fftn", axes=(1,))}, array(0, 4))
    agree({n: call(n) for n in ("fft", "ifft", "rfft", "ihfft")}, array(2, 1))
    agree({n: call(n, n=1) for n in ALONG_ONE}, array(2, 1))


def test_special_values_spread_alike():
    x = np.array([[1.0, np.nan, 2.0], [1.0, 2.0, np.inf]])
    agree({n: call(n) for n in ("fft", "rfft", "irfft")}, x)


def test_shifts():
    cases = {
        f"{name} {axes}": call(name, axes=axes)
        for name in ("fftshift", "ifftshift")
        for axes in (None, 0, (1,), (0, -1), ())
    }
    for dtype in ("float32", "int64", "bool", "complex64"):
        agree(cases, (array(3, 4, 2) * 2).astype(dtype))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies_of_any_size(n):
    x = np.zeros(n, "float32")
    agree(
        {
            "fftfreq": (
                lambda x: gt.fft.fftfreq(x.shape[0], 0.3, dtype="float64"),
                lambda x: np.fft.fftfreq(len(x), 0.3),
            ),
            "rfftfreq": (
                lambda x: gt.fft.rfftfreq(x.shape[0], d=0.3, dtype="float64"),
                lambda x: np.fft.rfftfreq(len(x), 0.3),
            ),
            "default": (
                lambda x: [gt.fft.fftfreq(x.shape[0]), gt.fft.rfftfreq(2 * x.size)],
                lambda x: [
                    np.fft.fftfreq(len(x)).astype("float32"),
                    np.fft.rfftfreq(2 * x.size).astype("float32"),
                ],
            ),
        },
        x,
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_are_arithmetic_on_arguments(backend):
    x, k = gt.tensor("x", "float64", ("n",)), gt.iscalar("k")
    y = gt.fft.irfft(gt.fft.rfft(x, n=2 * k), n=2 * k)
    assert str(gt.fft.rfft(x, n=2 * k).type) == "complex128[k + 1]"
    assert str(gt.fft.irfft(x).type) == "float64[2*n - 2]"
    freq = gt.fft.fftfreq(k, gt.sum(x))
    f = graphc.function([x, k], {"y": y, "f": freq}, backend=backend)
    for size in (2, 4, 5):
        found = f(np.arange(6.0), size)
        padded = np.arange(6.0)[: 2 * size]
        np.testing.assert_allclose(
            found["y"],
            np.resize(np.pad(padded, (0, 2 * size - len(padded))), 2 * size),
            atol=1e-12,
        )
        np.testing.assert_allclose(found["f"], np.fft.fftfreq(size, 15.0))
    assert f.static_argnums == (1,)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_points_are_refused_at_the_call(backend):
    x, k = gt.tensor("x", "float64", ("n",)), gt.iscalar("k")
    for value in (gt.fft.fft(x), gt.fft.irfft(x[:k], n=k), gt.fft.fftn(x, s=(k,))):
        f = graphc.function([x, k], [value, k], backend=backend)
        assert f(np.ones(1), 1)[0].shape == (1,)
        with refused("needs at least one point", graphc.CallError):
            f(np.ones(0), 0)


def test_the_text_says_no_more_than_it_must():
    x = gt.tensor("x", "float32", ("m", "n"))
    outputs = [
        gt.fft.rfft(x),
        gt.fft.fftn(x),
        gt.fft.fft(x, axis=0, norm="ortho"),
        gt.fft.irfftn(x, s=(4, 6), axes=(0, 1)),
    ]
    source = graphc.function([x], outputs, backend="jax").source
    for text in (
        "jnp.fft.rfft(x)",
        "jnp.fft.fftn(x)",
        'jnp.fft.fft(x, axis=0, norm="ortho")',
        "jnp.fft.irfftn(x, s=(4, 6), axes=(0, 1))",
    ):
        assert f"= {text}  #" in source


X = gt.tensor("x", "float32", (3, 4))
C = gt.tensor("c", "complex64", (3, 4))
WRONG = {
    "fft.fft: axis -1 is out of range": lambda: gt.fft.fft(
        gt.tensor("s", "float32", ())
    ),
    "fft.fft: 0 points": lambda: gt.fft.fft(X, n=0),
    "fft.irfft: -2 points": lambda: gt.fft.irfft(X, n=-2),
    "a number of points must be an integer scalar": lambda: gt.fft.fft(X, n=2.5),
    "fft.ifft: axis 2 is out of range": lambda: gt.fft.ifft(X, axis=2),
    "fft.fft: no such norm": lambda: gt.fft.fft(X, norm="unitary"),
    "fft.hfft: no such norm": lambda: gt.fft.hfft(X, norm="unitary"),
    "needs real numbers": lambda: gt.fft.rfft(C),
    "hint: take gt.real": lambda: gt.fft.ihfft(C),
    "at least one point: 1 is more than 0": lambda: gt.fft.irfft(X[:, :1]),
    "fft.fftn: axis -3 is out of range": lambda: gt.fft.fftn(X, s=(1, 2, 3)),
    "fft.fftn: 2 sizes for 1 axes": lambda: gt.fft.fftn(X, s=(1, 2), axes=(0,)),
    "fft.fftn: s must be a list": lambda: gt.fft.fftn(X, s=5),
    "fft.rfftn: needs at least one axis": lambda: gt.fft.rfftn(X, axes=()),
    "fft.fft2: axis -2 is out of range": lambda: gt.fft.fft2(X[0]),
    "fft.fftfreq: 0 points": lambda: gt.fft.fftfreq(0),
    "fft.fftfreq: the spacing must be a scalar": lambda: gt.fft.fftfreq(4, d=X),
    "fft.rfftfreq: the spacing must be a scalar": lambda: gt.fft.rfftfreq(4, d=X),
    "fft.fftshift: axis 4 is out of range": lambda: gt.fft.fftshift(X, axes=4),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message):
    with refused(message):
        WRONG[message]()


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_inverse_of_an_empty_axis_is_zero(backend, dtype):
    """NumPy reads memory beyond the end of the axis."""
    x = gt.tensor("x", dtype, ("n", "m"))
    for shape, axis in (((3, 0), 1), ((0, 3), 0), ((0, 0), 1)):
        outputs = [gt.fft.irfft(x, 8, axis=axis), gt.fft.hfft(x, 5, axis=axis)]
        f = graphc.function([x], outputs, backend=backend)
        for result in f(np.ones(shape, dtype)):
            assert not np.asarray(result).any()
