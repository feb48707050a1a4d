"""Attention and its kin in tiles of queries and of keys: values, and flat memory."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewrites import blocking, default, none
from tests.compiling import compiled_well
from tests.rewriting.test_hoisting import same

SMALL = default - "large_in_blocks" + blocking(block_bytes=256)
ROWS_ONLY = default - "large_in_blocks" + blocking(rows=0)
SIZES = [(70, 90), (33, 1), (1, 65), (0, 40), (40, 0)]


def tensors(*shapes, dtype="float64"):
    return [gt.tensor(f"x{i}", dtype, shape) for i, shape in enumerate(shapes)]


def scores_of(q, k):
    return q @ gt.swapaxes(k, -1, -2) / 2


def attention(q, k, v):
    return gt.nn.softmax(scores_of(q, k), -1) @ v


def written(q, k, v):
    scores = scores_of(q, k)
    weights = gt.exp(scores - gt.max(scores, -1, keepdims=True, initial=-np.inf))
    return weights @ v / gt.sum(weights, -1, keepdims=True)


def masked(q, k, v):
    """Attention under a mask; rows that are masked entirely give NaN."""
    mask = (gt.arange(q.shape[0])[:, None] + gt.arange(k.shape[0])) % 3 > 0
    mask = gt.logical_and(mask, gt.arange(q.shape[0])[:, None] % 7 > 0)
    return gt.nn.softmax(gt.where(mask, scores_of(q, k), -np.inf), -1) @ v


def causal(q, k, v):
    mask = gt.arange(q.shape[0])[:, None] >= gt.arange(k.shape[0])
    return gt.nn.softmax(scores_of(q, k), -1, where=mask) @ v


def dropped(q, k, v):
    """Attention that drops some weights after the softmax, by a factor."""
    keep = gt.arange(q.shape[0])[:, None] * 5 % 7 + gt.arange(k.shape[0]) % 3 > 2
    return (gt.nn.softmax(scores_of(q, k), -1) * gt.astype(keep, q.dtype) / 0.8) @ v


def to_numbers(q, k, v):
    return gt.nn.softmax(scores_of(q, k), -1) @ v[:, 0]


def turned(q, k, v):
    """Attention whose keys run along the rows."""
    return gt.swapaxes(v, 0, 1) @ gt.nn.softmax(scores_of(k, q), 0)


def extremes(q, k, v):
    """Each query's nearest and farthest key by position, and a sum over all keys."""
    scores = scores_of(q, k)
    found = gt.argmax(scores, 1), gt.argmin(scores, 1, keepdims=True)
    total = gt.nn.logsumexp(scores, 1) @ q
    return gt.sum(gt.cos(found[0])) + gt.sum(gt.cos(found[1])) + total


def variances(q, k, v):
    """Variances for each query, of all pairs, and of the pairs that a mask selects."""
    scores = scores_of(q, k)
    mask = (gt.arange(q.shape[0])[:, None] + gt.arange(k.shape[0])) % 3 > 0
    few = gt.var(scores, 1, where=mask)
    some = gt.std(scores, 1, keepdims=True) * q
    return some + gt.var(scores) + few[:, None] + gt.sum(scores @ v, 1)[:, None]


def cross_entropy(q, k):
    """The cross-entropy of each query; labels beyond the keys are clamped."""
    scores = scores_of(q, k)
    labels = gt.astype(q[:, 0] * 50, "int32")
    return gt.nn.logsumexp(scores, 1) - scores[gt.arange(q.shape[0]), labels]


def log_likelihood(q, k):
    """The log-likelihood as users write it; labels depend on the row number."""
    rows = gt.nn.log_softmax(scores_of(q, k), -1)
    labels = gt.arange(q.shape[0]) % gt.maximum(k.shape[0], 1)
    return gt.take_along_axis(rows, labels[:, None], -1)[:, 0]


def at_some_keys(q, k):
    """A loss of each query that reads the scores at some keys."""
    scores = gt.tanh(scores_of(q, k))
    return gt.nn.logsumexp(scores, 1) - scores[:, 0] * scores[:, -1] + scores[:, 20]


PLAIN = ("n", 4), ("m", 4), ("m", 3)
HEADS = (2, "n", 4), (2, "m", 4), (2, "m", 3)
CASES = {
    "attention": (attention, PLAIN),
    "heads": (attention, HEADS),
    "written": (written, PLAIN),
    "masked": (masked, PLAIN),
    "causal": (causal, PLAIN),
    "dropped": (dropped, PLAIN),
    "to numbers": (to_numbers, PLAIN),
    "turned": (turned, PLAIN),
}
IN_BOTH = {"attention", "heads", "masked"}


def with_gradients(build, shapes, dtype="float64"):
    inputs = tensors(*shapes, dtype=dtype)
    found = build(*inputs)
    return inputs, [found, *graphc.grad(gt.sum(gt.sin(found)), inputs)]


def arrays(inputs, sizes, dtype="float64"):
    known = dict(zip("nm", sizes, strict=True))
    rng = np.random.default_rng(0)
    shapes = [[int(known.get(str(n), n)) for n in v.type.shape] for v in inputs]
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def in_columns(f):
    """The number of loops that choose a body with tiles of columns."""
    return f.source.count(" if 256 * ")


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_without(case):
    inputs, outputs = with_gradients(*CASES[case])
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    new = graphc.function(inputs, outputs, rewrites=SMALL, backend="numpy")
    assert bool(in_columns(new)) == (case in IN_BOTH)
    for sizes in SIZES:
        given = arrays(inputs, sizes)
        same(new(*given), old(*given))


@pytest.mark.parametrize("case", CASES)
def test_values_alone_are_those_without(case):
    build, shapes = CASES[case]
    inputs = tensors(*shapes)
    outputs = build(*inputs)
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    new = graphc.function(inputs, outputs, rewrites=SMALL, backend="numpy")
    assert in_columns(new)
    for sizes in SIZES:
        given = arrays(inputs, sizes)
        same([new(*given)], [old(*given)])


@pytest.mark.parametrize("case", ["heads", "masked"])
@pytest.mark.parametrize("dims", ["specialize", "pad"])
def test_in_jax(case, dims):
    inputs, outputs = with_gradients(*CASES[case])
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    new = graphc.function(inputs, outputs, rewrites=SMALL, dims=dims)
    assert in_columns(new)
    for sizes in [(70, 90), (40, 0)]:
        given = arrays(inputs, sizes)
        same(new(*given), old(*given))


def test_single_precision_is_kept():
    inputs, outputs = with_gradients(attention, PLAIN, "float32")
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    new = graphc.function(inputs, outputs, rewrites=SMALL, backend="numpy")
    given = [10 * x for x in arrays(inputs, (70, 90), "float32")]
    for a, b in zip(new(*given), old(*given), strict=True):
        assert a.dtype == b.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_infinities_and_nan_stay_where_they_were(backend):
    inputs = tensors(*PLAIN)
    outputs = [attention(*inputs), masked(*inputs)]
    given = arrays(inputs, (70, 90))
    given[0][3], given[0][5] = [np.inf, 0, 0, 0], np.nan
    given[1][80, 1], given[1][2, 2], given[2][4] = -np.inf, np.inf, np.nan
    new = graphc.function(inputs, outputs, rewrites=SMALL, backend=backend)
    old = graphc.function(inputs, outputs, rewrites=none, backend=backend)
    assert in_columns(new)
    same(new(*given), old(*given))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_variances_in_tiles(backend):
    inputs = tensors(*PLAIN)
    outputs = variances(*inputs)
    new = graphc.function(inputs, outputs, rewrites=SMALL, backend=backend)
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    assert in_columns(new)
    given = arrays(inputs, (70, 90))
    same([new(*given)], [old(*given)])
    given[0][3], given[1][80, 1] = np.nan, np.inf
    same([new(*given)], [old(*given)])


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_positions_of_extremes_in_tiles(backend):
    inputs = tensors(*PLAIN)
    outputs = extremes(*inputs)
    new = graphc.function(inputs, outputs, rewrites=SMALL, backend=backend)
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    assert in_columns(new)
    given = arrays(inputs, (70, 90))
    given[0][:5] = 0  # many equal elements, of which the first one counts
    same([new(*given)], [old(*given)])
    given[1][[60, 80], 0] = np.nan
    same([new(*given)], [old(*given)])


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("build", [cross_entropy, at_some_keys])
def test_picks_in_tiles(build, backend):
    inputs = tensors(*PLAIN[:2])
    found = build(*inputs)
    outputs = [found, *graphc.grad(gt.sum(gt.sin(found)), inputs)]
    alone = graphc.function(inputs, outputs[0], rewrites=SMALL, backend=backend)
    new = graphc.function(inputs, outputs, rewrites=SMALL, backend=backend)
    old = graphc.function(inputs, outputs, rewrites=none, backend="numpy")
    assert in_columns(alone)
    for sizes in [(70, 90), (21, 21), (0, 40)][: 3 if backend == "numpy" else 1]:
        given = arrays(inputs, sizes)
        expected = old(*given)
        same(new(*given), expected)
        same([alone(*given)], expected[:1])


@pytest.mark.parametrize("pick", [cross_entropy, log_likelihood, at_some_keys])
def test_slopes_of_picks_are_written_to_the_tile_that_has_them(pick):
    """The picks are from keys alone, and the loop goes over the keys."""
    q, k = inputs = tensors(*PLAIN[:2])
    loss = gt.sum(gt.exp(scores_of(q, k))) + gt.sum(pick(q, k))
    for wrt in inputs:
        slope = graphc.grad(loss, wrt)
        new = graphc.function(inputs, slope, rewrites=SMALL, backend="numpy")
        old = graphc.function(inputs, slope, rewrites=none, backend="numpy")
        assert "[n, m]" not in new.source
        for sizes in [(70, 90), (21, 21), (0, 40)]:
            same([new(*arrays(inputs, sizes))], [old(*arrays(inputs, sizes))])


def peak(f, *shapes):
    names = {"__name__": "emitted"}
    exec(f.source, names)
    given = [np.zeros(shape, np.float32) for shape in shapes]
    compiled = compiled_well(names["segment_0"].lower(*given))
    return compiled.memory_analysis().temp_size_in_bytes


def test_memory_does_not_grow_with_the_keys():
    shapes = ("n", 8), ("m", 8), ("m", 8)
    inputs = tensors(*shapes, dtype="float32")
    f = graphc.function(inputs, attention(*inputs), dims="specialize")
    few, many = (peak(f, (300, 8), (m, 8), (m, 8)) for m in (20_000, 160_000))
    assert many < few + 2**20  # a tile of rows alone takes 20 MiB
    assert many < 2**23


def test_memory_of_gradients_is_that_of_tiles():
    shapes = ("n", 8), ("m", 8), ("m", 8)
    inputs = tensors(*shapes, dtype="float32")
    loss = gt.sum(attention(*inputs) ** 2)
    f = graphc.function(inputs, graphc.grad(loss, inputs), dims="specialize")
    n = 16_384
    assert in_columns(f)
    assert peak(f, (n, 8), (n, 8), (n, 8)) < 3 * 2**23  # all pairs take 1 GiB


@pytest.mark.parametrize("build", [cross_entropy, log_likelihood, at_some_keys])
def test_gradients_of_picks_stay_in_tiles_of_rows(build):
    inputs = tensors(*PLAIN[:2], dtype="float32")
    slopes = graphc.grad(gt.sum(build(*inputs) ** 2), inputs)
    f = graphc.function(inputs, slopes, dims="specialize")
    n = 4_096
    assert peak(f, (n, 4), (n, 4)) < 2**23  # all pairs take 64 MiB


def test_few_columns_are_made_at_once():
    """If tiles of rows are small, the program does without tiles of columns."""
    inputs = tensors(*PLAIN, dtype="float32")
    new = graphc.function(inputs, attention(*inputs), backend="numpy")
    old = graphc.function(
        inputs, attention(*inputs), backend="numpy", rewrites=ROWS_ONLY
    )
    given = arrays(inputs, (70, 90), "float32")
    np.testing.assert_array_equal(new(*given), old(*given))
    assert in_columns(new) and not in_columns(old)


@pytest.mark.parametrize("layers", [1, 4])
def test_layers_on_each_other_are_computed_once(layers):
    """Each loop reads the new results of the loops before it."""
    (x,) = tensors(("n", 8))
    y = x
    for _ in range(layers):
        y = y + gt.tanh(attention(y, y, y))
    f = graphc.function([x], y, backend="numpy", dims="specialize")
    calls = f.source.count("blocks_numpy(") - 1  # without its definition
    assert calls == layers + 1  # over rows, and within them one body over columns
    rows = np.linspace(-1, 1, 24).reshape(3, 8)
    plain = graphc.function([x], y, backend="numpy", rewrites=none)
    np.testing.assert_allclose(f(rows), plain(rows), rtol=1e-9)
