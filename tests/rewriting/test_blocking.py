"""Reductions over all pairs run in blocks, with equal values and little memory."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewrites import blocking, default, hoisting, none, scan_in_chunks
from tests.compiling import compiled_well
from tests.rewriting.test_hoisting import same

SMALL = default - "large_in_blocks" + blocking(block_bytes=256, rows=0)
SIZES = [(13, 9), (2, 3), (1, 1), (0, 3), (3, 0)]


def distances(x, y):
    return gt.sum((x[:, None] - y) ** 2, -1)


def attention(q, k, v, mask=None):
    scores = q @ gt.swapaxes(k, -1, -2) / 3
    if mask is not None:
        scores = gt.where(mask, scores, -np.inf)
    return gt.nn.softmax(scores, -1) @ v


def with_gradients(inputs, y, how=gt.mean):
    """An example's result, a loss of it, and the loss's gradients."""
    loss = how(y**2)
    return [y, loss, *graphc.grad(loss, inputs)]


def variables(*shapes, dtype="float64"):
    return [gt.tensor(f"x{i}", dtype, shape) for i, shape in enumerate(shapes)]


def kernel_sum(dtype="float64"):
    x, y, b = inputs = variables(("n", 2), ("m", 2), ("m",), dtype=dtype)
    y = gt.exp(-distances(x, y)) @ b
    return inputs, with_gradients(inputs, y), 1


def reductions():
    x, y = inputs = variables(("n", 2), ("m", 2))
    d = distances(x, y)
    found = [gt.sum(d), gt.mean(d, 0), gt.max(d, initial=0.0), gt.any(d < 1, 1)]
    return inputs, [*found, gt.sum(d > 2, 0), gt.prod(d, 1), gt.nn.logsumexp(-d, 0)], 1


def heads():
    """The loss is of all rows together, so scores are computed again after it."""
    shapes = (2, "n", 4), (2, "m", 4), (2, "m", 3)
    inputs = variables(*shapes)
    y = attention(*inputs)
    return inputs, with_gradients(inputs, y, lambda z: gt.log(1 + gt.sum(z))), 2


def causal():
    q, k, v = inputs = variables(("n", "d"), ("m", "d"), ("m", "e"))
    mask = gt.arange(q.shape[0])[:, None] >= gt.arange(k.shape[0])
    return inputs, [attention(q, k, v, mask)], 1


def mapped():
    x, y = inputs = variables((3, "n", 2), ("m", 2))

    def one(x, y):
        return gt.sum(gt.exp(-distances(x, y)), 1)

    return inputs, [graphc.vmap(one, (0, None))(x, y)], 1


def cross_entropy():
    h, out = inputs = variables(("n", 3, 2), (2, 50))
    labels = gt.arange(h.shape[0] * 3).reshape(-1, 3) % 50
    rows = gt.nn.log_softmax(h @ out, -1)
    y = gt.take_along_axis(rows, labels[..., None], -1)
    return inputs, with_gradients(inputs, y), 1


def in_a_body():
    x, y = inputs = variables(("n", 2), ("m", 2))

    def step(c, _):
        return gt.sum(gt.exp(-distances(x + c, y))) / 9, None

    return inputs, [gt.scan(step, gt.zeros((), "float64"), length=2)[0]], 1


CASES = [
    kernel_sum,
    reductions,
    heads,
    causal,
    mapped,
    cross_entropy,
    in_a_body,
]


def arrays(inputs, sizes):
    known = dict(zip("nm", sizes, strict=True), d=4, e=3)
    rng = np.random.default_rng(0)
    shapes = [[known.get(str(n), n) for n in v.type.shape] for v in inputs]
    return [rng.normal(size=[int(n) for n in shape]) for shape in shapes]


def loops(f):
    """The number of loops over blocks in a program."""
    return sum(f.source.count(f" = blocks_{xp}(") for xp in ("numpy", "jax"))


@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
def test_values_are_those_without(case):
    inputs, outputs, count = case()
    options = {"backend": "numpy", "dims": "specialize"}
    new = graphc.function(inputs, outputs, rewrites=SMALL, **options)
    old = graphc.function(inputs, outputs, rewrites=none, **options)
    assert loops(new) == count
    for sizes in SIZES:
        given = arrays(inputs, sizes)
        same(new(*given), old(*given))


@pytest.mark.parametrize("dims", ["specialize", "pad"])
@pytest.mark.parametrize("case", [kernel_sum, heads], ids=lambda f: f.__name__)
def test_in_jax(case, dims):
    inputs, outputs, count = case()
    new = graphc.function(inputs, outputs, rewrites=SMALL, dims=dims)
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    assert loops(new) == count
    for sizes in [(13, 9), (0, 3)]:
        given = arrays(inputs, sizes)
        same(new(*given), old(*given))
    if dims == "pad":
        assert len(new.stats().compilations) == 1


def test_infinities_and_nan_stay_where_they_were():
    x, y = inputs = variables(("n", 2), ("m", 2))
    d = distances(x, y)
    outputs = [gt.sum(d, 1), gt.max(d), gt.min(d, 0), gt.exp(-d) @ y]
    given = arrays(inputs, (13, 9))
    given[0][[3, 12]] = [[np.inf, 0], [np.nan, 1]]
    for backend in ("numpy", "jax"):
        new = graphc.function(inputs, outputs, rewrites=SMALL, backend=backend)
        old = graphc.function(inputs, outputs, rewrites=none, backend=backend)
        assert loops(new)
        same(new(*given), old(*given))


def test_an_error_of_no_element_stays():
    x, y = variables(("n", 2), ("m", 2))
    f = graphc.function([x, y], gt.max(distances(x, y), 0), rewrites=SMALL)
    with pytest.raises(graphc.GraphError, match="has no element"):
        f(*arrays([x, y], (0, 3)))


CHUNKS = default - "scan_in_chunks" + scan_in_chunks(4, few=2)


def language_model(reverse=False):
    """A recurrent net's loss, whose logits for all steps are one large product."""
    shapes = ("n", 3, 2), (2, 2), (2, 5), ("n", 3, 5)
    xs, w, out, targets = inputs = variables(*shapes)

    def step(h, x):
        h = gt.tanh(h @ w + x)
        return h, h

    start = gt.zeros((3, 2), xs.dtype)
    last, ys = gt.scan(step, start, xs, reverse=reverse)
    logits = ys @ out
    rows = gt.nn.log_softmax(logits, -1)
    loss = -gt.mean(gt.sum(rows * gt.exp(targets), -1))
    return inputs, [loss, last, gt.sum(gt.sum(logits, -1) ** 2, 1)]


@pytest.mark.parametrize("reverse", [False, True])
def test_steps_in_chunks(reverse):
    inputs, outputs = language_model(reverse)
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    for backend, dims in [("numpy", "auto"), ("numpy", "pad"), ("jax", "pad")]:
        options = {"backend": backend, "dims": dims}
        new = graphc.function(inputs, outputs, rewrites=CHUNKS, **options)
        assert loops(new) == 1 and ", 0, 4)" in new.source
        for n in (9, 3, 0):  # one compilation serves all three
            same(new(*arrays(inputs, (n, 0))), old(*arrays(inputs, (n, 0))))


@pytest.mark.parametrize("gradient", [False, True])
def test_few_bytes_of_steps_are_no_chunks(gradient):
    """Chunks would be slower; they pay from 16 MiB on, by the memory they save."""
    xs, w, out = inputs = variables(("n", 2, 2), (2, 2), (2, 64), dtype="float32")
    step = lambda h, x: (gt.tanh(h @ w + x),) * 2
    loss = gt.sum(
        gt.nn.logsumexp(gt.scan(step, gt.zeros((2, 2), "float32"), xs)[1] @ out, -1)
    )
    slopes = graphc.grad(loss, [w, out]) if gradient else []
    f = graphc.function(inputs, [loss, *slopes])
    assert "scan_in_chunks" in [a.rule.name for a in f.rewrites]
    few, many = (f.lower({"n": n})[0].as_text() for n in (30_000, 40_000))
    assert few.count("stablehlo.while") == 1 + gradient
    assert many.count("stablehlo.while") > 1 + gradient


@pytest.mark.parametrize("reverse", [False, True])
def test_positions_of_steps_in_chunks(reverse):
    """The last chunk runs first if a scan goes back; the first of equals counts."""
    xs, w, out = inputs = variables(("n", 3, 2), (2, 2), (2, 5))
    step = lambda h, x: (gt.tanh(h @ w + x),) * 2
    ys = gt.scan(step, gt.zeros((3, 2), xs.dtype), xs, reverse=reverse)[1]
    logits = ys @ out
    outputs = gt.argmax(logits, 0), gt.argmin(logits > 0, 0), gt.sum(logits[2] ** 2)
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    new = graphc.function(inputs, outputs, rewrites=CHUNKS, backend="numpy")
    assert loops(new) == 1 and ", 0, 4)" in new.source
    for n in (12, 9, 3):
        same(new(*arrays(inputs, (n, 0))), old(*arrays(inputs, (n, 0))))


def gradients_of_language_model(loss, reverse=False, dtype="float64", wide=2, words=5):
    """A recurrent net's loss, and its gradients in the weights and in the input."""
    shapes = ("n", 3, wide), (wide, wide), (wide, words), (words,), ("n", 3)
    xs, w, out, bias, targets = inputs = variables(*shapes, dtype=dtype)

    def step(h, x):
        keep = gt.nn.sigmoid(h @ w - x)
        h = gt.tanh(keep * h + x)
        return h, (h, keep)

    start = gt.sum(w) * gt.ones((3, wide), dtype)
    last, (ys, more) = gt.scan(step, start, xs, reverse=reverse)
    found = loss((ys + more) @ out + bias, targets) + gt.sum(last**2)
    return inputs, [found, *graphc.grad(found, inputs[:4])]


def labelled(logits, targets):
    """A cross-entropy, whose gradient writes numbers into rows of zeros."""
    labels = gt.astype(gt.absolute(targets) * 9, "int32") % logits.shape[-1]
    rows = gt.nn.log_softmax(logits, -1)
    return -gt.mean(gt.take_along_axis(rows, labels[..., None], -1))


def squared(logits, targets):
    """A loss whose slope is known only after the last step."""
    return gt.mean(gt.tanh(logits) * targets[..., None]) ** 2


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("loss", [labelled, squared])
def test_steps_back_in_chunks(loss, reverse, compiled_quickly):
    inputs, outputs = gradients_of_language_model(loss, reverse)
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    forms = [("numpy", "auto"), ("numpy", "pad"), ("jax", "pad")]
    for backend, dims in forms if loss is squared else forms[:1]:
        options = {"backend": backend, "dims": dims}
        new = graphc.function(inputs, outputs, rewrites=CHUNKS, **options)
        assert loops(new) == 2 and ", 0, 4)" in new.source
        for n in (9, 8, 3, 1, 0)[: 3 if backend == "jax" else 5]:
            same(new(*arrays(inputs, (n, 0))), old(*arrays(inputs, (n, 0))))


def test_memory_of_steps_back_is_that_of_chunks():
    sizes = {"dtype": "float32", "wide": 64, "words": 2_000}
    made = gradients_of_language_model(labelled, **sizes)
    f = graphc.function(made[0], made[1][:2], dims="specialize")
    given = (8_600, 3, 64), (64, 64), (64, 2_000), (2_000,), (8_600, 3)
    assert loops(f) == 2
    assert peak(f, *given) < 5 * 2**20  # stacking all steps takes more


def test_steps_of_loops_in_python_stay():
    x, w = variables(("n", 3), (3, 5))

    def step(c, r):
        c = c + gt.sum(gt.unique(r[r > c[0]]))
        return c, c * r

    ys = gt.scan(step, gt.zeros(3, "float64"), x)[1]
    f = graphc.function([x, w], gt.sum((ys @ w) ** 2), backend="numpy")
    old = graphc.function([x, w], gt.sum((ys @ w) ** 2), backend="numpy", rewrites=none)
    given = arrays([x, w], (5, 0))
    same([f(*given)], [old(*given)])


def test_what_is_needed_as_it_is_stays_stacked():
    xs, w = language_model()[0][:2]
    _, ys = gt.scan(lambda h, x: (gt.tanh(h @ w + x),) * 2, xs[0], xs)
    for found in ([gt.sum(ys @ w), ys], [gt.sum(ys @ w), gt.sort(ys, 0)]):
        assert not loops(graphc.function([xs, w], found, backend="numpy"))


def peak(f, *shapes):
    names = {"__name__": "emitted"}
    exec(f.source, names)
    given = [np.zeros(shape, np.float32) for shape in shapes]
    with jax.enable_x64(True):
        compiled = compiled_well(names["segment_0"].lower(*given))
    return compiled.memory_analysis().temp_size_in_bytes


def test_memory_is_that_of_blocks():
    inputs, outputs, _ = kernel_sum("float32")
    f = graphc.function(inputs, outputs, dims="specialize")
    small, large = (peak(f, (n, 2), (n, 2), (n,)) for n in (2_000, 8_000))
    assert large < small + 16 * 8_000 * 4  # without the rule, 16 times as much
    assert large < 2**23


def nothing_large(x, w, out):
    """A net whose sizes are unknown, and a matrix that is needed as a whole."""
    k = gt.exp(-distances(x, x)) + gt.eye(x.shape[0])
    loss = gt.mean((gt.tanh(x @ w) @ out) ** 2)
    return [loss, graphc.grad(loss, w), gt.linalg.slogdet(k)[1]]


def test_what_is_needed_or_no_larger_stays():
    inputs = variables(("n", "k"), ("k", "m"), ("m", "o"))
    f = graphc.function(inputs, nothing_large(*inputs), rewrites=SMALL)
    assert not loops(f)
    x, y = variables((5, 2), (6, 2))  # known to be small
    f = graphc.function([x, y], gt.sum(distances(x, y), 1))
    assert not loops(f)


FUSED = {
    "rows": lambda x, y: gt.sum(gt.tanh(x[:, None, 0] - y[:, 0]), 1),
    "columns": lambda x, y: gt.sum(gt.exp(x[:, None, 0] - y[:, 0]), 0),
    "distances": lambda x, y: gt.sum(gt.exp(-distances(x, y)), 1),
}


@pytest.mark.parametrize("name", FUSED)
def test_one_sum_of_them_is_left_to_xla(name):
    """XLA makes it one loop without a large value; NumPy would compute all pairs."""
    inputs = variables(("n", 2), ("m", 2), dtype="float32")
    y = FUSED[name](*inputs)
    programs = [graphc.function(inputs, y, backend=b) for b in ("jax", "numpy")]
    assert ["blocks" in f.source for f in programs] == [False, True]
    found = compiled_well(programs[0].lower({"n": 500, "m": 700})[0])
    assert found.memory_analysis().temp_size_in_bytes < 500 * 700


def test_one_extreme_of_floats_is_made_in_tiles():
    """Programs also look for NaN in them, so XLA would store them all."""
    inputs = variables(("n", 2), ("m", 2), dtype="float32")
    x, y = inputs
    f = graphc.function(inputs, gt.max(gt.exp(x[:, None, 0] - y[:, 0]), 0, initial=0.0))
    assert "blocks" in f.source
    found = compiled_well(f.lower({"n": 5000, "m": 7000})[0])
    assert found.memory_analysis().temp_size_in_bytes < 5000 * 7000


def test_several_reductions_are_one_loop():
    inputs = variables(("n",), ("m",), dtype="float32")
    d = gt.tanh(inputs[0][:, None] - inputs[1])
    for y in ([gt.sum(d, 1), gt.max(d, 1)], [gt.any(d > 0, 1)], [gt.prod(d, 0)]):
        assert "blocks" in graphc.function(inputs, y).source


def test_one_maximum_serves_a_whole_tile():
    """The maximum is over all pairs: the loop carries two numbers, none per column."""
    inputs = variables(("n",), ("m",))
    y = gt.nn.logsumexp(gt.square(inputs[0][:, None] - inputs[1]))
    f = graphc.function(inputs, y, rewrites=SMALL)
    (loop,) = (n for n in f.plan.graph.nodes if n.primitive.name == "blocks")
    assert [v.type.shape for v in loop.outputs] == [(1, 1)] * 2
    for shapes in SIZES[:3]:
        arrays = [np.linspace(-1, 2, n) for n in shapes]
        same([f(*arrays)], [graphc.function(inputs, y, rewrites=none)(*arrays)])


def test_one_switch():
    inputs, outputs, _ = kernel_sum()
    assert loops(graphc.function(inputs, outputs))
    for rules in (default - hoisting, default.exact(), default - "large_in_blocks"):
        assert not loops(graphc.function(inputs, outputs, rewrites=rules))
    f = graphc.function(inputs, outputs)
    assert "large_in_blocks" in f.explain(full=True)
