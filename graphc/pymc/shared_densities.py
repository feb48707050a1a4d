"""Densities that are made once for a model and shared by all that ask for them."""

from typing import TYPE_CHECKING, Any, NamedTuple

from graphc.pymc.data import same_objects
from graphc.pymc.density import LogDensity
from graphc.pymc.values import require_model

if TYPE_CHECKING:
    from pymc import Model

MOST_KEPT = 8  # models used last: with a density, its model and data stay in memory


class MadeDensity(NamedTuple):
    """The density of a model, and the variables that the model had then."""

    parts: tuple[Any, ...]
    density: LogDensity


# By the identity of the model, which the density keeps alive; the latest at the end.
_DENSITIES: dict[int, MadeDensity] = {}


def density_of(model: "Model") -> LogDensity:
    """The density of a model, made anew if the model has other variables now.

    A density knows which sizes of the data have varied. Sharing it lets models whose
    data are resized again and again be compiled only a few times.
    """
    require_model(model, "density")
    parts = *model.basic_RVs, *model.potentials, *model.value_vars
    latest = _DENSITIES.pop(id(model), None)
    if latest is None or not same_objects(latest.parts, parts):
        latest = MadeDensity(parts, LogDensity(model))
    _DENSITIES[id(model)] = latest
    for oldest in list(_DENSITIES)[:-MOST_KEPT]:
        del _DENSITIES[oldest]
    return latest.density
