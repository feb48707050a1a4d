"""Gradients of scans keep what takes longer to recompute, and keep nothing twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import CPU, GPU, TPU, using_costs
from graphc.ir.graph.walk import ancestors
from graphc.ir.primitives import OP

T, B, W = 6, 16, 32
RNG = np.random.default_rng(0)


def backward(cost, wrt):
    """The shapes of the rows that a gradient's last scan reads, and the scan's ops."""
    wrt = wrt if isinstance(wrt, list) else [wrt]
    nodes = ancestors(graphc.grad(cost, wrt))
    scan = [n for n in nodes if n.primitive is OP.scan][-1]
    first = scan.params["carries"]
    rows = scan.inputs[first : first + scan.params["sequences"]]
    body = scan.params["body"].content
    ops = [n.primitive for n in ancestors(body.outputs)]
    return [v.type.shape[1:] for v in rows], ops


def inputs(batch=B, width=W, dtype="float32"):
    x = gt.tensor("x", dtype, (T, batch, width))
    return x, *(gt.tensor(name, dtype, (width, width)) for name in "uw")


def net(x, u, w, **options):
    """A recurrent net, in which the sum of two products is one value to keep."""

    def step(h, row):
        h = gt.tanh(row @ u + h @ w)
        return h, h

    return gt.scan(step, gt.zeros(x.type.shape[1:], x.dtype), x, **options)[1]


def test_of_products_their_last_use_alone_is_kept():
    x, u, w = inputs()
    rows, ops = backward(gt.sum(net(x, u, w) ** 2), [u, w])
    # The carries before and after the step, a sequence, and the cotangents.
    assert rows == [(B, W)] * 4
    assert ops.count(OP.matmul) == 3 and OP.tanh not in ops


@pytest.mark.parametrize("checkpoint", ["all", 1])
def test_carries_alone_are_kept_where_the_user_says_so(checkpoint):
    x, u, w = inputs()
    rows, ops = backward(gt.sum(net(x, u, w, checkpoint=checkpoint) ** 2), [u, w])
    assert rows == [(B, W)] * 3
    assert ops.count(OP.matmul) == 5 and OP.tanh in ops


def gates(x, w):
    def step(h, row):
        g = h @ w
        h = gt.nn.sigmoid(g + row) * gt.exp(-row * g)
        return h, None

    return gt.sum(gt.scan(step, gt.zeros(x.type.shape[1:], x.dtype), x)[0])


@pytest.mark.parametrize(
    ("batch", "costs", "again"),
    [
        (64, CPU, False),
        (2, CPU, True),  # reading a row is no faster than computing it
        (2**14, CPU, True),  # no cache holds the rows of all steps
        (64, GPU, True),
        (64, TPU, True),
    ],
)
def test_exponentials_are_kept_where_a_cache_holds_them(batch, costs, again):
    x, _, w = inputs(batch)
    with using_costs(costs):
        _, ops = backward(gates(x, w), w)
    assert (OP.exp in ops) is again
    assert ops.count(OP.matmul) == 2  # the product is kept in any case


def test_products_are_computed_again_where_they_take_too_much_memory():
    x, u, w = inputs(2**20, 512)
    _, ops = backward(gt.sum(net(x, u, w)), w)
    assert ops.count(OP.matmul) == 4


def test_outer_products_are_computed_again():
    x = gt.tensor("x", "float32", (T, 512))

    def step(c, row):
        return c + gt.sum((row[:, None] @ row[None, :] * c) ** 2), None

    rows, _ = backward(gt.scan(step, 1.0, x)[0], x)
    assert (512, 512) not in rows


def values(rng, *wanted):
    return [rng.normal(size=v.type.shape).astype(v.dtype.name) * 0.3 for v in wanted]


def solving(xp, x, w):
    """A scan with small systems of equations, a maximum, and a loop in each step."""

    def inner(h, _):
        return xp.tanh(h @ w), None

    def step(h, row):
        s = h @ h.T + xp.eye(h.shape[0], dtype=h.dtype)
        low = xp.linalg.cholesky(s)
        h = xp.linalg.solve(s, row) + xp.max(h, axis=0)
        scan = gt.scan if xp is gt else jax.lax.scan
        h, _ = scan(inner, h, None, length=3)
        return h, xp.sum(xp.log(xp.diagonal(low)))

    scan = gt.scan if xp is gt else jax.lax.scan
    start = xp.ones(x.shape[1:], x.dtype) * 0.1
    h, ys = scan(step, start, x)
    return xp.sum(h**2) + xp.sum(ys)


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_are_those_of_jax(order):
    x, _, w = inputs(3, 4)
    given = values(np.random.default_rng(0), x, w)
    cost, hand = solving(gt, x, w), lambda x, w: solving(jnp, x, w)
    found, expected = graphc.grad(cost, [x, w]), jax.grad(hand, (0, 1))
    if order == 2:
        found = graphc.grad(sum(gt.sum(d**2) for d in found), [x, w])
        first = expected
        expected = jax.grad(lambda *v: sum(jnp.sum(d**2) for d in first(*v)), (0, 1))
    f = graphc.function([x, w], found)
    for ours, theirs in zip(f(*given), jax.jit(expected)(*given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_lengths_that_are_not_known(backend, size):
    n = gt.tensor("x", "float32", ("n", 3, 4))
    _, _, w = inputs(3, 4)
    u = gt.tensor("u", "float32", (4, 4))
    found, alone = (
        graphc.grad(gt.sum(net(n, u, w, checkpoint=how) ** 2), [n, u, w])
        for how in (None, "all")
    )
    rng = np.random.default_rng(1)
    shapes = (size, 3, 4), (4, 4), (4, 4)
    given = [rng.normal(size=shape).astype("float32") for shape in shapes]
    f, g = (graphc.function([n, u, w], x, backend=backend) for x in (found, alone))
    for ours, theirs in zip(f(*given), g(*given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_sizes_that_differ_between_steps_are_not_kept():
    x = gt.tensor("x", "float64", (4, 5))
    w = gt.tensor("w", "float64", ())

    def step(c, row):
        some = row[row > 0]
        return c + w * gt.sum(gt.exp(w * gt.cumsum(some))), None

    cost = gt.scan(step, gt.zeros((), "float64"), x)[0]
    f = graphc.function([x, w], graphc.grad(cost, w), backend="numpy")
    given = RNG.normal(size=(4, 5))

    def of(w):
        return sum(w * np.sum(np.exp(w * np.cumsum(r[r > 0]))) for r in given)

    slope = (of(0.5 + 1e-6) - of(0.5 - 1e-6)) / 2e-6
    np.testing.assert_allclose(f(given, np.float64(0.5)), slope, rtol=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_sizes_that_an_argument_of_the_loop_gives_are_not_kept(backend):
    x, z = gt.tensor("x", "float64", ("n",)), gt.tensor("z", "float64", ())
    chosen, _ = gt.scan(lambda c, row: (gt.tanh(c + z * row), None), x[x > z], x)
    jvp = graphc.jvp(gt.sum(chosen), [x, z], [2 * x, 3.0 * z])
    f = graphc.function([x, z], jvp, backend=backend)

    def hand(x, z, chosen):
        c = x[chosen]
        for row in x:
            c = jnp.tanh(c + z * row)
        return jnp.sum(c)

    with jax.enable_x64(True):
        for size in (0, 1, 4):
            given = np.linspace(-1, 1, size), np.float64(0.1)
            of = (lambda x, z: hand(x, z, np.flatnonzero(given[0] > 0.1))), given
            _, slope = jax.jvp(*of, (2 * given[0], 3 * given[1]))
            np.testing.assert_allclose(f(*given), slope, rtol=1e-12)
