"""Positions in triangles and diagonals, and flat positions, beyond the samples."""

from itertools import product

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors.messages import whole

BACKENDS = ("jax", "numpy")


def test_triangles_of_symbolic_sizes_and_diagonals():
    n, k, m = (gt.scalar(name, "int64") for name in "nkm")
    both = [*gt.tril_indices(n, k, m), *gt.triu_indices(n, k, m)]
    program = graphc.function([n, k, m], both, backend="numpy")
    for rows, offset, columns in product(range(5), range(-6, 7), range(5)):
        given = rows, offset, columns
        wanted = [*np.tril_indices(*given), *np.triu_indices(*given)]
        for ours, theirs in zip(program(*given), wanted, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs, str(given))


def test_a_padded_triangle_reads_no_data():
    x = gt.tensor("x", "float32", ("n", "m"))
    total = gt.sum(x[gt.tril_indices_from(x, 1)])
    program = graphc.function([x], total, backend="jax", dims="pad")
    assert len(program.plan.segments) == 1
    for shape in ((3, 5), (6, 2), (1, 1), (0, 4)):
        given = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        wanted = given[np.tril_indices_from(given, 1)].sum()
        assert program(given) == wanted


def test_the_position_of_the_largest_element():
    x = gt.tensor("x", "float32", ("n", "m", 3))
    at = gt.unravel_index(gt.argmax(x), x.shape)
    program = graphc.function([x], [*at, x[at]], backend="numpy", dims="pad")
    given = np.cos(np.arange(24, dtype="float32")).reshape(4, 2, 3)
    *place, largest = program(given)
    assert tuple(place) == np.unravel_index(given.argmax(), given.shape)
    assert largest == given.max()


@pytest.mark.parametrize("backend", BACKENDS)
def test_positions_that_are_data_are_checked_at_the_call(backend):
    i = gt.tensor("i", "int32", ("k",))
    flat = gt.ravel_multi_index((i, i), (3, 4))
    program = graphc.function([i], flat, backend=backend)
    np.testing.assert_array_equal(program(np.array([0, 2], "int32")), [0, 10])
    for wrong in (3, -1):
        with pytest.raises(graphc.CallError, match="a position is out of range"):
            program(np.array([0, wrong], "int32"))


def test_a_flat_position_out_of_range_is_one_of_the_slowest_axis():
    i = gt.tensor("i", "int64", ())
    for order, slowest in (("C", 0), ("F", 1)):
        found = gt.unravel_index(i, (3, 4), order)
        program = graphc.function([i], found[slowest], backend="numpy")
        size = (3, 4)[slowest]
        for flat in range(-30, 30):
            assert (0 <= program(flat) < size) == (0 <= flat < 12)


def test_axes_of_a_diagonal_are_of_one_size():
    x = gt.tensor("x", "float32", ("n", "m"))
    program = graphc.function([x], gt.diag_indices_from(x), backend="numpy")
    assert len(program(np.ones((3, 3), "float32"))[1]) == 3
    reason = "diag_indices_from: the axes differ in size"
    with pytest.raises(graphc.CallError, match=reason):
        program(np.ones((3, 2), "float32"))


def test_messages():
    x = gt.tensor("x", "float32", ("n",))
    n = gt.scalar("n", "int64")
    outside = "a position is out of range\n  hint: positions are 0 or more, and less"
    whole(
        lambda: gt.unravel_index([2, 6], (2, 3)),
        f"unravel_index: {outside} than 6",
    )
    whole(
        lambda: gt.ravel_multi_index(([1, 2], [0, -1]), (3, n)),
        f"ravel_multi_index: {outside} than n",
    )
    whole(
        lambda: gt.unravel_index(x, (2, 3)),
        "unravel_index: needs integers\n  got: float32[n]",
    )
    whole(
        lambda: gt.unravel_index(0, (2, 3), "A"),
        "unravel_index: unknown order\n  got: 'A'\n  expected: 'C' or 'F'",
    )
    whole(
        lambda: gt.ravel_multi_index(([1], [0]), (3, 2), "low"),
        "ravel_multi_index: unknown mode\n  got: 'low'\n"
        "  expected: 'raise', 'wrap' or 'clip'",
    )
    whole(
        lambda: gt.triu_indices_from(x),
        "triu_indices_from: needs a matrix\n  got: float32[n]",
    )
