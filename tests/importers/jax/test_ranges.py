"""Functions of `graphc.jit` that are compiled for ranges of several sizes."""

import warnings
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from tests.importers.jax.comparing import outcomes_by_jax

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def floats(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype="float32").reshape(shape)


def score(x, w):
    return jnp.tanh(x @ w).sum()


def of_pytree(params, batch):
    return {"h": batch["x"] @ params[0], "n": (batch["x"].sum(0), batch["y"] + 1)}


def with_static(x, y, mode):
    both = x[:, None] * y
    return both.sum() if mode == "sum" else both.max(initial=0)


def decides(x, y):
    x = x * 2 if x.shape[0] % 2 == 0 else x
    return x.sum() + y.max() if y.shape[0] > 20 else x.sum()


def decides_by_both(x, y):
    return x.sum() if x.shape[0] > y.shape[0] else 2 * y.sum()


def for_one_size(x, y):
    return (3 if x.shape[0] == 7 else 1) * x.sum() + y.sum()


def scanned(x, w):
    return jax.lax.scan(lambda c, r: (jnp.tanh(c * w + r), c.sum()), w, x)


def by_text(x, y):
    return str(x.shape[0]) and x.sum() + y.sum()


def shifted(x, y):
    return x[:-1] @ y


def matrix(n, d):
    return floats(n, d), floats(d)


def vectors(n, d):
    return floats(n), floats(d)


def batch(n, d):
    return (floats(d, 4), floats(4)), {"x": floats(n, d), "y": floats(n)}


WIDE = {"n": range(0, 20), "d": range(8, 40)}
FEW = {"n": range(0, 6), "d": range(3, 8)}
CASES = {  # function, `shapes`, arguments, statics, ranges, most compilations
    "products": (score, "n d, d ->", matrix, {}, WIDE, 9),
    "small ones": (score, "n d, d", matrix, {}, {**WIDE, "d": range(40)}, 17),
    "a pytree": (of_pytree, "d 4, 4, n d, n", batch, {}, WIDE, 10),
    "static": (with_static, "n, d", vectors, {"mode": "max"}, WIDE, 7),
    "decisions": (decides, "n, d ->", vectors, {}, WIDE, 14),
    "a decision by both": (decides_by_both, "n, d", vectors, {}, WIDE, 11),
    "one size apart": (for_one_size, "n, d", vectors, {}, WIDE, 12),
    "a scan": (scanned, "n d, d", matrix, {}, WIDE, 9),
    "compared": (by_text, "n, d", vectors, {}, FEW, 3),
    "formulas": (
        *(shifted, "n+1, n d", lambda n, d: (floats(n + 1), floats(n, d))),
        *({}, WIDE, 9),
    ),
}


@cache
def results_of_jax(name):
    """Results by JAX at random sizes, by size."""
    function, _, make, static, ranges, _ = CASES[name]
    draw = np.random.default_rng(0)
    sizes = [tuple(int(draw.choice(ranges[k])) for k in "nd") for _ in range(25)]
    calls = {pair: make(*pair) for pair in sizes}
    outcomes = outcomes_by_jax(partial(function, **static), calls)
    return {pair: outcomes[pair] for pair in calls}


@pytest.mark.parametrize("dims", [None, "pad"])
@pytest.mark.parametrize("name", CASES)
def test_sizes_in_several_ranges_compile_nothing(name, dims, events):
    function, shapes, make, static, ranges, most = CASES[name]
    expected = results_of_jax(name)
    f = graphc.jit(function, shapes=shapes, dims=dims, static_argnames=[*static])
    made = f.compile(*make(2, 9), sizes=ranges, **static)
    assert 1 < len(made) <= most
    assert f.compile(*make(2, 9), sizes=ranges, **static) == []
    for i, sizes in enumerate(expected):
        arrays = jax.tree.map(jnp.asarray, make(*sizes)) if i % 2 else make(*sizes)
        events.clear()
        with graphc.stance("no_compile"):
            result = f(*arrays, **static)
        assert events == []
        for a, b in zip(*map(jax.tree.leaves, (result, expected[sizes])), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_arrays_of_weak_types_are_compiled_for_on_a_mesh_too():
    dims, mesh = {"n": graphc.Shard("data")}, graphc.mesh(data=1)
    f = graphc.jit(jnp.multiply, shapes=("n", ""), dims=dims, mesh=mesh)
    weak = jnp.asarray(2.0)
    f.compile(np.ones(8, "float32"), weak, sizes={"n": range(7, 10)})
    with graphc.stance("no_compile"):
        assert f(np.ones(9, "float32"), weak).tolist() == [2.0] * 9


def test_types_with_names_have_ranges_too():
    rows, d = jax.export.symbolic_shape("rows, d")
    types = [jax.ShapeDtypeStruct(s, "float32") for s in ((rows, d), (d,))]
    f = graphc.jit(score)
    f.compile(*types, sizes={"rows": range(1, 50), "d": range(2, 30)})
    with graphc.stance("no_compile"):
        for n, m in [(1, 2), (49, 29), (17, 3), (3, 17), (9, 9)]:
            np.testing.assert_allclose(f(*matrix(n, m)), score(*matrix(n, m)), 1e-5)


def test_ways_that_the_function_refuses_are_left_out():
    def cut(x, y):
        if x.shape[0] < y.shape[0]:
            raise ValueError("too short")
        return x[: y.shape[0]] * y

    f = graphc.jit(cut, shapes="n, m")
    f.compile(*vectors(4, 3), sizes={"n": range(2, 12), "m": range(2, 6)})
    with graphc.stance("no_compile"):
        for n, m in [(2, 2), (11, 5), (4, 3)]:
            np.testing.assert_array_equal(f(*vectors(n, m)), cut(*vectors(n, m)))
    with pytest.raises(ValueError, match="too short"):
        f.compile(*vectors(4, 3), sizes={"n": range(2, 4), "m": range(7, 12)})


@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_small_axes_that_the_function_refuses_are_left_out(dims):
    """JAX traces axes of one element specially, so they are compiled one by one."""
    f = graphc.jit(lambda x: jax.lax.top_k(x, 2)[0], shapes="n", dims=dims)
    f.compile(np.ones(4, "float32"), sizes={"n": range(30)})
    with graphc.stance("no_compile"):
        for n in (2, 3, 29):
            x = np.arange(n, dtype="float32")
            np.testing.assert_array_equal(f(x), x[:-3:-1])
    with pytest.raises(ValueError, match="k argument to top_k"):
        f.compile(np.ones(4, "float32"), sizes={"n": range(2)})


def unrolled(x, y):
    for i in range(x.shape[0]):
        y = y * (x.sum() if i.bit_count() % 2 else x.max())
    return y


REFUSED = {
    "it decides by n and d together, at": (decides_by_both, None, 900),
    "each size is compared with a trace": (by_text, None, 900),
    "not padded: n, d; so programs would be": (score, "specialize", 900),
    "would be compiled one by one: no program": (unrolled, None, 90),
}


@pytest.mark.parametrize("text", REFUSED)
def test_too_many_calls_are_refused_before_any_is_compiled(text):
    function, dims, end = REFUSED[text]
    shapes, make = ("n d, d", matrix) if function is score else ("n, d", vectors)
    f = graphc.jit(function, shapes=shapes, dims=dims)
    with warnings.catch_warnings(), pytest.raises(graphc.GraphError, match=text):
        warnings.simplefilter("ignore")
        f.compile(*make(4, 4), sizes={"n": range(2, end + 9), "d": range(2, end)})
    assert f.stats().compilations == []


def test_arrays_of_weak_types_have_one_program_per_capacity():
    """Arrays that fill a capacity used to be compiled once more."""
    f = graphc.jit(lambda x, s: (x * s).sum(), shapes="n, ()", dims="pad")
    known = len(f.compile(jnp.full(3, 2.0), jnp.exp(0.0), sizes={"n": range(2, 40)}))
    for n in (5, 16, 16, 7, 16, 32, 32, 3):
        assert f(jnp.full(n, 2.0), jnp.exp(0.0)) == 2 * n
    assert len(f.stats().compilations) == known == 3
