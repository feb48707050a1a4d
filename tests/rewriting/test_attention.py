"""Attention is one op in programs for accelerators, which run here on a CPU."""

import math
import re

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import CPU, GPU, DeviceCosts
from graphc.runtime import compile as compiling
from graphc.runtime.driver.devices import Target

pytestmark = pytest.mark.usefixtures("compiled_quickly")
RNG = np.random.default_rng(0)
FUSED = "= jax.nn.dot_product_attention("
LEAST = float(np.finfo("float32").min)
HIDDEN = -0.7 * float(np.finfo("float32").max)  # JAX's number
SMALL = DeviceCosts("gpu", 32, 60e12, 16e-6, 3.35e12, 10e-6, 20e-6, 4e-6)


@pytest.fixture
def made(monkeypatch):
    """A function that compiles for a device's costs, and runs where JAX runs."""

    def function(costs, *args, **options):
        monkeypatch.setattr(compiling, "target_of", lambda *_: Target(costs))
        return graphc.function(*args, **options)

    return function


def operands(lead=(), queries=5, keys=6, width=8, dtype="float32"):
    q = gt.tensor("q", dtype, (*lead, queries, width))
    return q, *(gt.tensor(name, dtype, (*lead, keys, width)) for name in "kv")


def scores(q, k):
    return q @ gt.swapaxes(k, -1, -2) * 0.25


def floats(value, **sizes):
    shape = [n if isinstance(n, int) else sizes[str(n)] for n in value.type.shape]
    return RNG.normal(size=shape).astype("float32")


def alike(made, inputs, output, *calls, fused=FUSED, costs=GPU):
    f = made(costs, inputs, output)
    assert f.source.count(fused) == 1 and "jnp.exp(" not in f.source
    exact = made(CPU, inputs, output, backend="numpy")
    for given in calls:
        np.testing.assert_allclose(f(*given), exact(*given), rtol=1e-4, atol=1e-5)
    return f


LEADS = {(): [(5, 6), (6,), (5, 1)], (2, 3): [(2, 1, 5, 6), (3, 1, 6), (2, 3, 5, 6)]}
SHAPES = [(lead, shape) for lead, shapes in LEADS.items() for shape in shapes]


@pytest.mark.parametrize(("lead", "shape"), SHAPES)
def test_what_is_added_to_products_is_a_bias(made, lead, shape):
    q, k, v = operands(lead)
    bias = gt.tensor("b", "float32", shape)
    output = gt.nn.softmax(bias + scores(q, k)) @ v
    f = alike(made, [q, k, v, bias], output, [floats(x) for x in (q, k, v, bias)])
    assert ", bias=" in f.source and "mask=" not in f.source


@pytest.mark.parametrize(("lead", "shape"), SHAPES)
@pytest.mark.parametrize("hidden", [-math.inf, LEAST, HIDDEN])
def test_masks_hide_the_same_keys(made, lead, shape, hidden):
    """Some rows see no key, and the products of some keys are not finite."""
    q, k, v = operands(lead)
    mask = gt.tensor("m", "bool", shape)
    output = gt.nn.softmax(gt.where(~mask, hidden, scores(q, k))) @ v
    given = [floats(x) for x in (q, k, v)]
    shown = RNG.random(shape) < 0.7
    shown[..., 0] = shown.shape[-1] == 1
    given[1][..., 0, :] = np.nan if shown.shape[-1] > 1 else 1
    alone = np.zeros(shape, "bool")
    with np.errstate(invalid="ignore"):
        f = alike(made, [q, k, v, mask], output, [*given, shown], [*given, alone])
    assert ", mask=" in f.source and ", bias=" not in f.source


@pytest.mark.parametrize("hidden", [-math.inf, HIDDEN])
def test_a_bias_that_hides_keys_may_have_a_mask_too(made, hidden):
    q, k, v = operands()
    bias, mask = gt.tensor("b", "float32", (5, 6)), gt.tensor("m", "bool", (6,))
    output = gt.nn.softmax(gt.where(mask, scores(q, k) + bias, hidden)) @ v
    given = [floats(x) for x in (q, k, v, bias)]
    given[3][0] = -np.inf  # this row then sees no key
    shown = np.array([True, False] * 3)
    with np.errstate(invalid="ignore"):
        alike(made, [q, k, v, bias, mask], output, [*given, shown])


def apart():
    q, k, v = operands()
    mask = gt.tensor("m", "bool", (5, 6))
    bias = gt.tensor("b", "float32", (5, 6))
    wide = gt.tensor("w", "float64", (5, 6))
    s = scores(q, k)
    yield "a number that logits may reach", [q, k, v, mask], gt.where(mask, s, -1e9)
    yield "two numbers", [q, k, v, mask], gt.where(mask, gt.where(~mask, s, 1.0), -1e9)
    low = gt.where(mask, s + bias, LEAST)
    yield "a bias may be as small", [q, k, v, mask, bias], low
    yield "wide", [q, k, v, wide], gt.astype(s + wide, "float32")
    yield "of the products", [q, k, v], s + gt.tanh(s)


@pytest.mark.parametrize("case", list(apart()), ids=lambda case: case[0])
def test_logits_that_jax_would_not_have(made, case):
    _, inputs, logits = case
    assert FUSED not in made(GPU, inputs, gt.nn.softmax(logits) @ inputs[2]).source


CAUSAL = {"is_causal": True, "local_window_size": (2, 1)}


@pytest.mark.parametrize("heads", [4, 2, 1])
@pytest.mark.parametrize("options", [{}, CAUSAL])
def test_the_function_with_fewer_heads_of_the_key(made, heads, options):
    q = gt.tensor("q", "float32", (2, 5, 4, 8))
    k, v = (gt.tensor(name, "float32", (2, 6, heads, 8)) for name in "kv")
    output = gt.nn.dot_product_attention(q, k, v, **options)
    f = alike(made, [q, k, v], output, [floats(x) for x in (q, k, v)])
    assert ("mask=" in f.source) is bool(options)


EINSUMS = [
    ("bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", (2, 5, 4, 8), (2, 6, 4, 8)),
    ("bkhd,bqhd->bhqk", "bkhd,bhqk->bhqd", (2, 5, 4, 8), (2, 6, 4, 8)),
    ("bqkgd,bskd->bkgqs", "bkgqs,bskd->bqkgd", (2, 5, 3, 2, 8), (2, 6, 3, 8)),
    ("qd,kd->qk", "qk,kd->dq", (5, 8), (6, 8)),
]


@pytest.mark.parametrize(("before", "after", "of_query", "of_key"), EINSUMS)
def test_products_of_einsum(made, before, after, of_query, of_key):
    q = gt.tensor("q", "float32", of_query)
    k, v = (gt.tensor(name, "float32", of_key) for name in "kv")
    both = (q, k) if before.startswith(("bq", "qd")) else (k, q)
    weights = gt.nn.softmax(gt.einsum(before, *both) / 4.0)
    both = (v, weights) if after.startswith("bkhd") else (weights, v)
    f = alike(
        made,
        [q, k, v],
        gt.einsum(after, *both),
        [floats(x) for x in (q, k, v)],
    )
    if after.endswith("->bqhd"):
        assert "dot_product_attention(q, k, v, scale=0.25)" in f.source


@pytest.mark.parametrize("costs", [GPU, SMALL])
def test_lengths_that_vary(made, costs):
    """Lengths are known at compilation; with many pairs, a few rows run at a time."""
    q, k, v = operands((2,), "n", "m")
    bias = gt.tensor("b", "float32", ("n", "m"))
    mask = gt.tensor("s", "bool", ("m",))
    inputs = [q, k, v, bias, mask]
    logits = gt.where(mask, scores(q, k) + bias, -math.inf)
    calls = []
    for n, m in ((7, 9), (0, 3), (1, 1), (3, 0)):
        given = [floats(x, n=n, m=m) for x in inputs[:-1]]
        calls.append([*given, np.arange(m) % 2 == 0])
    text = "= attention_jax("
    alike(made, inputs, gt.nn.softmax(logits) @ v, *calls, fused=text, costs=costs)


def test_rows_at_a_time_are_a_loop_in_the_executable(made):
    q, k, v = operands((), "n", "m")
    loops = []
    for costs in (GPU, SMALL):
        f = made(costs, [q, k, v], gt.nn.softmax(scores(q, k)) @ v)
        loops.append("while" in f.lower({"n": 64, "m": 16})[0].as_text())
    assert loops == [False, True]


def test_a_key_made_by_attention_is_computed_once(made):
    q, k, v = operands(keys=5)
    inner = gt.nn.softmax(scores(q, k)) @ v
    f = made(GPU, [q, k, v], gt.nn.softmax(scores(q, inner)) @ v)
    assert f.source.count(FUSED) == 2 and "jnp.exp(" not in f.source


def test_a_gradient_that_computes_the_weights_anew_leaves_the_way_forth_as_one_op(made):
    q, k, v = operands()
    attend = lambda q, k, v: gt.nn.softmax(scores(q, k)) @ v  # noqa: E731
    counts = []
    for function in (attend, graphc.checkpoint(attend)):
        loss = gt.sum(gt.sin(function(q, k, v)))
        outputs = [loss, graphc.grad(loss, q)]
        f, exact = (made(costs, [q, k, v], outputs) for costs in (GPU, CPU))
        counts.append(f.source.count(FUSED))
        given = [floats(x) for x in (q, k, v)]
        for found, expected in zip(f(*given), exact(*given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert counts == [0, 1]


def test_half_precision_has_the_kernel_of_the_device(made):
    """JAX chooses it at tracing, and has none here; on a CPU it has no float16."""
    q, k, v = operands((2, 3), dtype="bfloat16")
    mask = gt.tensor("m", "bool", (5, 6))
    output = gt.nn.softmax(gt.where(mask, scores(q, k), -math.inf)) @ v
    f = made(GPU, [q, k, v, mask], output)
    assert 'implementation="cudnn"' in f.source.replace("'", '"')
    arrays = [floats(x).astype(x.dtype) for x in (q, k, v)]
    hidden = RNG.normal(size=(5, 6)) > -1
    exact = made(CPU, [q, k, v, mask], output, backend="numpy")
    found, expected = (g(*arrays, hidden).astype("float32") for g in (f, exact))
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.02)


def hidden_by(name, s, lengths):
    """Logits of half precision in which keys are hidden in one of the usual ways."""
    rows, keys = s.type.shape[-2:]
    i, j = gt.arange(rows)[:, None], gt.arange(keys)
    seen = (j < lengths[:, None])[:, None, None]
    return {
        "nothing": s,
        "later keys": gt.where(i >= j, s, -math.inf),
        "later keys, by what they are": gt.where(j > i, -1e9, s),
        "a triangle": gt.where(gt.tri(rows, keys) > 0, s, -1e9),
        "lengths": gt.where(seen, s, -math.inf),
        "lengths, and later keys": gt.where(seen & (j <= i), s, -1e9),
        "other keys": gt.where((i + j) % 3 > 0, s, -math.inf),
    }[name]


WAYS = {
    "nothing": "None, None, None, {n}, False, -2.381976426469702e+38",
    "later keys": "None, None, None, {n}, True, -np.inf",
    "later keys, by what they are": "None, None, None, {n}, True, -998244352.0",
    "a triangle": "None, None, None, {n}, True, -998244352.0",
    "lengths": "None, None, reshape, {n}, False, -np.inf",
    "lengths, and later keys": "None, None, reshape, {n}, True, -998244352.0",
    "other keys": "None, expand_dims_1, None, {n}, False, -np.inf",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dims", ["pad", "specialize"])
def test_half_precision_has_lengths_and_order_where_keys_are_hidden_by_them(
    made, way, dims
):
    """Padding acts as another length. Hidden keys may be NaN."""
    q, k, v = (gt.tensor(name, "bfloat16", "b h n 8") for name in "qkv")
    lengths = gt.tensor("lengths", "int32", "b")
    output = gt.nn.softmax(hidden_by(way, scores(q, k), lengths)) @ v
    inputs = [q, k, v] + [lengths] * way.startswith("lengths")
    policies = {"b": "specialize", "h": "specialize", "n": dims}
    f = made(GPU, inputs, output, dims=policies)
    written = WAYS[way]
    if dims == "specialize" and way == "nothing":
        assert "attention_jax(jax, " in f.source and "hiding" not in f.source
    else:
        count = "n" if dims == "pad" else "None"
        text = re.escape(written).replace(r"\{n\}", count).replace("_1,", r"\w*,")
        assert re.search(rf"hiding_attention_jax\(jax, .*, {text}\)", f.source)
    exact = made(CPU, inputs, output, backend="numpy", dims="specialize")
    for n in (5, 1, 20, 0) if dims == "pad" else (5, 0):  # each is compiled
        arrays = [RNG.normal(size=(3, 2, n, 8)).astype(q.dtype) for _ in "qkv"]
        arrays += [np.array([n, n // 2, 0], "int32")] * way.startswith("lengths")
        if way == "lengths" and n == 5:
            arrays[1][1:, :, 3] = np.nan
        result, expected = (g(*arrays).astype("float32") for g in (f, exact))
        np.testing.assert_allclose(result, expected, rtol=0.05, atol=0.05)


def weighed_after(q, k, v, n):
    """Attention whose weights are hidden after the softmax and do not add up to 1."""
    weights = gt.nn.softmax(scores(q, k))
    return gt.where(gt.arange(k.shape[-2]) < n, weights, 0.0) @ v


def safely_divided(q, k, v, n):
    """Attention with a softmax that is 0 for a row that sees nothing."""
    logits = gt.where(gt.arange(k.shape[-2])[:, None] < n, scores(q, k), -math.inf)
    largest = gt.max(logits, -1, keepdims=True)
    exps = gt.exp(logits - gt.where(gt.isfinite(largest), largest, 0.0))
    total = gt.sum(exps, -1, keepdims=True)
    return exps / gt.where(total > 0, total, 1.0) @ v


def by_the_first_key(q, k, v, n):
    """Attention with a mask of one row and one key that serves for all of them."""
    one = gt.arange(1)
    return gt.nn.softmax(gt.where(one[:, None] >= one, scores(q, k), -math.inf)) @ v


@pytest.mark.parametrize("written", [weighed_after, safely_divided, by_the_first_key])
def test_what_is_nearly_attention_is_what_it_is(made, written):
    q, k, v = operands((), 5, 5, dtype="bfloat16")
    n = gt.scalar("n", "int32")
    output = written(q, k, v, n)
    f = made(GPU, [q, k, v, n], [output, n])
    exact = made(CPU, [q, k, v, n], [output, n], backend="numpy")
    arrays = [RNG.normal(size=(5, 8)).astype(q.dtype) for _ in "qkv"]
    for count in (2, 5, 0):
        result, expected = (
            g(*arrays, np.int32(count))[0].astype("float32") for g in (f, exact)
        )
        np.testing.assert_allclose(result, expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    "shapes",
    [
        [(8, 3), (8, 3), ("n", 3)],
        [("n", "m"), ("n", "k"), ("n", "m")],
        [("n", 3), ("n", "m"), ("n", 3)],
    ],
)
def test_products_that_fit_once_they_are_called_stay_products(made, shapes):
    """The op only takes sizes that are known to be equal."""
    given = [gt.tensor(f"x{i}", "float32", shape) for i, shape in enumerate(shapes)]
    q, k, v = given
    f = made(GPU, given, gt.nn.softmax(q @ k.T) @ v)
    assert FUSED not in f.source
