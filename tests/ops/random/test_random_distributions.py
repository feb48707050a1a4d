"""NumPy's draws at fixed keys have the distributions that they should.

JAX's draws are those of `jax.random` (see `test_random`), so one of each kind is
enough.
"""

import numpy as np
import pytest
from scipy import stats

import graphc
import graphc.tensor as gt

R = gt.random
KEY = np.array([31415926, 53589793], "uint32")
N = 20_000
LEAST = 1e-3  # p-value; with 50 tests at one fixed key, none is expected below

CONTINUOUS = {
    "uniform": (
        lambda k: R.uniform(k, N, minval=-1.0, maxval=3.0),
        stats.uniform(-1, 4),
    ),
    "normal": (lambda k: R.normal(k, N), stats.norm()),
    "normal in float64": (lambda k: R.normal(k, N, "float64"), stats.norm()),
    "half_normal": (lambda k: R.half_normal(k, N), stats.halfnorm()),
    "truncated_normal": (
        lambda k: R.truncated_normal(k, -1.0, 2.5, N),
        stats.truncnorm(-1, 2.5),
    ),
    "lognormal": (lambda k: R.lognormal(k, 0.7, N), stats.lognorm(0.7)),
    "exponential": (lambda k: R.exponential(k, N), stats.expon()),
    "pareto": (lambda k: R.pareto(k, 2.5, N), stats.pareto(2.5)),
    "weibull": (lambda k: R.weibull(k, 2.0, 1.5, N), stats.weibull_min(1.5, scale=2)),
    "rayleigh": (lambda k: R.rayleigh(k, 2.0, N), stats.rayleigh(scale=2)),
    "maxwell": (lambda k: R.maxwell(k, N), stats.maxwell()),
    "laplace": (lambda k: R.laplace(k, N), stats.laplace()),
    "cauchy": (lambda k: R.cauchy(k, N), stats.cauchy()),
    "logistic": (lambda k: R.logistic(k, N), stats.logistic()),
    "gumbel": (lambda k: R.gumbel(k, N), stats.gumbel_r()),
    "triangular": (
        lambda k: R.triangular(k, 1.0, 2.0, 5.0, N),
        stats.triang(0.25, loc=1, scale=4),
    ),
    "wald": (lambda k: R.wald(k, 1.5, N), stats.invgauss(1.5)),
    "gamma": (lambda k: R.gamma(k, 2.5, N), stats.gamma(2.5)),
    "gamma below 1": (lambda k: R.gamma(k, 0.2, N), stats.gamma(0.2)),
    "loggamma": (lambda k: R.loggamma(k, 0.5, N, "float64"), stats.loggamma(0.5)),
    "beta": (lambda k: R.beta(k, 0.5, 2.0, N), stats.beta(0.5, 2)),
    "chisquare": (lambda k: R.chisquare(k, 3.0, N), stats.chi2(3)),
    "t": (lambda k: R.t(k, 4.0, N), stats.t(4)),
    "f": (lambda k: R.f(k, 4.0, 7.0, N), stats.f(4, 7)),
    "generalized_normal": (
        lambda k: R.generalized_normal(k, 1.5, N),
        stats.gennorm(1.5),
    ),
    "a share of dirichlet": (
        lambda k: R.dirichlet(k, np.array([1.0, 2.0, 3.0]), N)[:, 1],
        stats.beta(2, 4),
    ),
    "a wishart matrix of one element": (
        lambda k: R.wishart(k, 5.0, np.eye(1), N)[:, 0, 0],
        stats.chi2(5),
    ),
    "the radius in a ball": (
        lambda k: gt.sum(R.ball(k, 3, 2, N) ** 2, axis=-1) ** 1.5,
        stats.uniform(),
    ),
}
DISCRETE = {
    "bernoulli": (lambda k: R.bernoulli(k, 0.3, N), stats.bernoulli(0.3)),
    "rademacher": (lambda k: (R.rademacher(k, N) + 1) // 2, stats.bernoulli(0.5)),
    "randint": (lambda k: R.randint(k, N, -3, 9), stats.randint(-3, 9)),
    "poisson": (lambda k: R.poisson(k, 3.5, N), stats.poisson(3.5)),
    "poisson above 10": (lambda k: R.poisson(k, 40.0, N), stats.poisson(40)),
    "geometric": (lambda k: R.geometric(k, 0.3, N), stats.geom(0.3)),
    "binomial": (lambda k: R.binomial(k, 12.0, 0.3, N), stats.binom(12, 0.3)),
    "negative_binomial": (
        lambda k: R.negative_binomial(k, 3.0, 0.4, N),
        stats.nbinom(3, 0.4),
    ),
    "a count of multinomial": (
        lambda k: R.multinomial(k, 12, np.array([0.2, 0.3, 0.5]), N)[:, 1],
        stats.binom(12, 0.3),
    ),
    "categorical": (
        lambda k: R.categorical(k, np.log(np.full(4, 0.25)), shape=N),
        stats.randint(0, 4),
    ),
    "choice": (lambda k: R.choice(k, 6, N), stats.randint(0, 6)),
    "choice with probabilities": (
        lambda k: R.choice(k, 3, N, p=np.array([0.36, 0.48, 0.16])),
        stats.binom(2, 0.4),
    ),
}


def drawn(build, backend="numpy"):
    key = gt.tensor("key", "uint32", (2,))
    return np.asarray(graphc.function([key], build(key), backend=backend)(KEY))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_draws_follow_their_distribution(name):
    build, distribution = CONTINUOUS[name]
    found = drawn(build)
    assert found.shape == (N,)
    assert stats.kstest(found.astype("float64"), distribution.cdf).pvalue > LEAST


def test_the_test_tells_distributions_apart():
    found = drawn(lambda k: R.gamma(k, 2.5, N))
    assert stats.kstest(found, stats.gamma(2.55).cdf).pvalue < LEAST


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_draws_follow_their_distribution(name):
    build, distribution = DISCRETE[name]
    assert goodness(drawn(build).astype("int64"), distribution) > LEAST


def goodness(found, distribution):
    """The p-value of a chi-square test that counts rare numbers together."""
    numbers = np.arange(found.min(), found.max() + 1)
    expected = N * distribution.pmf(numbers)
    counts = np.bincount(found - found.min(), minlength=numbers.size)
    often = expected >= 10
    counts = np.append(counts[often], counts[~often].sum())
    expected = np.append(expected[often], N - expected[often].sum())
    if expected[-1] < 1:
        counts, expected = counts[:-1], expected[:-1] * counts[:-1].sum() / (
            expected[:-1].sum()
        )
    return stats.chisquare(counts, expected).pvalue


def test_categories_with_unequal_weights():
    share = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])
    found = drawn(lambda k: R.categorical(k, np.log(share), shape=(N, 2)))
    for column, weights in zip(found.T, share, strict=True):
        counts = np.bincount(column, minlength=3)
        assert stats.chisquare(counts, N * weights).pvalue > LEAST


def test_draws_without_replacement():
    weights = np.array([0.5, 0.2, 0.2, 0.1])
    draw = lambda key: R.choice(key, 4, (2,), False, weights)
    found = drawn(lambda k: graphc.vmap(draw)(R.split(k, 400)))
    assert np.all(found[:, 0] != found[:, 1])
    counts = np.bincount(found[:, 0], minlength=4)
    assert stats.chisquare(counts, 400 * weights).pvalue > LEAST


def test_every_order_is_as_likely():
    draw = lambda key: R.permutation(key, 3)
    found = drawn(lambda k: graphc.vmap(draw)(R.split(k, 600)))
    assert np.all(np.sort(found, axis=1) == [0, 1, 2])
    counts = np.bincount(found @ [9, 3, 1], minlength=0)
    assert stats.chisquare(counts[counts > 0]).pvalue > LEAST
    assert np.count_nonzero(counts) == 6


def test_rows_move_together_unless_independent():
    x = np.arange(20).reshape(10, 2)
    rows = drawn(lambda k: R.permutation(k, x))
    assert sorted(rows.tolist()) == x.tolist() != rows.tolist()
    each = drawn(lambda k: R.permutation(k, x, independent=True))
    assert np.all(np.sort(each, axis=0) == x)
    assert sorted(each.tolist()) != x.tolist()


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_normal_vectors_have_the_covariance(method):
    mean, cov = np.array([1.0, -2.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    found = drawn(lambda k: R.multivariate_normal(k, mean, cov, N, method=method))
    np.testing.assert_allclose(found.mean(0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(found.T), cov, atol=0.06)
    assert stats.kstest(found[:, 0], stats.norm(1, 2**0.5).cdf).pvalue > LEAST


UNEVEN = np.array([[2.0, 0.9], [0.1, 1.0]])


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("method", ["cholesky", "eigh"])
def test_of_an_uneven_covariance_both_halves_count(method, backend):
    def draw(cov):
        f = lambda k: R.multivariate_normal(k, np.zeros(2), cov, 5, method=method)
        return drawn(f, backend)

    np.testing.assert_array_equal(draw(UNEVEN), draw((UNEVEN + UNEVEN.T) / 2))


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_the_gradient_in_an_uneven_covariance_is_as_differences_say(backend):
    cov = gt.tensor("cov", "float64", (2, 2))
    cost = gt.sum(R.multivariate_normal(KEY, np.zeros(2), cov, 5) ** 2)
    f = graphc.function([cov], [cost, graphc.grad(cost, cov)], backend=backend)
    at = lambda step: [np.asarray(y) for y in f(UNEVEN + step)]
    steps = 1e-6 * np.eye(4).reshape(4, 2, 2)
    found = [(at(h)[0] - at(-h)[0]) / 2e-6 for h in steps]
    np.testing.assert_allclose(at(0)[1].ravel(), found, rtol=1e-7)


def test_a_covariance_that_is_not_definite_raises_on_numpy():
    with pytest.raises(graphc.CallError, match="not positive definite"):
        drawn(lambda k: R.multivariate_normal(k, np.zeros(2), -np.eye(2)))


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_wishart_matrices_have_their_mean(backend):
    scale = np.array([[2.0, 0.5], [0.5, 1.0]])
    found = drawn(lambda k: R.wishart(k, 5.0, scale, N), backend)
    assert found.shape == (N, 2, 2)
    np.testing.assert_array_equal(found[:, 0, 1], found[:, 1, 0])
    np.testing.assert_allclose(found.mean(0), 5 * scale, rtol=0.03)
    spread = 5 * (scale[0, 1] ** 2 + scale[0, 0] * scale[1, 1])
    np.testing.assert_allclose(found[:, 0, 1].var(), spread, rtol=0.06)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_negative_binomials_on_both_backends(backend):
    found = drawn(lambda k: R.negative_binomial(k, 3.0, 0.4, N), backend)
    assert goodness(found.astype("int64"), stats.nbinom(3, 0.4)) > LEAST


def test_shares_of_dirichlet_sum_to_one_also_where_they_are_tiny():
    found = drawn(lambda k: R.dirichlet(k, np.array([1e-3, 1e-3, 2.0]), 500))
    np.testing.assert_allclose(found.sum(-1), 1)
    assert np.isfinite(found).all()


def test_counts_sum_to_the_number_of_trials():
    found = drawn(lambda k: R.multinomial(k, np.array([3, 50]), np.ones((2, 4))))
    assert found.sum(-1).tolist() == [3, 50]


def test_complex_normals_have_variance_one():
    found = drawn(lambda k: R.normal(k, N, "complex64"))
    assert found.dtype == "complex64"
    for part in (found.real, found.imag):
        assert stats.kstest(part, stats.norm(0, 0.5**0.5).cdf).pvalue > LEAST
