"""A named size that must be a number is reported once, when a function is built."""

import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

M, X = gt.tensor("m", "float32", ("n", 3)), gt.tensor("x", "float32", ("n",))


def built(inputs, output):
    """The texts of the size warnings given while a function is built."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graphc.function(inputs, output, backend="numpy", unused="warn")
    own = [w for w in caught if w.category is graphc.SizeWarning]
    assert all(w.filename == __file__ for w in own)
    return [w.message.args[0] for w in own]


def test_the_warning_names_the_op_the_types_the_line_and_the_declaration():
    (told,) = built([M, X], M @ X)
    first, hint = told.splitlines()
    start = "n must be 3: matmul of float32[n, 3], float32[n] at "
    assert first.startswith(start) and first.endswith(" needs it")
    assert "test_named_numbers.py:" in first
    assert hint == '  hint: declare m as gt.tensor("m", "float32", (3, 3))'


def test_the_declaration_of_the_hint_ends_the_warning():
    (told,) = built([X], X + gt.ones(3))
    code = told.rpartition(" as ")[2]
    x = eval(code)
    f = graphc.function([x], x + gt.ones(3), backend="numpy")
    np.testing.assert_array_equal(f(np.ones(3, "float32")), [2, 2, 2])
    assert built([x], x + gt.ones(3)) == []


@pytest.mark.parametrize(
    "output",
    [
        X.reshape((3, 1)),
        gt.stack([X, gt.ones(3)]),
        gt.where(X > 0, gt.ones(3), X),
        X.at[:].set(gt.ones(3)),
        gt.dot(X, gt.ones(3)) + gt.dot(X, gt.ones(3)),
        gt.concatenate([gt.ones((2, 3)), X.reshape((1, 3))]),
    ],
)
def test_each_op_that_needs_the_number_is_told_once(output):
    (told,) = built([X], output)
    assert told.startswith("n must be 3: ")


@pytest.mark.parametrize(
    "output",
    [
        gt.specify_shape(X, (3,)) + gt.ones(3),  # which says so
        X[:3],
        X[2],
        gt.sum(M, axis=1) + X,
        X + gt.ones(1),
    ],
)
def test_sizes_that_vary_or_are_stated_are_not_told(output):
    assert built([M, X], [output, M.sum(), X.sum()]) == []


def test_axes_without_a_name_are_not_told():
    v = gt.vector("v")
    assert built([v], v @ gt.ones((3, 2))) == []


def test_graphs_of_functions_that_are_traced_are_not_told():
    f = graphc.jit(lambda x, y: x + y, shapes="n, 3")
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.SizeWarning)
        np.testing.assert_array_equal(f(np.ones(3), np.ones(3)), [2, 2, 2])


def test_sizes_that_may_be_equal_are_told_apart():
    """The axis m, which may equal n, is not reported in its place."""
    x = gt.tensor("x", "float32", ("m", "n"))
    w = gt.tensor("w", "float32", (3, 2))
    with pytest.warns(graphc.SizeWarning, match="n must be 3"):
        f = graphc.function([x, w], x @ w, backend="numpy")
    assert f(np.ones((2, 3), "float32"), np.ones((3, 2), "float32")).shape == (2, 2)
