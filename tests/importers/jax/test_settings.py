"""Settings of JAX that change between calls hold from the next call on."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

import graphc
from graphc.importers.jax.read import products
from tests.importers.jax.comparing import by_turns

SIZES = 3, 5, 3  # the first, another, and the first again


def half_sum(x):
    return jnp.sum(x.astype("float16"))


def extremes(x):
    return random.gumbel(random.PRNGKey(0), x.shape) + x


def as_double(x):
    return x.astype("float64") * 2


def beyond(x):
    return x.at[9].get(mode="promise_in_bounds")


def sown(x):
    return random.uniform(random.PRNGKey(x.shape[0]), x.shape) + x


CHANGED = {
    "jax_random_seed_offset": (7, sown),
    "jax_allow_f16_reductions": (False, half_sum),
    "jax_explicit_x64_dtypes": ("allow", as_double),
    "jax_check_static_indices": (True, beyond),
    "jax_threefry_partitionable": (False, extremes),
    "jax_enable_x64": (True, as_double),
}


def outcome(function, x):
    try:
        result = function(x)
    except Exception as error:
        return type(error)
    return str(result.dtype), np.asarray(result).tolist()


@pytest.mark.parametrize(("name", "dims"), by_turns(CHANGED))
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_programs_are_those_of_the_setting(name, dims):
    setting, function = CHANGED[name]
    if not hasattr(jax.config, name):
        pytest.skip("there is no such setting in this JAX")
    before = getattr(jax.config, name)
    ours, theirs = graphc.jit(function, dims=dims), jax.jit(function)
    try:
        for value in (before, setting, before):
            jax.config.update(name, value)
            for n in SIZES:
                x = np.ones(n, "float32")
                assert outcome(ours, x) == outcome(theirs, x)
    finally:
        jax.config.update(name, before)


DRAWS = {
    "normal": lambda k, x: random.normal(k, x.shape) * x,
    "bits": lambda k, x: random.bits(k, x.shape, "uint8"),
    "split": lambda k, x: jax.vmap(random.normal)(random.split(k, x.shape[0])),
    "permutation": random.permutation,
    "in a loop": lambda k, x: jax.lax.scan(
        lambda c, v: (random.split(c)[0], v * random.uniform(c)), k, x
    )[1],
}


@pytest.mark.parametrize(("name", "dims"), by_turns(DRAWS))
def test_draws_that_depend_on_how_many_they_are(name, dims):
    with jax.threefry_partitionable(False):
        ours, theirs = graphc.jit(DRAWS[name], dims=dims), jax.jit(DRAWS[name])
        for n in SIZES:
            x, key = np.linspace(1, 2, n, dtype="float32"), random.PRNGKey(n)
            np.testing.assert_allclose(ours(key, x), theirs(key, x), rtol=1e-6)
        assert "jax_threefry_partitionable is off" in ours.stats().foreign[0]


@jax.custom_vjp
def tripled(x):
    return 3 * x


tripled.defvjp(lambda x: (tripled(x), x), lambda x, slope: (slope * x,))
WIDE = {
    "converted": lambda x: x.astype("float32"),
    "promoted": lambda x: x * jnp.float32(2) + 1,
    "chosen": lambda x: jnp.where(x > 1, x, 0),
    "summed": jnp.cumsum,
    "kept": lambda x: jax.lax.sin(jax.lax.sort(x)),
    "looped": lambda x: jax.lax.scan(lambda last, row: (row, last + row), x[0], x)[1],
    "combined": lambda x: jax.lax.associative_scan(lambda a, b: 2 * a + b, x),
    "with_a_rule": lambda x: jax.grad(lambda x: jnp.sum(tripled(x)))(x),
}


@pytest.mark.parametrize(("name", "dims"), by_turns(WIDE))
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_wide_arrays_are_taken_as_they_are_where_x64_is_off(name, dims):
    jitted = graphc.jit(WIDE[name], dims=dims)
    for size in SIZES:
        with jax.enable_x64(True):
            x = jnp.arange(float(size)) / 3
        assert outcome(jitted, x) == outcome(jax.jit(WIDE[name]), x)


def test_reuse_of_keys_is_found_once_it_is_asked_for():
    def draws(key, x):
        return x + random.normal(key, x.shape) + random.uniform(key, x.shape)

    ours, key = graphc.jit(draws), random.key(0)
    for n in SIZES:
        ours(key, np.ones(n, "float32"))
    with jax.debug_key_reuse(True):
        for n in SIZES:
            with pytest.raises(jax.errors.KeyReuseError):
                ours(key, np.ones(n, "float32"))
    for n in SIZES:
        ours(key, np.ones(n, "float32"))


def logarithm(x):
    y = jnp.sin(x)
    return jnp.log(y - 2)


def raised_in(function, x):
    """The error of a call that makes a NaN, and the functions in its traceback."""
    with jax.debug_nans(True), pytest.raises(FloatingPointError) as raised:
        function(x)
    return str(raised.value), [entry.name for entry in raised.traceback[1:]]


@pytest.mark.parametrize("dims", [None, "pad"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_nan_is_told_with_the_line_of_the_user(is_new, dims):
    ours, theirs = graphc.jit(logarithm, dims=dims), jax.jit(logarithm)
    for n in SIZES:
        x = np.ones(n, "float32")
        if not is_new:
            ours(x)
        assert raised_in(ours, x) == raised_in(theirs, x)


def test_a_nan_of_padding_is_none_of_the_function():
    def ratios(x):
        y = x / x
        return y, jnp.sum(y)

    ours, theirs = graphc.jit(ratios, dims="pad"), jax.jit(ratios)
    with jax.debug_nans(True):
        for n in SIZES:
            x = np.ones(n, "float32")
            for a, b in zip(ours(x), theirs(x), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("setting", [None, "highest", "tensorfloat32", "F32_F32_F32"])
def test_products_are_read_in_the_precision_that_is_set(setting, monkeypatch):
    """Only accelerators have several precisions, so the test pretends to be on one."""
    monkeypatch.setattr(products, "_is_on_cpu", lambda: False)
    w = np.ones((3, 2), "float32")

    def times(x, **how):
        return jnp.dot(x, w, **how) + jnp.einsum("ij,jk->ik", x, w)

    as_set, other = graphc.jit(times), graphc.jit(partial(times, precision="high"))
    with jax.default_matmul_precision(setting):
        for f in (as_set, other):
            for n in (*SIZES, 8):
                x = np.ones((n, 3), "float32")
                np.testing.assert_array_equal(f(x), jax.jit(times)(x))
    of_all_sizes = [setting == "tensorfloat32" or f is as_set for f in (as_set, other)]
    assert [len(f.stats().compilations) == 2 for f in (as_set, other)] == of_all_sizes
    if not of_all_sizes[1]:
        assert "dot_general: its precision is HIGH, and that of" in other.explain()
