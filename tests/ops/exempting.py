"""Points at which our gradients differ from JAX's, by the name of the function."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from packaging.specifiers import SpecifierSet

from tests.ops.points import Point


class Unlike(NamedTuple):
    """A difference: its reason, and its places in the arrays of a call.

    `where` gives one mask for all arrays or one per array, which tells where the
    gradient in that array differs. `versions` are the JAX versions for which this
    holds.
    """

    why: str
    where: Callable[..., Any]
    versions: str = ""


Exemptions = Mapping[str, Unlike]


def jax_is(versions: str) -> bool:
    """Whether the running JAX is one of these versions, written like "<0.12"."""
    return SpecifierSet(versions).contains(jax.__version__, prereleases=True)


def in_force(exemptions: Exemptions) -> Exemptions:
    """The exemptions that hold for the running JAX."""
    return {name: one for name, one in exemptions.items() if jax_is(one.versions)}


def exempted(point: Point, exemptions: Exemptions) -> list[np.ndarray]:
    """For each array of a call, a mask of the elements whose gradient may differ."""
    if point.sample.name not in exemptions:
        return [np.zeros(x.shape, bool) for x in point.arrays]
    found = exemptions[point.sample.name].where(*point.arrays)
    masks = found if isinstance(found, tuple) else [found] * len(point.arrays)
    pairs = zip(masks, point.arrays, strict=True)
    return [_in_shape(np.asarray(mask), x.shape) for mask, x in pairs]


def _in_shape(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Reduce a mask of the broadcast result to the shape of one operand.

    An element of the operand counts if the mask holds at any place it is broadcast to.
    """
    whole = np.broadcast_shapes(mask.shape, shape)
    padded = (1,) * (len(whole) - len(shape)) + shape
    axes = tuple(i for i, n in enumerate(padded) if n == 1)
    return np.broadcast_to(mask, whole).any(axes, keepdims=True).reshape(shape)


def elsewhere(
    gradients: list[np.ndarray], masks: list[np.ndarray]
) -> list[np.ndarray]:
    """The gradients, with NaN (unknown) at exempted points."""
    pairs = zip(gradients, masks, strict=True)
    return [np.where(mask, np.nan, g).astype(g.dtype) for g, mask in pairs]
