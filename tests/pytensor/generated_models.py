"""PyMC models drawn by a seed, with resized data: ours compared with PyTensor's own.

    python -m tests.pytensor.generated_models [FIRST LAST [BACKEND [SIZES]]]

prints for each model how far value, gradient and predictive draws differ at each size
of its data, and the number of compilations. Given a number of sizes, it tries only so
many, and leaves out the draws.
"""

import sys

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr

import graphc.pymc
import graphc.pytensor
from graphc.runtime.driver.xla import EVENTS
from tests.pytensor.pymc_models import reference

SIZES = [(3, 12), (4, 9), (2, 15), (5, 15), (4, 21)]  # groups, observations
PLAIN = pytensor.Mode("py", "fast_run")


def data_of(seed, groups, rows):
    """Data of these sizes for a model; no group is empty."""
    rng = np.random.default_rng([seed, groups, rows])
    place = rng.permutation(np.arange(rows) % groups)
    return {
        "x": rng.normal(size=(rows, 2)),
        "time": np.sort(rng.uniform(0.0, 3.0, rows)),
        "place": place,
        "y": rng.normal(size=rows),
        "hits": rng.integers(0, 2, rows),
        "counts": rng.poisson(3.0, rows),
        "levels": rng.integers(0, 3, rows),
    }


def coords_of(groups, rows):
    return {"group": [f"g{i}" for i in range(groups)], "row": np.arange(rows)}


# --- effects of groups ----------------------------------------------------------------


def centred(rng):
    spread = pm.HalfNormal("spread", 1.0)
    return pm.Normal("own", pm.Normal("centre"), spread, dims="group")


def not_centred(rng):
    raw = pm.Normal("raw", dims="group")
    spread = pm.Exponential("spread", 2.0)
    return pm.Deterministic("own", pm.Normal("centre") + spread * raw, dims="group")


def heavy(rng):
    return pm.StudentT("own", nu=4.0, sigma=pm.HalfCauchy("spread", 1.0), dims="group")


def bounded(rng):
    return pm.Uniform("own", -2.0, pm.LogNormal("top", 0.0, 0.3), dims="group")


def shares(rng):
    size = pm.modelcontext(None).dim_lengths["group"]
    return pt.log(pm.Dirichlet("share", pt.ones(size), dims="group"))


def zero_sum(rng):
    return pm.ZeroSumNormal("own", sigma=pm.HalfNormal("spread"), dims="group")


def two_levels(rng):
    above = pm.Normal("above", 0.0, 1.0, dims="group")
    below = pm.Normal("below", above[:, None], 0.5, dims=("group", "kind"))
    return below.sum(axis=1)


def walk(rng):
    steps = pm.Normal("steps", 0.0, pm.HalfNormal("pace"), dims="group")
    return pm.Deterministic("own", pt.cumsum(steps), dims="group")


EFFECTS = [centred, not_centred, heavy, bounded, shares, zero_sum, two_levels, walk]


# --- observations ---------------------------------------------------------------------


def normal(fit, d):
    pm.Normal("seen", fit, pm.HalfNormal("noise"), observed=d["y"], dims="row")


def student(fit, d):
    pm.StudentT("seen", nu=pm.Gamma("nu", 2, 0.5), mu=fit, observed=d["y"], dims="row")


def bernoulli(fit, d):
    pm.Bernoulli("seen", logit_p=fit, observed=d["hits"], dims="row")


def poisson(fit, d):
    pm.Poisson("seen", pt.exp(fit / 2), observed=d["counts"], dims="row")


def negative_binomial(fit, d):
    alpha = pm.Gamma("alpha", 2, 1)
    rate = pt.exp(pt.clip(fit, -3, 3))
    pm.NegativeBinomial("seen", mu=rate, alpha=alpha, observed=d["counts"], dims="row")


def ordinal(fit, d):
    order = pm.distributions.transforms.ordered
    cuts = pm.Normal("cuts", 0, 2, shape=2, transform=order, initval=[-1.0, 1.0])
    options = {"eta": fit, "cutpoints": cuts, "compute_p": False}
    pm.OrderedLogistic("seen", observed=d["levels"], dims="row", **options)


def categorical(fit, d):
    logits = pt.stack([fit, -fit, pt.zeros_like(fit)], axis=1)
    p = pm.math.softmax(logits, axis=1)
    pm.Categorical("seen", p=p, observed=d["levels"], dims="row")


def censored(fit, d):
    part = pm.Normal.dist(fit, pm.HalfNormal("noise"))
    y = pt.clip(d["y"], -0.5, 0.8)
    pm.Potential("seen", pm.logp(pm.Censored.dist(part, -0.5, 0.8), y))


def truncated(fit, d):
    part = pm.Normal.dist(fit, pm.HalfNormal("noise") + 0.1)
    pm.Potential("seen", pm.logp(pm.Truncated.dist(part, lower=-9.0), d["y"]).sum())


def mixture(fit, d):
    parts = pt.stack([fit, fit + pm.HalfNormal("apart", 2.0)], axis=1)
    share = pm.Dirichlet("mixed", np.ones(2))
    pm.NormalMixture("seen", share, parts, 0.7, observed=d["y"], dims="row")


def inflated(fit, d):
    psi = pm.Beta("psi", 2, 2)
    rate = pt.exp(fit / 2)
    pm.ZeroInflatedPoisson("seen", psi, rate, observed=d["counts"], dims="row")


def autoregressive(fit, d):
    slope = pm.Uniform("slope", -1, 1)
    left = d["y"] - fit
    pm.Potential("seen", pm.logp(pm.Normal.dist(slope * left[:-1], 1.0), left[1:]))


def process(fit, d):
    kernel = pm.gp.cov.Matern52(1, ls=pm.Gamma("length", 2, 1))
    covariance = kernel(d["time"][:, None]) + 0.3 * pt.eye(d["time"].shape[0])
    pm.MvNormal("seen", fit, cov=covariance, observed=d["y"], dims="row")


def latent_process(fit, d):
    apart = (d["time"][:, None] - d["time"][None]) / pm.Gamma("length", 3, 1)
    chol = pt.linalg.cholesky(pt.exp(-(apart**2)) + 0.1 * pt.eye(apart.shape[0]))
    f = chol @ pm.Normal("f", dims="row")
    pm.Bernoulli("seen", logit_p=fit + f, observed=d["hits"], dims="row")


def survival(fit, d):
    shape, times = pm.Gamma("shape", 2, 1), pt.abs(d["y"]) + 0.1
    scaled = times / pt.exp(fit / 2)
    seen = d["hits"] * (pt.log(shape / times) + shape * pt.log(scaled))
    pm.Potential("seen", seen - scaled**shape)


SEEN = [
    normal,
    student,
    bernoulli,
    poisson,
    negative_binomial,
    ordinal,
    categorical,
    censored,
    truncated,
    mixture,
    inflated,
    autoregressive,
    process,
    latent_process,
    survival,
]


def generated(seed):
    """The model of a seed at the first of `SIZES`; the seed chooses its parts."""
    rng = np.random.default_rng(seed)
    effect, seen = EFFECTS[seed % len(EFFECTS)], SEEN[seed % len(SEEN)]
    coords = {**coords_of(*SIZES[0]), "kind": ["a", "b", "c"], "feature": ["p", "q"]}
    with pm.Model(coords=coords) as model:
        dims = {"x": ("row", "feature")}
        first = data_of(seed, *SIZES[0])
        d = {n: pm.Data(n, v, dims=dims.get(n, "row")) for n, v in first.items()}
        fit = effect(rng)[d["place"]]
        if rng.random() < 0.6:
            fit = fit + d["x"] @ pm.Normal("slopes", 0.0, 1.0, shape=2)
        if rng.random() < 0.3:
            fit = fit + pm.Laplace("bend", 0.0, 1.0) * pt.sin(d["time"])
        if rng.random() < 0.4:
            pm.Potential("prior", -0.1 * (fit**2).mean())
        if rng.random() < 0.5:
            pm.Deterministic("fit", fit, dims="row")
        seen(fit, d)
    return model


def resized(model, seed, groups, rows):
    """Give a model data of another size."""
    names = coords_of(groups, rows)
    model.set_dim("group", groups, names.pop("group"))
    with model:
        pm.set_data(data_of(seed, groups, rows), coords=names)


def far(ours, theirs):
    """The largest relative difference; shapes and dtypes must be equal."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), (a.dtype, a.shape, b.shape)
        assert np.array_equal(np.isfinite(a), np.isfinite(b))
        keep = np.isfinite(b)
        size = np.maximum(np.abs(b[keep]), np.max(np.abs(b[keep]), initial=1e-9) * 1e-3)
        worst = max(worst, np.max(np.abs(a - b)[keep] / size, initial=0.0))
    return float(worst)


def predicted(model, at, names, mode):
    """Posterior predictive draws from the single draw `at`, computed in a mode."""
    point = {n: v[None, None] for n, v in at.items()}
    axes = {n: [f"{n}_{i}" for i in range(v.ndim - 2)] for n, v in point.items()}
    trace = xr.Dataset({n: (("chain", "draw", *axes[n]), v) for n, v in point.items()})
    with model:
        found = pm.sample_posterior_predictive(
            trace,
            var_names=names,
            predictions=True,
            progressbar=False,
            random_seed=5,
            compile_kwargs={"mode": mode},
        )
    return [found.predictions[n].values for n in names]


def apart(seed, sizes=SIZES, draws=True, **options):
    """The differences at each size, and the number of compilations of the density."""
    model = generated(seed)
    f, found, compiled = None, [], 0
    numpy = graphc.pytensor.mode(backend="numpy")
    for groups, rows in sizes:
        resized(model, seed, groups, rows)
        f = f or graphc.pymc.logp_and_grad(model, **options)
        at = f.initial + 0.2 * np.sin(np.arange(len(f.initial)))
        before = EVENTS.count
        ours = f(at)
        compiled += EVENTS.count - before
        far_apart = far(ours, reference(model)(at))
        names = [v.name for v in model.observed_RVs]
        if names and draws:
            free = graphc.pymc.posterior.Expansion(model).of(at)
            free = {v.name: free[v.name] for v in model.free_RVs}
            drawn = [predicted(model, free, names, m) for m in (numpy, PLAIN)]
            far_apart = max(far_apart, far(*drawn))
        found.append(far_apart)
    return found, compiled


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:3] or (0, 30))
    told = {"backend": sys.argv[3]} if len(sys.argv) > 3 else {}
    if len(sys.argv) > 4:
        told |= {"sizes": SIZES[: int(sys.argv[4])], "draws": False}
    for seed in range(first, last):
        parts = EFFECTS[seed % len(EFFECTS)].__name__, SEEN[seed % len(SEEN)].__name__
        try:
            found, compiled = apart(seed, **told)
        except Exception as error:
            print(seed, *parts, "FAILED", type(error).__name__, str(error)[:600])
            continue
        print(seed, *parts, *[f"{v:.0e}" for v in found], compiled, flush=True)
