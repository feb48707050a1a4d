"""A list times a symbolic integer is refused, since it could mean two things."""

import operator

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

k = gt.iscalar("k")
x = gt.vector("x", "float64", ("n",))
n = x.shape[0]
words = [1, 2]

# The code, the code that the hint suggests, and Python's result for k = 3.
REPEATED = [
    (lambda: [0] * k, 'gt.zeros(k, "int64")', [0, 0, 0]),
    (lambda: k * [0], 'gt.zeros(k, "int64")', [0, 0, 0]),
    (lambda: (0,) * k, 'gt.zeros(k, "int64")', [0, 0, 0]),
    (lambda: [False] * k, 'gt.zeros(k, "bool")', [False] * 3),
    (lambda: [True] * k, 'gt.full(k, True, "bool")', [True] * 3),
    (lambda: [2.5] * (k - 1), 'gt.full(k - 1, 2.5, "float64")', [2.5] * 2),
    (lambda: [0.0] * n, 'gt.zeros(n, "float64")', [0.0] * 2),
    (lambda: [1j] * k, 'gt.full(k, 1j, "complex128")', [1j] * 3),
    (lambda: [1, 2] * k, "gt.tile([1, 2], k)", [1, 2] * 3),
    (lambda: words * k, "gt.tile(words, k)", [1, 2] * 3),
    (lambda: [x] * k, "gt.tile([x], (k, 1))", [[5.0, 6.0]] * 3),
    (lambda: (x,) * n, "gt.tile((x,), (n, 1))", [[5.0, 6.0]] * 2),
    (lambda: [[1, 2]] * k, "gt.tile([[1, 2]], (k, 1))", [[1, 2]] * 3),
    (lambda: [x[0]] * k, "gt.tile([x[0]], k)", [5.0] * 3),
    (lambda: operator.mul([0], k), 'gt.zeros(k, "int64")', [0, 0, 0]),
]


@pytest.mark.parametrize(("write", "hint", "wanted"), REPEATED)
def test_the_hint_gives_what_python_repeats(write, hint, wanted):
    with pytest.raises(graphc.GraphError) as error:
        write()
    assert f"hint: use {hint}; to multiply, gt.multiply(" in str(error.value)
    assert "test_repeating.py" in str(error.value)
    value = eval(hint)
    f = graphc.function([k, x], value, backend="numpy", unused="ignore")
    given = f(3, np.array([5.0, 6.0]))
    np.testing.assert_array_equal(given, wanted)
    assert given.dtype == np.asarray(wanted).dtype


def test_the_hint_multiplies_where_that_is_meant():
    value = gt.multiply([1, 2], k)
    f = graphc.function([k], value, backend="numpy")
    np.testing.assert_array_equal(f(3), [3, 6])


@pytest.mark.parametrize("text", ["ab", b"ab", bytearray(3)])
def test_text_is_not_repeated(text):
    for write in (lambda: text * k, lambda: k * text):
        with pytest.raises(graphc.GraphError, match="text has a length that is known"):
            write()


def test_a_list_is_repeated_in_place_by_no_symbol_either():
    items = [0]
    with pytest.raises(graphc.GraphError, match=r"list \*"):
        items *= k
    assert items == [0]


def test_arrays_are_multiplied_and_lists_with_arrays_too():
    for value in ([1.0, 2.0] * x, x * [1.0, 2.0], np.array([1.0, 2.0]) * k):
        assert value.type.rank == 1


@pytest.mark.parametrize("items", [[1, 2, 3], (1, 2, 3)])
def test_the_hint_of_an_index_of_a_list_works(items):
    for write in (lambda: items[:k], lambda: items[k]):
        with pytest.raises(graphc.GraphError) as error:
            write()
        assert "write gt.asarray(a)[i]" in str(error.value)
    part, item = gt.asarray(items)[:k], gt.asarray(items)[k]
    f = graphc.function([k], [part, item], backend="numpy")
    assert [r.tolist() for r in f(1)] == [[1], 2]


def test_a_range_of_a_symbol_names_arange():
    with pytest.raises(graphc.GraphError, match=r"use gt.arange\(n\)"):
        range(k)
