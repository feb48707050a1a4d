"""Arrays that are written in between are seen by the next size that is new."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from graphc.importers.jax.trace.captured import Snapshot

W = np.ones(3, "float32")
LARGE = np.ones(100, "float32")


class Model:
    def __init__(self):
        self.weights = W
        self.parts = {"bias": [LARGE]}

    def __call__(self, x):
        return x.sum() + self.weights.sum() + self.parts["bias"][0].sum()


def host(x):
    return x.sum() + (W * 2).sum()


def traced(x):
    return (x[:1] * LARGE).sum() + (x[0] * W).sum()


def of_numpy(x):
    return np.sum(x[:1] * LARGE) + np.sum(W)


def weighted(w, x):
    return x.sum() + w.sum()


def closed(w):
    return lambda x: x.sum() + w.sum()


MODEL = Model()
FUNCTIONS = {
    "host": host,
    "traced": traced,
    "helper": lambda x: host(x),
    "object": MODEL,
    "named object": lambda x: MODEL(x),
    "method": MODEL.__call__,
    "partial": functools.partial(weighted, LARGE),
    "closure": closed(W),
    "default": lambda x, w=LARGE: weighted(w, x),
    "inner jit": lambda x: jax.jit(traced)(x),
    "grad": jax.grad(lambda x: (x * W.sum()).sum()),
    "graphc.grad": graphc.grad(lambda x: (x * LARGE.sum()).sum()),
}
OPTIONS = {"auto": {}, "pad": {"dims": "pad"}}


def calls(function):
    """The results of calls between which arrays are written."""
    W[:], LARGE[:] = 1, 1
    found = []
    for n in (3, 4, 5, "write", 4, 6, 7, "write", 8, 3, 6, "write", 9):
        if n == "write":
            W[:], LARGE[:] = W + 1, LARGE + 2
            continue
        found.append(np.ravel(function(np.ones(n, "float32")))[0])
    return found


@functools.cache
def calls_by_jax(name):
    return calls(jax.jit(lambda x: FUNCTIONS[name](x)))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_jax_sees_them(name, options):
    ours = graphc.jit(FUNCTIONS[name], **OPTIONS[options])
    assert calls(ours) == calls_by_jax(name)
    assert ours.stats().fallbacks == []


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_in_functions_of_numpy(backend):
    ours = graphc.jit(of_numpy, frontend="numpy", backend=backend)
    assert calls(ours) == calls(jax.jit(lambda x: jnp.asarray(of_numpy(x))))


@pytest.mark.usefixtures("without_audit")
def test_nothing_is_traced_again_where_nothing_is_written():
    times = []

    def counted(x):
        times.append(x.shape)
        return x.sum() + W.sum()

    ours = graphc.jit(counted)
    for n in range(3, 20):
        ours(np.ones(n))
    assert len(times) == 4


def test_what_is_compared():
    assert set(map(id, Snapshot.of(MODEL).arrays)) == {id(W), id(LARGE)}
    assert Snapshot.of(jnp.sin).arrays == () == Snapshot.of(closed(3)).arrays
    fixed = np.ones(3)
    fixed.flags.writeable = False
    assert Snapshot.of(closed(fixed)).arrays == ()
    for made in (np.array([np.nan, 0.0]), np.array(3), np.ones((2, 3)).T, np.ones(0)):
        found = Snapshot.of(closed(made))
        assert found.is_current()
        made[...] = 7
        assert found.is_current() == (made.size == 0)


def test_donation_is_told_once_where_sizes_vary():
    def step(x, y):
        return x + y

    ours = graphc.jit(step, donate_argnums=0)
    given = jnp.ones(3)
    ours(given, jnp.ones(3))
    assert given.is_deleted()
    with pytest.warns(graphc.FallbackWarning, match="does not donate") as warned:
        for n in (4, 5, 6):
            given = jnp.ones(n)
            np.testing.assert_array_equal(ours(given, jnp.ones(n)), 2 * np.ones(n))
            assert not given.is_deleted()
    assert len(warned) == 1 and warned[0].filename == __file__
    assert ours.stats().fallbacks == []
