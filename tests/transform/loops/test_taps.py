"""Recurrences that look back over several steps, and maps in batches."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.transform.alike import alike

pytestmark = pytest.mark.usefixtures("wide")
BACKENDS = ("numpy", "jax")
A = gt.tensor("a", "float64", ())
B = gt.tensor("b", "float64", ())
X = gt.tensor("x", "float64", ("n",))
W = gt.tensor("w", "float64", ("n", 2))
MANY = np.cos(np.arange(8) * 1.7) * 1.5


def refusal(call):
    with pytest.raises(graphc.GraphError) as caught:
        call()
    assert "test_taps.py" in str(caught.value)
    return str(caught.value)


# An autoregression that looks back two and five steps.


def regression(x, a, first):
    lagged = {"initial": first, "taps": [-2, -5]}
    return gt.scan_taps(lambda v, y2, y5: gt.sin(y2) * a + y5 * 0.5 + v, lagged, x)


def regression_by_hand(x, a, first, np=np):
    ys = [*first]
    for v in x:
        ys.append(np.sin(ys[-2]) * a + ys[-5] * 0.5 + v)
    return np.stack(ys[5:]) if len(x) else np.zeros(0)


START = np.array([0.3, -1, 0.5, 2, 0.1])


@functools.cache
def regressed(n):
    """The outputs for `n` rows, and the gradients of a cost."""
    at = MANY[:n], np.float64(0.7), START
    cost = lambda *given: jnp.sum(jnp.cos(regression_by_hand(*given, np=jnp)))
    return [regression_by_hand(*at), *jax.grad(cost, (0, 1, 2))(*at)]


@pytest.mark.parametrize("dims", ["specialize", "pad"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_output_some_steps_ago(backend, dims):
    first = gt.tensor("first", "float64", (5,))
    ys = regression(X, A, first)
    slopes = graphc.grad(gt.sum(gt.cos(ys)), [X, A, first])
    f = graphc.function([X, A, first], [ys, *slopes], backend=backend, dims=dims)
    for n in (0, 1, 2, 8):
        alike(f(MANY[:n], np.float64(0.7), START), regressed(n))


@pytest.mark.parametrize("backend", BACKENDS)
def test_fibonacci(backend):
    k = gt.tensor("k", "int64", ())
    start = {"initial": [1, 1], "taps": [-1, -2]}
    ys = gt.scan_taps(lambda a, b: a + b, start, length=k)
    f = graphc.function([k], ys, backend=backend)
    for n in (0, 1, 7):
        numbers = [1, 1]
        for _ in range(n):
            numbers.append(numbers[-1] + numbers[-2])
        alike([f(n)], [np.array(numbers[2:], "int64")])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_over_sequences(backend):
    """The window covers several rows of one sequence and single rows of another."""
    window = {"input": X, "taps": [-1, 0, 2]}
    pair = lambda p, q, r, row: (p * q + r, gt.sum(row) * A)
    found = gt.scan_taps(pair, [None, None], [window, {"input": W}])
    slopes = graphc.grad(gt.sum(found[0] * found[1]), [X, W, A])
    f = graphc.function([X, W, A], [*found, *slopes], backend=backend)

    def plain(x, w, a):
        inside = range(1, max(len(x) - 2, 1))
        first = [x[t - 1] * x[t] + x[t + 2] for t in inside]
        second = [jnp.sum(w[t]) * a for t in inside]
        return jnp.array(first).reshape(-1), jnp.array(second).reshape(-1)

    cost = lambda *given: jnp.sum(jnp.multiply(*plain(*given)))
    w = np.arange(16.0).reshape(8, 2) / 5
    for n in (0, 2, 3, 4, 8):
        at = MANY[:n], w[:n], np.float64(0.7)
        alike(f(*at), [*plain(*at), *jax.grad(cost, (0, 1, 2))(*at)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_outputs(backend):
    """One is fed back, one is fed back over several steps, and one is not fed back."""
    rows = {"initial": W[:3], "taps": (-3, -1)}

    def step(v, c, r3, r1):
        return [c * 0.5 + v, (r3 + r1) * c, v > 0]

    found = gt.scan_taps(step, [A, rows, None], X)
    f = graphc.function([X, W, A], found, backend=backend)
    w = np.arange(16.0).reshape(8, 2) / 5
    c, cs, past = 0.7, [], [*w[:3]]
    for v in MANY:
        past.append((past[-3] + past[-1]) * c)
        c = c * 0.5 + v
        cs.append(c)
    alike(f(MANY, w, 0.7), [np.array(cs), np.array(past[3:]), MANY > 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_backwards_and_until(backend):
    lagged = {"initial": gt.stack([A, B]), "taps": [-1, -2]}
    back = gt.scan_taps(lambda v, p, q: p * v + q, lagged, X, reverse=True)
    early = gt.scan_taps(lambda v, p: p + v * v, A, X, until=lambda y: y > 3)
    f = graphc.function([X, A, B], [back, early], backend=backend)
    ys, sums = [0.3, 0.7], [0.3]
    for v in MANY[::-1]:
        ys.append(ys[-1] * v + ys[-2])
    for v in MANY:
        sums.append(sums[-1] + v * v)
        if sums[-1] > 3:
            break
    assert 2 < len(sums) < 8
    alike(f(MANY, 0.3, 0.7), [np.array(ys[:1:-1]), np.array(sums[1:])])


def test_taps_refused():
    tapped = lambda taps, first=X: lambda: gt.scan_taps(
        lambda *ys: ys[0], {"initial": first, "taps": taps}, X
    )
    text = refusal(tapped([-1, 0]))
    assert "the taps of an output must be negative\n  got: taps [-1, 0]" in text
    for bad in ([], [True], [1.5], "ab"):
        assert "taps must be integers, at least one" in refusal(tapped(bad))
    text = refusal(tapped([-3], gt.zeros(2)))
    assert "taps [-3] look back 3 steps\n  got: an initial float32[2]" in text
    assert "expected: 3 values along the first axis" in text
    assert "look back 2 steps" in refusal(tapped([-2], A))
    text = refusal(lambda: gt.scan_taps(lambda y: y, {"start": A}, X))
    assert "got: a dict of 'start'\n  expected: a dict of 'initial' and 'taps'" in text
    text = refusal(lambda: gt.scan_taps(lambda v: v, None, {"taps": [0]}))
    assert "expected: a dict of 'input' and 'taps'" in text
    text = refusal(lambda: gt.scan_taps(lambda v: (v, v, v), [None, None], X))
    assert "one value per output\n  got: 3 of them\n  expected: 2 of them" in text
    assert "a sequence needs an axis" in refusal(
        lambda: gt.scan_taps(lambda v: v, None, A)
    )


@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize("backend", BACKENDS)
def test_maps_in_batches(backend, size):
    f = lambda d: {"p": gt.sum(gt.sin(d["w"]) * A), "q": (d["v"], d["v"] > 0)}
    y = gt.map(f, {"w": W, "v": X}, batch_size=size)
    slopes = graphc.grad(gt.sum(y["p"] * y["q"][0]), [X, W, A])
    program = graphc.function([X, W, A], [y["p"], *y["q"], *slopes], backend=backend)
    w = np.arange(16.0).reshape(8, 2) / 5
    cost = lambda x, w, a: jnp.sum(jnp.sum(jnp.sin(w) * a, 1) * x)
    for n in (0, 2, 3, 8) if backend == "numpy" else (0, 8):
        at = MANY[:n], w[:n], np.float64(0.7)
        whole = np.sum(np.sin(w[:n]) * 0.7, 1)
        slopes = jax.grad(cost, (0, 1, 2))(*at)
        alike(program(*at), [whole, at[0], at[0] > 0, *slopes])


def test_batches_of_a_length_that_is_a_number():
    x = gt.tensor("x", "float64", (7, 2))
    for size in (2, 7, 8):
        y = gt.map(gt.sum, x, batch_size=size)
        assert y.type.shape == (7,)
        ones = np.ones((7, 2))
        alike([graphc.function([x], y, backend="numpy")(ones)], [ones.sum(1)])
