"""Arguments that calls donate."""

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.transform.sharding.test_sharding import refusal

X = np.ones((5, 4), "float32")
MESH = {"dims": {"n": graphc.Shard("data")}, "mesh": graphc.mesh(data=1)}


def variables():
    x = gt.tensor("x", "float32", ("n", 4))
    return x, *(gt.tensor(name, "float32", (4, 4)) for name in ("w", "speed"))


def step(donate, **options):
    x, w, speed = variables()
    loss = gt.mean(gt.tanh(x @ w) ** 2)
    after = 0.9 * speed + graphc.grad(loss, w)
    outputs = [loss, w - 0.1 * after, after]
    donated = [w, "speed"] if donate else []
    return graphc.function([x, w, speed], outputs, donate=donated, **options)


@pytest.mark.parametrize("options", [{}, {"dims": "pad"}, MESH], ids=len)
def test_arrays_are_gone_and_results_are_the_same(options):
    f, kept = step(True, **options), step(False, **options)
    f = pickle.loads(pickle.dumps(f))
    state = jnp.ones((4, 4)), jnp.zeros((4, 4))
    for _ in range(3):
        expected = kept(X, *state)
        loss, *after = f(X, *state)
        assert all(array.is_deleted() for array in state)
        for a, b in zip([loss, *after], expected, strict=True):
            np.testing.assert_array_equal(a, b)
        state = after


def test_arrays_of_numpy_stay_as_they_are():
    y = gt.tensor("y", "float32", (2**16,))
    f = graphc.function([y], y + 1, donate=[y])
    array = np.zeros(2**16, "float32")
    for call in (f, f.lend, f):
        np.testing.assert_array_equal(call(array), 1)
    assert not array.any()


def test_only_the_last_segment_that_reads_it_has_it():
    x, w, _ = variables()
    rows = x[x[:, 0] > 0]
    f = graphc.function([x, w], [gt.sum(w) * gt.sum(x), rows @ w, rows], donate=[w])
    jitted = [li for li in f.source.splitlines() if "donate_argnums" in li]
    assert len(jitted) == 1
    array = jnp.ones((4, 4))
    np.testing.assert_array_equal(f(X, array)[1], X @ np.ones((4, 4)))
    g = graphc.function([x, w], [w, rows], donate=[w])  # which returns it
    np.testing.assert_array_equal(g(X, jnp.ones((4, 4)))[0], np.ones((4, 4)))


@pytest.mark.parametrize(
    ("donate", "options", "told"),
    [
        ("w", {}, "`donate` takes the inputs in a list"),
        (["q"], {}, "`donate` names something that is not an input"),
        ([7], {}, "`donate` names something that is not an input"),
        (["w"], {"backend": "numpy"}, "`donate` is for compiled programs of JAX"),
        (["w"], {"jit": False}, "`donate` is for compiled programs of JAX"),
        (["w"], {"tier": "auto"}, "`donate` is for compiled programs of JAX"),
    ],
)
def test_refused(donate, options, told):
    x, w, _ = variables()
    make = lambda: graphc.function([x, w], x @ w, donate=donate, **options)
    assert refusal(make)[0].startswith(f"function: {told}")


def test_an_input_with_a_default():
    x, w, _ = variables()
    inputs = [x, graphc.Input(w, np.ones((4, 4), "float32"))]
    lines = refusal(lambda: graphc.function(inputs, x @ w, donate=[w]))
    assert lines[0] == "function: input 'w' has a default, which cannot be donated"
