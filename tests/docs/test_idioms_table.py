"""Each idiom of the table gives the same result padded as at true sizes."""

import numpy as np

from graphc.dev import idioms


def test_each_idiom_gives_what_it_gives_at_true_sizes():
    rng = np.random.default_rng(0)
    for texts in idioms.GROUPS.values():
        for text in texts:
            padded, _ = idioms.compile_idiom(text, dims="pad", backend="numpy")
            exact, _ = idioms.compile_idiom(text, dims="specialize", backend="numpy")
            for n in (9, 20):
                shapes = (n,), (n, 8), (n, n)
                given = [*map(rng.normal, (0, 0, 0), (1, 1, 1), shapes), 4]
                found, expected = padded(*given), exact(*given)
                assert found.shape == expected.shape, text
                np.testing.assert_allclose(
                    found, expected, rtol=1e-9, atol=1e-9, err_msg=text
                )
