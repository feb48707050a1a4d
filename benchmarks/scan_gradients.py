"""Value and gradient of scans against `jax.value_and_grad` of `lax.scan` of the step.

    python -m benchmarks.scan_gradients [--cpu] [case ...]

Each case has a small size, at which calls of kernels take most of the time, a middle
one, and a large one that fits in no cache. Targets: at most 1.05 of JAX's time per
call, of its CPU time to the first result, and of its memory beside arguments and
results. `--cpu` counts the CPU time of calls, for a machine that others use too.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import (
    CPU,
    WALL,
    Row,
    compare,
    emitted,
    named,
    print_table,
    row,
    same,
    seconds,
    setting,
    some,
    time_text,
)

RUN_TIME, FIRST, MEMORY = 1.05, 1.05, 1.05
RNG = np.random.default_rng(0)

OURS = SimpleNamespace(
    xp=gt,
    scan=gt.scan,
    nn=gt.nn,
    logsumexp=gt.special.logsumexp,
    vmap=graphc.vmap,
    grad=lambda f, x: graphc.grad(f(x), x),
    conv=lambda x, w: gt.nn.conv(x, w, padding="SAME"),
    options=True,
)
THEIRS = SimpleNamespace(
    xp=jnp,
    scan=jax.lax.scan,
    nn=jax.nn,
    logsumexp=jax.nn.logsumexp,
    vmap=jax.vmap,
    grad=lambda f, x: jax.grad(f)(x),
    conv=lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
    options=False,
)
Cost = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A cost over a namespace and arrays; it has gradients by the arrays in `wrt`."""

    cost: Cost
    arrays: list[Any]
    wrt: tuple[int, ...]
    calls: int = 1
    tolerance: float = 5e-3


def floats(*shape: int, scale: float = 1.0) -> Any:
    """Draw normal numbers."""
    return (scale * RNG.normal(size=shape)).astype("float32")


def weights(*shape: int) -> Any:
    """Draw numbers that keep the size of what is multiplied by them."""
    return floats(*shape, scale=shape[-2] ** -0.5)


SIZES = ((20, 1, 8), (100, 16, 64), (100, 64, 256))  # steps, batch, width


def lstm(t: int, b: int, w: int) -> Case:
    """Long short-term memory, the squared error of the next input."""

    def cost(ns: Any, xs: Any, wx: Any, wh: Any, bias: Any) -> Any:
        xp, sigmoid = ns.xp, ns.nn.sigmoid

        def step(carry: Any, x: Any) -> Any:
            h, s = carry
            g = x @ wx + h @ wh + bias
            i, f, o, u = (g[:, k * w : (k + 1) * w] for k in range(4))
            s = sigmoid(f) * s + sigmoid(i) * xp.tanh(u)
            h = sigmoid(o) * xp.tanh(s)
            return (h, s), h

        zero = xp.zeros((b, w), "float32")
        _, ys = ns.scan(step, (zero, zero), xs)
        return xp.mean((ys[:-1] - xs[1:]) ** 2)

    arrays = [floats(t, b, w), weights(w, 4 * w), weights(w, 4 * w), floats(4 * w)]
    return Case(cost, arrays, (1, 2, 3))


def gru(t: int, b: int, w: int) -> Case:
    """Gated recurrent units, the last state."""

    def cost(ns: Any, xs: Any, wx: Any, wh: Any) -> Any:
        xp, sigmoid = ns.xp, ns.nn.sigmoid

        def step(h: Any, x: Any) -> Any:
            a, c = x @ wx, h @ wh
            z = sigmoid(a[:, :w] + c[:, :w])
            r = sigmoid(a[:, w : 2 * w] + c[:, w : 2 * w])
            n = xp.tanh(a[:, 2 * w :] + r * c[:, 2 * w :])
            h = (1 - z) * n + z * h
            return h, h

        h, _ = ns.scan(step, xp.zeros((b, w), "float32"), xs)
        return xp.sum(h**2)

    return Case(cost, [floats(t, b, w), weights(w, 3 * w), weights(w, 3 * w)], (1, 2))


def _rnn(checkpoint: Any = None, second: bool = False) -> Cost:
    def cost(ns: Any, xs: Any, wx: Any, wh: Any) -> Any:
        xp = ns.xp

        def of(wh: Any) -> Any:
            def step(h: Any, x: Any) -> Any:
                h = xp.tanh(x @ wx + h @ wh)
                return h, h

            zero = xp.zeros(xs.shape[1:], "float32")
            given = {"checkpoint": checkpoint} if checkpoint and ns.options else {}
            _, ys = ns.scan(step, zero, xs, **given)
            return xp.mean((ys[:-1] - xs[1:]) ** 2)

        return xp.sum(ns.grad(of, wh) * wh) if second else of(wh)

    return cost


def rnn(t: int, b: int, w: int, **options: Any) -> Case:
    """A plain recurrent net, the squared error of the next input."""
    arrays = [floats(t, b, w), weights(w, w), weights(w, w)]
    return Case(_rnn(**options), arrays, (1, 2))


def root(t: int, b: int, w: int) -> Case:
    """The same with the carries of a few steps kept, against JAX with all."""
    return rnn(t, b, w, checkpoint="sqrt")


def second(t: int, b: int, w: int) -> Case:
    """A Hessian-vector product of the same."""
    return rnn(t, b, w, second=True)


def hmm(t: int, k: int) -> Case:
    """The forward algorithm of a hidden Markov model, in logarithms."""

    def cost(ns: Any, emissions: Any, moves: Any) -> Any:
        def step(a: Any, e: Any) -> Any:
            return ns.logsumexp(a[:, None] + moves, axis=0) + e, None

        a, _ = ns.scan(step, emissions[0], emissions[1:])
        return ns.logsumexp(a, axis=0)

    return Case(cost, [floats(t, k), floats(k, k)], (0, 1))


def crf(t: int, b: int, k: int) -> Case:
    """The likelihood of a conditional random field in a chain, of a batch."""

    def cost(ns: Any, scores: Any, moves: Any, tags: Any) -> Any:
        xp = ns.xp

        def step(a: Any, given: Any) -> Any:
            e, now, before = given
            a = ns.logsumexp(a[:, :, None] + moves[None], axis=1) + e
            gold = xp.take_along_axis(e, now[:, None], axis=1)[:, 0]
            return a, gold + moves[before, now]

        a, gold = ns.scan(step, scores[0], (scores[1:], tags[1:], tags[:-1]))
        return xp.sum(ns.logsumexp(a, axis=1)) - xp.sum(gold)

    tags = RNG.integers(0, k, size=(t, b)).astype("int32")
    return Case(cost, [floats(t, b, k), floats(k, k), tags], (0, 1))


def kalman(t: int, n: int) -> Case:
    """The likelihood of a linear Gaussian model, by the Kalman filter."""

    def cost(ns: Any, ys: Any, move: Any, noise: Any) -> Any:
        xp = ns.xp
        eye = xp.eye(n, dtype="float32")

        def step(carry: Any, y: Any) -> Any:
            m, p = carry
            m, p = move @ m, move @ p @ move.T + noise @ noise.T + 0.1 * eye
            s = p + eye
            low = xp.linalg.cholesky(s)
            gain = xp.linalg.solve(s, p).T
            r = y - m
            logs = xp.sum(xp.log(xp.diagonal(low)))
            loss = 0.5 * r @ xp.linalg.solve(s, r) + logs
            return (m + gain @ r, p - gain @ p), loss

        _, losses = ns.scan(step, (xp.zeros(n, "float32"), eye), ys)
        return xp.sum(losses)

    return Case(cost, [floats(t, n), 0.5 * weights(n, n), weights(n, n)], (1, 2))


def ode(t: int, b: int, w: int) -> Case:
    """A neural differential equation by Runge and Kutta's method."""

    def cost(ns: Any, x: Any, w1: Any, w2: Any) -> Any:
        xp = ns.xp

        def f(x: Any) -> Any:
            return xp.tanh(x @ w1) @ w2

        def step(x: Any, _: Any) -> Any:
            a = f(x)
            b = f(x + 0.05 * a)
            c = f(x + 0.05 * b)
            d = f(x + 0.1 * c)
            return x + (0.1 / 6) * (a + 2 * b + 2 * c + d), None

        x, _ = ns.scan(step, x, None, length=t)
        return xp.sum(x * x)

    return Case(cost, [floats(b, w), weights(w, w), weights(w, w)], (0, 1, 2))


def garch(t: int) -> Case:
    """The likelihood of returns whose variance follows those before."""

    def cost(ns: Any, ys: Any, theta: Any) -> Any:
        xp = ns.xp
        a, b, c = xp.exp(theta[0]), ns.nn.sigmoid(theta[1]), ns.nn.sigmoid(theta[2])

        def step(carry: Any, y: Any) -> Any:
            before, v = carry
            v = a + 0.5 * b * before**2 + 0.5 * c * v
            return (y, v), xp.log(v) + y**2 / v

        one = xp.ones((), "float32")
        _, losses = ns.scan(step, (one, one), ys)
        return xp.sum(losses)

    return Case(cost, [floats(t), floats(3)], (1,))


def writes(t: int, w: int) -> Case:
    """A table that is filled row by row, each from one before."""

    def cost(ns: Any, xs: Any, m: Any) -> Any:
        xp = ns.xp

        def step(carry: Any, x: Any) -> Any:
            table, i = carry
            row = xp.tanh(table[i // 2] @ m + x)
            return (table.at[i + 1].set(row), i + 1), None

        start = xp.zeros((t + 1, w), "float32"), xp.zeros((), "int32")
        (table, _), _ = ns.scan(step, start, xs)
        return xp.sum(table**2)

    return Case(cost, [floats(t, w), weights(w, w)], (0, 1))


def conv(t: int, c: int, s: int) -> Case:
    """A convolution of an image per step."""

    def cost(ns: Any, xs: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = ns.xp.tanh(ns.conv(h, w) + x)
            return h, None

        h, _ = ns.scan(step, ns.xp.zeros((2, c, s, s), "float32"), xs)
        return ns.xp.sum(h**2)

    return Case(cost, [floats(t, 2, c, s, s), 0.1 * floats(c, c, 3, 3)], (1,))


def decoder(t: int, b: int, w: int) -> Case:
    """Attention of each step to those before it, in a cache that is carried."""

    def cost(ns: Any, xs: Any, wq: Any, wk: Any, wv: Any) -> Any:
        xp = ns.xp
        places = xp.arange(t, dtype="int32")

        def step(carry: Any, x: Any) -> Any:
            keys, values, h, i = carry
            x = x + h
            keys = keys.at[i].set(x @ wk)
            values = values.at[i].set(x @ wv)
            scores = xp.einsum("tbw,bw->bt", keys, x @ wq) * w**-0.5
            scores = xp.where(places[None] <= i, scores, -1e9)
            mixed = xp.einsum("bt,tbw->bw", ns.nn.softmax(scores, axis=-1), values)
            h = xp.tanh(mixed)
            return (keys, values, h, i + 1), h

        cache = xp.zeros((t, b, w), "float32")
        start = cache, cache, xp.zeros((b, w), "float32"), xp.zeros((), "int32")
        _, ys = ns.scan(step, start, xs)
        return xp.mean(ys**2)

    return Case(cost, [floats(t, b, w), *(weights(w, w) for _ in range(3))], (1, 2, 3))


def rollout(t: int, b: int, w: int) -> Case:
    """A net of two layers that steers a system, and what it costs."""

    def cost(ns: Any, x: Any, a: Any, w1: Any, w2: Any) -> Any:
        xp = ns.xp

        def step(x: Any, _: Any) -> Any:
            u = xp.tanh(ns.nn.relu(x @ w1) @ w2)
            x = x @ a + 0.1 * u
            return x, xp.sum(x**2) + 0.1 * xp.sum(u**2)

        _, losses = ns.scan(step, x, None, length=t)
        return xp.mean(losses)

    arrays = [floats(b, w), weights(w, w), weights(w, w), weights(w, w)]
    return Case(cost, arrays, (2, 3))


def nested(t: int, b: int, w: int) -> Case:
    """A scan of scans, of five steps each."""

    def cost(ns: Any, xs: Any, wh: Any) -> Any:
        xp = ns.xp

        def inner(h: Any, x: Any) -> Any:
            return xp.tanh(h @ wh + x), None

        def outer(h: Any, x: Any) -> Any:
            h, _ = ns.scan(inner, h, x)
            return h, xp.sum(h**2)

        _, losses = ns.scan(outer, xp.zeros((b, w), "float32"), xs)
        return xp.sum(losses)

    return Case(cost, [floats(t // 5, 5, b, w), weights(w, w)], (1,))


def mapped(t: int, b: int, w: int) -> Case:
    """The cost of an example by a scan, for each of a batch by vmap."""

    def cost(ns: Any, xs: Any, wx: Any, wh: Any) -> Any:
        xp = ns.xp

        def of_one(x: Any) -> Any:
            def step(h: Any, row: Any) -> Any:
                h = xp.tanh(row @ wx + h @ wh)
                return h, h

            _, ys = ns.scan(step, xp.zeros(w, "float32"), x)
            return xp.sum(ys**2)

        return xp.sum(ns.vmap(of_one)(xs))

    return Case(cost, [floats(b, t, w), weights(w, w), weights(w, w)], (1, 2))


def picks(t: int, b: int, w: int) -> Case:
    """Embeddings that are read in the step, a loss of the next token."""

    def cost(ns: Any, tokens: Any, table: Any, wh: Any) -> Any:
        xp = ns.xp

        def step(h: Any, given: Any) -> Any:
            now, later = given
            h = xp.tanh(table[now] + h @ wh)
            logits = h @ table.T
            picked = xp.take_along_axis(logits, later[:, None], axis=1)[:, 0]
            return h, xp.sum(ns.logsumexp(logits, axis=1) - picked)

        zero = xp.zeros((b, w), "float32")
        _, losses = ns.scan(step, zero, (tokens[:-1], tokens[1:]))
        return xp.sum(losses) / t

    tokens = RNG.integers(0, 2 * w, size=(t, b)).astype("int32")
    return Case(cost, [tokens, weights(2 * w, w), weights(w, w)], (1, 2))


CASES: dict[str, tuple[Callable[..., Case], tuple[tuple[int, ...], ...]]] = {
    "lstm": (lstm, SIZES),
    "gru": (gru, SIZES),
    "rnn": (rnn, SIZES),
    "hmm": (hmm, ((20, 4), (200, 64), (200, 512))),
    "crf": (crf, ((20, 2, 5), (100, 16, 20), (100, 64, 50))),
    "kalman": (kalman, ((20, 2), (200, 4), (100, 32))),
    "ode": (ode, ((50, 1, 8), (50, 32, 64), (50, 256, 256))),
    "garch": (garch, ((20,), (1000,), (20_000,))),
    "writes": (writes, ((20, 8), (200, 64), (500, 512))),
    "conv": (conv, ((10, 2, 8), (20, 8, 16), (20, 16, 32))),
    "decoder": (decoder, ((10, 1, 8), (64, 4, 64), (128, 16, 128))),
    "rollout": (rollout, SIZES),
    "nested": (nested, SIZES),
    "vmap": (mapped, SIZES),
    "picks": (picks, SIZES),
    "second": (second, SIZES),
    "sqrt": (root, SIZES),
}


def ours(case: Case) -> Any:
    """Make the program of graphc, compiled at its first call."""
    xs = [gt.tensor(f"x{i}", str(a.dtype), a.shape) for i, a in enumerate(case.arrays)]
    found = graphc.value_and_grad(case.cost(OURS, *xs), [xs[i] for i in case.wrt])
    return graphc.function(xs, found)


def theirs(case: Case) -> Any:
    """Make the program of JAX, compiled at its first call."""
    cost = lambda *args: case.cost(THEIRS, *args)  # noqa: E731
    return jax.jit(jax.value_and_grad(cost, argnums=case.wrt))


def temporary(jitted: Any, *args: Any) -> int:
    """Return the bytes that XLA allocates beside arguments and results."""
    return int(jitted.lower(*args).compile().memory_analysis().temp_size_in_bytes)


def measure(name: str, case: Case) -> Iterator[Row]:
    """Yield the rows of one case: time, memory, first result."""
    args = [jnp.asarray(a) for a in case.arrays]
    own = seconds(lambda: ours(case)(*args), clock=CPU)
    other = seconds(lambda: theirs(case)(*args), clock=CPU)
    f, hand = ours(case), theirs(case)
    same(f(*args), hand(*args), case.tolerance)
    once = min(seconds(lambda: hand(*args)) for _ in range(3))
    calls = max(1, min(int(0.02 / once), 200))
    rounds = setting(31 if once < 0.1 else 9, 2)
    clock = CPU if "--cpu" in sys.argv else WALL  # for calls
    run = compare(
        lambda: f(*args), lambda: hand(*args), rounds=rounds, calls=calls, clock=clock
    )
    yield row(name, run, RUN_TIME)
    memory = [temporary(side, *args) for side in (emitted(f)["segment_0"], hand)]
    texts = [f"{m / 2**20:.3g} MiB" for m in memory]
    yield Row("  its memory", *texts, memory[0] / max(memory[1], 1), MEMORY)
    texts = [time_text(own), time_text(other)]
    yield Row("  first result (CPU)", *texts, own / other, FIRST)


def main() -> None:
    """Print a table for each case."""
    for name in named() or some(CASES):
        build, sizes = CASES[name]
        for size in setting(sizes, sizes[:1]):
            case = build(*size)
            text = f"{name} {' x '.join(map(str, size))}"
            print_table((build.__doc__ or name).strip(), measure(text, case))


if __name__ == "__main__":
    main()
