"""Reductions move into scans: values stay the same, and no stacked array is left."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.control.loop_cse import merge_scans
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.walk import ancestors
from graphc.rewrites import default, hoisting, none, rewritten

WIDTH = 3


def running(xs, w, reverse=False, checkpoint=None):
    """The last carry and the stacked rows of a recurrent net."""

    def step(h, x):
        h = gt.tanh(h @ w + x)
        return h, h

    start = gt.zeros(WIDTH, xs.dtype)
    return gt.scan(step, start, xs, reverse=reverse, checkpoint=checkpoint)


def mapped(xs, w, reverse=False):
    """A loop without carries."""
    return None, gt.map(lambda x: gt.sin(x @ w), xs)


def several(xs, w, reverse=False):
    """Two stacked outputs, of which one has a scalar per step."""

    def step(carry, x):
        total, h = carry
        h = 0.5 * h + x
        return (total + gt.sum(h), h), {"h": h @ w, "total": total}

    start = (gt.zeros((), xs.dtype), gt.zeros(WIDTH, xs.dtype))
    last, ys = gt.scan(step, start, xs, reverse=reverse)
    return last, ys["h"] * ys["total"][:, None]


def matrices(xs, w, reverse=False):
    """A matrix per step."""

    def step(h, x):
        h = 0.5 * h + x[:, None] * w
        return h, h

    return gt.scan(step, gt.zeros((WIDTH, WIDTH), xs.dtype), xs, reverse=reverse)


BODIES = {f.__name__: f for f in (running, mapped, several, matrices)}
REDUCTIONS = {
    "sum": lambda ys, t: gt.sum(ys),
    "sum over time": lambda ys, t: gt.sum(ys, 0),
    "sum over the rest": lambda ys, t: gt.sum(ys, -1),
    "kept": lambda ys, t: gt.sum(ys, (0, 1), keepdims=True),
    "mean": lambda ys, t: gt.mean(ys, 0),
    "error": lambda ys, t: gt.mean((ys - t) ** 2),
    "error per step": lambda ys, t: gt.mean(gt.square(ys - t), 1),
    "weighted": lambda ys, t: gt.sum(gt.exp(t) * gt.absolute(ys)) / gt.sum(gt.exp(t)),
    "masked": lambda ys, t: gt.sum(gt.where(t > 0, ys, 0.0), 0),
    "prod": lambda ys, t: gt.prod(1 + ys / 9, 0),
    "max": lambda ys, t: gt.max(ys * t),
    "min": lambda ys, t: gt.min(ys, 0),
    "max from": lambda ys, t: gt.max(ys, 0, initial=0.25),
    "argmax": lambda ys, t: gt.argmax(ys, 0),
    "argmin kept": lambda ys, t: gt.argmin(ys - t, 0, keepdims=True),
    "any": lambda ys, t: gt.any(ys > 0.5, 0),
    "all": lambda ys, t: gt.all(ys > -0.9),
    "count": lambda ys, t: gt.sum(ys > 0),
    "norm": lambda ys, t: gt.sqrt(gt.sum(ys**2, 0)),
    "largest norm": lambda ys, t: gt.max(gt.sqrt(gt.sum(ys**2, -1))),
    "transposed": lambda ys, t: gt.sum(ys.T, -1),
    "reshaped": lambda ys, t: gt.sum(ys.reshape(ys.shape[0], -1), 0),
    "of one column": lambda ys, t: gt.sum(ys[..., 1] * t[..., 1], 0),
    "softmax of rows": lambda ys, t: gt.sum(gt.nn.softmax(ys, -1), 0),
    "cross-entropy": lambda ys, t: gt.mean(gt.nn.logsumexp(ys, -1)),
    "logsumexp": lambda ys, t: gt.nn.logsumexp(99 * ys, 0),
    "logsumexp of all": lambda ys, t: gt.nn.logsumexp(ys * t, keepdims=True),
    "weighted logsumexp": lambda ys, t: gt.nn.logsumexp(ys, 0, b=gt.absolute(t)),
    "written logsumexp": lambda ys, t: gt.log(gt.sum(gt.exp(ys), 0)),
    "softmax mean": lambda ys, t: gt.sum(gt.nn.softmax(ys, 0) * gt.sin(t), 0),
    "pooled": lambda ys, t: gt.sum(gt.nn.softmax(ys[..., 0], 0)[..., None] * ys, 0),
    "Frobenius norm": lambda ys, t: gt.linalg.norm(ys),
    "norm per step": lambda ys, t: gt.sum(gt.linalg.norm(ys, ord=np.inf, axis=-1)),
    "peak": lambda ys, t: gt.sum(gt.linalg.norm(ys, ord=np.inf, axis=0)),
    "tensordot": lambda ys, t: gt.tensordot(ys + 0 * t, ys * t, ys.ndim),
    "row by matrix": lambda ys, t: (
        gt.sum(t, -1).reshape(-1) @ gt.sum(ys * t, -1)
        if ys.ndim == 2
        else gt.sum(ys[:, 0], -1) @ ys[:, 0]
    ),
    "nonzero": lambda ys, t: gt.count_nonzero(ys * t > 0),
    "joined": lambda ys, t: gt.sum(gt.concatenate([ys, ys * t], -1), 0),
    "stack": lambda ys, t: gt.max(gt.stack([ys * t, ys], 1), 0),
    "half": lambda ys, t: gt.sum(ys.astype("float16"), 0),
}


def variables(dtype="float64", n="n"):
    return [
        gt.tensor("xs", dtype, (n, WIDTH)),
        gt.tensor("w", dtype, (WIDTH, WIDTH)),
        gt.tensor("t", dtype, (n, WIDTH)),
    ]


def arrays(n, dtype="float64"):
    rng = np.random.default_rng(n)
    shapes = (n, WIDTH), (WIDTH, WIDTH), (n, WIDTH)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def every(outputs, rules):
    """The nodes that are left after the rules."""
    inputs = [n for n in ancestors(outputs) if n.primitive.name == "input"]
    values = tuple(n.outputs[0] for n in inputs)
    names = tuple(n.outputs[0].name for n in inputs)
    graph = merge_scans(Graph(values, tuple(outputs), names, ("",) * len(outputs)))
    return ancestors(rewritten(graph, rules).graph.outputs)


def scans(outputs, rules=default):
    """The loops that are left, each as the shapes of its stacked outputs."""
    found = [n for n in every(outputs, rules) if n.primitive.name == "scan"]
    return [[v.type.shape for v in n.outputs[n.params["carries"] :]] for n in found]


def outcome(f, given):
    try:
        with np.errstate(all="ignore"):
            return f(*given)
    except graphc.GraphError as error:
        return str(error).split(":")[1]


def same(new, old, rtol=1e-9):
    if isinstance(old, str):
        assert new == old
        return
    for a, b in zip(new, old, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol, rtol)


def agree(inputs, outputs, many, backends=("jax", "numpy"), rtol=1e-9):
    """Check that values with rules are those of NumPy without rules."""
    plain = graphc.function(
        inputs, outputs, rewrites=none, backend="numpy", dims="specialize"
    )
    expected = [outcome(plain, given) for given in many]
    for backend in backends:
        f = graphc.function(inputs, outputs, backend=backend, dims="specialize")
        for given, values in zip(many, expected, strict=True):
            same(outcome(f, given), values, rtol)


FIRST, *OTHERS = BODIES
PAIRS = [(what, FIRST) for what in REDUCTIONS]
PAIRS += [(what, OTHERS[i % len(OTHERS)]) for i, what in enumerate(REDUCTIONS)]


@pytest.mark.parametrize(("what", "body"), PAIRS)
def test_reductions_of_what_is_stacked(what, body):
    inputs = variables()
    xs, w, t = inputs
    _, ys = BODIES[body](xs, w)
    target = t[:, None] if ys.ndim == 3 else t
    y = REDUCTIONS[what](ys, target)
    ((*stacked,),) = scans([y])
    assert all(len(shape) < ys.ndim for shape in stacked)
    many = [arrays(n) for n in (5, 1, 0)]
    agree(inputs, [y], many, ("numpy",), 1e-2 if what == "half" else 1e-9)


def test_a_reduction_of_half_floats_on_jax():
    inputs = variables()
    xs, w, t = inputs
    agree(inputs, [REDUCTIONS["half"](running(xs, w)[1], t)], [arrays(5)], rtol=1e-2)


def test_all_reductions_of_one_scan_are_made_in_one():
    """On JAX too, which would take as long to compile each of them alone."""
    inputs = variables()
    xs, w, t = inputs
    last, ys = running(xs, w)
    found = [REDUCTIONS[what](ys, t) for what in REDUCTIONS if what != "half"]
    (stacked,) = scans([*found, last])
    assert all(len(shape) == 1 for shape in stacked)
    agree(inputs, [*found, last], [arrays(4)])


@pytest.mark.parametrize("weights", [False, True])
def test_logsumexp_of_infinities(weights):
    xs = gt.tensor("xs", "float64", ("n", 7))
    ys = gt.map(lambda x: x + 0, xs)
    found = gt.nn.logsumexp(ys, 0, b=xs * 0 + 2 if weights else None)
    assert scans([found]) == [[]]
    inf, nan = np.inf, np.nan
    given = [
        [-inf, inf, -inf, nan, -1e9, 1e9, -inf],
        [-inf, 0.0, 700.0, 1.0, -1e9, 1e9, -1e308],
        [-inf, 0.0, -inf, inf, -1e9 + 1, -1e9, -1e308],
    ]
    if weights:
        given = np.nan_to_num(given, posinf=800, neginf=-1e300)
    given = np.array(given)
    agree([xs], [found], [[given], [given[::-1]], [given[:1]], [given[:0]]])


@pytest.mark.parametrize("reverse", [False, True])
def test_what_comes_first_wins_in_both_directions(reverse):
    inputs = variables(n=6)
    xs = inputs[0]
    _, ys = gt.scan(lambda c, x: (c, gt.sqrt(x) - 1), 0.0, xs, reverse=reverse)
    found = [gt.argmax(ys, 0), gt.argmin(ys, 0), gt.max(ys, 0), gt.min(ys)]
    found += [gt.argmax(ys[::-1], 0), gt.argmin(ys[1::-1], 0)]
    given = np.array([[1, 4, -1], [4, 4, 1], [4, 0, -2]] * 2, "float64")
    ties = np.tile(np.array([[-np.inf], [4]]), (3, 3))
    rest = arrays(6)[1:]
    assert scans(found) == [[]]
    agree([xs], found, [[given], [given**2], [ties**2], [np.full((6, 3), np.inf)]])
    agree(inputs, [*found, gt.sum(inputs[1]) + gt.sum(inputs[2])], [[given, *rest]])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_whole_numbers(dtype):
    xs = gt.tensor("xs", dtype, ("n", 4))
    ys = gt.map(lambda x: gt.flip(x), xs)
    found = [
        *(gt.sum(ys, 0), gt.prod(ys), gt.max(ys, 0), gt.min(ys), gt.argmax(ys, 0)),
        *(gt.any(ys > 0, 0), gt.all(ys), gt.mean(ys, 0)),
    ]
    assert scans(found) == [[]]
    rng = np.random.default_rng(0)
    agree([xs], found, [[rng.integers(0, 3, (n, 4)).astype(dtype)] for n in (1, 6)])


def test_sums_of_many_halves_do_not_stop_growing():
    xs = gt.tensor("xs", "float16", ("n",))
    total = gt.sum(gt.map(lambda x: x + 1, xs))
    given = np.zeros(5000, "float16")
    for backend in ("jax", "numpy"):
        assert graphc.function([xs], total, backend=backend)(given) == 5000


def test_what_is_needed_otherwise_stays_stacked():
    inputs = variables()
    xs, w, t = inputs
    _, ys = running(xs, w)
    loss = gt.mean((ys - t) ** 2)
    assert scans([loss, ys]) == scans([loss, ys], none)
    assert scans([loss, gt.cumsum(ys, 0)]) == scans([loss, gt.cumsum(ys, 0)], none)


def test_what_depends_on_another_reduction_is_not_hoisted():
    inputs = variables()
    _, ys = running(*inputs[:2])
    centred = gt.mean((ys - gt.mean(ys, 0)) ** 2)
    agree(inputs[:2], [centred], [arrays(n)[:2] for n in (1, 5)])


def test_a_maximum_of_no_steps_is_an_error_still():
    xs, w, _ = inputs = variables()
    for what in ("max", "argmax"):
        y = REDUCTIONS[what](running(xs, w)[1], inputs[2])
        for backend in ("jax", "numpy"):
            f = graphc.function(inputs, y, backend=backend)
            with pytest.raises(graphc.GraphError, match="has no element"):
                f(*arrays(0))


def test_sequences_of_another_length_are_an_error_still():
    xs, w, _ = variables()
    t = gt.tensor("t", "float64", ("m", WIDTH))
    y = gt.sum(running(xs, w)[1] * t)
    assert scans([y]) == [[]]
    f = graphc.function([xs, w, t], y, backend="numpy")
    given, weights, other = arrays(4)
    f(given, weights, other)
    with pytest.raises(graphc.GraphError, match="m == n"):
        f(given, weights, other[:3])


def test_checks_in_a_body_are_made_still():
    xs, w, t = inputs = variables()

    def step(h, x):
        return h, gt.assert_(gt.sum(x) < 5, "too much", h * x)

    _, ys = gt.scan(step, gt.ones(WIDTH, xs.dtype), xs)
    y = gt.mean((ys - t) ** 2) + gt.sum(w)
    assert scans([y]) == [[]]
    given = arrays(4)
    large = [given[0] + 9, *given[1:]]
    agree(inputs, [y], [given])
    for backend in ("jax", "numpy"):
        f = graphc.function(inputs, y, backend=backend)
        with pytest.raises(graphc.GraphError, match="too much"):
            f(*large)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    "what",
    ["error", "weighted", "norm", "softmax of rows", "logsumexp", "softmax mean"],
)
def test_gradients(body, what):
    inputs = variables()
    xs, w, t = inputs
    _, ys = BODIES[body](xs, w)
    y = REDUCTIONS[what](ys, t[:, None] if ys.ndim == 3 else t)
    loss = gt.sum(gt.tanh(y))
    outputs = [loss, *graphc.grad(loss, [xs, w, t], disconnected="zero")]
    agree(inputs, outputs, [arrays(5), arrays(1)], ("numpy",))
    if what == "error":
        agree(inputs, outputs, [arrays(5)], ("jax",))


def test_a_gradient_keeps_the_carries_and_nothing_else():
    xs, w, t = variables()
    _, ys = running(xs, w, checkpoint="all")
    loss = gt.mean((ys - t) ** 2)
    row = (xs.type.shape[0], WIDTH)
    outputs = [loss, graphc.grad(loss, w)]
    assert scans(outputs) == [[row], []]
    assert scans(outputs, none) == [[row, row], []]


def test_a_gradient_keeps_what_is_made_of_products_too():
    xs, w, t = variables()
    row = (xs.type.shape[0], WIDTH)
    for body, kept in ((running, [row, row]), (mapped, [row])):
        loss = gt.mean((body(xs, w)[1] - t) ** 2)
        assert scans([loss, graphc.grad(loss, w)]) == [kept, []]


def test_layers_of_scans():
    inputs = variables()
    xs, w, t = inputs
    _, below = running(xs, w)
    _, ys = running(gt.exp(below), w, reverse=True)
    loss = gt.mean((ys - t) ** 2) + gt.mean(below**2)
    agree(inputs, [loss, *graphc.grad(loss, [xs, w])], [arrays(4)])


@pytest.mark.parametrize("batch", [40, 3])
def test_products_with_weights_are_made_per_step_where_they_stay_large(batch):
    xs = gt.tensor("xs", "float64", ("n", batch, WIDTH))
    w = gt.tensor("w", "float64", (WIDTH, WIDTH))
    out = gt.tensor("out", "float64", (WIDTH, 2))
    t = gt.tensor("t", "float64", ("n", batch, 2))

    def step(h, x):
        h = gt.tanh(h @ w + x)
        return h, h

    start = gt.zeros((batch, WIDTH), xs.dtype)
    _, ys = gt.scan(step, start, xs, checkpoint="all")
    loss = gt.mean((ys @ out - t) ** 2)
    outputs = [loss, *graphc.grad(loss, [w, out])]
    n = xs.type.shape[0]
    kept = [[(n, batch, WIDTH)], []]
    assert (scans(outputs) == kept) == (batch == 40)
    assert (scans([loss]) == [[]]) == (batch == 40)
    rng = np.random.default_rng(0)
    shapes = (4, batch, WIDTH), (WIDTH, WIDTH), (WIDTH, 2), (4, batch, 2)
    given = [rng.normal(size=shape) for shape in shapes]
    agree([xs, w, out, t], outputs, [given])


def test_batched_products_are_made_per_step():
    xs = gt.tensor("xs", "float64", ("n", 2, WIDTH))
    us = gt.tensor("us", "float64", ("n", WIDTH, 4))
    v = gt.tensor("v", "float64", (WIDTH,))
    ys = gt.map(gt.sin, xs)
    found = [gt.sum(ys @ us), gt.sum(gt.exp(ys @ us[0]), 0), gt.max(ys @ v)]
    assert scans(found[:1]) == [[]]
    rng = np.random.default_rng(0)
    given = [rng.normal(size=s) for s in ((5, 2, WIDTH), (5, WIDTH, 4), (WIDTH,))]
    agree([xs, us, v], found, [given])


LABELLED = {
    "by places": lambda x, labels: x[gt.arange(x.shape[0]), labels],
    "along an axis": lambda x, labels: gt.take_along_axis(x, labels[:, None], 1),
    "one hot": lambda x, labels: gt.nn.one_hot(labels, WIDTH, dtype=x.dtype) * x,
}


@pytest.mark.parametrize("how", LABELLED)
def test_cross_entropy_of_labels(how):
    xs, w, _ = variables()
    labels = gt.tensor("labels", "int64", ("n",))
    _, ys = running(xs, w, checkpoint="all")
    loss = -gt.sum(LABELLED[how](gt.nn.log_softmax(ys, -1), labels))
    outputs = [loss, *graphc.grad(loss, [xs, w])]
    n = xs.type.shape[0]
    assert scans([loss]) == [[]]
    assert scans([loss, graphc.grad(loss, w)]) == [[(n, WIDTH)], []]
    picked = [np.array([0, 2, 1, 2, 0]), np.array([-1, 2, 1, -3, 0])]
    given = [[*arrays(5)[:2], some] for some in picked[: 2 - (how == "one hot")]]
    agree([xs, w, labels], outputs, given)


def test_labels_of_batches():
    """Batch positions are the same in each step, so one row of them serves all."""
    xs = gt.tensor("xs", "float64", ("n", 4, WIDTH))
    labels = gt.tensor("labels", "int64", ("n", 4))
    steps, batch = gt.arange(xs.shape[0])[:, None], gt.arange(4)
    ys = gt.nn.log_softmax(gt.map(gt.sin, xs), -1)
    picked = gt.take_along_axis(ys, labels[..., None], -1)
    mean = gt.mean(xs[:, :, 0], 0, keepdims=True)
    written = ys.at[steps, batch, labels].add(mean)
    found = [-gt.mean(picked), gt.sum(written**2)]
    assert [scans([y]) for y in found] == [[[]]] * 2
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(5, 4, WIDTH)), rng.integers(0, WIDTH, (5, 4))]
    agree([xs, labels], [*found, graphc.grad(found[0], xs)], [given])


def test_indices_are_checked_where_that_is_asked_for():
    xs, w, _ = variables()
    labels = gt.tensor("labels", "int64", ("n",))
    _, ys = running(xs, w)
    found = gt.sum(ys[gt.arange(xs.shape[0]), labels])
    given = [*arrays(3)[:2], np.array([0, 5, 1])]
    graphc.function([xs, w, labels], found)(*given)
    f = graphc.function([xs, w, labels], found, check=True)
    assert "reduction_in_scan" in {r.rule.name for r in f.rewrites}
    with pytest.raises(graphc.GraphError, match="out of bounds"):
        f(*given)


def test_scans_in_bodies():
    xs, w, t = inputs = variables()

    def outer(total, scale):
        _, ys = running(scale * xs, w)
        return total + gt.mean((ys - t) ** 2), gt.sum(gt.exp(ys))

    total, sums = gt.scan(outer, gt.zeros((), xs.dtype), gt.abs(w[0]))
    loss = total + gt.max(sums)
    assert scans([loss]) == [[]]
    for rules, count in ((default, 0), (none, 1)):
        (scan,) = (n for n in every([loss], rules) if n.primitive.name == "scan")
        (inside,) = (
            n for n in scan.params["body"].content.nodes if n.primitive.name == "scan"
        )
        stacked = len(inside.outputs) - inside.params["carries"]
        assert stacked == count
    agree(inputs, [loss, graphc.grad(loss, w)], [arrays(3)])


def test_other_params_of_a_scan_stay():
    xs, w, t = inputs = variables()

    def step(h, x):
        h = gt.tanh(h @ w + x)
        return h, h

    _, ys = gt.scan(step, gt.zeros(WIDTH, xs.dtype), xs, unroll=3)
    loss = gt.mean((ys - t) ** 2)
    nodes = every([loss, graphc.grad(loss, w)], default)
    found = [n.params["unroll"] for n in nodes if n.primitive.name == "scan"]
    assert found == [3, 3]
    agree(inputs, [loss, graphc.grad(loss, w)], [arrays(4)])


def test_one_switch():
    xs, w, t = inputs = variables()
    _, ys = running(xs, w)
    loss = gt.mean((ys - t) ** 2)
    f = graphc.function(inputs, loss)
    assert "reduction_in_scan" in f.explain(full=True)
    assert [str(a.rule.name) for a in f.rewrites] == ["reduction_in_scan"]
    stacked = scans([loss], none)
    for gone in ("reduction_in_scan", "scan_in_chunks"):
        assert scans([loss], default - gone) != stacked
    by_name = default - "reduction_in_scan" - "scan_in_chunks"
    assert scans([loss], by_name) == stacked
    assert scans([loss], default - hoisting) == stacked
    assert scans([loss], default.exact()) == stacked


def test_ys_that_are_outputs_are_not_computed_again():
    x = gt.tensor("x", "float32", ("n",))
    rows = gt.map(gt.tanh, x)
    total = gt.scan(lambda c, r: (c + r[0] * r[1], []), 0.0, (x, rows))[0]
    for outputs, applies in (([total], True), ([total, rows], False)):
        f = graphc.function([x], outputs, backend="numpy")
        assert ("recomputed_in_scan" in [a.rule.name for a in f.rewrites]) == applies
