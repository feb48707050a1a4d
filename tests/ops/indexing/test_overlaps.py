"""Writes to one part of an array of values read from another part of the same array."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ops.indexing.overlaps import reads_other_places

X = (np.arange(1, 21) * 7 % 11).reshape(5, 4)
PARTS = ["[1:]", "[:, 1:]", "[1:, :2]", "[:, 0]", "[1:3, 1:3]", "[None, 1:]"]
UPDATES = {
    "shifted": lambda y, part: part(gt.roll(y, 1, axis=0)),
    "reversed": lambda y, part: part(y)[::-1],
    "chosen": lambda y, part: part(gt.take(y, np.ones(y.type.shape[0], int), axis=0)),
}
RESULTS = {  # forms for which XLA would overwrite what it has yet to read
    "more axes": lambda y, new: new[None],
    "an axis behind": lambda y, new: new[:, None],
    "running": lambda y, new: gt.cumsum(new[None], axis=1),
    "every other row": lambda y, new: gt.concatenate([y, y]).at[::2].set(new),
}


def part_of(text):
    """The function that reads part of an array; `text` is the index in brackets."""
    return eval(f"lambda z: z{text}")


CASES = [  # each pair of a part, an update and a result; both dtypes with each of them
    (text, list(UPDATES)[(i + j) % 3], result, ("float64", "int32")[(i // 2 + j) % 2])
    for i, text in enumerate(PARTS)
    for j, result in enumerate(RESULTS)
]


@pytest.mark.parametrize(("text", "update", "result", "dtype"), CASES)
def test_results_are_those_of_numpy(text, update, result, dtype):
    part = part_of(text)
    how = {"shifted": "set", "reversed": "multiply", "chosen": "add"}[update]
    x = gt.tensor("x", dtype, (5, 4))
    y = x + x
    new = getattr(part(y.at), how)(UPDATES[update](y, part))
    output = RESULTS[result](y, new)
    f = graphc.function([x], output)
    assert "joined_jax" in f.source
    array = X.astype(dtype)
    expected = graphc.function([x], output, backend="numpy")(array)
    np.testing.assert_array_equal(f(array), expected)


ROWS = {
    "a row": lambda k: k,
    "a column": lambda k: (slice(None), k),
    "a row of two axes": lambda k: (k, k),
}


CASES_OF_ROWS = [  # each pair of an index, an update and a result
    (list(ROWS)[(i + j) % 3], how, result)
    for i, how in enumerate(("set", "add", "multiply", "max"))
    for j, result in enumerate(RESULTS)
]


@pytest.mark.parametrize(("rows", "how", "result"), CASES_OF_ROWS)
def test_rows_with_numbers_that_are_data(rows, how, result):
    """A NaN survives extremes; numbers beyond the axis write nothing."""
    k = gt.iscalar("k")
    index = ROWS[rows](k)
    x = gt.tensor("x", "float32", (5, 5, 4))
    y = x + x
    new = getattr(y.at[index], how)(y[index][::-1])
    output = RESULTS[result](y, new)
    f = graphc.function([x, k], output)
    assert "row_apart_jax" in f.source
    exact = graphc.function([x, k], output, backend="numpy")
    array = (np.arange(100) * 7 % 11).reshape(5, 5, 4).astype("float32")
    array[1, 1] = np.nan
    for number in (1, 4, -2, 0):
        np.testing.assert_array_equal(
            f(array, number), exact(array, number), err_msg=f"{number}"
        )


def test_rows_beyond_the_axis_are_not_written():
    k = gt.iscalar("k")
    x = gt.tensor("x", "float32", ("n", 3))
    y = x * 2
    f = graphc.function([x, k], y.at[k].set(y[0][::-1])[None])
    for n in (1, 3):
        given = np.arange(3 * n, dtype="float32").reshape(n, 3)
        for beyond in (n, -n - 1):
            np.testing.assert_array_equal(f(given, beyond), [given * 2])


@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_sizes_that_vary(length):
    x = gt.tensor("x", "float32", ("n",))
    y = x * 2
    output = y.at[1:].set(y[:-1] + 1)[None]
    given = np.arange(length, dtype="float32")
    expected = graphc.function([x], output, backend="numpy")(given)
    for dims in ("auto", "specialize", "pad", "bound"):
        f = graphc.function([x], output, dims=dims)
        for _ in range(2):
            np.testing.assert_array_equal(f(given), expected)


def writes(function):
    """Whether the update made by `function` is a write that reads other places."""
    x = gt.tensor("x", "float32", ("n", 4))
    node = function(x + 1).node
    while node.primitive.name == "reshape":  # of a write to several axes as one
        node = node.inputs[0].node
    return reads_other_places(node)


def test_updates_of_the_same_elements_stay_as_they_are():
    assert not writes(lambda y: y.at[1:].set(gt.tanh(y[1:]) * 2))
    assert not writes(lambda y: y.at[1:].set(7))
    assert not writes(lambda y: y.at[:, 0].multiply(y[:, 0]))
    assert not writes(lambda y: y.at[0].set(y[1]))
    assert not writes(lambda y: y.at[:2].set(y[2:4]))
    assert not writes(lambda y: y.at[:, 1:].set(y[:, :1]))
    assert not writes(lambda y: y.at[...].set(y[::-1]))
    assert not writes(lambda y: y.at[1:].set(y[1:].at[:].set(y[1:] * 2)))


def test_rows_of_other_rows_stay_as_they_are():
    k = gt.iscalar("k")
    assert not writes(lambda y: y.at[k].set(y[k] * 2))
    assert not writes(lambda y: y.at[k].set(y[k - 3] + y[0]))
    assert not writes(lambda y: y.at[k + 1].set(gt.cumsum(y[k])))
    assert not writes(lambda y: y.at[:, 0].set(y[:, 3][::-1]))
    assert not writes(lambda y: y.at[k, 0].set(gt.sum(y)))
    assert not writes(lambda y: y.at[[0, 1]].set(y[1::-1]))
    assert writes(lambda y: y.at[k].set(y[k][::-1]))
    assert writes(lambda y: y.at[k].set(gt.cumsum(y[0])))
    assert writes(lambda y: y.at[k].set(y[gt.argmax(y[:, 0])]))


def test_updates_of_other_elements_are_found():
    assert writes(lambda y: y.at[1:].set(y[:-1]))
    assert writes(lambda y: y.at[1:].set(y[1:] + gt.tanh(y[:-1])))
    assert writes(lambda y: y.at[1:].set(y[1:][::-1]))
    assert writes(lambda y: y.at[0].set(gt.sum(y, axis=0)))
    assert writes(lambda y: y.at[:, 0].set(y[:, 0] + y[0, 0]))
    assert writes(lambda y: gt.reshape(y, (-1,)).at[4:].set(gt.reshape(y[:-1], (-1,))))
    assert writes(lambda y: y.at[1:].set(y[1:].at[1:].set(y[2:] * 2)))


def test_the_search_ends_in_long_chains():
    def long(y):
        part = y[1:]
        for _ in range(1000):
            part = gt.tanh(part)
        return y.at[1:].set(part)

    assert writes(long)


def test_arrays_of_one_number_are_written_as_they_are():
    """Gradients fill such arrays part by part with computed values."""
    x = gt.tensor("x", "float32", ("n", 4))
    zeros, long = gt.zeros_like(x), x
    for _ in range(1000):
        long = gt.tanh(long)
    assert not writes(lambda y: zeros.at[1:].set(long[:-1]))
    assert not writes(lambda y: zeros.at[1:].set(zeros[:-1] + long[1:]))


def test_functions_of_numpy_write_by_way_of_views():
    def mirrored(x):
        x = x.copy()
        rows = x[::2]
        rows[:, 0] *= rows[:, 0][::-1]
        return x

    def shifted(x):
        x = x + 1
        x[1:] = x[:-1]
        return x[None], np.stack([x, x * 2])

    for function in (mirrored, shifted):
        for n in (5, 7, 6):
            x = np.arange(1.0, 4 * n + 1).reshape(n, 4)
            f = graphc.jit(function, frontend="numpy")
            for ours, theirs in zip(
                jax.tree.leaves(f(x)), jax.tree.leaves(function(x)), strict=True
            ):
                np.testing.assert_array_equal(ours, theirs)
