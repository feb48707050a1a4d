"""An op without a mask rule, which is computed at true sizes."""

import graphc.tensor as gt

NAME = "random_permutation"
REASON = "draws differ in a longer array"


def uncovered(x):
    """Each column of an array in a random order of its own."""
    return gt.random.permutation(gt.random.key(1), x, independent=True)
