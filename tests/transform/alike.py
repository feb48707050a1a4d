"""The comparison of results of loops."""

import numpy as np


def alike(found, expected, rtol=1e-9, atol=1e-12):
    """Check the dtypes and shapes of results and, up to rounding, their values."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
