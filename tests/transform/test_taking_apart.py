"""Slices of stacks that are results only are cut after the segments, if that pays."""

from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis import cost
from graphc.analysis.cost import least_slices, worth_taking_apart
from graphc.rewrites import Rules
from graphc.transform.planning.plan import SlicesOfStacks

pytestmark = pytest.mark.usefixtures("compiled_quickly")
X = gt.tensor("x", "float32", (5, 3))
ROWS = np.arange(15, dtype="float32").reshape(5, 3)


@pytest.fixture
def paying(monkeypatch):
    """A cost of calls and of compilations by which all slices pay."""
    monkeypatch.setattr(cost, "LEAST_APART", -cost.APART)
    monkeypatch.setattr(cost, "LONGER", np.inf)


def compiled(inputs, outputs, **how):
    """The function as it is written, the places of its slices, by the step."""
    f = graphc.function(inputs, outputs, rewrites=Rules(), **how)
    steps = [s for s in f.plan.steps if isinstance(s, SlicesOfStacks)]
    return f, [(s.places, len(s.inputs)) for s in steps]


def agree(f, inputs, outputs, *args):
    """Compare calls with those on NumPy: numbers, dtypes, and that JAX made them."""
    expected = graphc.function(inputs, outputs, backend="numpy")(*args)
    for a, b in zip(f(*args), expected, strict=True):
        assert isinstance(a, jax.Array) and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)


def slices(stack, places):
    return [stack[i] for i in places]


def test_few_slices_and_those_of_short_calls_stay_in_their_segment():
    y = gt.exp(X)
    assert compiled([X], slices(y, range(5)))[1] == []
    many = gt.exp(gt.tensor("x", "float32", (99, 3)))
    assert compiled([many.node.inputs[0]], slices(many, range(99)))[1] == []
    assert least_slices(1) < 40 < least_slices(20)
    assert worth_taking_apart(100, 2, 0.1) and not worth_taking_apart(100, 2, 0.01)


def test_slices_at_the_same_places_are_one_function(paying):
    y, z, w = gt.exp(X), gt.sum(X, 1), gt.tanh(X)
    outputs = [gt.sum(X), *slices(y, range(5)), *slices(z, range(5)), w[4], w[2]]
    f, steps = compiled([X], outputs)
    assert steps == [((0, 1, 2, 3, 4), 2), ((2, 4), 1)]
    agree(f, [X], outputs, ROWS)
    assert [s.index for s in f.plan.segments] == [0, 1, 2]
    assert [c.segment for c in f.stats().compilations] == [0, 1, 2]
    assert f.plan.forecast({}).segments == (1, 1, 1)
    assert "segment 1: 10 nodes" in f.explain() and "for 5 places" in f.explain()
    assert 'jit="fewest" leaves them in the segment' in f.explain(full=True)
    assert "at_places(jax, at_place_1, segment_1, range(0, 5), " in f.source


@pytest.mark.parametrize("jit", ["fewest", True, False])
def test_who_asks_for_one_program_gets_it(paying, jit):
    f, steps = compiled([X], slices(gt.exp(X), range(5)), jit=jit)
    assert steps == []
    if jit:  # as errors of those who compile ahead say
        assert len(f.compile({})) == 1


def test_what_is_more_than_a_result_is_computed_with_the_stack(paying):
    y = gt.exp(X)
    outputs = [y[0], y[1], gt.sum(y[1]), y[4], y[0], y, y[2:3], y[3, 0], y[-2]]
    f, steps = compiled([X], outputs)
    assert steps == [((0, 4), 1)]
    agree(f, [X], outputs, ROWS)


def test_numbers_that_are_sizes_are_computed_with_the_stack(paying):
    k = gt.tensor("k", "int32", (2,))
    counts = k * 2
    outputs = [gt.arange(counts[0]), counts[0], counts[1]]
    f, _ = compiled([k], outputs)
    agree(f, [k], outputs, np.array([2, 3], "int32"))


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
def test_dtypes_of_slices(paying, dtype):
    x = gt.tensor("x", dtype, (3,))
    outputs = slices(gt.flip(x), range(3))
    f, steps = compiled([x], outputs)
    agree(f, [x], outputs, np.array([0, 2**40, 1]).astype(dtype))
    assert steps == [((0, 1, 2), 1)]


@pytest.mark.parametrize("dims", ["specialize", "pad", {"n": graphc.Pad()}])
def test_sizes_that_vary_behind_the_places(paying, dims):
    x = gt.tensor("x", "float32", (3, "n"))
    outputs = slices(gt.exp(x), range(3))
    f, steps = compiled([x], outputs, dims=dims)
    assert steps == [((0, 1, 2), 1)]
    for n in (1, 3, 4):
        agree(f, [x], outputs, ROWS[:3, :1] * np.ones(n, "float32"))
    told = f.plan.forecast({"n": [1, 3, 4]})
    assert told.compilations == len(f.stats().compilations)


def test_slices_under_transformations_of_jax(paying):
    outputs = slices(gt.exp(X) * 2, range(5))
    f, steps = compiled([X], outputs)
    assert steps
    expected = list(2 * np.exp(ROWS))
    for run in (jax.jit(f), jax.jit(f.jax_callable)):
        np.testing.assert_allclose(run(ROWS), expected, rtol=1e-6)
    with jax.disable_jit():
        np.testing.assert_allclose(f(ROWS), expected, rtol=1e-6)
    grad = jax.grad(lambda x: f(x)[3].sum())(jnp.asarray(ROWS))
    np.testing.assert_allclose(grad[3], expected[3], rtol=1e-6)
    assert not grad[:3].any()


def test_a_model_has_the_slices(paying, tmp_path):
    pytest.importorskip("safetensors")
    outputs = [gt.sum(X), *slices(gt.exp(X), range(5))]
    f, steps = compiled([X], outputs)
    assert steps
    f.export(tmp_path / "model", {})
    found = graphc.load(tmp_path / "model")(ROWS)
    for a, b in zip(found, f(ROWS), strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_of_blocks_are_slices_of_what_loops_stack(paying):
    layer = graphc.block(lambda y, w: gt.tanh(y @ w))
    x = gt.tensor("x", "float32", (64, 64))
    ws = [gt.tensor(f"w{i}", "float32", (64, 64)) for i in range(6)]
    y = reduce(layer, ws, x)
    loss = gt.sum(y * y)
    f = graphc.function([x, *ws], [loss, *graphc.grad(loss, ws)])
    (step,) = [s for s in f.plan.steps if isinstance(s, SlicesOfStacks)]
    assert len(step.places) == 6
