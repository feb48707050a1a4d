"""Higher gradients of loops with checkpoints: equal values, and little memory."""

import functools

import numpy as np
import pytest

import graphc
import graphc.tensor as gt


def slopes_of(checkpoint, order, reverse=False):
    """A derivative of a loop with stacked outputs, in a weight and in sequences."""
    w, xs = inputs = gt.vector("w", "float64"), gt.matrix("xs", "float64")

    def step(h, x):
        h = gt.tanh(0.9 * h + w * x)
        return h, h * x[0]

    options = {"reverse": reverse, "checkpoint": checkpoint}
    h, ys = gt.scan(step, gt.sin(w), xs, **options)
    slopes = graphc.grad(gt.sum(gt.sin(h)) + gt.sum(ys**2), inputs)
    for _ in range(order - 1):
        slopes = graphc.grad(sum(gt.sum(gt.sin(d)) for d in slopes), inputs)
    return inputs, slopes


@functools.cache
def compiled(checkpoint, order, reverse):
    return graphc.function(*slopes_of(checkpoint, order, reverse), backend="numpy")


CASES = [(2, 2, False), (4, 2, True), ("sqrt", 2, True), ("log", 2, False)]


@pytest.mark.parametrize(("checkpoint", "order", "reverse"), [*CASES, (4, 3, False)])
def test_values_are_those_without_checkpoints(checkpoint, order, reverse):
    plain, found = (compiled(c, order, reverse) for c in (None, checkpoint))
    for n in (0, 1, 7, 8):
        given = np.array([0.7, -0.2]), np.cos(np.arange(n * 2.0)).reshape(n, 2)
        for a, b in zip(found(*given), plain(*given), strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-12)


def test_a_second_gradient_is_padded_over_lengths():
    plain = compiled(None, 2, False)
    padded = graphc.function(*slopes_of("sqrt", 2), dims="pad")
    for n in (9, 16, 3, 0, 11):
        args = np.array([0.7, -0.2]), np.cos(np.arange(n * 2.0)).reshape(n, 2)
        for a, b in zip(padded(*args), plain(*args), strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-12)
    assert len(padded.stats().compilations) == 1


def test_a_second_gradient_keeps_few_carries_too(programs):
    used = {}
    for checkpoint in (None, 32):
        programs.clear()
        w = gt.vector("w", "float32")

        def step(i, h, w=w):
            return gt.tanh(gt.sin(h * w))

        h = gt.fori_loop(0, 1024, step, gt.ones(w.shape), checkpoint=checkpoint)
        slope = graphc.grad(gt.sum(h), w)
        f = graphc.function([w], graphc.grad(gt.sum(slope**2), w), dims="specialize")
        f(np.full(16, 0.5, "float32"))
        used[checkpoint] = sum(p.memory_analysis().temp_size_in_bytes for p in programs)
    assert used[None] > 1024 * 16 * 4
    assert used[32] < 0.2 * used[None]
