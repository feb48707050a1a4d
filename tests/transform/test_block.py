"""`graphc.block`: its calls are compiled once, and kept apart where they differ."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewrites import default

NUMPY = {"backend": "numpy", "unused": "ignore"}


@graphc.block
def layer(x, w):
    """A layer of few nodes."""
    return gt.tanh(x @ w) + x


def parameters(count, shape=(4, 4)):
    return [gt.tensor(f"w{i}", "float64", shape) for i in range(count)]


def chained(f, x, ws):
    for w in ws:
        x = f(x, w)
    return x


def arrays_of(values, n=3):
    rng = np.random.default_rng(0)
    shapes = [v.type.shape for v in values]
    return [
        rng.normal(size=[m if isinstance(m, int) else n for m in s]) for s in shapes
    ]


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_calls_are_one_function_of_its_name(backend):
    x, ws = gt.tensor("x", "float64", ("n", 4)), parameters(3)
    y = chained(layer, x, ws)
    outputs = [y, *graphc.grad(gt.sum(y), ws)]
    f = graphc.function([x, *ws], outputs, backend=backend)
    assert f.source.count("= layer(") >= 3
    plain = graphc.function(
        [x, *ws], outputs, backend=backend, rewrites=default - "shared_blocks"
    )
    arrays = arrays_of([x, *ws])
    for a, b in zip(f(*arrays), plain(*arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_long_chains_of_small_blocks_are_loops():
    names = []
    for g in (layer, layer.__wrapped__):
        x = gt.tensor("x", "float32", (256, 64))
        ws = [gt.tensor(f"w{i}", "float32", (64, 64)) for i in range(6)]
        f = graphc.function([x, *ws], chained(g, x, ws))
        names.append([a.rule.name for a in f.rewrites])
    assert "repeated_blocks" in names[0]
    assert "repeated_blocks" not in names[1]


def test_calls_that_are_alike_are_not_told():
    x, ws = gt.tensor("x", "float64", ("n", 4)), parameters(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        early = x @ ws[1]  # older than the block's nodes, which include it
        other = gt.tensor("u", "float64", (3,))
        layer(other, gt.tensor("v", "float64", (3, 3)))  # of other types
        chained(layer, x, ws)
        layer(x, ws[1])
    assert early.dtype == "float64"


KINDS = {
    "op": (gt.tanh, gt.sin, "sin here, tanh there"),
    "param": (
        lambda v: gt.sum(v, 0),
        lambda v: gt.sum(v, (0, 1)),
        "sum with axes=(0, 1) here, axes=(0,) there",
    ),
    "number": (
        lambda v: v * 2.0,
        lambda v: v * 3.0,
        "multiply takes the float64 3.0 here, the float64 2.0 there",
    ),
    "wiring": (
        lambda v: v - gt.exp(v),
        lambda v: gt.exp(v) - v,
        "subtract takes another value here, argument 0 there",
    ),
    "dtype": (
        lambda v: gt.astype(v, "float32"),
        lambda v: gt.astype(v, "int32"),
        "convert with dtype=dtype('int32') here, dtype=dtype('float32') there",
    ),
    "fewer": (lambda v: gt.exp(v) + v, gt.exp, "add is only there"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_where_calls_differ_is_told(kind):
    first, second, told = KINDS[kind]
    chosen = [first]

    @graphc.block
    def some(v):
        return chosen[0](v)

    x = gt.tensor("x", "float64", ("n", 4))
    some(x)
    chosen[0] = second
    with pytest.warns(graphc.BlockWarning) as caught:
        some(gt.tensor("y", "float64", x.type.shape))
    (warning,) = caught
    text = str(warning.message)
    assert told in text
    assert text.startswith("block some: unlike its first call at test_block.py:")
    assert warning.filename == __file__


def test_the_whole_text_of_the_warning():
    scale = [2.0]

    @graphc.block
    def some(v):
        return gt.tanh(v * scale[0])

    x = gt.tensor("x", "float64", ("n", 4))
    first = some(x).node.place.line
    scale[0] = 3.0
    with pytest.warns(graphc.BlockWarning) as caught:
        some(x)
    assert caught[0].message.args[0] == (
        f"block some: unlike its first call at test_block.py:{first + 3}: multiply "
        "takes the float64 3.0 here, the float64 2.0 there (at "
        f"test_block.py:{first}, and test_block.py:{first})"
    )


@pytest.mark.filterwarnings("error::graphc.BlockWarning")
def test_side_inputs_of_the_loop_that_blocks_stand_in():
    xs, ws = gt.tensor("xs", "float64", ("n", 4)), parameters(4)

    def step(carry, row):
        @graphc.block
        def inner(y, w):
            return gt.tanh(y @ w + row) * carry

        y = chained(inner, carry, ws)
        return y, gt.sum(y)

    end, rows = gt.scan(step, gt.ones(4, "float64"), xs)
    outputs = [end, rows, *graphc.grad(gt.sum(end), ws)]
    arrays = arrays_of([xs, *ws])
    without = default - "shared_blocks" - "repeated_blocks"
    for backend in ("numpy", "jax"):
        f = graphc.function([xs, *ws], outputs, backend=backend)
        plain = graphc.function([xs, *ws], outputs, backend=backend, rewrites=without)
        for a, b in zip(f(*arrays), plain(*arrays), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_structures_keywords_and_several_results():
    @graphc.block
    def both(p, *, scale=1.0):
        return {"a": p["x"] * scale, "b": [gt.exp(p["x"]) + 1]}

    x = gt.tensor("x", "float64", ("n",))
    made = [both({"x": x * i}, scale=2.0) for i in range(1, 4)]
    outputs = [v for m in made for v in (m["a"], m["b"][0])]
    f = graphc.function([x], outputs, backend="numpy")
    assert f.source.count("= both(") == 3
    np.testing.assert_allclose(f(np.ones(2))[3], np.exp(np.full(2, 2.0)) + 1)
    assert both({"x": np.float64(3.0)}, scale=2.0)["a"] == 6.0


def test_of_jax_arrays_it_is_jitted():
    @graphc.block
    def some(x):
        return jnp.tanh(x) * 2 + jnp.exp(x)

    def many(x):
        return [some(x * k) for k in range(3)]

    assert "name=some" in str(jax.make_jaxpr(many)(jnp.ones(3)))
    graph = graphc.from_jax(many, jax.ShapeDtypeStruct((3,), "float32"))
    f = graphc.function(list(graph.inputs), list(graph.outputs))
    expected = many(jnp.ones(3))
    np.testing.assert_allclose(f(np.ones(3, "float32")), expected, rtol=1e-6)


def test_calls_have_sizes_of_their_own():
    v, w = (gt.tensor(name, "float64", ("n",)) for name in "vw")
    k = gt.iscalar("k")

    @graphc.block
    def tail(x, k):
        chosen = x[x > 0][k:]
        return gt.sum(chosen * gt.arange(chosen.shape[0]))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sums = [tail(v, k), tail(w, k)]
    f = graphc.function([v, w, k], sums, **NUMPY)
    assert [float(s) for s in f(np.arange(4.0), np.arange(-2.0, 2.0), 1)] == [3.0, 0.0]


def test_sizes_from_outside_differ():
    x, v, w = (
        gt.tensor(name, "float64", (n,)) for name, n in zip("xvw", "nvw", strict=True)
    )
    parts = iter([v[v > 0], w[w > 0]])
    total = graphc.block(lambda x: gt.sum(x[0] * next(parts)))
    total(x)
    with pytest.warns(graphc.BlockWarning, match="multiply gives float64.count. here"):
        total(x)
