"""Variances of a scan's stacked rows move into its body and stay as precise."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.compiling import compiled_well
from tests.rewriting.test_hoisting import (
    BODIES,
    WIDTH,
    agree,
    arrays,
    running,
    scans,
    variables,
)

SPREADS = {
    "over time": lambda ys, t: gt.var(ys, 0),
    "of all": lambda ys, t: gt.var(ys),
    "kept": lambda ys, t: gt.std(ys, 0, ddof=1, keepdims=True),
    "of all, kept": lambda ys, t: gt.std(ys * t, keepdims=True, ddof=2),
    "written": lambda ys, t: gt.mean((gt.mean(ys, 0) - ys) ** 2),
    "product": lambda ys, t: gt.sum((ys - gt.mean(ys)) * (ys - gt.mean(ys)), -1).sum(),
    "masked": lambda ys, t: gt.var(ys, 0, where=t > 0),
    "masked by itself": lambda ys, t: gt.std(ys, where=ys > 0),
    "around another mean": lambda ys, t: gt.sum((ys - gt.mean(ys, 0)[::-1]) ** 2),
    "around the last": lambda ys, t: gt.mean((ys - ys[-1]) ** 2, 0),
    "around the largest": lambda ys, t: gt.sum(ys - gt.max(ys, 0, initial=0), 0),
    "of a part": lambda ys, t: gt.var(ys[1:] - ys[:-1], 0),
    "backwards": lambda ys, t: gt.std(ys[::-1] - t, 0, correction=1),
    "scaled": lambda ys, t: gt.sum(-((ys - gt.mean(ys, 0)) / gt.std(ys, 0)), 0),
    "transposed": lambda ys, t: gt.var(ys.T, -1),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("what", SPREADS)
def test_values_are_as_without(what, reverse):
    inputs = variables()
    xs, w, t = inputs
    _, ys = running(xs, w, reverse)
    y = SPREADS[what](ys, t)
    assert scans([y]) == [[]]
    agree(inputs, [y], [arrays(n) for n in (6, 3, 2, 1, 0)], ("numpy",))


@pytest.mark.parametrize("body", BODIES)
def test_one_program_of_all(body):
    inputs = variables()
    xs, w, t = inputs
    _, ys = BODIES[body](xs, w)
    t = t[:, None] if ys.ndim == 3 else t
    found = [SPREADS[what](gt.sin(ys), t) for what in SPREADS]
    assert scans(found) == [[]]
    backends = ("jax", "numpy") if body == "running" else ("numpy",)
    agree(inputs, found, [arrays(5)], backends)


@pytest.mark.parametrize("what", ["over time", "of all", "kept", "written"])
def test_gradients_keep_the_carries_only(what):
    inputs = variables()
    xs, w, t = inputs
    loss = gt.sum(SPREADS[what](running(xs, w, checkpoint="all")[1], t))
    n = xs.type.shape[0]
    assert scans([loss, graphc.grad(loss, w)]) == [[(n, WIDTH)], []]
    outputs = [loss, *graphc.grad(loss, [xs, w])]
    backends = ("jax", "numpy") if what == "kept" else ("numpy",)
    agree(inputs, outputs, [arrays(5), arrays(2)], backends)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_large_mean_costs_no_digits(dtype):
    """Values vary by 1 around 10,000, and the first one is far off."""
    xs = gt.tensor("xs", dtype, ("n", 2))
    ys = gt.map(lambda x: x + 0, xs)
    found = [gt.var(ys, 0), gt.var(ys[1:]), gt.var(ys, 0, where=ys > 0)]
    assert scans(found) == [[]]
    x = np.random.default_rng(0).normal(size=(5000, 2)) + 1e4
    x[0] = 0
    x = x.astype(dtype)
    wide = x.astype("float64")
    exact = [wide.var(0), wide[1:].var(), wide.var(0, where=wide > 0)]
    for backend in ("jax", "numpy"):
        got = graphc.function([xs], found, backend=backend)(x)
        for a, b in zip(got, exact, strict=True):
            np.testing.assert_allclose(a, b, 1e-4 if dtype == "float32" else 1e-11)
    constant = np.full((3000, 2), 0.1, dtype)
    for backend, most in (("jax", np.finfo(dtype).eps ** 2), ("numpy", 0)):
        got = graphc.function([xs], found[0], backend=backend)(constant)
        assert np.all(got <= most)


def test_xla_takes_chunks_of_rows():
    """Each number that a step carries is a loop to XLA; rows of a chunk are one."""
    xs = gt.tensor("xs", "float32", ("n", 3))
    _, ys = gt.scan(lambda c, r: (c + r, gt.tanh(c)), xs[0] * 0, xs)
    programs = [
        graphc.function([xs], y) for y in (gt.var(ys, 0), gt.nn.logsumexp(ys, 0))
    ]
    for f in programs:
        names = {a.rule.name for a in f.rewrites}
        assert "scan_in_chunks" in names and "reduction_in_scan" not in names
        found = compiled_well(f.lower({"n": 5_000_000})[0])
        assert found.memory_analysis().temp_size_in_bytes < 5_000_000


def test_infinities_and_nan():
    xs = gt.tensor("xs", "float64", ("n", 5))
    ys = gt.map(lambda x: x + 0, xs)
    last = ys - ys[-1]
    found = [
        *(gt.var(ys, 0), gt.var(ys, 0, where=gt.isfinite(ys)), gt.std(ys)),
        *(gt.sum(last, 0), gt.sum(last**2, 0), gt.sum(ys - gt.max(ys, 0), 0)),
    ]
    assert scans(found) == [[]]
    inf, nan = np.inf, np.nan
    given = np.array([[1, inf, -inf, nan, 0], [2, 1, inf, 1, 1e200], [3, 2, 1, 0, 1]])
    agree([xs], found, [[given], [given[::-1]], [given[:1]]])


def test_numbers_of_other_kinds():
    for dtype in ("int32", "bool", "float16", "uint8"):
        xs = gt.tensor("xs", dtype, ("n", 4))
        y = gt.var(gt.map(gt.flip, xs), 0)
        assert scans([y]) == [[]]
        given = np.random.default_rng(0).integers(0, 2, (6, 4)).astype(dtype)
        rtol = 1e-2 if dtype == "float16" else 1e-9
        agree([xs], [y], [[given]], ("numpy",), rtol)


def test_within_loops_and_batches():
    xs, w, t = inputs = variables()

    def outer(total, scale):
        _, ys = running(scale * xs, w)
        return total + gt.sum(gt.std(ys, 0)), gt.sum((ys[1:] - ys[:-1]) ** 2)

    total, sums = gt.scan(outer, gt.zeros((), xs.dtype), gt.abs(w[0]))
    batch = graphc.vmap(lambda s: gt.var(running(s * xs, w)[1], 0))(t[:, 0])
    assert scans([batch]) == [[]]
    found = [total + gt.var(sums), gt.sum(batch)]
    found = [*found, graphc.grad(found[0] + found[1], w)]
    agree(inputs, found, [arrays(4)], ("numpy",))


def test_what_needs_all_rows_otherwise_stays():
    xs, w, _ = variables()
    _, ys = running(xs, w)
    n = xs.type.shape[0]
    around = ys - gt.mean(ys, 0)
    for y in (gt.sum(gt.abs(around)), gt.sum(around**3)):
        assert scans([y]) == [[(n, WIDTH)]]
    assert scans([gt.var(ys), gt.sum(gt.sin(around))]) == [[(n, WIDTH)]]
