"""`checkpoint="log"`: few carries are kept, whatever the length of the loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.control.checkpoint_policy import policy_of
from tests.transform.alike import alike

pytestmark = pytest.mark.usefixtures("wide", "compiled_quickly")
BACKENDS = ("numpy", "jax")
W = gt.tensor("w", "float64", ())
XS = gt.tensor("xs", "float64", ("n", 2))
N = gt.tensor("k", "int64", ())


def rows(n):
    return np.cos(np.arange(n * 2.0) * 1.3).reshape(n, 2)


def step(np, w, carry, x):
    """A step with a carry of floats and integers in dicts and tuples, and an output."""
    h, (i, sign) = carry["h"], carry["place"]
    h = np.tanh(0.9 * h + w * x + 0.1 * sign * h[::-1])
    after = {"h": h, "place": (i + 1, np.where(i % 3 == 1, -sign, sign))}
    return after, np.sum(h * h) * w


def cost(np, scan, w, xs, first, **options):
    start = {"h": first, "place": (0, 0 * first[0] + 1)}
    end, out = scan(lambda c, x: step(np, w, c, x), start, xs, **options)
    weights = np.cos(np.arange(xs.shape[0]) * 1.0)
    return np.sum(np.sin(end["h"])) + np.sum(out * weights)


def with_slopes(value, wrt):
    return [value, *graphc.grad(value, wrt)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_scan(backend, reverse):
    first = gt.tensor("first", "float64", (2,))
    wrt = [W, XS, first]
    options = {"reverse": reverse, "checkpoint": "log"}
    found = with_slopes(cost(gt, gt.scan, W, XS, first, **options), wrt)
    f = graphc.function(wrt, found, backend=backend, dims="specialize")

    def wanted(*given):
        return cost(jnp, jax.lax.scan, *given, reverse=reverse)

    start = np.array([0.3, -0.2])
    for n in (0, 65, 140) if backend == "numpy" else (0, 140):
        given = np.float64(0.7), rows(n), start
        value, slopes = jax.jit(jax.value_and_grad(wanted, (0, 1, 2)))(*given)
        alike(f(*given), [value, *slopes])


def countdown(checkpoint, **options):
    """A loop with two steps more than `N`."""
    body = lambda c: (c[0] - 1, gt.sin(c[1] * W + XS[c[0] % 5, 0]))
    found = gt.while_loop(
        lambda c: c[0] >= -1, body, (N, W), checkpoint=checkpoint, **options
    )
    return found[1] ** 2


def counted_down(w, xs, n):
    body = lambda i, h: jnp.sin(h * w + xs[(n - i) % 5, 0])
    return jax.lax.fori_loop(0, n + 2, body, w) ** 2


COUNTS = (-3, -1, 0, 61, 62, 63, 126, 127, 300, 1100)


@pytest.mark.parametrize("backend", BACKENDS)
def test_while_loop_is_compiled_once(backend):
    f = graphc.function(
        [W, XS, N], with_slopes(countdown("log"), [W, XS]), backend=backend
    )
    slopes = jax.jit(jax.value_and_grad(counted_down, (0, 1)), static_argnums=2)
    for n in COUNTS[1::2] if backend == "jax" else COUNTS[:7:2]:
        given = np.float64(1.1), rows(5)
        value, found = slopes(*given, n)
        alike(f(*given, n), [value, *found])
    if backend == "jax":
        assert len(f.stats().compilations) == 1


@pytest.mark.parametrize("checkpoint", ["log", 3, "sqrt"])
@pytest.mark.parametrize("collect", [False, True], ids=["plain", "collect"])
def test_while_loop_with_a_bound(checkpoint, collect):
    """Zero steps, exactly the bound, and more than the bound are tried."""

    def loop(checkpoint):
        body = lambda h: gt.sin(h * W) + XS[0, 0] * h
        both = (lambda h: (body(h), h * h)) if collect else body
        options = {"max_steps": 70, "on_exceeded": "flag", "collect": collect}
        found, done = gt.while_loop(
            lambda h: gt.abs(h) > 0.1, both, W, checkpoint=checkpoint, **options
        )
        if collect:
            weights = gt.cos(gt.arange(found[1].shape[0]) * 1.0)
            found = found[0] + gt.sum(found[1] * weights)
        return [found, done, *graphc.grad(found**2, [W, XS])]

    plain, f = (
        graphc.function([W, XS], loop(c), backend="numpy") for c in (None, checkpoint)
    )
    seen = set()
    for w in (0.05, 0.4, 0.9, 0.97, 1.1):
        given = np.float64(w), rows(5) * 0.05
        value, done, *slopes = plain(*given)
        alike(f(*given), [value, done, *slopes])
        seen.add(bool(done))
    assert seen == {True, False}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("checkpoint", ["log", 4])
def test_scan_up_to_a_step(backend, checkpoint):
    def loop(checkpoint):
        found, out = gt.scan(
            lambda c, x: (gt.sin(c * W) + x[0], c * x[1]),
            W,
            XS,
            until=lambda c, y: c > 1.5,
            reverse=True,
            checkpoint=checkpoint,
        )
        return [out, *graphc.grad(found**2 + gt.sum(gt.sin(out)), [W, XS])]

    plain = graphc.function([W, XS], loop(None), backend="numpy")
    f = graphc.function([W, XS], loop(checkpoint), backend=backend)
    steps = set()
    for n in (0, 1, 11, 12, 30) if backend == "numpy" else (11,):
        given = np.float64(0.7), rows(n)
        found = plain(*given)
        alike(f(*given), found)
        steps.add(len(found[0]))
    assert len(steps) > 2 or backend == "jax"


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_derivatives(backend):
    """Second derivatives, forward mode, and gradients under `vmap`, of many steps."""
    ks = gt.tensor("ks", "int64", ("m",))
    two = lambda f, k: (f(k, "log"), f(k, None))

    def end(k, checkpoint, w=W):
        step = lambda i, h: gt.tanh(h * w + i * 0.1) * 1.2
        return gt.fori_loop(0, k, step, w, checkpoint=checkpoint)

    pairs = [
        two(lambda k, c: graphc.hvp(end(k, c), W, 0.7), N),
        two(lambda k, c: graphc.jvp(end(k, c), W, 0.7), N),
        two(lambda k, c: graphc.vmap(lambda n: graphc.grad(end(n, c), W))(k), ks),
        two(lambda k, c: graphc.grad(graphc.vmap(lambda n: end(n, c))(k).sum(), W), ks),
    ]
    f = graphc.function([W, N, ks], [v for p in pairs for v in p], backend=backend)
    for n in (0, 70) if backend == "numpy" else (70,):
        found = f(np.float64(0.9), n, np.array([3, 0, 66]))
        alike(found[::2], found[1::2])


@pytest.mark.parametrize("steps", [0, 1, 8, 9, 20, 200])
def test_lengths_that_are_numbers(steps):
    """There is less room if there are fewer steps."""

    def end(checkpoint):
        step = lambda i, h: gt.tanh(h * W + i * 0.1) * 1.2
        y = gt.fori_loop(0, steps, step, W, checkpoint=checkpoint)
        return with_slopes(y, [W])

    f = graphc.function([W], [*end("log"), *end(None)], backend="numpy")
    found = f(np.float64(0.9))
    alike(found[:2], found[2:])


def test_a_length_that_is_padded():
    first = gt.zeros(2, "float64")
    found = with_slopes(cost(gt, gt.scan, W, XS, first, checkpoint="log"), [W, XS])
    f = graphc.function([W, XS], found, dims="pad")
    plain = graphc.function([W, XS], found, backend="numpy")
    for n in (65, 80, 128):
        given = np.float64(0.7), rows(n)
        alike(f(*given), plain(*given))
    assert len(f.stats().compilations) == 1


def times_done(steps, capsys):
    """The number of steps computed in all, for a value and its gradient."""
    step = lambda i, h: gt.debug_print("step", gt.sin(h * W))
    y = gt.fori_loop(0, N, step, W, checkpoint="log")
    f = graphc.function([W, N], with_slopes(y, [W]), backend="numpy")
    f(np.float64(0.7), steps)
    return capsys.readouterr().out.count("step")


@pytest.mark.parametrize(("steps", "most"), [(64, 0.0), (1000, 1.0), (3000, 2.0)])
def test_how_often_steps_are_done_again(steps, most, capsys):
    """Any gradient takes each step twice, forward and back; this counts the rest."""
    assert times_done(steps, capsys) <= (2 + most) * steps


def test_memory_does_not_grow(programs):
    w = gt.matrix("w", "float32")
    y = gt.fori_loop(0, N, lambda i, h: gt.tanh(h @ w), w, checkpoint="log")
    f = graphc.function([w, N], graphc.grad(gt.sum(y), w), jit=True)
    f(np.eye(16, dtype="float32"), 5)
    (program,) = programs
    assert program.memory_analysis().temp_size_in_bytes < 150 * 16 * 16 * 4


@pytest.mark.parametrize("checkpoint", ["log", "sqrt"])
def test_losses_of_stacked_outputs_are_hoisted(checkpoint, programs):
    """No array of all steps is left, however many steps there are."""
    x, t = (gt.tensor(name, "float32", ("n", 32)) for name in "xt")
    w = gt.scalar("w", "float32")

    def found(checkpoint):
        step = lambda h, row: (gt.tanh(h * w + row),) * 2
        ys = gt.scan(step, gt.zeros(32), x, checkpoint=checkpoint)[1]
        loss = gt.mean((ys - t) ** 2)
        return [loss, graphc.grad(loss, w)]

    f = graphc.function([x, t, w], found(checkpoint), dims="specialize")
    plain = graphc.function([x, t, w], found(None), backend="numpy")
    n = 997
    given = np.cos(np.arange(n * 64.0, dtype="float32")).reshape(2, n, 32)
    alike(f(*given, np.float32(0.6)), plain(*given, np.float32(0.6)), 1e-4)
    used = sum(p.memory_analysis().temp_size_in_bytes for p in programs)
    assert used < 200 * 32 * 4


def test_an_integer_of_numpy_is_a_checkpoint():
    assert policy_of(np.int32(3), None, "scan") == policy_of(3, None, "scan")


@pytest.mark.parametrize("checkpoint", [0, -1, 2.0, True, "third", [3]])
def test_other_checkpoints_are_refused(checkpoint):
    with pytest.raises(graphc.GraphError, match="how many steps apart"):
        gt.scan(lambda c, x: (c + x, c), 0.0, gt.vector("x"), checkpoint=checkpoint)


def test_the_root_of_what_is_not_known():
    with pytest.raises(graphc.GraphError, match='give max_steps=, or checkpoint="log"'):
        gt.while_loop(lambda s: s > 1, lambda s: s / 2, W, checkpoint="sqrt")
