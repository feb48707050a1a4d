"""Axes whose sizes are formulas are padded if the size follows, else specialized."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors.messages import both

POLICIES = ["auto", "pad", "specialize"]


def ones(*shape):
    return np.ones(shape, "float32")


@both
@pytest.mark.parametrize("dims", POLICIES)
@pytest.mark.parametrize(("axis", "size"), [("2*n", 6), ("n + 1", 1), ("3*n + 2", 5)])
def test_one_axis_tells_the_size(axis, size, dims, backend):
    x = gt.tensor("x", "float32", (axis,))
    f = graphc.function([x], gt.cumsum(x), dims=dims, backend=backend)
    step = {"2*n": 2, "n + 1": 1, "3*n + 2": 3}[axis]
    for rows in range(size, size + 40 * step, 7 * step):
        np.testing.assert_array_equal(f(ones(rows)), np.arange(1, rows + 1))
    if backend == "jax" and dims == "pad":
        assert len(f.stats().compilations) <= 4


@both
@pytest.mark.parametrize("dims", POLICIES)
def test_sizes_that_no_axis_tells_are_specialized(dims, backend):
    x = gt.tensor("x", "float32", ("n + m",))
    y = gt.tensor("y", "float32", ("n",))
    f = graphc.function([x, y], gt.sum(x) + gt.sum(y), dims=dims, backend=backend)
    for n in range(1, 9):
        assert f(ones(2 * n + 1), ones(n)) == 3 * n + 1
    assert f.stats().changes == []


@both
@pytest.mark.parametrize("axis", ["n//m", "n % m", "n + n//m"])
def test_axes_that_need_not_grow_with_their_sizes_are_specialized(axis, backend):
    inputs = [gt.tensor(f"x{i}", "float32", (n,)) for i, n in enumerate([axis, *"nm"])]
    outputs = [gt.sum(gt.cumsum(x)) for x in inputs]
    f = graphc.function(inputs, outputs, dims="pad", backend=backend)
    expected = {"n//m": 2, "n % m": 1, "n + n//m": 7}[axis]
    results = f(*map(ones, (expected, 5, 2)))
    assert results == [n * (n + 1) / 2 for n in (expected, 5, 2)]
    with pytest.raises(graphc.GraphError, match="m cannot be padded: an axis of"):
        graphc.function(inputs, outputs, dims={"m": "pad"}, backend=backend)


@both
@pytest.mark.parametrize("dims", POLICIES)
def test_sizes_of_0_divide_nothing(dims, backend):
    """They raise both in declared sizes and in numbers of a padded program."""
    x, y = gt.tensor("x", "float32", ("k",)), gt.tensor("y", "float32", ("n",))
    z = gt.tensor("z", "float32", ("k + 3*(k//n)",))
    quotient = gt.sum(x) * (x.shape[0] // y.shape[0]) + gt.sum(y)
    for inputs, results in (([x, y], quotient), ([x, y, z], [quotient, gt.cumsum(z)])):
        f = graphc.function(inputs, results, dims=dims, backend=backend)
        with pytest.raises(graphc.CallError, match="divided by zero") as caught:
            f(*map(ones, [5, 0, 5][: len(inputs)]))
        assert caught.value.kind == "zero"


@both
@pytest.mark.parametrize("dims", ["specialize", "pad"])
def test_numbers_of_0_divide_no_sizes(dims, backend):
    """The numbers are counts of data and arguments, and they also count steps."""
    x, k = gt.vector("x"), gt.scalar("k", "int64")
    count, n = x[x > 2].shape[0], x.shape[0]

    def steps(number):
        return gt.fori_loop(0, number, lambda i, c: c + 1, 0)

    outputs = [
        n // count,
        -(-n // count),
        steps(n % count),
        steps(n // k),
        steps(9 % k),
    ]
    outputs += [gt.sum(gt.map(lambda v: v * (n // x[x > v].shape[0]), x[: n - 2]))]
    for i, y in enumerate(outputs):
        inputs = [x, k] if i in (3, 4) else [x]
        how = {"dims": dims, "backend": backend, "unused": "ignore"}
        f = graphc.function(inputs, y, **how)
        rows = np.array([3, 3, 1, 1, 5], "float32")
        assert f(*[rows, 2][: len(inputs)]) == [1, 2, 2, 2, 1, 31][i]
        with pytest.raises(graphc.CallError, match="divided by zero") as caught:
            f(*[0 * rows, 0][: len(inputs)])
        assert caught.value.kind == "zero"
        assert "gt.maximum(m, 1)" in str(caught.value)


MISFITS = {  # the sizes of axes, and those of the call
    ("n", "n + m"): [(3, 2), (1, 0)],
    ("n + m", "n"): [(0, 1)],
    ("n", "n - m"): [(0, 1), (3, 5)],
    ("n", "n + 2*m"): [(1, 2), (3, 1)],
    ("n", "n*m"): [(0, 1), (2, 3)],
    ("n", "n//2 + m"): [(6, 2)],
    ("n", "2*n + 2*m"): [(2, 7), (2, 2)],
    ("2*n + 2*m", "n - m"): [(3, 5)],
    ("n", "2*k"): [(1, 3)],
    ("n", "k + 1"): [(0, 0)],
    ("n", "n + m", "m + k"): [(2, 5, 2)],
    ("n", "n + m", "m + n"): [(2, 5, 4)],
    ("n", "n + m", "n + k", "m + k"): [(2, 5, 5, 7)],
    ("m + 2 - k",): [],
}


@both
@pytest.mark.parametrize("shapes", MISFITS, ids="; ".join)
def test_no_size_is_negative(shapes, backend):
    """An axis of n + m has at least n elements; it then tells m for other axes."""
    inputs = [gt.tensor(f"x{i}", "float32", (n,)) for i, n in enumerate(shapes)]
    total = sum(gt.sum(x) for x in inputs)
    f = graphc.function(inputs, total, backend=backend)
    for sizes in MISFITS[shapes]:
        with pytest.raises(graphc.CallError, match=r"axis 0 of input x\d (must )?ha"):
            f(*map(ones, sizes))
    for n, m, k in [(0, 0, 0), (1, 0, 1), (5, 3, 2)]:
        sizes = [eval(axis, {"n": n, "m": m, "k": k}) for axis in shapes]
        assert f(*map(ones, sizes)) == sum(sizes)


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_no_size_of_jit_is_negative(frontend):
    f = graphc.jit(lambda x, y: x.sum() + y.sum(), shapes="n, n+m", frontend=frontend)
    assert f(ones(3), ones(3)) == 6 and f(ones(2), ones(5)) == 7
    for sizes in [(3, 2), (1, 0), (4, 2), (4, 2)]:
        problem = "n was . before, and the axis of n"
        with pytest.raises(graphc.GraphError, match=problem):
            f(*map(ones, sizes))


def test_no_size_of_a_saved_model_is_negative(tmp_path):
    shapes = "n", "n + m", "n + k", "n + 2*p", "n*q", "r", "m + k"
    inputs = [gt.tensor(f"x{i}", "float32", (n,)) for i, n in enumerate(shapes)]
    f = graphc.function(inputs, sum(map(gt.sum, inputs)), dims={"r": "pad"})
    sizes = {"n": 2, "m": 1, "k": 0, "p": 1, "q": 3, "r": range(1, 9)}
    f.export(tmp_path / "model", sizes)
    model = graphc.load(tmp_path / "model")
    assert model(*map(ones, (2, 3, 2, 4, 6, 5, 1))) == 23
    for i, size in [(1, 1), (2, 1), (3, 5), (3, 0), (4, 5), (6, 2)]:
        wrong = [2, 3, 2, 4, 6, 5, 1]
        wrong[i] = size
        with pytest.raises(graphc.ModelError, match=f"axis 0 of input x{i} must have"):
            model(*map(ones, wrong))


def test_sizes_of_a_saved_model_that_no_axis_tells(tmp_path):
    shapes = "r", "max(n, m)", "m*k", "2*m*k + 1", "n"
    inputs = [gt.tensor(f"x{i}", "float32", (n,)) for i, n in enumerate(shapes)]
    f = graphc.function(inputs, sum(map(gt.sum, inputs)), dims={"r": "pad"})
    f.export(tmp_path / "model", {"n": 1, "m": 2, "k": 1, "r": range(1, 9)})
    model = graphc.load(tmp_path / "model")
    assert model(*map(ones, (3, 2, 2, 5, 1))) == 13
    for i, size in [(1, 0), (2, 1), (3, 3)]:
        wrong = [3, 2, 2, 5, 1]
        wrong[i] = size
        with pytest.raises(graphc.ModelError):
            model(*map(ones, wrong))


def test_a_size_that_no_axis_tells_is_not_padded_by_name():
    x = gt.tensor("x", "float32", ("n + m",))
    y = gt.tensor("y", "float32", ("n",))
    for name in ("n", "m"):
        with pytest.raises(graphc.GraphError, match=f"{name} cannot be padded: not"):
            graphc.function([x, y], gt.sum(x) + gt.sum(y), dims={name: "pad"})


def test_shapes_of_jit_may_be_formulas():
    f = graphc.jit(lambda x: x.sum(), shapes="2*n")
    for rows in (4, 6, 8, 30, 32):
        assert f(ones(rows)) == rows
    assert len(f.stats().compilations) <= 3 and f.stats().fallbacks == []


def test_sums_of_a_capacity_that_is_a_number():
    """Sums of 64-bit integers are also computed as floats, and so is a number's."""
    x = gt.vector("x", "float64")
    loss = gt.sum(gt.cumsum(gt.cummax(x[x > 0.3])))
    slopes = graphc.grad(loss, x)
    plain = graphc.function([x], [loss, slopes], backend="numpy")
    padded = graphc.function([x], [loss, slopes])
    for size in (5, 40, 1, 0):
        numbers = np.sin(np.arange(size) * 3.0)
        for got, expected in zip(padded(numbers), plain(numbers), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_a_result_longer_by_what_no_axis_tells_is_compiled_for_each_size(dims):
    """It could not be cut, and raised AssertionError from the second size on."""
    x, y = gt.tensor("x", "float32", ("n + m",)), gt.tensor("y", "float32", ("k",))
    f = graphc.function([x, y], gt.concatenate([x, y]), dims=dims)
    for n in (3, 5, 4):
        assert f(np.ones(n, "float32"), np.ones(n + 1, "float32")).shape == (2 * n + 1,)
    with pytest.raises(graphc.GraphError, match=r"k cannot be padded[^$]*axis of .*k"):
        graphc.function([x, y], gt.concatenate([x, y]), dims={"k": "pad"})
