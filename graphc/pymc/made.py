"""Densities that are made once for a model, whatever asks for them."""

from typing import Any
from weakref import WeakKeyDictionary

from graphc.pymc.density import LogDensity

_MADE: WeakKeyDictionary[Any, tuple[tuple[Any, ...], LogDensity]] = WeakKeyDictionary()


def density_of(model: Any) -> LogDensity:
    """The density of a model as it is now: made anew where it has other variables.

    One density knows which sizes of the data have varied, so that models whose data
    are resized again and again are compiled a few times only.
    """
    parts = *model.basic_RVs, *model.potentials, *model.value_vars
    found = _MADE.get(model)
    if found is None or found[0] != parts:
        found = _MADE[model] = parts, LogDensity(model)
    return found[1]
