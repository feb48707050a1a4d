"""Reductions move into loops that stop early; no row is stacked and no size is read."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.walk import ancestors
from tests.rewriting.test_blocking import peak
from tests.rewriting.test_hoisting import agree, scans

XS, T = (gt.tensor(name, "float64", ("n", 3)) for name in ("xs", "t"))
STACKED = XS.type.shape
N = XS.shape[0]
REDUCTIONS = {
    "sum": lambda ys, t: gt.sum(ys),
    "sum over time": lambda ys, t: gt.sum(ys, 0),
    "mean": lambda ys, t: gt.mean(gt.sin(ys), 0, keepdims=True),
    "error": lambda ys, t: gt.mean((ys - t) ** 2),
    "prod": lambda ys, t: gt.prod(ys),
    "max": lambda ys, t: gt.max(ys, 0),
    "min from": lambda ys, t: gt.min(gt.exp(ys), initial=9),
    "logsumexp": lambda ys, t: gt.nn.logsumexp(ys, 0),
    "variance": lambda ys, t: gt.var(ys, 0),
    "deviation": lambda ys, t: gt.std(ys * t, ddof=1),
    "norm": lambda ys, t: gt.linalg.norm(ys),
    "any": lambda ys, t: gt.any(ys > 0.9, 0),
    "all": lambda ys, t: gt.all(ys > -1),
    "count": lambda ys, t: gt.count_nonzero(ys > t),
    "masked": lambda ys, t: gt.sum(gt.where(t > 0, ys, 0.0), 0),
    "backwards": lambda ys, t: gt.sum(ys[::-1] ** 2, 0),
    "but the first": lambda ys, t: gt.var(ys[1:], 0),
    "but the last": lambda ys, t: gt.sum(gt.exp(ys[:-1])),
    "smoothness": lambda ys, t: gt.mean((ys[1:] - ys[:-1]) ** 2),
    "curvature": lambda ys, t: gt.sum(gt.abs(ys[2:] - 2 * ys[1:-1] + ys[:-2]), 0),
    "softmax of rows": lambda ys, t: gt.sum(gt.nn.softmax(ys, 1), 0),
    "of rows": lambda ys, t: gt.sum(gt.sqrt(gt.sum(ys**2, 1))),
}


def stopped(xs, reverse=False):
    """The rows of a scan that stops as soon as a carry's sum exceeds 2, if it does."""

    def step(h, x):
        h = gt.tanh(h + x)
        return h, h

    def last(h, y):
        return gt.sum(h) > 2

    return gt.scan(step, gt.zeros(3, xs.dtype), xs, until=last, reverse=reverse)[1]


def arrays(*counts):
    """Arrays for which the scan stops at the first step, at a later one, or never."""
    rng = np.random.default_rng(0)
    found = [[rng.normal(s, 1, (n, 3)), rng.normal(size=(n, 3))] for n, s in counts]
    return [*found, [np.full((4, 3), -1.0), np.zeros((4, 3))]]


MANY = arrays((8, 0.4), (9, 0.2), (3, 2), (1, 0), (0, 0))


def used(y, given):
    """The variables that `y` is computed from, and their arrays."""
    both = T.node in ancestors([y])
    return ([XS, T], given) if both else ([XS], [a[:1] for a in given])


@pytest.mark.parametrize("what", REDUCTIONS)
def test_values_are_as_without(what):
    ys = stopped(XS)
    y = REDUCTIONS[what](ys, T[: ys.shape[0]])
    assert scans([y]) == [[()]]  # the number of steps done
    inputs, given = used(y, MANY)
    agree(inputs, [y], given, ("numpy",))


def test_all_on_jax_in_one_segment():
    ys = stopped(XS)
    found = [r(ys, T[: ys.shape[0]]) for k, r in REDUCTIONS.items() if k != "max"]
    assert scans(found) == [[()]]
    agree([XS, T], found, MANY[:3], ("jax",))
    assert len(graphc.function([XS, T], found).plan.segments) == 1


@pytest.mark.parametrize("what", ["error", "mean", "variance", "norm", "backwards"])
def test_gradients_keep_the_carries_only(what):
    ys = stopped(XS)
    loss = gt.sum(REDUCTIONS[what](ys, T[: ys.shape[0]]) ** 2)
    slope = graphc.grad(loss, XS)
    assert scans([loss, slope]) == [[(), STACKED], [STACKED]]
    inputs, given = used(loss, MANY[:3])
    backends = ("jax", "numpy") if what == "error" else ("numpy",)
    agree(inputs, [loss, slope], given, backends)


def test_masks_of_other_rows_stay_masks():
    """They hold at some rows without a step, and fail at some rows with one."""
    ys = stopped(XS)
    m = ys.shape[0]
    z = gt.zeros_like(XS).at[:m].set(ys)
    mask = (gt.arange(N) < m)[:, None]
    found = [
        gt.sum(gt.where(mask[:-1], gt.exp(z[1:]), 0)),
        gt.sum(gt.where(mask[1:], gt.exp(z[:-1]), 0)),
        gt.sum(gt.where(mask[::-1], gt.exp(z), 0)),
        gt.var(gt.exp(z[1:]), 0, where=mask[:-1]),
        gt.sum(gt.exp(z)) + gt.sum(gt.cos(z), where=~mask),
    ]
    for y in found:
        agree([XS], [y], [a[:1] for a in MANY], ("numpy",))


def test_scans_from_the_end():
    y = gt.sum(gt.exp(stopped(XS, reverse=True)), 0)
    assert scans([y]) == [[()]]
    agree([XS], [y, graphc.grad(gt.sum(y), XS)], [a[:1] for a in MANY], ("numpy",))


@pytest.mark.parametrize("on_exceeded", ["raise", "flag"])
def test_while_loops_with_room(on_exceeded):
    x = gt.scalar("x", "float64")

    def body(c):
        return c * 1.5 + x, (c, gt.stack([c, -c]))

    options = {"max_steps": 9, "collect": True, "on_exceeded": on_exceeded}
    found = gt.while_loop(lambda c: c < 99, body, abs(x), **options)
    _, (cs, pairs) = found[0] if on_exceeded == "flag" else found
    y = gt.sum(cs**2), gt.max(pairs, 0), gt.mean(pairs)
    slope = graphc.grad(gt.sum(y[0]), x)
    assert scans(y) == [[()]]
    assert scans([*y, slope]) == [[(), (9,)], []]
    given = [[np.float64(v)] for v in (2.0, 90.0, 100.0, 0.1, -1.0)]
    agree([x], [*y[::2], slope], given, ("jax", "numpy"))
    agree([x], y, given[:2], ("numpy",))


def test_within_loops():
    def outer(total, scale):
        ys = stopped(scale * XS)
        return total + gt.var(ys), gt.sum(ys, 0)

    total, sums = gt.scan(outer, gt.zeros((), "float64"), T[:, 0])
    found = [total, gt.sum(sums * T)]
    agree([XS, T], [*found, graphc.grad(found[1], XS)], MANY[:3], ("numpy",))


def test_what_needs_their_number_otherwise_stays():
    ys = stopped(XS)
    for y in (ys, ys[-1], gt.sum(ys, 1), gt.sum(ys) + gt.cumsum(ys, 0)):
        assert scans([y]) == [[(), STACKED]]


def test_memory_does_not_grow_with_the_rows():
    x = gt.tensor("x", "float32", (4000, 64))

    def step(h, r):
        h = gt.tanh(h * 0.5 + r)
        return h, h

    ys = gt.scan(step, gt.zeros(64), x, until=lambda h, y: h[0] > 2)[1]
    f = graphc.function([x], gt.mean(gt.exp(ys)))
    assert peak(f, (4000, 64)) < 4000
