"""`gt.gradient` and `gt.unwrap`, where the samples do not reach."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors.messages import whole


def test_distances_and_coordinates_may_be_symbolic():
    f = gt.tensor("f", "float32", ("n", "m"))
    points, step = gt.tensor("points", "float64", ("n",)), gt.scalar("step", "float64")
    slopes = [
        *gt.gradient(f, points, step, edge_order=2),
        *gt.gradient(f, step, points, axis=[1, 0]),
        *gt.gradient(f, step),
    ]
    program = graphc.function([f, points, step], slopes, backend="numpy")
    given = np.cos(np.arange(12, dtype="float32")).reshape(4, 3)
    at = np.array([0.0, 0.5, 2.0, 2.25])
    wanted = [
        *np.gradient(given, at, np.float64(0.5), edge_order=2),
        *np.gradient(given, np.float64(0.5), at, axis=[1, 0]),
        *np.gradient(given, np.float64(0.5)),
    ]
    for ours, theirs in zip(program(given, at, 0.5), wanted, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_too_few_samples_are_refused_at_the_call():
    f = gt.tensor("f", "float32", ("n",))
    program = graphc.function([f], gt.gradient(f, edge_order=2), backend="numpy")
    assert program(np.ones(3, "float32")).shape == (3,)
    reason = "gradient: an axis has fewer samples than edge_order"
    with pytest.raises(graphc.CallError, match=reason):
        program(np.ones(2, "float32"))


@pytest.mark.parametrize("period", [4, 5])
def test_half_a_period_keeps_its_direction(period):
    p = gt.tensor("p", "int64", ("n",))
    program = graphc.function([p], gt.unwrap(p, period=period), backend="numpy")
    given = np.array([0, 2, 0, 3, -3, 10, 8, 8, -1])
    np.testing.assert_array_equal(program(given), np.unwrap(given, period=period))


def test_messages():
    f = gt.tensor("f", "float32", ("n", 3))
    whole(
        lambda: gt.gradient(f, 1.0, 2.0, 3.0),
        "gradient: needs one distance for all axes, or one spacing for each\n"
        "  got: 3 for 2",
    )
    whole(
        lambda: gt.gradient(f, edge_order=3),
        "gradient: the order at the ends must be 1 or 2\n  got: 3",
    )
    whole(
        lambda: gt.gradient(f > 0),
        "gradient: needs numbers\n  got: bool[n, 3]",
    )
    whole(
        lambda: gt.gradient(f, np.ones((2, 2)), axis=0),
        "gradient: distances are scalars, or vectors of coordinates\n"
        "  got: float64[2, 2]",
    )
