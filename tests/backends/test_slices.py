"""Slices of stacked outputs, at positions that XLA takes for unknown."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis import cost
from graphc.rewrites import Rules

pytestmark = pytest.mark.usefixtures("compiled_quickly")
COUNT = 5
X = gt.tensor("x", "float32", (COUNT, 3))
ROWS = np.arange(3 * COUNT, dtype="float32").reshape(COUNT, 3)


@pytest.fixture(autouse=True)
def paying(monkeypatch):
    """Set the cost of compilations so low that all slices pay."""
    monkeypatch.setattr(cost, "LEAST_ALIKE", -cost.PLACES)


def stacked(x=X):
    """The stacked outputs of a loop: running sums of rows, and the rows themselves."""
    zero = gt.zeros_like(x[0])
    return gt.scan(lambda c, row: (c + row, [c + row, -row]), zero, x)[1]


def compiled(inputs, outputs, **how):
    return graphc.function(inputs, outputs, rewrites=Rules(), **how)


def agree(f, inputs, outputs, *args):
    """Require that a call gives what the same graph gives on NumPy."""
    expected = graphc.function(inputs, outputs, backend="numpy")(*args)
    for a, b in zip(f(*args), expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)


def alike(f):
    """Count the slices of a program that are printed alike."""
    return f.source.count("jax.lax.dynamic_index_in_dim(")


def test_few_slices_are_at_known_places(monkeypatch):
    monkeypatch.undo()
    sums, _ = stacked()
    f = compiled([X], [sums[i] for i in range(COUNT)])
    assert alike(f) == 0 and "unknown_places" not in f.source
    assert not cost.slices_pay_alike(20) and cost.slices_pay_alike(40)
    assert cost.seconds_of_slices(200) < 200 * cost.SLICED / 4


def test_slices_of_one_loop_share_the_numbers_of_places():
    sums, rows = stacked()
    outputs = [*(sums[i] for i in range(COUNT)), rows[4], rows[1], sums[2] * rows[3]]
    f = compiled([X], outputs)
    assert alike(f) == 8
    assert f.source.count("= unknown_places(jax, ") == 1
    agree(f, [X], outputs, ROWS)
    agree(f, [X], outputs, np.full_like(ROWS, np.nan))
    assert len(f.plan.segments) == 1


def test_slices_of_other_arrays_stay():
    sums, _ = stacked()
    outputs = [X[1], gt.exp(X)[2], sums[-1], sums[1:2], sums[1, 2], sums[3]]
    f = compiled([X], outputs)
    assert alike(f) == 1
    agree(f, [X], outputs, ROWS)


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool", "complex64"])
def test_dtypes_of_slices(dtype):
    x = gt.tensor("x", dtype, (3,))
    _, ys = gt.scan(lambda c, y: (c, gt.equal(y, y) if dtype == "bool" else -y), 0, x)
    outputs = [ys[i] for i in range(3)]
    f = compiled([x], outputs)
    assert alike(f) == 3
    agree(f, [x], outputs, np.array([0, 2**40, 1]).astype(dtype))


@pytest.mark.parametrize("dims", ["specialize", "pad"])
@pytest.mark.parametrize("sizes", [(1, 3, 4), (0, 2)])
def test_sizes_that_vary_behind_the_places(dims, sizes):
    x = gt.tensor("x", "float32", (COUNT, "n"))
    sums, _ = stacked(x)
    outputs = [sums[i] for i in range(COUNT)]
    f = compiled([x], outputs, dims=dims)
    assert alike(f) == COUNT
    for n in sizes:
        agree(f, [x], outputs, ROWS[:, :1] * np.ones(n, "float32"))


@pytest.mark.parametrize("jit", ["fewest", True, False])
def test_slices_under_transformations_of_jax(jit):
    sums, _ = stacked()
    f = compiled([X], [sums[i] for i in range(COUNT)], jit=jit)
    assert alike(f) == COUNT
    expected = list(np.cumsum(ROWS, 0))
    call = f.jax_callable
    for run in (jax.jit(call), call):
        np.testing.assert_allclose(run(ROWS), expected, rtol=1e-6)
    with jax.disable_jit():
        np.testing.assert_allclose(call(ROWS), expected, rtol=1e-6)
    slope = jax.grad(lambda x: call(x)[3].sum())(jnp.asarray(ROWS))
    np.testing.assert_array_equal(slope, (np.arange(COUNT) < 4)[:, None] * np.ones(3))
    both = jax.vmap(call)(np.stack([ROWS, 2 * ROWS]))
    np.testing.assert_allclose(both[3], [expected[3], 2 * expected[3]], rtol=1e-6)


def test_a_model_has_the_slices(tmp_path):
    pytest.importorskip("safetensors")
    sums, _ = stacked()
    f = compiled([X], [sums[i] for i in range(COUNT)])
    f.export(tmp_path / "model", {})
    for a, b in zip(graphc.load(tmp_path / "model")(ROWS), f(ROWS), strict=True):
        np.testing.assert_array_equal(a, b)
