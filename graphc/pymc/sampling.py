"""Draws from the posterior of a model, by the sampler that is installed."""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

import graphc.pytensor  # noqa: F401  (registers the mode)
from graphc.errors import GraphError, graph_error, shortened, user_level
from graphc.ir.integers import integer_or_none
from graphc.pymc.on_jax import jax_density
from graphc.pymc.on_nutpie import jittered_point, nutpie
from graphc.pymc.posterior import labels
from graphc.pymc.values import discrete_names, require_model

if TYPE_CHECKING:
    from pymc import Model

BLOCK = 100  # draws in one call of a program
TRIES = 20


@dataclass(frozen=True)
class SamplingSettings:
    """How much to draw, and how; `options` are those of the sampler."""

    draws: int
    tune: int
    chains: int
    cores: int
    seed: int
    progressbar: bool
    options: dict[str, Any]


Sampler = Callable[[Any, SamplingSettings], Any]

_RATES = {"target_accept", "target_accept_prob", "target_acceptance_rate"}


def sample(
    model: "Model | None" = None,
    draws: int = 1000,
    tune: int = 1000,
    *,
    chains: int = 4,
    cores: int | None = None,
    random_seed: int | None = None,
    progressbar: bool = True,
    sampler: str | None = None,
    **options: object,
) -> Any:
    """Draws from the posterior of a PyMC model, as an `InferenceData` of ArviZ.

    `sampler` is "nutpie", "numpyro", "blackjax" or "pymc"; by default the first of
    these that is installed. PyMC's own `pm.sample` draws from models with discrete
    variables and, with a warning, from those that graphc cannot compile as a whole.
    `options` go to the sampler: to `nutpie.sample`, `numpyro.infer.NUTS`,
    `blackjax.window_adaptation` or `pm.sample`. `model` is by default the one of the
    context. Raises GraphError for options that do not fit.
    """
    _check_rates(options)
    model = import_module("pymc").modelcontext(model)
    require_model(model, "sample")
    name = _sampler_name(model, sampler)
    seed = int(np.random.SeedSequence(random_seed).generate_state(1)[0] >> 1)
    counts = (
        _require_count("draws", draws),
        _require_count("tune", tune, 0),
        _require_count("chains", chains),
    )
    most = os.cpu_count() or 1 if cores is None else _require_count("cores", cores)
    cores = min(counts[-1], most)
    how = SamplingSettings(*counts, cores, seed, progressbar, options)
    if name == "pymc":
        return _sample_by_pymc(model, how)
    try:
        inference = SAMPLERS[name](model, how)
    except GraphError as error:
        if sampler is not None:
            raise
        reason = str(error).splitlines()[0]
        message = f"graphc.pymc.sample: pm.sample draws instead, because of {reason}"
        warnings.warn(message, stacklevel=user_level())
        return _sample_by_pymc(model, how)
    except (AttributeError, TypeError) as error:
        raise _unknown_option(error, name, options) from error
    return _with_data(inference, model)


def _check_rates(options: Mapping[str, object]) -> None:
    """Raise GraphError for a rate of acceptance that no sampler can reach."""
    for name in _RATES & options.keys():
        rate = options[name]
        if not isinstance(rate, (int, float, np.number)) or not 0 < rate < 1:
            problem = f"{name} must lie between 0 and 1: it is a share of all steps"
            raise graph_error(problem, op="sample", got=shortened(repr(rate)))


def _unknown_option(
    error: Exception, sampler: str, options: Mapping[str, object]
) -> Exception:
    """The error for an option that the sampler does not have, or `error` itself."""
    unknown = [name for name in options if f"'{name}'" in str(error)]
    if not unknown:
        return error
    return graph_error(
        f"the sampler {sampler} has no option {unknown[0]!r}",
        op="sample",
        got=shortened(repr(options[unknown[0]])),
        hint="the sampler pymc takes the options of pymc.sample",
    )


def _sampler_name(model: "Model", sampler: str | None) -> str:
    """The name of the sampler. Raises GraphError if it is unknown or not installed."""
    known = [*SAMPLERS, "pymc"]
    if sampler is None:
        if discrete_names(model):
            return "pymc"
        return next(name for name in known if find_spec(name))
    if sampler not in known:
        expected = f"one of {', '.join(map(repr, known))}"
        problem = f"sampler cannot be {shortened(repr(sampler))}"
        raise graph_error(problem, op="sample", expected=expected)
    if find_spec(sampler) is None:
        hint = f"pip install {sampler}"
        raise graph_error(f"{sampler} is not installed", op="sample", hint=hint)
    return sampler


def _require_count(name: str, count: object, least: int = 1) -> int:
    """Convert `count` to an int. Raises GraphError, which names it, if it is none."""
    number = integer_or_none(count)
    if number is None or number < least:
        problem = f"{name} must be an integer of at least {least}"
        raise graph_error(problem, op="sample", got=repr(count))
    return number


def _sample_by_pymc(model: "Model", how: SamplingSettings) -> object:
    """Draw by `pm.sample`, which computes in PyTensor's mode "GRAPHC"."""
    options = {"compile_kwargs": {"mode": "GRAPHC"}, **how.options}
    with model:
        return import_module("pymc").sample(
            how.draws,
            tune=how.tune,
            chains=how.chains,
            cores=how.cores,
            random_seed=how.seed,
            progressbar=how.progressbar,
            **options,
        )


def _sample_by_nutpie(model: "Model", how: SamplingSettings) -> object:
    options = {"save_warmup": False, **how.options}  # as PyMC, which discards these
    return import_module("nutpie").sample(
        nutpie(model),
        draws=how.draws,
        tune=how.tune,
        chains=how.chains,
        cores=how.cores,
        seed=how.seed,
        progress_bar=how.progressbar,
        **options,
    )


def _sample_by_numpyro(model: "Model", how: SamplingSettings) -> Any:
    jax, infer = import_module("jax"), import_module("numpyro.infer")
    with jax.enable_x64(True):
        density = jax_density(model)
        kernel = infer.NUTS(potential_fn=lambda z: -density(z), **how.options)
        run = infer.MCMC(
            kernel,
            num_warmup=how.tune,
            num_samples=how.draws,
            num_chains=how.chains,
            chain_method="sequential",
            progress_bar=how.progressbar,
        )
        starts = _start_points(density, how)
        first = starts if how.chains > 1 else starts[0]
        fields = ("diverging", "accept_prob", "num_steps")
        run.run(jax.random.key(how.seed), init_params=first, extra_fields=fields)
        drawn = run.get_samples(group_by_chain=True)
        stats = run.get_extra_fields(group_by_chain=True)
    names = {"accept_prob": "acceptance_rate", "num_steps": "n_steps"}
    stats = {names.get(n, n): np.asarray(v) for n, v in stats.items()}
    return _as_inference_data(model, density.variables(drawn), stats)


def _sample_by_blackjax(model: "Model", how: SamplingSettings) -> Any:
    """Draw the chains one after the other, with one program for all of them."""
    jax, blackjax = import_module("jax"), import_module("blackjax")
    with jax.enable_x64(True):
        density = jax_density(model)
        warm = blackjax.window_adaptation(blackjax.nuts, density, **how.options)
        started = jax.jit(lambda key, at: warm.run(key, at, how.tune)[0])

        def step(kernel: Any, state: Any, key: object) -> Any:
            state, about = kernel(key, state)
            rate, steps = about.acceptance_rate, about.num_integration_steps
            return state, (state.position, about.is_divergent, rate, steps)

        def scanned(state: object, parameters: Any, keys: object) -> Any:
            kernel = blackjax.nuts(density, **parameters).step
            return jax.lax.scan(lambda s, k: step(kernel, s, k), state, keys)

        block = jax.jit(scanned)

        def chain(key: object, at: object) -> list[object]:
            first, later = jax.random.split(key)
            state, parameters = started(first, at)
            blocks, keys = [], jax.random.split(later, how.draws)
            for start in range(0, how.draws, BLOCK):
                some = keys[start : start + BLOCK]
                state, block_stats = block(state, parameters, some)
                blocks.append(block_stats)
            return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]

        keys = jax.random.split(jax.random.key(how.seed), how.chains)
        starts = _start_points(density, how)
        track = import_module("rich.progress").track
        places = track(range(how.chains), "Chains", disable=not how.progressbar)
        chains = [chain(keys[i], starts[i]) for i in places]
    drawn, *stacked_stats = [np.stack(parts) for parts in zip(*chains, strict=True)]
    stats = dict(
        zip(("diverging", "acceptance_rate", "n_steps"), stacked_stats, strict=True)
    )
    return _as_inference_data(model, density.variables(drawn), stats)


SAMPLERS: dict[str, Sampler] = {
    "nutpie": _sample_by_nutpie,
    "numpyro": _sample_by_numpyro,
    "blackjax": _sample_by_blackjax,
}


def _start_points(density: Any, how: SamplingSettings) -> Any:
    """A point of finite density for each chain, around the one where PyMC starts."""
    starts: list[Any] = []
    for i in range(how.chains * TRIES):
        at = jittered_point(density.initial, how.seed + i)
        if np.isfinite(density(at)):
            starts.append(at)
        if len(starts) == how.chains:
            return np.stack(starts)
    problem = "the density is not finite around the initial point"
    hint = "model.debug() tells which variable; initval=... gives another start"
    raise graph_error(problem, op="sample", hint=hint)


def _as_inference_data(
    model: "Model", posterior: Mapping[str, object], stats: Mapping[str, object]
) -> object:
    coords, dims = labels(model)
    from_dict = import_module("arviz").from_dict
    return from_dict(posterior=posterior, sample_stats=stats, coords=coords, dims=dims)


def _with_data(inference: Any, model: "Model") -> object:
    """Add the data of the model to the draws, as PyMC does."""
    backend = import_module("pymc.backends.arviz")
    coords, dims = labels(model)
    groups = {
        "observed_data": backend.find_observations(model),
        "constant_data": backend.find_constants(model),
    }
    filled_groups = {name: group for name, group in groups.items() if group}
    if filled_groups:
        data = import_module("arviz").from_dict(
            **filled_groups, coords=coords, dims=dims
        )
        inference.extend(data)
    return inference
