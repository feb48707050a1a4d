"""`reduce` of ufuncs that have no reduction under its own name, with masks."""

import numpy as np
import pytest

from tests.importers.numpy.test_like_numpy import like_numpy

SQUARE = np.arange(9).reshape(3, 3) * 3 + 2
MASK = np.tri(3, dtype=bool)  # differs from its transpose
MASKS = MASK, MASK[:1], MASK[:, :1]
STARTS = [(np.gcd, {}), (np.bitwise_xor, {}), (np.hypot, {}), (np.fmax, {"initial": 9})]


@pytest.mark.parametrize(("ufunc", "options"), STARTS)
@pytest.mark.parametrize("axis", [0, 1, (0, 1), None])
def test_a_mask_is_moved_with_the_axes(ufunc, options, axis):
    def reduced(x, *masks):
        return [ufunc.reduce(x, axis=axis, where=m, **options) for m in masks]

    assert like_numpy(reduced, SQUARE, *MASKS)


def test_identities_that_do_not_fit_wrap_around():
    def reduced(x, mask):
        return np.bitwise_and.reduce(x, axis=1, where=mask), np.fmin.reduce(x, None)

    assert like_numpy(reduced, SQUARE.astype("uint8"), MASK)
