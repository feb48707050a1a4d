"""Random draws with one key: JAX's own numbers, on NumPy up to rounding or not at all.

Each function is called once with `graphc.tensor.random` and once with `jax.random`.
"""

import jax
import jax.numpy as jnp
import numpy as np

import graphc.tensor as gt
from tests.samples.spec import a, call, sample

WORDS = np.array([7, 11], "uint32")
FLOATS = ("float32", "float64")
INTS = {"float32": "int32", "float64": "int64"}
SHAPES = (call(a()), call(a(0, 3)), call(a(2, 3)))
SHARES = (call(a(2, 3, values="share")),)
POSITIVE = (call(a(2, 3, values="positive")),)
STREAM = {"numpy": "a rejection sampler: another stream of the same distribution"}


def draws(name, call_it, *calls, **options):
    """A sample of `call_it(namespace, key, dtype, *arguments)` on both sides."""

    def ours(*args):
        dtype = getattr(args[0], "dtype", np.dtype("float32"))
        return call_it(gt.random, WORDS, dtype.name, *args)

    def reference(*args):
        dtype = args[0].dtype.name
        with jax.enable_x64(dtype == "float64"):
            return np.asarray(call_it(jax.random, WORDS, dtype, *args))

    def like(*args):
        dtype = args[0].dtype.name
        with jax.enable_x64(dtype == "float64"):
            found = jax.eval_shape(lambda: call_it(jax.random, WORDS, dtype, *args))
        return np.empty(found.shape, found.dtype)

    options = {"dtypes": FLOATS, "ulps": 64, "like": like} | options
    return sample(f"random.{name}", *calls, ours=ours, numpy=reference, **options)


def plain(name):
    """A sample of a distribution without parameters, drawn in the argument's shape."""
    call_it = lambda r, k, t, x: getattr(r, name)(k, x.shape, t)  # noqa: E731
    return draws(name, call_it, call(a(2, 3)))


def broadcast(name, count, **options):
    """A sample of a distribution with `count` parameters, the first an argument."""
    more = [0.75] * (count - 1)

    def call_it(r, k, t, x):
        parameters = [np.asarray(m, t) for m in more]
        return getattr(r, name)(k, x, *parameters, x.shape, t)

    return draws(name, call_it, *POSITIVE, **options)


def integers(r, k, t, x):
    return r.randint(k, x.shape, -5, 9, "int32")


def half_normal(r, k, t, x):
    if r is gt.random:
        return r.half_normal(k, x.shape, t)
    return abs(r.normal(k, x.shape, t))


def weibull(r, k, t, x):
    return getattr(r, "weibull", r.weibull_min)(k, x, np.asarray(2, t), x.shape, t)


def shuffle(r, k, t, x):
    return getattr(r, "shuffle", r.permutation)(k, x)


def multinomial(r, k, t, x):
    """In some versions, `shape` of `jax.random` differs from its documentation."""
    trials, p = np.asarray(20, t), np.array([0.25, 0.75], t)
    if r is gt.random:
        return r.multinomial(k, trials, p, x.shape, t)
    return r.multinomial(k, trials, np.broadcast_to(p, (*x.shape, 2)), dtype=t)


def seeded(r, k, t, x):
    """JAX's key is an object, from which `key_data` takes the words that ours gives."""
    if r is gt.random:
        return r.key(12)
    return r.key_data(r.key(12))


def negative_binomial(r, k, t, x):
    """JAX lacks it, so its draws are composed as in ours."""
    if r is gt.random:
        return r.negative_binomial(k, 3.0, x, None, INTS[t])
    keys = r.split(k)
    mean = r.gamma(keys[0], np.asarray(3, t), x.shape, t) * ((1 - x) / x)
    return r.poisson(keys[1], mean, x.shape, INTS[t])


def wishart(r, k, t, x):
    """JAX lacks it, so this is Bartlett's decomposition, as in ours."""
    if r is gt.random:
        return r.wishart(k, 4.0, x, (2,), t)
    d, keys = len(x), r.split(k)
    roots = jnp.sqrt(r.chisquare(keys[0], 4 - np.arange(d, dtype=t), (2, d), t))
    below = jnp.tril(r.normal(keys[1], (2, d, d), t), -1)
    factor = jnp.linalg.cholesky(x) @ (below + roots[..., None] * np.eye(d, dtype=t))
    return factor @ jnp.swapaxes(factor, -1, -2)


SAMPLES = [
    draws("split", lambda r, k, t, x: r.split(k, x.shape[0]), call(a(3)), call(a(0))),
    draws("fold_in", lambda r, k, t, x: r.fold_in(k, x.shape[0]), call(a(3))),
    draws("bits", lambda r, k, t, x: r.bits(k, x.shape, "uint32"), *SHAPES),
    draws("uniform", lambda r, k, t, x: r.uniform(k, x.shape, t), *SHAPES, ulps=0),
    draws("randint", integers, *SHAPES),
    draws("permutation", lambda r, k, t, x: r.permutation(k, x), call(a(4, 3))),
    draws("bernoulli", lambda r, k, t, x: r.bernoulli(k, x), *SHARES),
    draws("categorical", lambda r, k, t, x: r.categorical(k, x), call(a(4, 3))),
    draws("geometric", lambda r, k, t, x: r.geometric(k, x, None, "int32"), *SHARES),
    *map(plain, ("normal", "exponential", "laplace", "cauchy", "logistic", "gumbel")),
    plain("maxwell"),
    draws("half_normal", half_normal, call(a(2, 3))),
    broadcast("lognormal", 1),
    broadcast("pareto", 1),
    broadcast("rayleigh", 1),
    broadcast("wald", 1, ulps=4096),  # its smaller root is a difference
    broadcast("weibull_min", 2),
    draws("weibull", weibull, *POSITIVE),
    broadcast("gamma", 1, differs=STREAM),
    broadcast("loggamma", 1, differs=STREAM),
    broadcast("beta", 2, differs=STREAM),
    broadcast("chisquare", 1, differs=STREAM),
    broadcast("t", 1, differs=STREAM),
    broadcast("f", 2, differs=STREAM),
    draws(
        "truncated_normal",
        lambda r, k, t, x: r.truncated_normal(k, x - 1, x + 1, x.shape, t),
        *POSITIVE,
    ),
    draws(
        "triangular",
        lambda r, k, t, x: r.triangular(k, -x, x / 2, x, x.shape, t),
        *POSITIVE,
    ),
    draws(
        "generalized_normal",
        lambda r, k, t, x: r.generalized_normal(k, 1.5, x.shape, t),
        *SHAPES,
        differs=STREAM,
    ),
    draws(
        "ball",
        lambda r, k, t, x: r.ball(k, 3, 2, x.shape, t),
        *SHAPES,
        differs=STREAM,
    ),
    draws("rademacher", lambda r, k, t, x: r.rademacher(k, x.shape, t), *SHAPES),
    draws("shuffle", shuffle, call(a(4, 3)), call(a(0))),
    draws(
        "choice",
        lambda r, k, t, x: r.choice(k, x, (4, 2)),
        call(a(5)),
        call(a(3, 2)),
    ),
    draws("choice", lambda r, k, t, x: r.choice(k, x, (3,), False), call(a(5))),
    draws(
        "choice",
        lambda r, k, t, x: r.choice(k, 4, (5,), p=np.array([0.1, 0.4, 0.3, 0.2], t)),
        call(a(1)),
    ),
    draws(
        "poisson",
        lambda r, k, t, x: r.poisson(k, x, None, "int32"),
        *POSITIVE,
        differs=STREAM,
    ),
    draws(
        "binomial",
        lambda r, k, t, x: r.binomial(k, np.asarray(20, t), x, None, t),
        *SHARES,
        differs=STREAM,
    ),
    draws("negative_binomial", negative_binomial, *SHARES, differs=STREAM),
    draws("multinomial", multinomial, call(a(3)), call(a()), differs=STREAM),
    draws(
        "dirichlet",
        lambda r, k, t, x: r.dirichlet(k, x, None, t),
        *POSITIVE,
        differs=STREAM,
    ),
    draws(
        "multivariate_normal",
        lambda r, k, t, x: r.multivariate_normal(k, x[0], x, None, t),
        call(a(3, 3, values="definite")),
        ulps=4096,
    ),
    draws(
        "wishart", wishart, call(a(3, 3, values="definite")), differs=STREAM, ulps=4096
    ),
    draws("key", seeded, call(a(2))),
    draws("PRNGKey", lambda r, k, t, x: r.PRNGKey(12), call(a(2))),
]
