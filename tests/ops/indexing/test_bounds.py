"""Indices that depend on data and are out of bounds, with and without `check=True`."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ops.common.conditions import reporting
from graphc.ops.effects.assertions import asserted
from graphc.transform.planning.plan import Check
from tests.ops.refusing import refused

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


TOLD = "{} is negative: {} of {}"  # the last two fields take the numbers


def variables():
    return gt.tensor("x", "float64", (3, 2)), gt.tensor("i", "int64", ("k",))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_reads_are_clamped_and_writes_dropped(name, backend):
    x, i = variables()
    program, expected = CASES[name]
    # In a pair, -1 would mean the last row and the last column.
    stray = STRAY[STRAY != -1] if name == "write pairs" else STRAY
    f = graphc.function([x, i], program(x, i), backend=backend)
    np.testing.assert_array_equal(f(X, stray), expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_a_check_raises_for_stray_indices_only(name, backend):
    x, i = variables()
    f = graphc.function([x, i], CASES[name][0](x, i), backend=backend, check=True)
    f(X, np.array([0, 1, -2]))
    with refused(r"^index: out of bounds for axis \d of .*: index -?\d+, size [23]\n"):
        f(X, STRAY)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_tells_the_step_that_fails_first(backend):
    """The steps are examples in a loop; empty arrays raise nothing."""
    x, i = gt.tensor("x", "int8", ("n",)), gt.tensor("i", "int8", ("k", "m"))
    total = lambda row: gt.scan(lambda c, j: (c + x[j], None), np.int8(0), row)[0]
    f = graphc.function([x, i], graphc.vmap(total)(i), backend=backend, check=True)
    for index in (3, -4, 127, -128):
        told = f"^index: out of bounds for axis 0 of int8.*: index {index}, size 3\n"
        with refused(told):
            f(np.ones(3, "int8"), np.array([[0, 1], [index, 9], [1, -8]], "int8"))
    assert f(np.ones(3, "int8"), np.zeros((0, 2), "int8")).shape == (0,)
    assert f(np.ones(0, "int8"), np.zeros((2, 0), "int8")).tolist() == [0, 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_of_examples_tells_the_first_that_fails(backend):
    i = gt.tensor("i", "int16", ("k", "m"))
    told = lambda v: reporting(v < 0, v, v.shape[0])
    checked = lambda v: asserted(gt.sum(v), told(v), TOLD, "check")
    f = graphc.function([i], graphc.vmap(checked)(i), backend=backend)
    with refused("^{} is negative: -2 of 3\n"):
        f(np.array([[0, 1, 5], [-2, -9, 1], [-1, 1, 1]], "int16"))
    assert f(np.ones((2, 3), "int16")).tolist() == [3, 3]
    assert f(np.zeros((0, 3), "int16")).shape == (0,)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("op", "told"),
    [
        (gt.bincount, "bincount: a number is negative: -1"),
        (lambda i: gt.repeat(i, i), "repeat: a count is negative: -1"),
        (lambda i: gt.choose(i, [i, i, i, i]), "choose: a number is not in 0..3: -1"),
    ],
)
def test_a_check_raises_for_negative_counts(op, told, backend):
    i = gt.tensor("i", "int64", ("k",))
    f = graphc.function([i], op(i), backend=backend, check=True)
    f(np.array([2, 0, 3]))
    with refused(f"^{told}\n"):
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
    with refused("a slice of 2 leaves axis 0"):
        f(X, np.array([0, 0, 1]))


def test_a_constant_index_out_of_bounds_raises_when_the_graph_is_built():
    x, _ = variables()
    for index in (3, -4, np.array([0, 3])):
        with refused("out of bounds for an axis of"):
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


SIX = np.arange(12.0).reshape(6, 2)
LITERALS = {  # programs of an array like SIX, and their results
    "read": (lambda x: x[[0, 5]], SIX[[0, 5]]),
    "from the end": (lambda x: x[[0, -6]], SIX[[0, 0]]),
    "beside data": (lambda x: x[[0, 5], gt.argmax(x[0])], SIX[[0, 5], 1]),
    "of int8": (lambda x: x[np.array([0, 5], "int8")], SIX[[0, 5]]),
    "take": (lambda x: gt.take(x, [-6, 1], axis=0), SIX[[0, 1]]),
    "along": (lambda x: gt.take_along_axis(x, [[5, 0]], 0), [[10.0, 1.0]]),
    "set": (lambda x: x.at[[0, 5]].set(SIX[[0, 5]] + 1) - x, [[1]] + 4 * [[0]] + [[1]]),
    "add": (lambda x: (x.at[[5, -6], 1:].add(1.0) - x)[:, 1], [1, 0, 0, 0, 0, 1]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LITERALS)
def test_literal_indices_must_be_within_an_axis_of_symbolic_size(name, backend):
    """An array of five rows is too small for them, as it is for a literal integer."""
    x = gt.tensor("x", "float64", ("n", 2))
    program, expected = LITERALS[name]
    f = graphc.function([x], program(x), backend=backend)
    expected = np.broadcast_to(expected, f(SIX).shape)
    np.testing.assert_array_equal(f(SIX), expected)
    message = r"index (5|-6) is out of bounds for an axis of size n.*; got 5"
    with refused(message, graphc.CallError):
        f(SIX[:5])


@pytest.mark.parametrize("backend", BACKENDS)
def test_data_beside_a_literal_is_clamped_and_dropped(backend):
    x, i = variables()
    outputs = [x[[0, 2], i], x.at[[0, 2], i].set(9.0)]
    f = graphc.function([x, i], outputs, backend=backend)
    read, written = f(X, np.array([7, -7]))
    np.testing.assert_array_equal(read, [1, 4])
    np.testing.assert_array_equal(written, X)


LONG = np.arange(300.0)
FAR = {  # indices into 300 elements
    "int8": [3, -1, 127, -128],
    "uint8": [3, 255, 128, 0],
    "int16": [299, -300, 300, -301],
    "int32": [299, -300, 2**31 - 1, -(2**31)],
    "uint32": [299, 300, 2**31 + 1, 2**32 - 1],
    "int64": [299, -300, 2**31 + 1, 2**32 + 1, 2**32 - 1, -(2**32) + 1, -(2**32) - 1],
    "uint64": [299, 300, 2**32 + 1, 2**63 + 1, 2**64 - 1],
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", FAR)
def test_indices_of_every_dtype_far_out_of_bounds(dtype, backend):
    """No index wraps around, though JAX itself keeps only the low bits of an index."""
    x = gt.tensor("x", "float64", ("n",))
    i = gt.tensor("i", dtype, ("k",))
    block = gt.stack([x, x], axis=1)
    outputs = [x[i], x.at[i].set(-1.0), block.at[i, 1:].set(-1.0)[:, 1]]
    f = graphc.function([x, i], outputs, backend=backend)
    read, written, through = f(LONG, np.array(FAR[dtype], dtype))
    near = np.array([min(max(j, -300), 299) for j in FAR[dtype]])
    np.testing.assert_array_equal(read, LONG[near])
    expected = LONG.copy()
    expected[[j for j in FAR[dtype] if -300 <= j < 300]] = -1
    np.testing.assert_array_equal(written, expected)
    np.testing.assert_array_equal(through, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_a_slice_from_data_counts_from_the_end_then_moves_inside(dtype, backend):
    x = gt.tensor("x", "float64", ("n",))
    i = gt.tensor("i", dtype, (1,))
    start = i[0]
    outputs = [x[start : start + 2], x.at[start : start + 2].set(-1.0)]
    f = graphc.function([x, i], outputs, backend=backend)
    limits = np.iinfo(dtype)
    for first in (0, 1, 2, 5, -1, -2, -3, -4, 2**32 + 1, limits.min, limits.max):
        if limits.min <= first <= limits.max:
            part, written = f(X[:, 0], np.array([first], dtype))
            inside = min(max(first + 3 if first < 0 else first, 0), 1)
            np.testing.assert_array_equal(part, X[inside : inside + 2, 0])
            expected = X[:, 0].copy()
            expected[inside : inside + 2] = -1
            np.testing.assert_array_equal(written, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_slice_from_an_argument_may_count_from_the_end(backend):
    """The slice must have the length compiled in, as NumPy's has; else it raises."""
    x, k = gt.tensor("x", "float64", ("n",)), gt.iscalar("k")
    f = graphc.function([x, k], x[k : k + 2], backend=backend)
    for first in range(-8, 8):
        expected = SIX[first : first + 2, 0]
        if len(expected) == 2:
            np.testing.assert_array_equal(f(SIX[:, 0], first), expected)
        else:
            with refused("the slice of 2 elements from", graphc.CallError):
                f(SIX[:, 0], first)


def test_a_condition_is_checked_once():
    x, i = gt.vector("x", "float64"), gt.vector("i", "int64")
    written = x.at[i].set(x[i] * 2)
    f = graphc.function([x, i], written, check=True, backend="numpy")
    assert sum(isinstance(step, Check) for step in f.plan.steps) == 1
    np.testing.assert_array_equal(f(np.arange(3.0), [2, 0]), [0, 1, 4])
    with pytest.raises(graphc.CallError, match="index 3, size 3"):
        f(np.arange(3.0), [2, 3])
