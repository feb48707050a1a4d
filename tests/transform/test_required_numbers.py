"""Sizes from data that an op only takes at one number: they are padded too."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

x = gt.tensor("x", "int64", ("n",))
counts = gt.bincount(x, minlength=40)
PROGRAMS = {
    "elementwise": lambda: counts / gt.arange(1, 41),
    "reshaped": lambda: gt.sum(gt.reshape(counts, (8, 5)), axis=1),
    "beside rows": lambda: (gt.cos(x)[:, None] * gt.arange(40)) / counts,
    "product": lambda: counts @ gt.ones((40, 2)),
    "selected": lambda: gt.where(gt.arange(40) > 3, x[x > 9], 0),
    "joined": lambda: gt.stack([gt.unique(x), gt.arange(40)]),
}


def numbers(n, fitting):
    """n + 40 numbers, of which 40 are distinct, and 40 are above 9 if these count."""
    below_ten = np.arange(n) % 10
    forty = np.arange(40) + 10 if fitting == "selected" else np.arange(40)
    return np.concatenate([below_ten, forty])


@pytest.mark.parametrize("dims", ["auto", "pad"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_must_be_numbers_are_padded(name, dims):
    output = PROGRAMS[name]()
    f = graphc.function([x], output, dims=dims)
    exact = graphc.function([x], output, backend="numpy")
    for n in (3, 50, 90, 3, 70):
        args = numbers(n, name)
        np.testing.assert_allclose(f(args), exact(args), rtol=1e-6)
    assert len(f.plan.segments) == 1
    too_many, too_few = [50, *numbers(60, name)], np.arange(9, 15)
    # There are at least 40 counts, whatever the numbers are.
    for wrong in [too_many, too_few] if name in ("selected", "joined") else [too_many]:
        with pytest.raises(graphc.CallError, match="needs"):
            f(np.array(wrong))
