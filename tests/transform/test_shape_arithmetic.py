"""Arithmetic on shapes is done when the program is made, or once per shape.

Whatever moves or compares known integers leaves the plan one segment without static
arguments, and gives NumPy's numbers.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt

SHAPE = (3, 5)
OPERATIONS = {  # functions of a namespace and two vectors
    "taken": lambda xp, a, b: a[np.array([-1, 0])],
    "take": lambda xp, a, b: xp.take(a, np.array([0, -1, 0])),
    "reversed": lambda xp, a, b: a[::-1],
    "one": lambda xp, a, b: a[-1:],
    "joined": lambda xp, a, b: xp.concatenate([a[:1], b]),
    "stacked": lambda xp, a, b: xp.stack([a[0], b[-1]]),
    "full": lambda xp, a, b: xp.full((2,), a[0]),
    "with ones": lambda xp, a, b: xp.concatenate([xp.ones(1, "int64"), a]),
    "with zeros": lambda xp, a, b: a + xp.zeros(a.shape, "int8"),
    "range": lambda xp, a, b: xp.arange(3) + a[0],
    "repeated": lambda xp, a, b: xp.repeat(a, 2),
    "counted": lambda xp, a, b: xp.repeat(a[:2], np.array([2, 1])[: a.shape[0]]),
    "tiled": lambda xp, a, b: xp.tile(b, 2),
    "stretched": lambda xp, a, b: xp.broadcast_to(a[0], (3,)),
    "where": lambda xp, a, b: xp.where(a > b[0], a, b[0]),
    "where equal": lambda xp, a, b: xp.where(a == 3, -1, a),
    "where not": lambda xp, a, b: xp.where(~(a < 4), a, 4),
    "both": lambda xp, a, b: xp.where((a > 2) & (a != 5), a, 1),
    "either": lambda xp, a, b: xp.where(xp.logical_or(a < 2, a >= b[-1]), a, 1),
    "int8": lambda xp, a, b: a * np.array([2], "int8"),
    "uint8": lambda xp, a, b: a + np.uint8(1),
    "narrow": lambda xp, a, b: (a > 4).astype("int8") + np.ones(a.shape, "int8"),
    "as int32": lambda xp, a, b: a.astype("int32").astype("int64"),
    "largest": lambda xp, a, b: xp.max(a, keepdims=True),
    "smallest": lambda xp, a, b: xp.minimum(a, xp.min(b)),
    "product": lambda xp, a, b: xp.stack([xp.prod(a[:2]), b[0]]),
    "sum": lambda xp, a, b: xp.sum(xp.stack([a, a]), axis=0),
    "running": lambda xp, a, b: xp.cumsum(a),
    "set": lambda xp, a, b: _set(a, b[0]),
    "grid": lambda xp, a, b: xp.reshape(xp.stack([a, a]).T, (-1,)),
    "clipped": lambda xp, a, b: xp.clip(a, 1, 7),
    "halved": lambda xp, a, b: a // 2,
    "shifted": lambda xp, a, b: (a << 1) - abs(a),
    "rolled": lambda xp, a, b: xp.roll(a, 1),
    "padded": lambda xp, a, b: xp.pad(a, (1, 0), constant_values=1),
}  # fmt: skip


def _set(a, new):
    if isinstance(a, graphc.Value):
        return a.at[0].set(new)
    found = a.copy()
    found[0] = new
    return found


def composed(xp, shape, steps):
    """The vector that the steps make from a shape."""
    made = [shape]
    for name, i in steps:
        made.append(OPERATIONS[name](xp, made[-1], made[i % len(made)])[:4])
    return made[-1]


def size_of(xp, vector):
    """A size for an axis, from the vector's last number."""
    return abs(vector[-1]) % 9


def check_plan(steps):
    x = gt.tensor("x", "float32", ("n", "m"))
    vector = composed(gt, gt.stack(x.shape), steps)
    f = graphc.function([x], [gt.sum(x) + gt.zeros(size_of(gt, vector)), vector])
    assert len(f.plan.steps) == 1, f"{steps}\n{f.explain(full=True)}"
    assert not f.plan.segments[0].statics


def check_one_segment(steps, backend="jax"):
    x = gt.tensor("x", "float32", ("n", "m"))
    vector = composed(gt, gt.stack(x.shape), steps)
    expected = composed(np, np.array(SHAPE), steps)
    outputs = gt.sum(x) + gt.zeros(size_of(gt, vector)), vector
    f = graphc.function([x], outputs, backend=backend)
    if backend == "jax":
        assert len(f.plan.steps) == 1, f"{steps}\n{f.explain(full=True)}"
        assert not f.plan.segments[0].statics
    sized, numbers = f(np.ones(SHAPE, "float32"))
    assert sized.shape == (size_of(np, expected),), steps
    assert numbers.dtype == expected.dtype
    np.testing.assert_array_equal(numbers, expected, err_msg=str(steps))


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_moves_or_compares_sizes_never_splits(name):
    check_plan([(name, 0)])
    check_one_segment([(name, 0)], "numpy")


def test_numbers_of_all_operations_on_jax():
    x = gt.tensor("x", "float32", ("n", "m"))
    steps = [[(name, 0)] for name in OPERATIONS]
    vectors = [composed(gt, gt.stack(x.shape), one) for one in steps]
    f = graphc.function([x], [gt.sum(x), *vectors])
    _, *results = f(np.ones(SHAPE, "float32"))
    for one, numbers in zip(steps, results, strict=True):
        expected = composed(np, np.array(SHAPE), one)
        assert numbers.dtype == expected.dtype
        np.testing.assert_array_equal(numbers, expected, err_msg=str(one))


def test_numbers_out_of_a_shape_are_sizes_at_once():
    x = gt.tensor("x", "float32", ("n", 8))
    shape = gt.stack(x.shape).astype("int32")
    assert shape[-1].node.inputs == ()  # it is a constant
    f = graphc.function([x], [shape[0], shape[-1], shape[1:]], backend="numpy")
    for got, expected in zip(f(np.ones((5, 8), "float32")), (5, 8, [8]), strict=True):
        np.testing.assert_array_equal(got, np.array(expected, "int32"), strict=True)


def test_capacities_as_numbers_do_not_split():
    """The host knows them before anything runs."""
    x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    at = gt.tensor("at", "int64", ("n",))
    f = graphc.function([x, at, k], gt.zeros(k).at[at].add(x), dims="pad")
    assert len(f.plan.segments) == 1
    for n, number in ((5, 3), (3, 20)):
        given = np.ones(n, "float32"), np.arange(n) % number
        expected = np.bincount(given[1], minlength=number)
        np.testing.assert_array_equal(f(*given, number), expected)


def test_sizes_that_rewriting_finds_are_numbers():
    """Both choices of the `where` are 1, which shows once its index has moved."""
    check_one_segment([("with ones", 0), ("both", 0), ("taken", 0)])


def test_numbers_below_0_that_rewriting_finds_are_no_sizes():
    x = gt.tensor("x", "float32", ("n", "m"))
    steps = [("with ones", 0), ("both", 0), ("taken", 0)]
    ones = composed(gt, gt.stack(x.shape), steps)
    with pytest.raises(graphc.GraphError, match="zeros: a size must not be negative"):
        graphc.function([x], gt.sum(x) + gt.zeros(-ones[-1]))


PLACES = st.integers(0, 3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(OPERATIONS)), PLACES), max_size=4))
def test_compositions_never_split(steps):
    x = gt.tensor("x", "float32", ("n", "m"))
    vector = composed(gt, gt.stack(x.shape), steps)
    f = graphc.function([x], gt.sum(x) + gt.zeros(size_of(gt, vector)))
    assert len(f.plan.steps) == 1, f"{steps}\n{f.explain(full=True)}"
    assert not f.plan.segments[0].statics


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(OPERATIONS)), PLACES), max_size=6))
def test_compositions_agree_with_numpy(steps):
    check_one_segment(steps, "numpy")
