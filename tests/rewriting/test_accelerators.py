"""Programs for accelerators: their text is checked, and they run here on a CPU."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import CPU, GPU, TPU
from graphc.rewrites import default
from graphc.runtime import compile as compiling
from graphc.runtime.driver.devices import Target

pytestmark = pytest.mark.usefixtures("compiled_quickly")
X = gt.tensor("x", "float32", ("n", 8))
W = gt.tensor("w", "float32", (8, 8))
Y = gt.tensor("y", "float32", ())
RNG = np.random.default_rng(0)


@pytest.fixture
def made(monkeypatch):
    """A function that compiles for a device's costs, and runs where JAX runs."""

    def function(costs, *args, **options):
        monkeypatch.setattr(compiling, "target_of", lambda *_: Target(costs))
        return graphc.function(*args, **options)

    return function


def floats(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def attention(shape, dtype="float32", keys=24, scale=0.25):
    *lead, width = shape
    q = gt.tensor("q", dtype, (*lead, 7, width))
    k, v = (gt.tensor(name, dtype, (*lead, keys, width)) for name in "kv")
    logits = q @ gt.swapaxes(k, -1, -2)
    return [q, k, v], gt.nn.softmax(logits if scale is None else logits * scale) @ v


FUSED = "= jax.nn.dot_product_attention("


@pytest.mark.parametrize("shape", [(16,), (2, 3, 16)])
@pytest.mark.parametrize("scale", [None, 0.25])
def test_attention_goes_to_the_kernel_of_the_device(made, shape, scale):
    inputs, output = attention(shape, scale=scale)
    f = made(GPU, inputs, output)
    assert f.source.count(FUSED) == 1 and "jnp.exp" not in f.source
    assert f"scale={scale or 1.0}" in f.source
    given = [floats(*v.type.shape) for v in inputs]
    exact = made(CPU, inputs, output, backend="numpy")
    np.testing.assert_allclose(f(*given), exact(*given), rtol=1e-5, atol=1e-6)


def test_of_too_many_pairs_some_rows_are_made_at_a_time(made):
    few, many = (attention((n, 64), keys=2**14) for n in (2**12, 2**16))
    assert FUSED in made(GPU, *few).source
    assert f"= attention_jax(jax, {2**33}, " in made(GPU, *many).source


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_attention_of_narrow_floats(made, dtype):
    inputs, output = attention((16,), dtype)
    assert "= attention_jax(jax, " in made(GPU, inputs, output).source
    q, k, v = (gt.tensor(name, dtype, (2, 9, 4, 16)) for name in "qkv")
    output = gt.nn.dot_product_attention(q, k, v)
    assert "= attention_jax(jax, 0, " in made(TPU, [q, k, v], output).source


def others():
    inputs, output = attention((16,))
    q, k, v = inputs
    weights = output.node.inputs[0]
    w = gt.tensor("w", "float32", (24, 5))
    yield "on a CPU", CPU, inputs, output
    yield "weights are used", GPU, inputs, [output, weights]
    yield "a gradient needs the weights", GPU, inputs, graphc.grad(gt.sum(output), q)
    yield "values are narrower", GPU, [q, k, w], gt.nn.softmax(q @ k.T) @ w
    yield "another axis", GPU, inputs, gt.nn.softmax(q @ k.T, 0) @ v
    yield "wide", GPU, *attention((16,), "float64")


@pytest.mark.parametrize("case", list(others()), ids=lambda case: case[0])
def test_what_is_no_attention_for_it(made, case):
    _, costs, inputs, outputs = case
    assert FUSED not in made(costs, inputs, outputs).source


def loop(unroll=1, width=8, rows=()):
    w = gt.tensor("w", "float32", (width, width))
    x = gt.tensor("x", "float32", ("n", *rows, width))
    step = lambda c, r: (gt.tanh(c @ w + r), c)  # noqa: E731
    return [w, x], gt.scan(step, x[0], x, unroll=unroll)[1]


def test_small_steps_are_done_together_on_an_accelerator(made):
    inputs, output = loop()
    f, g = made(GPU, inputs, output), made(CPU, inputs, output)
    assert "unroll=4)" in f.source and "unroll=4" not in g.source
    given = floats(8, 8), floats(13, 8)  # 13 is no multiple of 4
    np.testing.assert_allclose(f(*given), g(*given), rtol=1e-5, atol=1e-6)
    slope = graphc.grad(gt.sum(output), inputs[0])
    assert made(GPU, inputs, slope).source.count("unroll=4)") == 2


LARGE = loop(width=4096, rows=(4096,))


@pytest.mark.parametrize("case", [loop(unroll=2), loop(unroll=True), LARGE])
def test_steps_that_stay_as_they_are(made, case):
    source = made(GPU, *case).source
    assert "unroll=4" not in source and "scan_jax(jax, " in source
    without = made(GPU, *loop(), rewrites=default - "steps_together").source
    assert "unroll=4" not in without


def test_what_a_growing_loop_gives_is_joined_on_the_device(made):
    last, rows = gt.while_loop(
        lambda p: p < Y, lambda p: (2 * p, p), Y * 0 + 1, collect=True
    )
    f, g = (made(costs, [Y], [gt.exp(-rows), last]) for costs in (GPU, CPU))
    assert "rows_on_device(jax, kept, steps)" in f.source
    assert "rows_of(" not in f.source and "rows_on_device" not in g.source
    for y in (0.5, 3.0, 1e9):  # no step, some steps, and more than there is room for
        for found, expected in zip(f(y), g(y), strict=True):
            np.testing.assert_array_equal(found, expected)
            assert isinstance(found, jax.Array)


SIZED = {
    "mean": lambda: gt.mean(X, 0),
    "half": lambda: gt.sum(X[: X.shape[0] // 2]),
    "count": lambda: X / X.shape[0],
}


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("dims", ["specialize", "pad"])
def test_sizes_alone_need_no_integers_of_64_bits(made, name, dims):
    source = made(GPU, [X], SIZED[name](), dims=dims).source
    assert "int64" not in source and "n_wide" not in source
    assert "        return segment_0" not in source  # it runs within a context


def gathered(keys):
    q, k = (gt.tensor(name, "float32", (keys, 64)) for name in "qk")
    return [q, k], gt.sum(gt.tanh(q @ k.T), 1)


@pytest.mark.parametrize("costs", [GPU, TPU])
def test_no_loop_is_in_the_executable_for_what_fits_in_memory(made, costs):
    inputs, output = gathered(4096)
    whole, tiled = (made(c, inputs, output) for c in (costs, CPU))
    assert "blocks_jax" in tiled.source and "blocks_jax" not in whole.source
    texts = [f.lower({})[0].as_text() for f in (whole, tiled)]
    assert ["while" in text for text in texts] == [False, True]


def test_tiles_have_the_bytes_that_the_device_has_to_spare(made):
    inputs, output = gathered(2**17)
    for costs in (GPU, TPU, CPU):
        source = made(costs, inputs, output).source
        extent = f"rows_in_block(131072, 524288, {costs.whole}, {8 * costs.rows})"
        assert extent in source


@pytest.mark.parametrize(("costs", "read"), [(CPU, True), (GPU, False)])
def test_a_size_is_stored_at_its_bound_where_a_read_costs_more(made, costs, read):
    positive = X[:, 0][X[:, 0] > 0]
    f = made(costs, [X], gt.sort(positive), dims="auto")
    for n in (1, 2, 3, 4, 5, 1, 2, 3):  # far below the bound of 40
        x = np.full((40, 8), -1, "float32")
        x[:n] = 1
        assert len(f(x)) == n
    assert bool(f.plan.reads) is read
