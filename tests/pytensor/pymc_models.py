"""PyMC models of many kinds: log density and gradient by graphc and by PyTensor.

    python -m tests.pytensor.pymc_models [NAME ...]

prints how far the two are apart, at several points of each model.
"""

import sys

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

import graphc.pymc

RNG = np.random.default_rng(20)
N = 30
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -0.5, 0.25] + 0.3 * RNG.normal(size=N)
GROUP = RNG.integers(0, 5, N)
COUNTS = RNG.poisson(3.0, N)
HITS = (Y > 0).astype(int)
LEVELS = np.digitize(Y, [-0.5, 0.5])
TIME = np.linspace(0.0, 3.0, N)
SERIES = np.cumsum(RNG.normal(size=N)) * 0.3
MODELS = {}


def model(build):
    """Register a model; `build` runs within `with pm.Model()`."""
    MODELS[build.__name__] = build
    return build


def made(name):
    """Build a PyMC model by its name."""
    with pm.Model() as found:
        MODELS[name]()
    return found


@model
def regression():
    slopes, noise = pm.Normal("slopes", 0, 2, shape=3), pm.HalfNormal("noise", 1)
    pm.Normal("y", pt.dot(X, slopes), noise, observed=Y)


@model
def missing_values():
    holes = np.ma.masked_invalid(np.where(np.arange(N) % 7 == 3, np.nan, Y))
    noise = pm.HalfNormal("noise", 1)
    pm.Normal("y", pm.Normal("level", 0, 1), noise, observed=holes)


@model
def missing_predictors():
    holes = np.ma.masked_invalid(np.where(X > 1.2, np.nan, X))
    x = pm.Normal("x", pm.Normal("centre", 0, 1, shape=3), 1, observed=holes)
    pm.Normal("y", pt.dot(x, pm.Normal("slopes", 0, 2, shape=3)), 0.5, observed=Y)


@model
def eight_schools():
    y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    scale = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    centre, spread = pm.Normal("centre", 0, 5), pm.HalfCauchy("spread", 5)
    effect = pm.Normal("effect", 0, 1, shape=8)
    pm.Normal("y", centre + spread * effect, scale, observed=y)


@model
def varying_slopes():
    centre, spread = pm.Normal("centre", 0, 1, shape=2), pm.Exponential("spread", 1)
    own = pm.Normal("own", centre, spread, shape=(5, 2))
    noise = pm.Exponential("noise", 1)
    fit = own[GROUP, 0] + own[GROUP, 1] * X[:, 0]
    pm.Normal("y", fit, noise, observed=Y)


@model
def correlated_effects():
    chol, _, _ = pm.LKJCholeskyCov(
        "chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=2)
    )
    own = pm.MvNormal("own", np.zeros(2), chol=chol, shape=(5, 2))
    pm.Normal("y", own[GROUP, 0] + own[GROUP, 1] * X[:, 1], 0.5, observed=Y)


@model
def logistic():
    slopes = pm.Normal("slopes", 0, 2, shape=3)
    pm.Bernoulli("y", logit_p=pt.dot(X, slopes), observed=HITS)


@model
def categorical():
    slopes = pm.Normal("slopes", 0, 2, shape=(3, 3))
    pm.Categorical("y", p=pm.math.softmax(pt.dot(X, slopes), axis=1), observed=LEVELS)


@model
def ordinal():
    order = pm.distributions.transforms.ordered
    cuts = pm.Normal("cuts", 0, 2, shape=2, transform=order, initval=[-1.0, 1.0])
    slope = pm.Normal("slope", 0, 1)
    pm.OrderedLogistic("y", eta=slope * X[:, 0], cutpoints=cuts, observed=LEVELS)


@model
def poisson_offset():
    slopes = pm.Normal("slopes", 0, 1, shape=3)
    pm.Poisson("y", pt.exp(pt.dot(X, slopes) + np.log(2.0)), observed=COUNTS)


@model
def negative_binomial():
    own = pm.Normal("own", pm.Normal("centre", 0, 1), 1, shape=5)
    alpha = pm.Gamma("alpha", 2, 1)
    pm.NegativeBinomial("y", mu=pt.exp(own[GROUP]), alpha=alpha, observed=COUNTS)


@model
def zero_inflated():
    rate, share = pm.Exponential("rate", 1), pm.Beta("share", 2, 2)
    pm.ZeroInflatedPoisson("y", psi=share, mu=rate, observed=COUNTS * (GROUP > 1))


@model
def hurdle():
    rate, share = pm.Exponential("rate", 1), pm.Beta("share", 2, 2)
    pm.HurdleGamma(
        "y", psi=share, alpha=rate + 1, beta=1.0, observed=np.maximum(Y, 0.0)
    )


@model
def beta_binomial():
    a, b = pm.Exponential("a", 1), pm.Exponential("b", 1)
    pm.BetaBinomial("y", n=20, alpha=a, beta=b, observed=COUNTS)


@model
def dirichlet_multinomial():
    share = pm.Dirichlet("share", np.ones(4))
    size = pm.Exponential("size", 0.1)
    table = RNG.multinomial(10, [0.1, 0.2, 0.3, 0.4], size=6)
    pm.DirichletMultinomial("y", n=10, a=share * size, observed=table)


@model
def mixture():
    order = pm.distributions.transforms.ordered
    share = pm.Dirichlet("share", np.ones(2))
    places = pm.Normal("places", 0, 2, shape=2, transform=order, initval=[-1.0, 1.0])
    width = pm.HalfNormal("width", 1, shape=2)
    pm.NormalMixture("y", w=share, mu=places, sigma=width, observed=Y)


@model
def stick_breaking():
    broken = pm.Beta("broken", 1, 1.5, shape=5)
    left = pt.concatenate([[1.0], pt.cumprod(1 - broken)])
    share = pt.concatenate([broken, [1.0]]) * left
    places = pm.Normal("places", 0, 2, shape=6)
    parts = pm.Normal.dist(places, 1.0, shape=6)
    pm.Mixture("y", w=share, comp_dists=parts, observed=Y)


@model
def robust():
    nu, noise = pm.Exponential("nu", 1 / 30), pm.HalfNormal("noise", 1)
    pm.StudentT("y", nu=nu + 1, mu=pm.Normal("level", 0, 1), sigma=noise, observed=Y)


@model
def censored():
    level, noise = pm.Normal("level", 0, 1), pm.HalfNormal("noise", 1)
    pm.Censored(
        "y",
        pm.Normal.dist(level, noise),
        lower=-0.5,
        upper=0.8,
        observed=np.clip(Y, -0.5, 0.8),
    )


@model
def truncated():
    level, noise = pm.Normal("level", 0, 1), pm.HalfNormal("noise", 1)
    part = Y[Y > -0.5]
    pm.Truncated("y", pm.Normal.dist(level, noise), lower=-0.5, observed=part)


@model
def survival():
    slopes, shape = pm.Normal("slopes", 0, 1, shape=3), pm.Gamma("shape", 2, 1)
    times, scale = np.abs(Y) + 0.1, pt.exp(pt.dot(X, slopes))
    hazard = (times / scale) ** shape
    seen = HITS * (pt.log(shape / times) + shape * pt.log(times / scale))
    pm.Potential("y", (seen - hazard).sum())


@model
def gaussian_process():
    length, scale = pm.Gamma("length", 2, 1), pm.HalfNormal("scale", 1)
    kernel = scale**2 * pm.gp.cov.Matern52(1, ls=length)
    process = pm.gp.Marginal(cov_func=kernel)
    process.marginal_likelihood(
        "y", X=TIME[:, None], y=SERIES, sigma=pm.HalfNormal("noise", 1)
    )


@model
def latent_process():
    kernel = pm.gp.cov.ExpQuad(1, ls=pm.Gamma("length", 2, 1))
    f = pm.gp.Latent(cov_func=kernel).prior("f", X=TIME[:, None], jitter=1e-3)
    pm.Bernoulli("y", logit_p=f, observed=HITS)


@model
def basis_process():
    kernel = pm.gp.cov.ExpQuad(1, ls=pm.Gamma("length", 2, 1))
    process = pm.gp.HSGP(m=[8], c=1.5, cov_func=kernel)
    f = process.prior("f", X=TIME[:, None])
    pm.Normal("y", f, 0.5, observed=SERIES)


@model
def autoregression():
    slopes, noise = pm.Normal("slopes", 0, 0.5, shape=3), pm.HalfNormal("noise", 1)
    pm.AR(
        "y",
        rho=slopes,
        sigma=noise,
        constant=True,
        init_dist=pm.Normal.dist(0, 1, shape=2),
        observed=SERIES,
    )


@model
def latent_autoregression():
    slope = pm.Uniform("slope", -1, 1)
    path = pm.AR(
        "path", rho=slope[None], sigma=0.3, init_dist=pm.Normal.dist(0, 1), steps=N - 1
    )
    pm.Poisson("y", pt.exp(path), observed=COUNTS)


@model
def garch():
    pm.GARCH11(
        "y",
        omega=pm.HalfNormal("omega", 1),
        alpha_1=pm.Beta("alpha", 2, 5),
        beta_1=pm.Beta("beta", 2, 5),
        initial_vol=0.5,
        observed=SERIES,
    )


@model
def stochastic_volatility():
    step, nu = pm.Exponential("step", 10), pm.Exponential("nu", 0.1)
    path = pm.GaussianRandomWalk(
        "path", sigma=step, init_dist=pm.Normal.dist(0, 1), steps=N - 1
    )
    pm.StudentT("y", nu=nu + 1, lam=pt.exp(-2 * path), observed=SERIES)


@model
def changepoint():
    rates, place = pm.Exponential("rates", 1, shape=2), pm.Uniform("place", 0, N)
    late = pm.math.sigmoid(np.arange(N) - place)
    pm.Poisson("y", rates[0] * (1 - late) + rates[1] * late, observed=COUNTS)


def scanned(step, first, rows, fixed):
    """The stacked outputs of a scan, in any version of PyTensor."""
    return pytensor.scan(
        step,
        sequences=rows,
        outputs_info=first,
        non_sequences=fixed,
        return_updates=False,
    )


@model
def hidden_markov():
    moves = pm.Dirichlet("moves", np.ones((3, 3)))
    places = pm.Normal("places", np.array([-1.0, 0.0, 1.0]), 0.5)
    emitted = pm.logp(pm.Normal.dist(places, 0.5), Y[:, None])
    ahead = scanned(
        lambda e, a, m: e + pt.logsumexp(a[:, None] + m, axis=0),
        [emitted[0] - np.log(3.0)],
        [emitted[1:]],
        [pt.log(moves)],
    )
    pm.Potential("y", pt.logsumexp(ahead[-1]))


@model
def kalman_filter():
    move, noise = pm.HalfNormal("move", 1), pm.HalfNormal("noise", 1)

    def step(y, mean, variance, move, noise):
        ahead = variance + move**2
        total = ahead + noise**2
        gain = ahead / total
        density = -0.5 * ((y - mean) ** 2 / total + pt.log(2 * np.pi * total))
        return mean + gain * (y - mean), (1 - gain) * ahead, density

    zero = pt.constant(0.0, dtype="float64")
    *_, density = scanned(
        step, [zero, zero + 1.0, None], [pt.constant(SERIES)], [move, noise]
    )
    pm.Potential("y", density.sum())


@model
def predators():
    rates = pm.LogNormal("rates", -0.5, 0.5, shape=4)
    first = pm.LogNormal("first", 0, 0.5, shape=2)

    def slope(z, r):
        eaten = z[0] * z[1]
        return pt.stack([r[0] * z[0] - r[1] * eaten, r[3] * eaten - r[2] * z[1]])

    def step(_, z, r):
        k1 = slope(z, r)
        k2 = slope(z + 0.05 * k1, r)
        k3 = slope(z + 0.05 * k2, r)
        return z + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + slope(z + 0.1 * k3, r))

    path = scanned(step, [first], [pt.constant(TIME)], [rates])
    pm.LogNormal("y", pt.log(path), 0.3, observed=np.exp(X[:, :2] * 0.3))


@model
def spatial():
    ring = np.roll(np.eye(8), 1, 0) + np.roll(np.eye(8), -1, 0)
    tau, alpha = pm.Gamma("tau", 2, 2), pm.Beta("alpha", 2, 2)
    field = pm.CAR("field", mu=np.zeros(8), W=ring, alpha=alpha, tau=tau)
    pm.Poisson("y", pt.exp(field), observed=COUNTS[:8])


@model
def spatial_intrinsic():
    ring = np.roll(np.eye(8), 1, 0) + np.roll(np.eye(8), -1, 0)
    field = pm.ICAR("field", W=ring)
    pm.Poisson("y", pt.exp(field), observed=COUNTS[:8])


@model
def updated_prior():
    knots = np.sinh(np.linspace(-2, 2, 40))
    level = pm.Interpolated("level", knots, np.exp(-(knots**2)))
    few = np.arange(4.0), np.array([0, 2.0, 1, 0])
    points = pm.Interpolated("points", *few, shape=3)
    pm.Normal("y", level + pt.sum(points), 1, observed=Y)


@model
def item_response():
    skill, hard = pm.Normal("skill", 0, 1, shape=6), pm.Normal("hard", 0, 1, shape=5)
    sharp = pm.LogNormal("sharp", 0, 0.5, shape=5)
    answers = HITS.reshape(6, 5)
    pm.Bernoulli("y", logit_p=sharp * (skill[:, None] - hard[None]), observed=answers)


@model
def factors():
    left, right = (
        pm.Normal("left", 0, 1, shape=(6, 2)),
        pm.Normal("right", shape=(5, 2)),
    )
    pm.Normal("y", left @ right.T, 0.5, observed=Y.reshape(6, 5))


@model
def horseshoe():
    tau, own = pm.HalfCauchy("tau", 0.5), pm.HalfCauchy("own", 1, shape=3)
    slopes = pm.Normal("slopes", 0, 1, shape=3)
    pm.Normal("y", pt.dot(X, slopes * tau * own), 0.5, observed=Y)


@model
def diffusion():
    pm.EulerMaruyama(
        "y",
        dt=0.1,
        sde_fn=lambda x, pull, noise: (-pull * x, noise),
        sde_pars=(pm.Exponential("pull", 1), pm.HalfNormal("noise", 1)),
        init_dist=pm.Normal.dist(0, 1),
        observed=SERIES,
    )


@model
def multivariate_t():
    nu, packed = pm.Exponential("nu", 0.1), pm.Normal("packed", 0, 0.3, shape=6)
    chol = pm.expand_packed_triangular(3, packed, lower=True) + 2 * np.eye(3)
    pm.MvStudentT("y", nu=nu + 2, mu=np.zeros(3), chol=chol, observed=X)


@model
def many_distributions():
    positive, unit = np.abs(Y) + 0.1, 1 / (1 + np.exp(-Y))
    a, b = pm.HalfNormal("a", 1), pm.HalfNormal("b", 1)
    for name, kind, given, args in [
        ("asymmetric", pm.AsymmetricLaplace, Y, {"kappa": a, "mu": b, "b": 1.0}),
        ("beta", pm.Beta, unit, {"alpha": a + 1, "beta": b + 1}),
        ("gaussian", pm.ExGaussian, Y, {"mu": a, "sigma": 1.0, "nu": b + 0.1}),
        ("gumbel", pm.Gumbel, Y, {"mu": a, "beta": b + 0.1}),
        ("inverse", pm.InverseGamma, positive, {"alpha": a + 1, "beta": b + 0.1}),
        ("kumaraswamy", pm.Kumaraswamy, unit, {"a": a + 1, "b": b + 1}),
        ("laplace", pm.Laplace, Y, {"mu": a, "b": b + 0.1}),
        ("logistic", pm.Logistic, Y, {"mu": a, "s": b + 0.1}),
        ("pareto", pm.Pareto, positive + 1, {"alpha": a + 1, "m": 0.5}),
        ("skew", pm.SkewNormal, Y, {"mu": a, "sigma": 1.0, "alpha": b}),
        ("triangular", pm.Triangular, unit, {"lower": 0.0, "upper": 1.0, "c": 0.5}),
        ("wald", pm.Wald, positive, {"mu": a + 0.1, "lam": b + 0.1}),
        ("weibull", pm.Weibull, positive, {"alpha": a + 1, "beta": b + 0.5}),
    ]:
        kind(name, observed=given, **args)


@model
def circular():
    centre, spread = pm.Normal("centre", 0, 1), pm.HalfNormal("spread", 2)
    pm.VonMises("y", mu=centre, kappa=spread + 0.5, observed=np.arctan(Y))


def reference(found):
    """PyTensor's own function of log density and gradient, run in Python."""
    join = pm.pytensorf.join_nonshared_inputs
    point = found.initial_point()
    given = {v.name: point[v.name] for v in found.value_vars}
    [density], joined = join(given, [found.logp()], found.value_vars)
    plain = pytensor.Mode("py", "fast_run")
    slope = pytensor.grad(density, joined)
    return pytensor.function([joined], [density, slope], mode=plain)


def apart(name, points=3):
    """The largest relative difference of value or gradient at several points."""
    found = made(name)
    ours, theirs = graphc.pymc.logp_and_grad(found), reference(found)
    rng, worst = np.random.default_rng(3), 0.0
    for i in range(points):
        at = ours.initial + (0.25 * i) * rng.normal(size=ours.initial.shape)
        for mine, own in zip(ours(at), theirs(at), strict=True):
            assert np.all(np.isfinite(own)) and np.all(np.isfinite(mine)), (name, i)
            assert (mine.dtype, mine.shape) == (own.dtype, own.shape)
            least = max(np.max(np.abs(own)) * 1e-3, np.finfo("float64").tiny)
            size = np.maximum(np.abs(own), least)
            worst = max(worst, float(np.max(np.abs(mine - own) / size, initial=0.0)))
    return worst


if __name__ == "__main__":
    for wanted in sys.argv[1:] or MODELS:
        print(f"{wanted:24} {apart(wanted):.1e}", flush=True)
