"""Many calls over many sizes, and many threads at once: nothing grows, all is right.

    GRAPHC_EXAMPLES=1 python -m pytest tests/runtime/test_soak.py

makes 20,000 calls over 2,000 sizes in each policy; at CI size there are a few hundred.
"""

import gc
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

pytestmark = pytest.mark.usefixtures("compiled_quickly")
AT_LENGTH = "GRAPHC_EXAMPLES" in os.environ
CALLS, SIZES = (20_000, 2_000) if AT_LENGTH else (400, 200)
MOST = 48 << 20  # growth in bytes; an XLA program per size takes 1.4 MB each
BASE = 64  # the smallest size
X = gt.tensor("x", "float32", ("n",))
R = gt.tensor("r", "float32", (SIZES + BASE,))
K = gt.tensor("k", "int64", ())


def resident():
    """The resident memory of this process in bytes, after garbage collection."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def of_axis(**options):
    """A call by the size of an axis, the sums of its results, and the function."""
    f = graphc.function([X], [X * 2, gt.sum(X), X[1:]], **options)
    return lambda n: f(np.ones(n, "float32")), lambda n: (2.0 * n, n, n - 1.0), f


def of_number(**options):
    """As `of_axis`, for a size that is an integer argument."""
    f = graphc.function([K], [gt.arange(K), gt.arange(K) * 2], **options)
    return lambda n: f(n), lambda n: (n * (n - 1) / 2, n * (n - 1.0)), f


def of_count(**options):
    """As `of_axis`, for a size that depends on data."""
    f = graphc.function([R, K], [R[R < K], gt.sum(R[R < K])], **options)
    rows = np.arange(SIZES + BASE).astype("float32")
    return lambda n: f(rows, n), lambda n: (n * (n - 1) / 2, n * (n - 1) / 2), f


def of_examples(**options):
    """As `of_axis`, for examples of two sizes."""
    f = graphc.ragged([X], [X * 2, gt.sum(X)], **options)

    def call(n):
        doubled, sums = f([np.ones(n, "float32"), np.ones(3, "float32")])
        return doubled[0], sums[0], sums[1]

    return call, lambda n: (2.0 * n, n, 3.0), f.function


WAYS = {
    "pad": lambda: of_axis(dims="pad"),
    "auto": lambda: of_axis(dims="auto"),
    "tiers": lambda: of_axis(dims="pad", tier="auto"),
    "numpy": lambda: of_axis(backend="numpy", dims="pad"),
    "numbers": lambda: of_number(dims="pad"),
    "bound": lambda: of_count(dims="bound"),
    "padded counts": lambda: of_count(dims={"count": graphc.Pad()}),
    "ragged": lambda: of_examples(),
}


def called(call, expected, sizes):
    """Call with each of these sizes and check the sums of the results."""
    for n in sizes:
        found = call(n)
        sums = [np.asarray(x).sum() for x in found]
        np.testing.assert_allclose(sums, expected(n), rtol=1e-5)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
@pytest.mark.parametrize("way", WAYS)
def test_memory_is_flat_over_sizes(way):
    call, expected, f = WAYS[way]()
    sizes = np.random.default_rng(0).permutation(SIZES) + BASE
    ends = [BASE + 2 ** k for k in range(12) if 2**k < SIZES]
    called(call, expected, [*ends, *ends, SIZES + BASE - 1])
    compilations, before = len(f.stats().compilations), resident()
    arrays = len(jax.live_arrays())
    for _ in range(CALLS // SIZES):
        called(call, expected, sizes.tolist())
    assert len(jax.live_arrays()) <= arrays + 8  # JAX frees them in turns
    assert resident() - before < MOST
    assert len(f.stats().compilations) - compilations <= 8  # tiers compile when it pays


def test_memory_is_flat_once_all_sizes_are_compiled():
    """Each specialized size is compiled once, and memory no longer grows after that."""
    few = range(BASE, BASE + (200 if AT_LENGTH else 8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.RecompilationWarning)
        call, expected, f = of_axis(dims="specialize")
        called(call, expected, [*few, *few])
    compilations, before = len(f.stats().compilations), resident()
    assert compilations == len(few)
    for _ in range(CALLS // len(few)):
        called(call, expected, few)
    assert len(f.stats().compilations) == compilations
    assert resident() - before < MOST


def test_eight_threads_call_and_build_at_once():
    """The threads share one function, and each builds programs of its own."""
    call, expected, f = of_axis(dims="pad")
    start = threading.Barrier(8)

    def work(seed):
        rng = np.random.default_rng(seed)
        start.wait(60)
        for _ in range(4):
            called(call, expected, rng.integers(BASE, BASE + SIZES, 5).tolist())
            n = int(rng.integers(3, 9))
            x = gt.tensor("x", "float32", ("n",))
            y = gt.sum(gt.cumsum(x * seed))
            own = graphc.function([x], [y, graphc.grad(y, x)], backend="numpy")
            total, slopes = own(np.ones(n, "float32"))
            np.testing.assert_allclose(total, seed * n * (n + 1) / 2, rtol=1e-5)
            np.testing.assert_allclose(slopes, seed * np.arange(n, 0, -1), rtol=1e-5)
        g = graphc.function([x], x + seed, dims="pad")
        called(lambda n: [g(np.ones(n, "float32"))], lambda n: [n * (1 + seed)], [5])
        assert len(g.stats().compilations) == 1
        return seed

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))
    assert {c.segment for c in f.stats().compilations} == {0}
