"""Indices out of bounds that are data: what happens, and what `check=True` does."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

BACKENDS = ("jax", "numpy")
X = np.arange(6.0).reshape(3, 2)
STRAY = np.array([1, -7, 5, -1, 0])
READS = {
    "rows": (lambda x, i: x[i], X[[1, 0, 2, 2, 0]]),
    "columns": (lambda x, i: x[1:, i], X[1:][:, [1, 0, 1, 1, 0]]),
}
WRITES = {
    "rows": (lambda x, i: x.at[i].add(9.0), X + 9),
    "columns": (lambda x, i: x.at[:, i].add(9.0), X + [9, 18]),
    "block": (lambda x, i: x.at[1:, i].set(9.0), [[0, 1], [9, 9], [9, 9]]),
    "pairs": (lambda x, i: x.at[i, i].set(9.0), [[9, 1], [2, 9], [4, 5]]),
}
CASES = {f"read {k}": v for k, v in READS.items()}
CASES |= {f"write {k}": v for k, v in WRITES.items()}


def variables():
    return gt.tensor("x", "float64", (3, 2)), gt.tensor("i", "int64", ("k",))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_reads_are_clamped_and_writes_dropped(name, backend):
    x, i = variables()
    program, expected = CASES[name]
    # As a pair, -1 would be the last row and the last column.
    stray = STRAY[STRAY != -1] if name == "write pairs" else STRAY
    f = graphc.function([x, i], program(x, i), backend=backend)
    np.testing.assert_array_equal(f(X, stray), expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_a_check_raises_for_stray_indices_only(name, backend):
    x, i = variables()
    f = graphc.function([x, i], CASES[name][0](x, i), backend=backend, check=True)
    f(X, np.array([0, 1, -2]))
    with pytest.raises(graphc.GraphError, match=r"index: out of .*\n.*test_bounds.py"):
        f(X, STRAY)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op", [gt.bincount, lambda i: gt.repeat(i, i)])
def test_a_check_raises_for_negative_counts(op, backend):
    i = gt.tensor("i", "int64", ("k",))
    f = graphc.function([i], op(i), backend=backend, check=True)
    f(np.array([2, 0, 3]))
    with pytest.raises(graphc.GraphError, match="is negative"):
        f(np.array([2, -1, 3]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_raises_where_a_slice_from_data_sticks_out(backend):
    x, i = variables()
    start = gt.argmax(i)
    part = x[start : start + 2]
    f = graphc.function([x, i], part, backend=backend)
    np.testing.assert_array_equal(f(X, np.array([0, 0, 1])), X[1:])
    f = graphc.function([x, i], part, backend=backend, check=True)
    np.testing.assert_array_equal(f(X, np.array([0, 1, 0])), X[1:])
    with pytest.raises(graphc.GraphError, match="a slice of 2 leaves axis 0"):
        f(X, np.array([0, 0, 1]))


def test_a_constant_index_out_of_bounds_raises_when_the_graph_is_built():
    x, _ = variables()
    for index in (3, -4, np.array([0, 3])):
        with pytest.raises(graphc.GraphError, match="out of bounds for an axis of"):
            x[index]


@pytest.mark.parametrize("backend", BACKENDS)
def test_full_keeps_the_dtype_of_a_symbolic_value(backend):
    v, n = gt.tensor("v", "float64", ()), gt.iscalar("n")
    f = graphc.function([v, n], gt.full(n, v), backend=backend)
    assert np.asarray(f(1 / 3, 2)).tolist() == [1 / 3, 1 / 3]


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_positions_of_a_longer_mask_are_not_taken_to_be_inside(backend):
    x = gt.tensor("x", "float64", ("n",))
    mask = gt.tensor("mask", "bool", ("m",))
    f = graphc.function([x, mask], x[gt.nonzero(mask)[0]], backend=backend)
    out = f(np.array([1.0, 2.0]), np.array([True, False, False, True]))
    np.testing.assert_array_equal(np.asarray(out), [1.0, 2.0])
