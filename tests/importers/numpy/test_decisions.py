"""Python code with NumPy's names that decides by sizes: one program per decision."""

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.importers.jax.sizes.family import MOST_PROGRAMS

CALLS = [
    (5, 5),
    (6, 5),
    (6, 9),
    (12, 4),
    (7, 7),
    (20, 3),
    (2, 1),
    (1, 3),
    (21, 3),
    (3, 3),
]


def by_comparisons(x, y):
    assert 0 < len(y) < 100
    if x.shape == y.shape:
        return x * y
    if len(x) % 4 == 0 or not x.shape[0] > y.shape[0]:
        return y * x.size
    return np.sort(x)[: min(3, len(x))]


def by_numbers(x, y):
    count = max(len(x) - len(y), 0)
    return x[count:].sum() if count else np.arange(len(y)) / len(y)


def by_frequencies(x, y):
    points = np.fft.rfftfreq(abs(len(x) - len(y)) + 1, 0.5)
    return np.fft.fftfreq(len(x)) * x if len(x) > len(y) else points


ELSEWHERE: dict[str, Any] = {}  # the globals of another module
exec("def half(x): return x[: len(x) // 2]", ELSEWHERE)
half = ELSEWHERE["half"]


def by_a_helper(x, y):
    return half(x) if len(x) in (6, 20) else half(y)


class ByAMethod:
    def start(self, x):
        return x[: len(x) // 2] if len(x) > 4 else x

    def __call__(self, x, y):
        return self.start(x).sum() * len(y)


@pytest.mark.parametrize(
    "function", [by_comparisons, by_numbers, by_frequencies, by_a_helper, ByAMethod()]
)
def test_sizes_that_decide_alike_share_a_program(function):
    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n, m in CALLS:
            args = np.cos(np.arange(n)), np.arange(m) + 0.5
            result, expected = ours(*args), function(*args)
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result, expected, rtol=1e-12)
    for_one = [c for c in ours.stats().compilations if c.program.startswith("exactly")]
    assert len(for_one) < 5  # the first size, axes of 1, and sizes equal to 6


def test_there_are_no_frequencies_of_no_points():
    ours = graphc.jit(
        lambda x: np.fft.rfftfreq(len(x) - 2), frontend="numpy", backend="numpy"
    )
    for n in (4, 5, 9):
        np.testing.assert_allclose(ours(np.zeros(n)), np.fft.rfftfreq(n - 2))
    with pytest.raises(ZeroDivisionError):
        ours(np.zeros(2))


def test_facts_are_told_with_their_lines():
    def function(x):
        return x.sum() if len(x) > 8 else x.max()

    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    for n in (3, 4, 9, 5):
        ours(np.ones(n))
    text = ours.explain()
    assert "where x.shape[0] <= 8 (test_decisions.py:" in text
    assert "where x.shape[0] > 8 (test_decisions.py:" in text
    assert list(ours.stats().decisions.values()) == [2, 1]


def test_many_decisions_are_told():
    def function(x):
        while len(x) > 1:
            x = x[: len(x) // 2] if len(x) % 2 == 0 else x[1:]
        return x

    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    with pytest.warns(graphc.FallbackWarning, match=f"has {MOST_PROGRAMS} programs"):
        for n in range(2, 40):
            x = np.arange(n, dtype="float64")
            np.testing.assert_array_equal(ours(x), function(x))


def test_data_decide_nothing():
    function = graphc.jit(lambda x: x if len(x[x > 0]) > 2 else -x, frontend="numpy")
    with pytest.raises(graphc.GraphError, match="has no number before"):
        function(np.ones(4))


def test_len_is_that_of_python_elsewhere():
    """In other threads meanwhile, and afterwards even if the function has failed."""
    lengths, tracing, looked = [], threading.Event(), threading.Event()

    def function(x):
        tracing.set()
        looked.wait(10)
        lengths.append((len([1, 2]), len({}), *map(len, [x, "text"])))
        raise ValueError(len(x))

    def look():
        tracing.wait(10)
        lengths.append(len(np.ones(3)))
        looked.set()

    other = threading.Thread(target=look)
    other.start()
    with pytest.raises(ValueError, match="4"):
        graphc.jit(function, frontend="numpy")(np.ones(4))
    other.join()
    assert lengths == [3, (2, 0, 4, 4)]
    assert "len" not in globals() and "len" not in ELSEWHERE


def test_the_count_of_what_is_selected_is_a_length():
    function = graphc.jit(lambda x: x.sum() / len(np.unique(x)), frontend="numpy")
    assert float(function(np.array([1.0, 1.0, 4.0]))) == 3.0
