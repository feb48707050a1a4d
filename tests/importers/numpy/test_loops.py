"""Loops of Python over an axis are one program for all sizes, as scans."""

import warnings

import jax
import numpy as np
import pytest

import graphc
from tests.importers.numpy.loops import FUNCTIONS
from tests.importers.numpy.triangular_loops import OF_MATRICES, OF_VECTORS

SIZES = 9, 12, 11, 2, 10, 0, 9
TRIANGULAR_SIZES = 14, 17, 15, 2, 16, 14
BY_DEFAULT = "smoothed", "fibonacci", "distances", "counted"
DIFFERENT = {"alternating": 2}  # programs, for odd and for even sizes
OPTIONS = {"default": {}, "pad": {"dims": "pad"}, "numpy": {"backend": "numpy"}}

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def arrays(ranks, n):
    rng = np.random.default_rng(n)
    return [rng.random((n,) * rank) for rank in ranks]


def check(compiled, function, args):
    """Compare a call with NumPy's, errors included."""
    try:
        with np.errstate(all="ignore"):
            expected = function(*[x.copy() for x in args])
    except Exception as error:
        with pytest.raises(type(error)):
            compiled(*args)
        return
    results = compiled(*args)
    assert jax.tree.structure(results) == jax.tree.structure(expected)
    for result, other in zip(*map(jax.tree.leaves, (results, expected)), strict=True):
        assert np.dtype(result.dtype) == np.asarray(other).dtype
        np.testing.assert_allclose(result, other, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, options) for name in FUNCTIONS for options in ("pad", "numpy")]
    + [(name, "default") for name in BY_DEFAULT],
)
def test_values_are_those_of_numpy(name, options):
    function, ranks = FUNCTIONS[name]
    compiled = graphc.jit(function, frontend="numpy", **OPTIONS[options])
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in SIZES:
            check(compiled, function, arrays(ranks, n))
    programs = compiled.explain().count("compiled for all sizes")
    assert programs == DIFFERENT.get(name, 1)


@pytest.mark.parametrize("options", ["pad", "numpy"])
@pytest.mark.parametrize("function", OF_VECTORS + OF_MATRICES)
def test_sizes_may_differ_from_step_to_step(function, options):
    compiled = graphc.jit(function, frontend="numpy", **OPTIONS[options])
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in TRIANGULAR_SIZES:
            check(compiled, function, arrays([1 + (function in OF_MATRICES)], n))
    assert compiled.explain().count("compiled for all sizes") == 1
    assert len(compiled.stats().compilations) <= (5 if options == "pad" else 0)


def test_changed_numbers_are_noticed_at_new_sizes():
    rate = [0.5]

    def smoothed(x):
        level = 0.0
        for element in x:
            level = level + rate[0] * (element - level)
        return level

    compiled = graphc.jit(smoothed, frontend="numpy")
    for n in (9, 12, 11):
        check(compiled, smoothed, arrays([1], n))
    rate[0] = 0.25
    for n in (13, 10, 14):
        check(compiled, smoothed, arrays([1], n))
    assert compiled.explain().count("compiled for all sizes") == 2


def test_each_size_is_traced_once_and_compared():
    traced = [0]

    def stepped(x):
        traced[0] += 1
        total = 0.0
        for i in range(len(x)):
            total = total + (x[i] if i != 20 else 2 * x[i])
        return total

    compiled = graphc.jit(stepped, frontend="numpy")
    for n in (9, 10, 11, 12):
        before = traced[0]
        check(compiled, stepped, arrays([1], n))
    assert traced[0] == before + 2  # one is NumPy's own call
    with pytest.warns(graphc.FallbackWarning, match="compiled once for n = 21"):
        np.testing.assert_allclose(compiled(np.ones(21)), 22)
    np.testing.assert_allclose(compiled(np.ones(21)), 22)
    compared = "each new size is traced and compared, since Python counts the steps at"
    assert f"{compared} test_loops.py:" in compiled.explain()


def test_indices_from_data_are_checked_in_loops():
    def picked(x, places):
        total = 0.0
        for place in places:
            total = total + x[place]
        return total

    compiled = graphc.jit(picked, frontend="numpy")
    for n in (9, 10, 11):
        x, places = np.arange(n) / n, np.arange(n) - 3
        np.testing.assert_allclose(compiled(x, places), picked(x, places))
        places[2] = n
        with pytest.raises(graphc.CallError, match=f"index {n}, size {n}"):
            compiled(x, places)


def test_long_loops_are_folded_at_the_first_size():
    def decayed(x):
        level = 0.0
        for element in x:
            level = 0.5 * level + np.sin(element)
        return level

    compiled = graphc.jit(decayed, frontend="numpy")
    check(compiled, decayed, arrays([1], 200))
    assert "lax.scan" in compiled.source
