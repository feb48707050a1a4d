"""Points at which our gradients are not those of JAX, by the name of the function."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from packaging.specifiers import SpecifierSet

from tests.ops.points import Point


class Unlike(NamedTuple):
    """A difference: why, and where in the arrays of a call it is.

    `where` gives one mask, or one per array: where the gradient in that differs.
    `versions` are those of JAX for which it holds.
    """

    why: str
    where: Callable[..., Any]
    versions: str = ""


Exemptions = Mapping[str, Unlike]


def jax_is(versions: str) -> bool:
    """Whether the JAX that runs is one of these versions, as "<0.12" says them."""
    return SpecifierSet(versions).contains(jax.__version__, prereleases=True)


def in_force(exemptions: Exemptions) -> Exemptions:
    """The exemptions that hold for the JAX that runs."""
    return {name: one for name, one in exemptions.items() if jax_is(one.versions)}


def exempted(point: Point, exemptions: Exemptions) -> list[np.ndarray]:
    """For each array of a call, at which elements the gradient is another."""
    if point.sample.name not in exemptions:
        return [np.zeros(x.shape, bool) for x in point.arrays]
    found = exemptions[point.sample.name].where(*point.arrays)
    masks = found if isinstance(found, tuple) else [found] * len(point.arrays)
    pairs = zip(masks, point.arrays, strict=True)
    return [_in_shape(np.asarray(mask), x.shape) for mask, x in pairs]


def _in_shape(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A mask for what is broadcast to it: an element counts in all that it meets."""
    whole = np.broadcast_shapes(mask.shape, shape)
    padded = (1,) * (len(whole) - len(shape)) + shape
    axes = tuple(i for i, n in enumerate(padded) if n == 1)
    return np.broadcast_to(mask, whole).any(axes, keepdims=True).reshape(shape)


def elsewhere(
    gradients: list[np.ndarray], masks: list[np.ndarray]
) -> list[np.ndarray]:
    """The gradients, unknown (NaN) at exempted points."""
    pairs = zip(gradients, masks, strict=True)
    return [np.where(mask, np.nan, g).astype(g.dtype) for g, mask in pairs]
