"""Shardings chosen by hand, compared with NumPy: run on eight devices."""

import pickle
from functools import cache

import jax
import numpy as np

import graphc
import graphc.tensor as gt

ROWS = {"batch": graphc.Shard("data")}


@cache
def mesh_of_all():
    """The mesh of all devices; made late, as there are few when tests are collected."""
    return graphc.mesh(data=2, model=4)


def trained():
    """A net of two layers with its parameters along "model", and their updates."""
    x = gt.tensor("x", "float32", ("batch", 3))
    w = gt.tensor("w", "float32", (3, 8))
    v = gt.tensor("v", "float32", (8, 2))
    first = gt.with_sharding(w, (None, "model"))
    second = gt.with_sharding(v, ("model", None))
    loss = gt.mean((gt.tanh(x @ first) @ second) ** 2)
    slopes = graphc.grad(loss, [w, v])
    steps = zip([w, v], slopes, strict=True)
    return [x, w, v], [loss, *(p - 0.1 * g for p, g in steps)]


def looped():
    """Shardings chosen in the bodies of a loop and a branch, and under `vmap`."""
    x = gt.tensor("x", "float32", ("batch", 8))
    w = gt.tensor("w", "float32", (8, 8))

    def step(c, k):
        c = gt.tanh(gt.with_sharding(c @ w, ("data", "model")) + k)
        return c, gt.sum(c, axis=0)

    last, sums = gt.scan(step, x, gt.arange(3).astype("float32"))
    chosen = lambda: gt.sum(gt.with_sharding(last, (None, "model")), axis=0)
    either = gt.cond(gt.sum(w) > 0, chosen, lambda: gt.sum(last, axis=0))
    rows = graphc.vmap(lambda row: gt.with_sharding(row * 2, ("model",)))(x)
    loss = gt.sum(last) + gt.sum(either)
    return [x, w], [sums, either, rows, *graphc.grad(loss, [x, w])]


def moved():
    """Axes of a padded array that change places, also if it has no elements."""
    x = gt.tensor("x", "float32", ("batch", 8))
    columns = gt.with_sharding(x, (None, "model"))
    both = gt.with_sharding(columns.T, ("model", "data"))
    none = gt.with_sharding(x[:, :0], ("data", "model"))
    top = gt.max(gt.with_sharding(gt.exp(x), ("data", None)), initial=0)
    return [x], [columns, both, none, top, graphc.grad(gt.sum(both**2), x)]


def compared(program, dims, sizes):
    inputs, outputs = program()
    sharded = graphc.function(inputs, outputs, dims=dims, mesh=mesh_of_all())
    one = graphc.function(inputs, outputs, backend="numpy")
    for batch in sizes:
        rng = np.random.default_rng(batch)
        shapes = [[n if isinstance(n, int) else batch for n in v.type.shape]
                  for v in inputs]
        args = [rng.normal(size=shape).astype("float32") for shape in shapes]
        for ours, theirs in zip(sharded(*args), one(*args), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=5e-5, atol=5e-5)
    return sharded, args


if __name__ == "__main__":
    for program in (looped, moved):
        compared(program, ROWS, (0, 1, 5, 8, 13))
    f, (x, *parameters) = compared(trained, ROWS, (0, 1, 5, 8, 13))
    for _ in range(2):  # updated parameters stay where they were
        _, *parameters = f(x, *parameters)
        places = [p.sharding for p in parameters]
        axes = (None, "model"), ("model", None)
        assert all(
            p.is_equivalent_to(jax.NamedSharding(mesh_of_all(), jax.P(*a)), 2)
            for p, a in zip(places, axes, strict=True)
        )
    assert {c.kind for c in f.collectives({"batch": 13})} == {"all-reduce"}
    # Without a size that varies, and on a mesh that was set in JAX.
    w = trained()[0][1]
    array = np.ones((3, 8), "float32")
    with jax.set_mesh(mesh_of_all()):
        g = graphc.function([w], gt.with_sharding(w, (None, "model")) * 2)
    assert g(array).sharding.spec == jax.P(None, "model")
    again = pickle.loads(pickle.dumps(g))(array)
    assert again.sharding.device_set == set(mesh_of_all().devices.flat)
