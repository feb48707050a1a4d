"""What results of loops are compared by."""

import numpy as np


def alike(found, expected, rtol=1e-9, atol=1e-12):
    """Results have the dtypes, the shapes and, within rounding, the values expected."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
