"""A compiled function raises for the same data for which NumPy raises."""

import operator

import jax
import numpy as np
import pytest

import graphc
from tests.newest_numpy import IS_OLD

X, TABLE = np.cos(np.arange(6.0)), np.arange(4.0)
INSIDE, OUTSIDE = np.array([0, 3, 1, 2, 3, 0]), np.array([0, 3, 6, 2, 3, 0])


def written(write):
    """A function that returns its argument with a write applied to a copy."""

    def function(x, i):
        y = x.copy()
        write(y, i)
        return y

    return function


def unread(compute):
    """A function whose result does not depend on what it computes."""

    def function(x, i):
        compute(x * 1, i)
        return x * 2

    return function


def put(y, i):
    y[i] = 1


def add(y, i):
    y[i[2]] += 1


def along_axis(y, i):
    np.put_along_axis(y, i, 0.0, 0)


BY_DATA = {  # by indices, counts, numbers and matrices
    "read": lambda x, i: x[i],
    "a row": lambda x, i: np.outer(x, x)[i.max()],
    "written": written(put),
    "added": written(add),
    "add.at": written(lambda y, i: np.add.at(y, i, 1)),
    "np.put": written(lambda y, i: np.put(y, i, 1)),
    "put_along_axis": written(along_axis),
    "take": lambda x, i: np.take(TABLE, i),
    "take_along_axis": lambda x, i: np.take_along_axis(x, i, 0),
    "a mask that is longer": lambda x, i: np.compress(i < 6, TABLE[:3], axis=0)[:1],
    "a number": written(lambda y, i: np.zeros(2, "int8").fill(y.size * i[2] * 10)),
    "weights": lambda x, i: np.average(x[:2], weights=i[1:3] % 3),
    "choose": lambda x, i: np.choose(i, [x, -x, x, x]),
    "delete": lambda x, i: np.delete(x, i),
    "repeat": lambda x, i: np.repeat(x, 5 - i),
    "powers": lambda x, i: 2 ** (5 - i),
    "bincount": lambda x, i: np.bincount(5 - i),
    "loop": lambda x, i: np.apply_along_axis(lambda row: row[i[2]], 0, np.outer(x, x)),
    "inverse": lambda x, i: np.linalg.inv(np.eye(2) * (6 - i[2])),
    "edges": lambda x, i: np.digitize(x, i[2:5]),
    "histogram": lambda x, i: np.histogram(x, i[2:5])[0],
    "range": lambda x, i: np.histogram(np.where(i > 5, np.nan, x))[0],
    "edges of boxes": lambda x, i: np.histogram2d(x, x, [3, np.append(0, 5 - i[2])])[0],
    "quantile": lambda x, i: np.quantile(x, i[2] / 5),
    "percentile": lambda x, i: np.nanpercentile(x, i * 20.0),
    "unravel_index": lambda x, i: np.unravel_index(i, (2, 2))[1],
    "reduceat": lambda x, i: np.add.reduceat(x, np.sort(i)),
    "unread write": unread(put),
    "unread sum": unread(lambda x, i: x + x[i < 6]),
    "unread element": unread(lambda x, i: x[i[2]]),
    "unread inverse": unread(lambda x, i: np.linalg.inv(np.eye(2) * (6 - i[2]))),
}


def agrees(function, backend):
    compiled = graphc.jit(function, frontend="numpy", backend=backend)
    np.testing.assert_allclose(compiled(X, INSIDE), function(X, INSIDE))
    with pytest.raises((ValueError, IndexError, ArithmeticError)):
        function(X, OUTSIDE)
    with pytest.raises(graphc.CallError, match=r"asked for by .*test_checks\.py"):
        compiled(X, OUTSIDE)
    np.testing.assert_allclose(compiled(X, INSIDE), function(X, INSIDE))


@pytest.mark.parametrize("name", sorted(BY_DATA.keys() - {"a mask that is longer"}))
def test_what_numpy_raises_for(name):
    agrees(BY_DATA[name], "numpy")


@pytest.mark.parametrize("name", ["read", "unread write"])
def test_in_programs_of_jax(name):
    agrees(BY_DATA[name], "jax")


def test_a_size_with_bad_data_keeps_its_program():
    f = graphc.jit(lambda x, i: x[i], frontend="numpy", dims="pad")
    for size, shift in ((5, 0), (6, 0), (6, 9), (6, 0), (7, 9), (7, 0), (7, 0)):
        x, i = np.cos(np.arange(size)), np.arange(size) + shift
        if shift:
            with pytest.raises(graphc.CallError, match="out of bounds"):
                f(x, i)
        else:
            np.testing.assert_array_equal(f(x, i), x)
    assert len(f.stats().compilations) == 2


def test_masks_that_are_longer_select_within():
    function = graphc.jit(BY_DATA["a mask that is longer"], frontend="numpy")
    with pytest.raises(graphc.CallError, match="out of bounds"):
        function(X, INSIDE)


def test_integers_of_python_fit_where_they_are_cast_and_are_compared_whole():
    names = {"frontend": "numpy", "backend": "numpy"}
    added = graphc.jit(lambda pixels, k: pixels + k, **names)
    above = graphc.jit(lambda pixels, k: pixels > k, **names)
    pixels = np.array([0, 44, 255], "uint8")
    np.testing.assert_array_equal(added(pixels, 255), pixels + 255)
    for k in (-1, 300):
        np.testing.assert_array_equal(above(pixels, k), pixels > k)
        with pytest.raises(graphc.CallError, match="does not fit uint8"):
            added(pixels, k)


@pytest.mark.skipif(IS_OLD, reason="np.clip of NumPy refuses them")
def test_integers_of_python_wrap_in_choices_and_bound_nothing_beyond_a_dtype():
    def chosen(x, k):
        counts = x.copy()
        np.add.at(counts, [0, 0], k)
        choices = np.select([x > 0], [x], k), np.choose(x % 2, [x, 300])
        clipped = np.clip(x, -k, k), np.clip(x, -300, 300), x.clip(max=x.size + 300)
        return counts, *choices, *clipped

    function = graphc.jit(chosen, frontend="numpy", backend="numpy")
    x = np.array([-100, 0, 3, 127], "int8")
    for k in (3, 300):
        for result, expected in zip(function(x, k), chosen(x, k), strict=True):
            np.testing.assert_array_equal(result, expected)
            assert result.dtype == expected.dtype


def test_where_takes_integers_of_python_as_the_numpy_that_is_there():
    """From NumPy 2.5 on, integers that do not fit raise; before, they wrap around."""
    picked = lambda x, k: np.where(x > 0, x, k)
    function = graphc.jit(picked, frontend="numpy", backend="numpy")
    x = np.array([-100, 0, 3, 127], "int8")
    np.testing.assert_array_equal(function(x, 3), picked(x, 3))
    try:
        expected = picked(x, 300)
    except OverflowError:
        with pytest.raises(graphc.CallError, match="does not fit int8"):
            function(x, 300)
    else:
        np.testing.assert_array_equal(function(x, 300), expected)


def test_numbers_of_python_that_numpy_takes_as_arrays_are_not_rounded():
    def found_at(x):
        return np.searchsorted(x, 0.1, side="right"), np.isin(0.1, x)

    x = np.array([0.1, 0.2], "float32")
    function = graphc.jit(found_at, frontend="numpy", backend="numpy")
    np.testing.assert_array_equal(function(x), found_at(x))


def test_bytes_in_another_order_are_taken_as_numbers():
    function = graphc.jit(lambda x: x * 2, frontend="numpy", backend="numpy")
    for n in (3, 5):
        result = function(np.arange(n, dtype=">f8"))
        np.testing.assert_array_equal(result, np.arange(n) * 2)
        assert result.dtype == "float64"


LISTED = {
    "made": lambda pixels, k: np.array([[k], [pixels[0]]], "uint8"),
    "put": lambda pixels, k: np.putmask(pixels, pixels > 0, k),
    "item": lambda pixels, k: operator.setitem(pixels, slice(2), [k, 1]),
}


@pytest.mark.parametrize("name", LISTED)
def test_integers_of_python_in_lists_fit(name):
    def made(pixels, k):
        array = pixels.copy()
        result = LISTED[name](array, k)
        return array if result is None else result

    pixels = np.array([0, 44, 255], "uint8")
    function = graphc.jit(made, frontend="numpy", backend="numpy")
    np.testing.assert_array_equal(function(pixels, 7), made(pixels, 7))
    with pytest.raises(OverflowError):
        made(pixels, 300)
    with pytest.raises(graphc.CallError, match="does not fit uint8"):
        function(pixels, 300)


def test_the_first_numbers_of_arange_fit_and_others_wrap():
    def numbers(start, stop):
        return np.arange(start, stop=stop, dtype="int8")

    function = graphc.jit(numbers, frontend="numpy", backend="numpy")
    for ends in ((126, 130), (0, 300), (5, 2)):
        np.testing.assert_array_equal(function(*ends), numbers(*ends))
    with pytest.raises(OverflowError):
        numbers(300, 302)
    with pytest.raises(graphc.CallError, match="does not fit int8"):
        function(300, 302)


def test_nobody_looks_without_checks():
    function = graphc.jit(BY_DATA["unread write"], frontend="numpy", check=False)
    np.testing.assert_allclose(function(X, OUTSIDE), X * 2)


def test_derivatives_are_checked_and_jax_traces_without_checks():
    def total(x, i):
        return (x[i] ** 2).sum()

    slopes = graphc.jit(graphc.grad(total), frontend="numpy", backend="numpy")
    np.testing.assert_allclose(slopes(X, INSIDE)[4:], 0)
    with pytest.raises(graphc.CallError, match="out of bounds"):
        slopes(X, OUTSIDE)
    compiled = graphc.jit(total, frontend="numpy")
    by_jax = jax.grad(compiled)(X, OUTSIDE)
    np.testing.assert_allclose(by_jax[:2], 2 * X[:2] * [2, 0], rtol=1e-6)


@pytest.mark.parametrize(
    "options",
    [{"check": 3}, {"check": "indices"}, {"check": True, "frontend": "jax"}],
)
def test_what_says_nothing_about_checks(options):
    with pytest.raises(graphc.GraphError, match="check"):
        graphc.jit(BY_DATA["read"], **{"frontend": "numpy"} | options)
