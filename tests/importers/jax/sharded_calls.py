"""Functions of JAX with sharded sizes, compared with `jax.jit` on four devices."""

import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import graphc

ROWS = {"batch": graphc.Shard("data")}
SIZES = (0, 1, 3, 4, 13, 16)  # some below the device count, some multiples of it
FEW = (0, 3, 13, 16)  # each compiled exactly, or all at one capacity
warnings.simplefilter("error", graphc.FallbackWarning)


@cache
def mesh_of_all():
    """The mesh of four devices, made when called: collection may see fewer."""
    return graphc.mesh(data=4)


def loss(layers, batch):
    """The mean squared error of a net over the rows that are marked."""
    hidden = jnp.tanh(batch["x"] @ layers["first"])
    errors = (hidden @ layers["second"] - batch["t"]) ** 2
    return jnp.sum(jnp.where(batch["marks"], errors, 0)) / (1 + batch["marks"].sum())


def step(layers, batch):
    """Take a step of gradient descent; also return a prediction for each row."""
    value, slopes = jax.value_and_grad(loss)(layers, batch)
    layers = jax.tree.map(lambda p, g: p - 0.1 * g, layers, slopes)
    return value, layers, jnp.tanh(batch["x"] @ layers["first"])


def statistics(x):
    """Reductions of rows, a loop over rows, and ops that need neighbouring rows."""
    total, sums = jax.lax.scan(lambda c, row: (c + row,) * 2, jnp.zeros(3), x)
    draws = jax.random.uniform(jax.random.key(3), x.shape)
    return {
        "sums": (total, jnp.cumsum(x, axis=0), sums),
        "sorted": (jnp.sort(x, axis=0), jax.nn.softmax(x, axis=0)),
        "rows": jax.vmap(lambda row: row @ jnp.eye(3) + row[0])(x) + draws,
    }


def batch_of(size):
    rng = np.random.default_rng(size)
    x = rng.normal(size=(size, 3)).astype("float32")
    return {"x": x, "t": np.sin(x[:, 0]), "marks": x[:, 1] > 0}


def same(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def trained():
    """Train on ragged batches, with weights that stay on the mesh."""
    shapes = {"x": "batch 3", "t": "batch", "marks": "batch"}
    shapes = ({"first": "3 8", "second": "8"}, shapes)
    ours = graphc.jit(step, shapes=shapes, dims=ROWS, mesh=mesh_of_all())
    theirs = jax.jit(step)
    start = {"first": np.ones((3, 8), "float32"), "second": np.ones(8, "float32")}
    layers, other_layers = start, start
    for size in SIZES:
        value, layers, rows = ours(layers, batch_of(size))
        told = theirs(other_layers, batch_of(size))
        other_layers = told[1]
        same((value, layers, rows), told)
        if size > 1:  # smaller ones are compiled exactly, as by JAX
            assert all(len(p.sharding.device_set) == 4 for p in layers.values()), size
    by_rows = jax.NamedSharding(mesh_of_all(), jax.P("data"))
    on_mesh = jax.device_put(batch_of(16), by_rows)
    explicit = jax.make_mesh((4,), ("data",))
    typed = jax.device_put(batch_of(16), jax.NamedSharding(explicit, jax.P("data")))
    for batch in (on_mesh, typed):
        same(ours(layers, batch), theirs(jax.device_get(layers), batch_of(16)))
    assert "sharded over data, 4 devices" in ours.explain(), ours.explain()
    assert not ours.stats().fallbacks, ours.stats()
    return ours


if __name__ == "__main__":
    trained()
    f = graphc.jit(statistics, shapes="batch 3", dims=ROWS, mesh=mesh_of_all())
    theirs = jax.jit(statistics)
    for size in FEW:
        same(f(batch_of(size)["x"]), theirs(batch_of(size)["x"]))
    assert not f.stats().fallbacks
    with jax.set_mesh(mesh_of_all()):  # a mesh that is set at decoration

        @graphc.jit(shapes="batch d, d -> batch", dims=ROWS)
        def product(x, w):
            return x @ w

    theirs = jax.jit(lambda x: x.sum(1))
    for size in FEW:
        x = batch_of(size)["x"]
        same(product(x, np.ones(3, "float32")), theirs(x))
    options = {"shapes": "batch _", "dims": ROWS, "mesh": mesh_of_all()}
    with_numpy = graphc.jit(lambda x: x[x[:, 0] > 0], frontend="numpy", **options)
    for size in FEW:
        x = batch_of(size)["x"]
        np.testing.assert_array_equal(with_numpy(x), x[x[:, 0] > 0])
    assert len(product(x, np.ones(3, "float32")).sharding.device_set) == 4
