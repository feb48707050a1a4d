"""Reads and writes at positions: they are checked only where they may be outside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
from tests.importers.jax.comparing import outcomes_by_jax

X = np.linspace(-2, 3, 51, dtype="float32").reshape(17, 3)[::-1] ** 2
PLACES = np.array([1, -1, 0, -30, 30, 2, -3, 5, 3], "int32")
LABELS = np.array([0, -1, 2, 5, -7, 1, 1, 0, 2, 2, 1, 0, 0, -3, 2, 1, 0], "int32")

OF_POSITIONS = {
    "sorted by its order": lambda x: jnp.take_along_axis(x, jnp.argsort(x, 0), 0),
    "order of rows": lambda x: x[jnp.argsort(x[:, 0])],
    "backwards": lambda x: x[jnp.arange(x.shape[0])[::-1]],
    "every second": lambda x: x[:, 0][jnp.arange(x.shape[0])[1::2]],
    "largest": lambda x: x[:, 0][jnp.argmax(x[:, 0])],
    "row of the smallest": lambda x: x[jnp.argmin(x[:, 1])],
    "largest of rows": lambda x: jax.vmap(lambda row: row[jnp.argmax(row)])(x),
    "largest set": lambda x: x.at[jnp.arange(x.shape[0]), jnp.argmax(x, 1)].set(7),
    "window of one": lambda x: lax.dynamic_slice_in_dim(x, jnp.argmax(x[:, 2]), 1),
    "keys and values": lambda x: lax.sort(
        (x, lax.broadcasted_iota(jnp.int32, x.shape, 0)), dimension=0, num_keys=1
    ),
}
OF_DATA = {
    "rows": lambda x, i, j: x[i],
    "of 8 bits": lambda x, i, j: x[i.astype(jnp.int8)],
    "missing": lambda x, i, j: x.at[i].get(mode="fill"),
    "set": lambda x, i, j: x.at[i, 0].set(jnp.arange(9.0)),
    "added at clipped": lambda x, i, j: x.at[i].add(1, mode="clip"),
    "label": lambda x, i, j: x[jnp.arange(x.shape[0]), j],
    "label set": lambda x, i, j: x.at[jnp.arange(x.shape[0]), j].set(9),
    "order of other axis": lambda x, i, j: lax.sort(
        (x, lax.broadcasted_iota(jnp.int32, x.shape, 1)), dimension=0, num_keys=1
    ),
    "one to the left": lambda x, i, j: x[jnp.arange(x.shape[0]) - 1],
    "one to the right": lambda x, i, j: x[jnp.arange(x.shape[0]) + 1],
    "window": lambda x, i, j: lax.dynamic_slice_in_dim(x, i[0] - 3, 1),
    "8 bits count": lambda x, i, j: x[jnp.arange(x.shape[0], dtype=jnp.int8)],
    "cast and so negative": lambda x, i, j: (
        x[jnp.array([2**32 - 1], "uint32").astype(jnp.int32)],
        x.at[jnp.array([2**32 - 2], "uint32").astype(jnp.int32)].set(9),
    ),
    "unsigned below 0": lambda x, i, j: lax.scan(
        lambda c, t: (c - jnp.uint32(3), (x[:, 0][t - jnp.uint32(1)], x[:, 0][c])),
        jnp.uint32(x.shape[0] - 1),
        jnp.arange(x.shape[0], dtype="uint32"),
    ),
    "not below 0": lambda x, i, j: jnp.where(j < 0, 7, j),
    "not below 1": lambda x, i, j: jnp.where(jnp.argsort(x[:, 0]) < 1, 7, j),
}


def check_as_by_jax(f, function, calls):
    expected = outcomes_by_jax(function, calls)
    for n, args in calls.items():
        pairs = map(jax.tree.leaves, (f(*args), expected[n]))
        for a, b in zip(*pairs, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert not f.stats().fallbacks


@pytest.mark.parametrize("name", OF_POSITIONS)
def test_positions_that_are_inside_are_used_as_they_are(name):
    function = OF_POSITIONS[name]
    f = graphc.jit(function, dims="pad")
    check_as_by_jax(f, function, {n: [X[:n]] for n in (5, 9, 2, 17, 1)})
    text = str(f.source)
    segment = text[text.index("def segment_0") : text.index("segment_0 = jax.jit")]
    for check in ("maximum", "minimum", "< 0", "clamp"):
        assert check not in segment


@pytest.mark.parametrize("name", OF_DATA)
def test_positions_in_data_are_read_as_by_jax(name):
    function = OF_DATA[name]
    calls = {n: [X[:n], PLACES, LABELS[:n]] for n in (5, 9, 2, 17, 1)}
    check_as_by_jax(graphc.jit(function, dims="pad"), function, calls)


def test_an_index_array_is_checked_once():
    f = graphc.jit(lambda x, i: x[i], dims="pad")
    for n in (5, 9):
        f(X[:n], PLACES)
    text = str(f.source)
    segment = text[text.index("def segment_0") : text.index("segment_0 = jax.jit")]
    assert segment.count("< 0") == segment.count("jnp.maximum") == 1
