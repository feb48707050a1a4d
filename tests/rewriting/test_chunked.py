"""Scans with checkpoints become loops over chunks of steps."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import CallError
from tests.transform.alike import alike

X = gt.tensor("x", "float64", ("n", 3))
W = gt.tensor("w", "float64", (3,))
PLACES = gt.tensor("places", "int64", ("n",))
NONE = graphc.rewrites.none


def given(n):
    x = np.cos(np.arange(n * 3.0) * 1.3).reshape(n, 3)
    return x, np.array([0.7, -0.4, 1.1]), (np.arange(n) * 5 + 1) % 4


def with_slopes(loss):
    return [loss, *graphc.grad(loss, [X, W])]


def gathering(**options):
    """A scan whose integer carry tells which row to read; one carry never changes."""

    def step(carry, row):
        h, i, fixed = carry
        h = gt.tanh(h * W + X[i] * row[0] + fixed)
        return (h, (7 * i + row[1]) % X.shape[0], fixed), (h[0], i)

    start = gt.zeros(3, "float64"), 0, W + 1
    (h, i, _), (out, places) = gt.scan(step, start, (X, PLACES), **options)
    return [*with_slopes(gt.sum(h * h) + gt.sum(gt.sin(out))), i, places]


def twice(**options):
    """Second derivatives of a loss that is hoisted."""
    step = lambda h, x: (gt.tanh(h * W + x),) * 2
    ys = gt.scan(step, W * 2, X, **options)[1]
    slope = graphc.grad(gt.sum((ys - X) ** 2), W)
    return with_slopes(gt.sum(slope * gt.cos(W)))


def rowless(**options):
    """A scan without sequences: all but the number of steps is carried, even bools."""

    def step(carry, _):
        h, odd = carry
        return (gt.where(odd, gt.sin(h * W), h + 0.1), ~odd), None

    start = W, gt.sum(W) > 0
    (h, odd), _ = gt.scan(step, start, length=X.shape[0], **options)
    return [gt.sum(h * h), odd, graphc.grad(gt.sum(h * h), W)]


def nested(**options):
    """Loops inside a loop, each over all rows."""

    def inner(c, x):
        return gt.scan(lambda h, r: (gt.tanh(h * W + r * x),) * 2, c, X, **options)

    def outer(c, x):
        h, ys = inner(c, x)
        return h, gt.sum(gt.sin(ys))

    h, out = gt.scan(outer, gt.zeros(3, "float64"), X, **options)
    return with_slopes(gt.sum(h) + gt.sum(out**2))


LOOPS = {f.__name__: f for f in (gathering, twice, rowless, nested)}
SIZES = {"exact": "specialize", "padded": graphc.Pad(minimum=3, growth=1.6)}


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("loop", LOOPS)
def test_values_are_those_without_checkpoints(loop, reverse):
    inputs = [X, W, PLACES]
    plain = LOOPS[loop](reverse=reverse)
    plain = graphc.function(inputs, plain, backend="numpy", rewrites=NONE)
    ways = (4, "exact"), ("sqrt", "padded")
    for checkpoint, dims in ways if reverse else (("sqrt", "exact"), (4, "padded")):
        outputs = LOOPS[loop](reverse=reverse, checkpoint=checkpoint)
        f = graphc.function(inputs, outputs, backend="numpy", dims=SIZES[dims])
        for n in (0, 1, 5, 11):
            alike(f(*given(n)), plain(*given(n)))


@pytest.mark.usefixtures("wide", "compiled_quickly")
@pytest.mark.parametrize("loop", ["gathering", "nested"])
def test_jax_does_the_same(loop):
    inputs = [X, W, PLACES]
    outputs = LOOPS[loop](checkpoint="sqrt")
    f, plain = (
        graphc.function(inputs, outputs, backend=backend, rewrites=rules)
        for backend, rules in (("jax", graphc.rewrites.default), ("numpy", NONE))
    )
    for n in (0, 7):
        alike(f(*given(n)), plain(*given(n)))


def sides(checkpoint, dims="specialize", **options):
    """One program with the rule, and one without it."""
    step = lambda h, x: (gt.tanh(h * W + x),) * 2
    ends, ys = gt.scan(step, W, X, checkpoint=checkpoint, **options)
    outputs = with_slopes(gt.sum(ends * ends) + gt.sum(gt.cumsum(ys)))
    rules = graphc.rewrites.default, graphc.rewrites.default - "scan_of_chunks"
    options = {"backend": "numpy", "dims": dims}
    return [graphc.function([X, W], outputs, rewrites=r, **options) for r in rules]


@pytest.mark.parametrize(
    ("checkpoint", "sizes"), [(3, "exact"), (3, "padded"), ("sqrt", "exact")]
)
def test_no_step_asks_whether_a_chunk_begins(checkpoint, sizes):
    f, g = sides(checkpoint, SIZES[sizes])
    assert f.explain(full=True).count("scan_of_chunks (2 times)") == 1
    assert f.source.count("loop_numpy(") > g.source.count("loop_numpy(")
    for n in (0, 1, 8):
        for a, b in zip(f(*given(n)[:2]), g(*given(n)[:2]), strict=True):
            np.testing.assert_array_equal(a, b)  # the rule is exact


def test_loops_that_are_unrolled_stay():
    f, g = sides(3, unroll=2)
    assert f.source == g.source


def test_sequences_of_other_lengths_are_refused_still():
    t = gt.tensor("t", "float64", ("m", 3))
    step = lambda h, rows: (gt.tanh(h * W * rows[0] + rows[1]), [])
    h, _ = gt.scan(step, gt.zeros(3, "float64"), (X, t), checkpoint=2)
    f = graphc.function([X, t, W], graphc.grad(gt.sum(h), W), backend="numpy")
    x, w, _ = given(5)
    assert np.all(np.isfinite(f(x, x, w)))
    for a, b in ((x, x[1:]), (x[1:], x)):
        with pytest.raises(CallError, match="sequences must have one length"):
            f(a, b, w)


def test_slices_that_nobody_reads_are_not_stacked():
    """Alone, a gradient recomputes the losses slice by slice on the way back."""
    _, ys = gt.scan(lambda h, x: (gt.tanh(h * W + x),) * 2, W, X, checkpoint=3)
    slope = graphc.grad(gt.sum((ys - X) ** 2), W)
    f, plain = (
        graphc.function([X, W], slope, backend="numpy", rewrites=rules)
        for rules in (graphc.rewrites.default, NONE)
    )
    x, w, _ = given(8)
    alike([f(x, w)], [plain(x, w)])
    made = [line for line in f.source.splitlines() if "np.full(" in line]
    assert len(made) == 3 and not any("max(" in line for line in made)
