"""Results that follow slices of stacks, as updates of parameters, are compiled once."""

import os
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.analysis import cost
from graphc.rewrites import Rules
from graphc.transform.planning.plan import SlicesOfStacks

EXAMPLES = int(os.environ.get("GRAPHC_EXAMPLES", "8"))
COUNT = 4
X = gt.tensor("x", "float32", (COUNT, 3))
PS = [gt.tensor(f"p{i}", "float32", (3,)) for i in range(COUNT)]
ROWS = np.arange(3 * COUNT, dtype="float32").reshape(COUNT, 3) / 8
OWN = [np.full(3, i, "float32") for i in range(COUNT)]


@pytest.fixture(autouse=True)
def paying(compiled_quickly, monkeypatch):
    """A cost of calls and of compilations by which all parts pay."""
    monkeypatch.setattr(cost, "LEAST_APART", -cost.APART)
    monkeypatch.setattr(cost, "LONGER", np.inf)


def compiled(inputs, outputs, **how):
    """The function as it is written, and the steps of parts at places."""
    f = graphc.function(inputs, outputs, rewrites=Rules(), unused="ignore", **how)
    return f, [s for s in f.plan.steps if isinstance(s, SlicesOfStacks)]


def places(steps):
    return [(s.places, len(s.outputs) // len(s.places)) for s in steps]


def agree(f, inputs, outputs, *args):
    how = {"backend": "numpy", "unused": "ignore"}
    expected = graphc.function(inputs, outputs, **how)(*args)
    for a, b in zip(f(*args), expected, strict=True):
        assert isinstance(a, jax.Array) and a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_updates_are_one_function_of_the_place():
    y = gt.exp(X)
    outputs = [gt.sum(y), *(p - 0.5 * y[i] for i, p in enumerate(PS))]
    f, (step,) = compiled([X, *PS], outputs)
    assert places([step]) == [((0, 1, 2, 3), 1)]
    assert [len(s.inputs) for s in f.plan.segments] == [1, 1]
    agree(f, [X, *PS], outputs, ROWS, *OWN)
    assert [c.segment for c in f.stats().compilations] == [0, 1]
    text = f.source[f.source.index("def at_place_1") :]
    lines = [line.split("  #")[0] for line in text[: text.index("\n\n\n")].splitlines()]
    assert [line for line in lines if line.strip()] == [
        "def at_place_1(place, exp, p0):",
        "    basic_index = exp[place]",
        "    multiply = 0.5 * basic_index",
        "    subtract = p0 - multiply",
        "    return (subtract,)",
    ]
    call = "at_places(jax, at_place_1, segment_1, range(0, 4), ((p0,), (p1,), (p2,), "
    assert call in f.source


def optimised(y, state, rate):
    """Parameters and their momentum after a step, and the slices."""
    found = []
    for i, p in enumerate(PS):
        m = 0.9 * state[i] + 0.1 * y[i]
        found += [p - rate * m, m, y[i]]
    return found


def test_state_and_what_all_places_share():
    """A rate is computed once; it is an argument, as scalars of the user are."""
    t = gt.scalar("t", "float32")
    state = [gt.tensor(f"m{i}", "float32", (3,)) for i in range(COUNT)]
    outputs = optimised(gt.exp(X), state, t / (1 + t))
    inputs = [X, t, *PS, *state]
    f, (step,) = compiled(inputs, outputs)
    assert places([step]) == [((0, 1, 2, 3), 3)]
    assert len(step.inputs) == 2 and len(step.own[0]) == 2
    agree(f, inputs, outputs, ROWS, np.float32(0.5), *OWN, *OWN)
    outputs = optimised(gt.exp(X), state, t)
    f, (step,) = compiled(inputs, outputs)
    found = f(ROWS, 0.5, *OWN, *OWN)
    assert all(a.dtype == "float32" for a in found)


def test_slices_that_others_take_too_are_cut_again():
    """As gradients of which a norm is taken, by which updates are scaled."""
    y = gt.exp(X)
    scale = 1 / reduce(gt.maximum, [gt.sum(y[i]) for i in range(COUNT)])
    outputs = [p - scale * y[i] for i, p in enumerate(PS)]
    f, steps = compiled([X, *PS], outputs)
    assert places(steps) == [((0, 1, 2, 3), 1)]
    agree(f, [X, *PS], outputs, ROWS, *OWN)


def near_misses(y):
    """Results of which the last is not like the others, by what differs."""
    same = [p - 2 * y[i] for i, p in enumerate(PS[:-1])]
    p, last = PS[-1], y[COUNT - 1]
    wide = gt.astype(p, "float64")
    return {
        "constant": [*same, p - 3 * last],
        "op": [*same, p + 2 * last],
        "dtype": [*same, wide - 2 * last],
        "order": [*same, 2 * last - p],
        "shape": [*same, p[:1] - 2 * last],
        "places": [*same, p - 2 * last * y[0]],
        "used": [*same, p - 2 * last, gt.sum(p - 2 * last)],
        "twice": [*same, p - 2 * last, PS[0] - 3 * last],
        "product": [*same, p @ last],
        "index": [*same, p[gt.astype(last[0], "int32")] - 2 * last],
        "size": [*same, gt.arange(gt.astype(2 * last[0], "int64")), p - 2 * last],
        "the slice itself": [*same, last],
        "late": [*same, gt.exp(p - 2 * last)],
    }


@pytest.mark.parametrize("what", near_misses(gt.exp(X)))
def test_near_misses(what):
    outputs = near_misses(gt.exp(X))[what]
    f, steps = compiled([X, *PS], outputs)
    agree(f, [X, *PS], outputs, ROWS, *OWN)
    most = max((len(s.places) for s in steps), default=0)
    assert most == (4 if what in ("twice", "size") else 3)


@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_generated_parts(data):
    """Ops at each place are drawn, mostly the same ones, and what they take."""
    stacks = [gt.exp(X), gt.sin(X), X * X]
    draw = data.draw
    usual = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))
    results = [gt.sum(stacks[0])]
    for i, p in enumerate(PS):
        steps = usual if draw(st.integers(0, 3)) else draw(st.permutations(usual))
        value = stacks[0][i]
        for step in steps:
            value = [
                lambda v: v + stacks[1][i],
                lambda v: v * p,
                lambda v: p - v,
                lambda v: gt.maximum(v, 0.25),
                lambda v: v + gt.mean(stacks[2]),
                lambda v: v[::-1],
                lambda v: v + stacks[2][0],
            ][step](value)
            if draw(st.booleans()):
                results.append(value)
        results.append(value)
    f, _ = compiled([X, *PS], results)
    agree(f, [X, *PS], results, ROWS, *OWN)


@pytest.mark.parametrize("dims", ["specialize", "auto", {"n": graphc.Pad()}])
def test_sizes_that_vary(dims):
    x = gt.tensor("x", "float32", (3, "n"))
    ps = [gt.tensor(f"p{i}", "float32", ("n",)) for i in range(3)]
    y = gt.exp(x)
    outputs = [p - y[i] / 2 for i, p in enumerate(ps)]
    f, steps = compiled([x, *ps], outputs, dims=dims)
    assert places(steps) == [((0, 1, 2), 1)]
    for n in (1, 3, 0, 4):
        rows = np.ones((3, n), "float32")
        agree(f, [x, *ps], outputs, rows, *rows)


def test_transformations_of_jax():
    y = gt.exp(X)
    outputs = [p * y[i] for i, p in enumerate(PS)]
    f, steps = compiled([X, *PS], outputs)
    assert steps
    expected = np.exp(ROWS) * np.stack(OWN)
    for run in (jax.jit(f), jax.jit(f.jax_callable)):
        np.testing.assert_allclose(run(ROWS, *OWN), expected, rtol=1e-6)
    with jax.disable_jit():
        np.testing.assert_allclose(f(ROWS, *OWN), expected, rtol=1e-6)
    slope = jax.grad(lambda p: f(jnp.asarray(ROWS), *OWN[:3], p)[3].sum())(OWN[3])
    np.testing.assert_allclose(slope, np.exp(ROWS[3]), rtol=1e-6)


@pytest.mark.parametrize("jit", ["fewest", True, False])
def test_who_asks_for_one_program_gets_it(jit):
    y = gt.exp(X)
    f, steps = compiled([X, *PS], [p * y[i] for i, p in enumerate(PS)], jit=jit)
    assert steps == [] and f(ROWS, *OWN)[3].shape == (3,)


def test_a_model_has_the_parts(tmp_path):
    pytest.importorskip("safetensors")
    y = gt.exp(X)
    f, steps = compiled([X, *PS], [p * y[i] for i, p in enumerate(PS)])
    assert steps
    f.export(tmp_path / "model", {})
    found = graphc.load(tmp_path / "model")(ROWS, *OWN)
    for a, b in zip(found, f(ROWS, *OWN), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
def test_dtypes(dtype):
    x, p = gt.tensor("x", dtype, (3, 1)), gt.tensor("p", dtype, (1,))
    y = gt.flip(x)
    outputs = [gt.where(y[i], p, y[i]) for i in range(3)]
    f, steps = compiled([x, p], outputs)
    assert places(steps) == [((0, 1, 2), 1)]
    rows = np.array([[0], [2**40], [1]]).astype(dtype)
    agree(f, [x, p], outputs, rows, np.ones(1, dtype))
