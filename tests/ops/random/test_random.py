"""Random draws against `jax.random`: equal bits on JAX; on NumPy, as far as promised.

A draw is one line that runs with `graphc.tensor.random` and with `jax.random`.
"""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.transform.planning.plan import HostNode, Read
from tests.ops.test_samples import share

BACKENDS = ("jax", "numpy")
KEY = np.array([2718281828, 459045], "uint32")
SHAPE = (40, 3)
ints = {"float32": "int32", "float64": "int64"}


def v(t, *numbers):
    return np.array(numbers, t)


def matrix(t):
    return np.arange(12, dtype=t).reshape(4, 3)


def logits(t):
    return np.log(np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], t))


COV = ((2.0, 0.5), (0.5, 1.0))
SAME_BITS = {
    "bits": lambda r, k, t: r.bits(k, SHAPE, "uint32"),
    "uniform": lambda r, k, t: r.uniform(k, SHAPE, t),
    "bernoulli": lambda r, k, t: r.bernoulli(k, v(t, 0.1, 0.5, 0.9), SHAPE),
    "randint": lambda r, k, t: r.randint(
        k, SHAPE, v(ints[t], 0, 5, -7), v(ints[t], 90), ints[t]
    ),
    "permutation": lambda r, k, t: r.permutation(k, np.arange(40, dtype=t)),
    "permutation_rows": lambda r, k, t: r.permutation(k, matrix(t)),
    "permutation_each": lambda r, k, t: r.permutation(k, matrix(t), 0, True),
    "choice": lambda r, k, t: r.choice(k, matrix(t), (5, 2), axis=1),
    "choice_without": lambda r, k, t: r.choice(k, np.arange(9, dtype=t), (2, 3), False),
}
SAME_ROUNDED = {
    "uniform_between": lambda r, k, t: r.uniform(
        k, SHAPE, t, v(t, -1, 0, 2), v(t, 1, 5, 3)
    ),
    "normal": lambda r, k, t: r.normal(k, SHAPE, t),
    "truncated_normal": lambda r, k, t: r.truncated_normal(
        k, v(t, -1, 0, -2), v(t, 1, 3, np.inf), SHAPE, t
    ),
    "multivariate_normal": lambda r, k, t: r.multivariate_normal(
        k, v(t, 1, 2), np.array(COV, t), (30,), t
    ),
    "categorical": lambda r, k, t: r.categorical(k, logits(t), -1, (30, 2)),
    "categorical_0": lambda r, k, t: r.categorical(k, logits(t), axis=0),
    "categorical_without": lambda r, k, t: r.categorical(
        k, logits(t), -1, (3, 2), replace=False
    ),
    "choice_weighted": lambda r, k, t: r.choice(
        k, v(t, 1, 2, 3), (40,), p=v(t, 0.2, 0.3, 0.5)
    ),
    "choice_weighted_without": lambda r, k, t: r.choice(
        k, v(t, 1, 2, 3), (2,), False, v(t, 0.2, 0.3, 0.5)
    ),
    "geometric": lambda r, k, t: r.geometric(k, v(t, 0.1, 0.5, 0.9), SHAPE, ints[t]),
    "exponential": lambda r, k, t: r.exponential(k, SHAPE, t),
    "gumbel": lambda r, k, t: r.gumbel(k, SHAPE, t),
    "laplace": lambda r, k, t: r.laplace(k, SHAPE, t),
    "cauchy": lambda r, k, t: r.cauchy(k, SHAPE, t),
    "logistic": lambda r, k, t: r.logistic(k, SHAPE, t),
    "lognormal": lambda r, k, t: r.lognormal(k, v(t, 0.5, 1, 2), SHAPE, t),
    "pareto": lambda r, k, t: r.pareto(k, v(t, 0.5, 1, 2), SHAPE, t),
    "rayleigh": lambda r, k, t: r.rayleigh(k, v(t, 0.5, 1, 2), SHAPE, t),
    "weibull_min": lambda r, k, t: r.weibull_min(
        k, v(t, 1, 2, 3), v(t, 0.5, 1, 2), SHAPE, t
    ),
    "maxwell": lambda r, k, t: r.maxwell(k, SHAPE, t),
    "triangular": lambda r, k, t: r.triangular(
        k, v(t, 0, 1, 2), v(t, 0.5, 2, 2), v(t, 2, 3, 4), SHAPE, t
    ),
    "wald": lambda r, k, t: r.wald(k, v(t, 0.5, 1, 2), SHAPE, t),
}
OWN_STREAM = {
    "gamma": lambda r, k, t: r.gamma(k, v(t, 0.3, 1, 7), SHAPE, t),
    "loggamma": lambda r, k, t: r.loggamma(k, v(t, 0.3, 1, 7), SHAPE, t),
    "beta": lambda r, k, t: r.beta(k, v(t, 0.3, 1, 7), v(t, 2, 0.5, 3), SHAPE, t),
    "dirichlet": lambda r, k, t: r.dirichlet(k, v(t, 0.3, 1, 7), (20,), t),
    "chisquare": lambda r, k, t: r.chisquare(k, v(t, 3, 5, 20), SHAPE, t),
    "t": lambda r, k, t: r.t(k, v(t, 3, 5, 20), SHAPE, t),
    "f": lambda r, k, t: r.f(k, v(t, 3), v(t, 4), (1,), t),
    "poisson": lambda r, k, t: r.poisson(k, v(t, 0.3, 9, 70), SHAPE, ints[t]),
    "binomial": lambda r, k, t: r.binomial(
        k, v(t, 5, 100, 1000), v(t, 0.1, 0.5, 0.9), SHAPE, t
    ),
    "multinomial": lambda r, k, t: r.multinomial(
        k, np.array(20, t), v(t, 0.2, 0.3, 0.5), dtype=t
    ),
}
COMPOSED = {
    "rademacher": lambda r, k, t: r.rademacher(k, SHAPE, t),
    "ball": lambda r, k, t: r.ball(k, 3, 2, (20,), t),
}
PRINTED_OTHERWISE = {name for name in SAME_BITS | SAME_ROUNDED if name[:6] == "choice"}
AS_PRINTED = {
    name: draw
    for name, draw in (SAME_BITS | SAME_ROUNDED | OWN_STREAM).items()
    if name not in PRINTED_OTHERWISE
}
# The draws that are compiled too: every kind, including each way to shuffle or reject.
COMPILED = {
    name: (SAME_BITS | SAME_ROUNDED | OWN_STREAM | COMPOSED)[name]
    for name in (
        *("uniform", "normal", "bernoulli", "randint", "permutation_rows", "choice"),
        *("choice_without", "choice_weighted", "choice_weighted_without"),
        *("categorical", "gamma", "poisson", "rademacher", "ball"),
    )
}


def key_variable(name="key"):
    return gt.tensor(name, "uint32", (2,))


def rounded(t):
    return {"rtol": 2e-5, "atol": 2e-6} if t == "float32" else {"rtol": 1e-11}


@pytest.mark.parametrize("t", ints)
@pytest.mark.parametrize("name", AS_PRINTED)
def test_the_traced_program_is_that_of_jax(name, t):
    key = key_variable()
    f = graphc.function([key], AS_PRINTED[name](gt.random, key, t), jit=False)
    with jax.enable_x64(t == "float64"):
        ours = jax.make_jaxpr(f)(KEY)
        theirs = jax.make_jaxpr(lambda k: AS_PRINTED[name](jax.random, k, t))(KEY)
    assert str(ours) == str(theirs)


def compiled_draws(draws, t):
    """The numbers of `jax.random`, in the mode that the dtype needs."""
    with jax.enable_x64(t == "float64"):
        f = jax.jit(lambda k: {n: draw(jax.random, k, t) for n, draw in draws.items()})
        return {n: np.asarray(x) for n, x in f(KEY).items()}


def mixed_draws(draws):
    """Draws of both dtypes in one program, which therefore has 64-bit arrays."""
    key = key_variable()
    outputs = {}
    for t in ints:
        outputs |= {f"{n} {t}": d(gt.random, key, t) for n, d in draws.items()}
    return graphc.function([key], outputs)(KEY)


@pytest.mark.usefixtures("compiled_quickly")
def test_draws_of_both_dtypes_in_one_program_are_those_of_jax():
    """This is one test, since each worker would have to compile the long program."""
    tried = dict(share(list(COMPILED.items()), turn=0))
    mixed = mixed_draws(tried)
    for t in ints:
        for name, theirs in compiled_draws(tried, t).items():
            ours = np.asarray(mixed[f"{name} {t}"])
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), name
            if name == "ball":
                np.testing.assert_allclose(ours, theirs, **rounded(t), err_msg=name)
            else:
                np.testing.assert_array_equal(ours, theirs, err_msg=name)


def numpy_draws(draws, t):
    key = key_variable()
    outputs = {name: draw(gt.random, key, t) for name, draw in draws.items()}
    return graphc.function([key], outputs, backend="numpy")(KEY)


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("t", ints)
def test_numpy_draws_the_same_bits(t):
    expected = compiled_draws(SAME_BITS, t)
    for name, ours in numpy_draws(SAME_BITS, t).items():
        assert ours.dtype == expected[name].dtype, name
        np.testing.assert_array_equal(ours, expected[name], err_msg=name)


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("t", ints)
def test_numpy_draws_the_same_up_to_rounding(t):
    expected = compiled_draws(SAME_ROUNDED, t)
    for name, ours in numpy_draws(SAME_ROUNDED, t).items():
        assert ours.dtype == expected[name].dtype, name
        np.testing.assert_allclose(ours, expected[name], **rounded(t), err_msg=name)


def exact(r, k):
    """Draws of every width and key, and at the edges of ranges."""
    found = {f"key {s}": r.PRNGKey(s) for s in (0, 42, 2**31, 2**32 - 1, -1, 2**40 + 7)}
    found |= {"split": r.split(k, 3), "split shape": r.split(k, (2, 3))}
    found |= {f"fold_in {n}": r.fold_in(k, n) for n in (0, 2**32 - 1)}
    found |= {w: r.bits(k, (5, 3), w) for w in ("uint8", "uint16", "uint32", "uint64")}
    found |= {t: r.uniform(k, (99,), t) for t in ("float16", "bfloat16")}
    for t in ("int8", "uint8", "uint16", "int32", "uint32", "uint64"):
        found[f"randint {t}"] = r.randint(k, (50,), 3, 100, t)
    for t in ("int8", "uint16", "int32", "uint32"):
        info = np.iinfo(t)
        end = np.int64(info.max + 1)
        found[f"all of {t}"] = r.randint(k, (50,), info.min, end, t)
    found["empty range"] = r.randint(k, (5,), 3, 3, "int32")
    found["beyond"] = r.randint(k, (50,), np.int64(-(2**40)), np.int64(2**40), "int16")
    found["nothing"] = r.uniform(k, (0, 3), "float32")
    found["a scalar"] = r.uniform(k, (), "float32")
    return found


@pytest.mark.usefixtures("compiled_quickly")
def test_numpy_has_the_same_keys_bits_and_integers():
    key = key_variable()
    f = graphc.function([key], exact(gt.random, key), backend="numpy")
    ours = f(KEY)
    with jax.enable_x64(True):
        expected = jax.jit(lambda k: exact(jax.random, k))(KEY)
    assert ours.keys() == expected.keys()
    for name, theirs in expected.items():
        assert ours[name].dtype == theirs.dtype, name
        np.testing.assert_array_equal(ours[name], np.asarray(theirs), err_msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64"])
def test_a_seed_may_be_an_argument_or_known(backend, dtype):
    seed = gt.tensor("seed", dtype, ())
    f = graphc.function([seed], gt.random.key(seed), backend=backend)
    numbers = np.array([0, 42, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    known = graphc.function([], [*map(gt.random.key, numbers)], backend=backend)()
    for number, of_known in zip(numbers, known, strict=True):
        with jax.enable_x64(True):
            expected = jax.random.key_data(jax.random.key(number))
        np.testing.assert_array_equal(f(number), expected)
        np.testing.assert_array_equal(of_known, expected)


DEFAULTS = {
    "uniform": lambda r, k: r.uniform(k, (3,)),
    "gamma of numbers": lambda r, k: r.gamma(k, 2.0, (3,)),
    "randint": lambda r, k: r.randint(k, (3,), 0, 9),
    "poisson": lambda r, k: r.poisson(k, 3.0, (3,)),
    "choice": lambda r, k: r.choice(k, 5, (3,)),
    "permutation": lambda r, k: r.permutation(k, 5),
    "categorical": lambda r, k: r.categorical(k, np.zeros(3, "float32")),
    "bits": lambda r, k: r.bits(k, (3,)),
    "rademacher": lambda r, k: r.rademacher(k, (3,)),
    "geometric": lambda r, k: r.geometric(k, 0.5, (3,)),
}


@pytest.mark.parametrize("name", DEFAULTS)
@pytest.mark.parametrize("default", ["float32", "float64"])
def test_dtypes_that_are_not_said_are_those_of_jax(name, default):
    with jax.enable_x64(default == "float64"):
        expected = jax.eval_shape(lambda k: DEFAULTS[name](jax.random, k), KEY)
    before = graphc.config.float
    graphc.config.float = default
    try:
        ours = DEFAULTS[name](gt.random, gt.random.key(0))
    finally:
        graphc.config.float = before
    assert ours.dtype == expected.dtype
    assert ours.type.shape == expected.shape


def test_an_argument_of_64_bits_widens_the_draw():
    key, mean = gt.random.key(0), np.ones(3)
    assert gt.random.gamma(key, mean).dtype == "float64"
    assert gt.random.gamma(key, mean, dtype="float32").dtype == "float32"
    assert gt.random.poisson(key, mean).dtype == "int64"
    assert gt.random.choice(key, mean, (3,)).dtype == "float64"
    assert gt.random.geometric(key, 0.5, (), "int64").dtype == "int64"


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_may_be_integers_formulas_and_vectors(backend):
    key, x = key_variable(), gt.tensor("x", "float32", ("m", 2))
    n, shape = gt.iscalar("n"), gt.ivector("shape", (2,))
    outputs = {
        "argument": gt.random.normal(key, n),
        "formula": gt.random.gamma(key, 2.0, (2 * n + 1, x.shape[0])),
        "vector": gt.random.randint(key, shape, 0, n),
        "axis": gt.random.normal(key, x.shape) * x,
        "parameter": gt.random.gamma(key, x[:, 0]),
        "keys": gt.random.split(key, n),
        "order": gt.random.permutation(key, n),
        "rows": gt.random.shuffle(key, x),
        "drawn": gt.random.choice(key, x, (n,)),
    }
    f = graphc.function([key, x, n, shape], outputs, backend=backend)
    sizes = [(4, 3, (0, 5)), (3, 2, (1, 2))]
    for m, number, pair in sizes if backend == "numpy" else sizes[:1]:  # compiled
        rows = np.arange(2 * m, dtype="float32").reshape(m, 2) + 1
        got = f(KEY, rows, np.int64(number), np.array(pair))
        found = {name: np.shape(result) for name, result in got.items()}
        assert found == {
            "argument": (number,),
            "formula": (2 * number + 1, m),
            "vector": pair,
            "axis": (m, 2),
            "parameter": (m,),
            "keys": (number, 2),
            "order": (number,),
            "rows": (m, 2),
            "drawn": (number, 2),
        }
        assert sorted(np.asarray(got["order"]).tolist()) == list(range(number))
        assert sorted(np.asarray(got["rows"]).tolist()) == rows.tolist()
        assert all(row in rows.tolist() for row in np.asarray(got["drawn"]).tolist())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_drawn_size_agrees_with_the_drawn_number(backend):
    """NumPy draws another number: the host must not compute the size with it."""
    keys = gt.random.split(gt.random.key(1), 2)
    x = gt.vector("x", "float32")
    n = gt.random.poisson(keys[0], 6.0)
    outputs = [n, gt.random.normal(keys[1], n), x + 1]
    f = graphc.function([x], outputs, backend=backend)
    number, drawn, _ = f(np.ones(2, "float32"))
    assert np.shape(drawn) == (int(number),)
    if backend == "jax":
        assert [type(s) for s in f.plan.glue] == [Read]
        first = jax.random.split(jax.random.key(1))[0]
        assert int(number) == jax.random.poisson(first, 6.0)


def test_integers_with_the_same_bits_may_be_drawn_on_the_host():
    x, n = gt.vector("x", "float32"), gt.random.randint(gt.random.key(1), (), 3, 99)
    f = graphc.function([x], [n, gt.zeros(n), x + 1])
    number, zeros, _ = f(np.ones(2, "float32"))
    assert np.shape(zeros) == (int(number),)
    assert f.plan.glue and all(isinstance(s, HostNode) for s in f.plan.glue)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_is_repeatable_and_keys_are_independent(backend):
    key = key_variable()
    keys = gt.random.split(key, 2)
    made = [gt.random.normal(k, 4000) for k in (key, keys[0], keys[1])]
    # In JAX, fold_in(key, i) for i = 0 and 1 gives exactly the keys of split(key, 2).
    made += [gt.random.normal(gt.random.fold_in(key, i), 4000) for i in (7, 8)]
    made += [gt.random.gamma(k, 2.0, 4000) for k in (keys[0], keys[1])]
    f = graphc.function([key], gt.stack(made), backend=backend)
    first = np.asarray(f(KEY))
    np.testing.assert_array_equal(first, f(KEY))
    assert not np.any(first == f(KEY + np.uint32(1)))
    apart = np.corrcoef(first)
    assert np.abs(apart - np.eye(7)).max() < 0.06


def test_keys_are_batched_by_vmap():
    key = key_variable()
    f = graphc.function([key], gt.random.uniform(key, 3))
    keys = np.asarray(jax.random.split(KEY, 4))
    got = jax.vmap(f.jax_callable)(keys)
    np.testing.assert_array_equal(got, np.stack([f(k) for k in keys]))


def test_names_of_users_do_not_hide_the_functions_of_the_program():
    uniform_numpy = key_variable("uniform_numpy")
    threefry_numpy = gt.random.uniform(uniform_numpy, 3)
    f = graphc.function([uniform_numpy], threefry_numpy + 1, backend="numpy")
    np.testing.assert_allclose(f(KEY), jax.random.uniform(KEY, 3) + 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_that_cannot_be_give_the_same_on_both_backends(backend):
    key, lam = key_variable(), gt.vector("lam", "float32")
    outputs = {
        "poisson": gt.random.poisson(key, lam),
        "binomial": gt.random.binomial(key, lam, 0.5),
        "gamma": gt.random.gamma(key, lam),
    }
    f = graphc.function([key, lam], outputs, backend=backend)
    got = f(KEY, np.array([-1, np.nan, 0], "float32"))
    assert got["poisson"].tolist() == [-1, -1, 0]
    np.testing.assert_array_equal(got["binomial"], [np.nan, np.nan, 0])
    np.testing.assert_array_equal(got["gamma"], [np.nan, np.nan, 0])
