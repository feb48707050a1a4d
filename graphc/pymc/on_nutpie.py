"""A model for nutpie, through its hook for functions of Python."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.types import NDArray
from graphc.pymc.posterior import Expansion, labels
from graphc.pymc.shared_densities import density_of
from graphc.pymc.threads import hold_thread, release_thread
from graphc.pymc.values import discrete_names

if TYPE_CHECKING:
    from pymc import Model

JITTER = 1.0  # as PyMC and nutpie start: uniformly around the initial point
UNCONSTRAINED = "unconstrained_parameter"  # nutpie's name of the axis of the vector


def nutpie(model: "Model") -> Any:
    """A PyMC model for `nutpie.sample`; graphc computes its density and its variables.

    trace = nutpie.sample(graphc.pymc.nutpie(model), chains=4)

    Nothing is compiled by numba. The data are the current ones, or those given to the
    compiled model's `with_data`. After `pm.set_data`, call this function again; it
    compiles nothing for sizes that have varied before.
    """
    if find_spec("nutpie") is None:
        hint = "pip install nutpie"
        raise graph_error("nutpie is not installed", op="nutpie", hint=hint)
    _require_continuous(model)
    density, expansion = density_of(model), Expansion(model)
    first = density.initial
    expanded = expansion.of(first)
    coords, dims = labels(model)
    coords[UNCONSTRAINED] = np.array(_element_names(model), dtype=object)
    pandas = import_module("pandas")
    data = {v.name: v.get_value() for v in model.data_vars if hasattr(v, "get_value")}
    return import_module("nutpie.compiled_pyfunc").from_pyfunc(
        ndim=len(first),
        make_logp_fn=lambda: _bind_when_called(density.with_data),
        make_expand_fn=lambda *_: _expand_one(expansion),
        expanded_dtypes=[v.dtype for v in expanded.values()],
        expanded_shapes=[v.shape for v in expanded.values()],
        expanded_names=expansion.names,
        coords={name: pandas.Index(values) for name, values in coords.items()},
        dims={name: tuple(axes) for name, axes in dims.items()},
        shared_data=data,
        make_initial_point_fn=lambda seed: jittered_point(first, seed),
    )


def jittered_point(first: Any, seed: int) -> object:
    """Draw a point around `first`, from a seed."""
    rng = np.random.default_rng(seed)
    return np.asarray(first + rng.uniform(-JITTER, JITTER, len(first)), "float64")


def _bind_when_called(
    with_data: Callable[[dict[str, Any]], Any],
) -> Callable[..., object]:
    """Return the density for nutpie, bound to its data at the first call.

    nutpie passes the same data by name at each call. It calls from threads of its own:
    several times for a draw, and then once for the variables of the draw. In between,
    the thread is held.
    """
    bound: list[Any] = []

    def density(values: object, **data: object) -> Any:
        hold_thread()
        if not bound:
            bound.append(with_data(data))
        return bound[0](values)

    return density


def _expand_one(expansion: Expansion) -> Callable[..., object]:
    bound: list[Any] = []

    def variables(values: NDArray, **data: object) -> dict[str, NDArray]:
        release_thread()
        if not bound:
            bound.append(expansion.with_data(data))
        return expansion.of(values, bound[0])

    return variables


def _require_continuous(model: "Model") -> None:
    """Raise GraphError for a model with discrete variables, which have no gradients."""
    names = ", ".join(discrete_names(model))
    if not names:
        return
    problem, hint = "these variables are discrete", "pm.sample(...) has steps for them"
    raise graph_error(problem, op="nutpie", got=names, hint=hint)


def _element_names(model: "Model") -> list[str]:
    """Names for the elements of the vector, as nutpie makes them."""
    point, names = model.initial_point(), []
    for name in (v.name for v in model.value_vars):
        for index in product(*map(range, np.shape(point[name]))):
            names.append(f"{name}_{'.'.join(map(str, index))}" if index else name)
    return names
