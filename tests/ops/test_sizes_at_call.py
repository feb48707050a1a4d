"""Sizes with special values at the call: -1, one count for all, negative counts."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors.messages import refused

pytestmark = pytest.mark.usefixtures("compiled_quickly")
POLICIES = ("specialize", "pad", "bound")
both = pytest.mark.parametrize("backend", ["numpy", "jax"])
X = np.arange(1.0, 13.0, dtype="float32")
x = gt.tensor("x", "float32", ("n",))
v = gt.tensor("v", "int64", (2,))
counts = gt.tensor("counts", "int64", ("m",))
low = gt.tensor("low", "int64", ())
high = gt.tensor("high", "int64", ())


def close(inputs, outputs, backend, cases):
    """Check the results under each policy, for all arguments."""
    for dims in POLICIES if backend == "numpy" else ("pad",):
        f = graphc.function(inputs, outputs, backend=backend, dims=dims)
        for args, expected in cases:
            for found, wanted in zip(f(*args), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=dims)


@both
def test_minus_one_in_a_vector(backend):
    y = x.reshape(v)
    outputs = [y, gt.sum(y, axis=1), graphc.grad(gt.sum(y * y), x)]
    cases = []
    for shape in ((3, -1), (-1, 4), (3, 4), (-1, 12)):
        wanted = X.reshape(shape)
        cases.append(((X, np.array(shape)), [wanted, wanted.sum(1), 2 * X]))
    close([x, v], outputs, backend, cases)


@both
def test_minus_one_that_is_computed(backend):
    chosen = x.reshape((gt.where(low > 0, -1, 4), 3))
    joined = x.reshape(gt.stack([-1, gt.sum(v)]))
    shape, one = np.array([1, 2]), X.reshape(4, 3)
    cases = [((X, n, shape), [one, one]) for n in (0, 1)]
    close([x, low, v], [chosen, joined], backend, cases)


small = gt.tensor("small", "int8", (2,))
NARROW = {  # where X has 12 elements
    "a sum": (lambda: small + x.shape[0], [13, 14]),
    "a remainder": (lambda: small % (x.shape[0] + 1), [1, 2]),
    "a number set": (lambda: small.at[0].set(x.shape[0]), [12, 2]),
    "a count": (lambda: small + x[x > 0].shape[0], [13, 14]),
    "a step": (lambda: gt.map(lambda r: r + x.shape[0], small), [13, 14]),
    "a count of a step": (
        lambda: gt.map(lambda r: r + x[x > r].shape[0], small),
        [12, 12],
    ),
}


@both
@pytest.mark.parametrize("name", NARROW)
def test_a_size_beside_narrow_integers_fits_them(name, backend):
    """Traced sizes wrapped silently where NumPy raises OverflowError."""
    build, expected = NARROW[name]
    for dims in POLICIES if backend == "numpy" else ("specialize", "pad"):
        f = graphc.function([x, small], build(), backend=backend, dims=dims)
        values = f(X, np.array([1, 2], "int8"))
        np.testing.assert_array_equal(values, expected)
        assert values.dtype == "int8"
        with pytest.raises(graphc.CallError, match="int8 holds numbers from") as info:
            f(np.full(200, 9.0, "float32"), np.array([1, 2], "int8"))
        assert info.value.kind == "range"


@both
def test_a_size_is_compared_whole_with_narrow_integers(backend):
    below = small < x.shape[0], small < x[x > 0].shape[0]
    for dims in POLICIES if backend == "numpy" else ("specialize", "pad"):
        f = graphc.function([x, small], below, backend=backend, dims=dims)
        for n in (2, 200, 330):
            for found in f(np.full(n, 9.0, "float32"), np.array([1, 2], "int8")):
                np.testing.assert_array_equal(found, [n > 1, n > 2])


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_a_size_below_zero_beside_integers_without_a_sign(dtype):
    y, n = gt.tensor("y", "float32", ("m",)), gt.tensor("n", dtype, ())
    for dims in ("specialize", "pad"):
        total = n + (x.shape[0] - y.shape[0])
        f = graphc.function([x, y, n], total, backend="numpy", dims=dims)
        assert f(X, X[:3], np.ones((), dtype)) == 10
        with pytest.raises(graphc.CallError, match=f"{dtype} holds numbers from 0"):
            f(X[:3], X, np.ones((), dtype))


LEFT = "the sizes beside -1 do not divide the elements of (n,): needs "
WRONG = {
    (-1, -1): "only one size may be -1: needs max(-y, 0) + max(-y_2, 0) <= 1; got 2",
    (-1, 5): f"{LEFT}max(-y, 0)*n - (n//max(1, y_2))*max(-y, 0)*max(1, y_2) <= 0; "
    "got 2",
    (0, -1): "-1 cannot be worked out beside a size of 0: "
    "needs max(-y_2, 0) <= max(0, y); got 1 and 0",
    (-2, -6): "a size must not be negative, except one that is -1: "
    "needs -1 <= y; got -2",
    (3, 5): "cannot reshape (n,) into (y, y): needs y_3*y_4 == n; got 15 and 12",
}


@pytest.mark.parametrize("shape", WRONG)
def test_vectors_that_are_no_shape(shape):
    y = x.reshape(v)
    f = graphc.function([x, v], y, backend="numpy")
    error = refused(lambda: f(X, np.array(shape)), f"reshape: {WRONG[shape]}")
    assert error.kind == ("divisibility" if shape == (-1, 5) else "shape")


@both
def test_one_count_for_all(backend):
    y = gt.repeat(x, counts)
    outputs = [y, graphc.grad(gt.sum(y * y), x), gt.repeat(x[:, None], counts, axis=0)]
    cases = []
    for given in ([2], [0], range(12)):
        times = np.array(given)
        rows = X[:, None].repeat(times, 0)
        cases.append(((X, times), [X.repeat(times), 2 * X * times, rows]))
    close([x, counts], outputs, backend, cases)
    f = graphc.function([x, counts], y, backend=backend)
    assert f(X[:0], np.array([3])).shape == (0,)
    first = "repeat: one count per element, or one for all: needs "
    said = f"{first}min(1, max(1 - m, m - 1))*n <= m; got 12 and 2"
    refused(lambda: f(X, np.array([1, 2])), said)
    refused(lambda: f(X, np.arange(13)), f"{first}m <= max(1, n); got 13 and 12")


def around(array, first, last, fill):
    wide = np.pad(array, (max(first, 0), max(last, 0)), constant_values=fill)
    return wide[max(-first, 0) : wide.size - max(-last, 0)]


@both
def test_widths_that_turn_out_negative(backend):
    fill = x[3]
    zeros = gt.pad(x, (low, high))
    filled = gt.pad(x, (low, high), constant_values=fill)
    unlike = gt.pad(x, (low, high), constant_values=(5, 6))
    rows = graphc.vmap(lambda row: gt.pad(row, (low, high)))(gt.stack([x, x + 1]))
    slopes = [graphc.grad(gt.sum(y * y), x) for y in (zeros, filled)]
    outputs = [zeros, filled, gt.sum(zeros), *slopes, rows]
    cases, parts = [], []
    for a, b in ((2, 1), (-2, 1), (0, -3), (-1, -1), (-12, 0), (-14, 4), (3, -14)):
        y = around(X, a, b, 0)
        places = around(np.arange(12), a, b, -1)
        slope = 2 * X * np.isin(np.arange(12), places)
        wide = slope.copy()
        wide[3] += 2 * X[3] * np.sum(places < 0)
        two = np.stack([y, around(X + 1, a, b, 0)])
        expected = [y, around(X, a, b, X[3]), y.sum(), slope, wide, two]
        cases.append(((X, a, b), expected))
        ends = np.concatenate([np.full(max(a, 0), 5), X, np.full(max(b, 0), 6)])
        last = ends.size - max(-b, 0)
        parts.append(((X, a, b), [ends[max(-a, 0) : last]]))
    close([x, low, high], outputs, backend, cases)
    close([x, low, high], [unlike], backend, parts)


def test_widths_that_crop_too_much():
    f = graphc.function([x, low], gt.pad(x, (low, 3)), backend="numpy")
    first = "pad: negative widths crop more than axis 0 has: "
    refused(lambda: f(X, -16), f"{first}needs 0 <= low + n + 3; got -1")
    f = graphc.function([x, low], gt.pad(x, (low, 3), "edge"), backend="numpy")
    said = "pad: a pad width must not be negative: needs 0 <= low; got -1"
    refused(lambda: f(X, -1), said)


@both
def test_windows_that_start_beyond_all_axes(backend):
    """The end of the window wraps around; the error still says that it leaves."""
    f = graphc.function([x, low], x[low : low + 2], backend=backend)
    assert f(X, 3).tolist() == [4, 5]
    for start in (11, 2**63 - 1, -(2**63)):
        with pytest.raises(graphc.CallError, match="leaves an axis of size n"):
            f(X, start)


NEGATIVE = {
    "linspace": lambda n: gt.linspace(0.0, 1.0, n),
    "indices": lambda n: gt.indices((n, 2)),
    "sliding_window_view": lambda n: gt.sliding_window_view(gt.arange(12), n),
    "bincount": lambda n: gt.bincount([0, 1], minlength=n),
    "tril_indices": lambda n: gt.tril_indices(n)[0],
    "triu_indices": lambda n: gt.triu_indices(n, 1)[0],
    "segment_sum": lambda n: gt.segment_sum([1, 2], [0, 1], n),
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_sizes_below_0_are_refused(name):
    with pytest.raises(graphc.GraphError, match=f"{name}: .*negative"):
        NEGATIVE[name](-1)
    for dims in ("specialize", "pad"):
        f = graphc.function([low], NEGATIVE[name](low), backend="numpy", dims=dims)
        with pytest.raises(graphc.CallError, match=f"{name}: .*needs 0 <= low; got -1"):
            f(-1)


AS_LONG = {  # functions of two vectors; NumPy refuses unequal lengths
    "interp": lambda a, b: gt.interp(0.5, a, b),
    "average": lambda a, b: gt.average(a, weights=b),
    "bincount": lambda a, b: gt.bincount(gt.astype(a, "int64"), b, minlength=13),
    "histogram": lambda a, b: gt.histogram(a, 3, weights=b)[0],
    "cov": lambda a, b: gt.cov(a, b),
    "polyfit": lambda a, b: gt.polyfit(a, b, 1),
    "searchsorted": lambda a, b: gt.searchsorted(a, 3.0, sorter=gt.argsort(b)),
}


@pytest.mark.parametrize("name", AS_LONG)
def test_vectors_of_two_lengths_are_refused(name):
    y = gt.tensor("y", "float32", ("k",))
    f = graphc.function([x, y], AS_LONG[name](x, y), backend="numpy", dims="pad")
    f(X, X)
    for k in (1, 11, 13):
        with pytest.raises(graphc.CallError, match="n == k|k == n"):
            f(X, np.ones(k, "float32"))
