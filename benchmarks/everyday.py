"""Everyday programs of all families, whose compilations `predictable` counts.

Each program is a graph with inputs, or a function for `graphc.jit`. `arguments` makes
the arguments for a size. Loops whose steps have their own sizes get an eighth of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt

Array = Any
Types = Sequence[tuple[str, str, tuple[Any, ...]]]


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def integers(n: int, most: int) -> Array:
    return np.random.default_rng(n).integers(0, most, n).astype("int32")


@dataclass(frozen=True)
class Program:
    """A program and its arguments; a graph has the types of its inputs, too."""

    name: str
    body: Callable[..., Any]
    arguments: Callable[[int], list[Any]]
    types: Types = ()
    shapes: str | None = None  # for a JAX function

    def compiled(self, dims: Any, backend: str = "jax") -> Any:
        """Compile the program under a policy for its sizes."""
        if not self.types:
            return graphc.jit(self.body, dims=dims)
        inputs = [gt.tensor(*one) for one in self.types]
        outputs = self.body(*inputs)
        return graphc.function(inputs, outputs, dims=dims, backend=backend)

    def exact(self, args: list[Any]) -> Any:
        """Compute the results at true sizes: on NumPy, or with JAX."""
        if not self.types:
            return jax.jit(self.body)(*args)
        return self.compiled("specialize", "numpy")(*args)


X = (("x", "float32", ("n",)),)
XY = (*X, ("y", "float32", ("n",)))
M = (("x", "float32", ("n", 4)),)
K = (*X, ("k", "int64", ()))
I = (("x", "int32", ("n",)),)  # noqa: E741
WHOLE = lambda n: [floats(n)]  # noqa: E731
FEW = lambda n: [floats(n // 8)]  # noqa: E731


def of_vector(name: str, body: Callable[..., Any], few: bool = False) -> Program:
    return Program(name, body, FEW if few else WHOLE, X)


def of_rows(name: str, body: Callable[..., Any]) -> Program:
    return Program(name, body, lambda n: [floats(n // 8, 4)], M)


# Loops, and sizes that are read.


def smallest_so_far(x: Any) -> Any:
    step = lambda t, c: c + gt.argmin(x[gt.arange(t)])  # noqa: E731
    return gt.fori_loop(1, x.shape[0], step, gt.zeros((), "int64"))


def prefix_means(x: Any) -> Any:
    step = lambda t, c: c + gt.mean(x[:t])  # noqa: E731
    return gt.fori_loop(1, x.shape[0], step, gt.zeros((), "float32"))


def overlaps(x: Any) -> Any:
    """Sum the products of each beginning with the end of the same length."""
    n = x.shape[0]
    step = lambda t, c: c.at[t].set(gt.sum(x[:t] * x[n - t :]))  # noqa: E731
    return gt.fori_loop(1, n, step, gt.zeros(n, "float32"))


def cooled(x: Any) -> Any:
    """Return a state for each element, from a loop that collects the states."""
    going = lambda c: c[1] < x.shape[0]  # noqa: E731
    step = lambda c: ((gt.tanh(c[0]) + 0.1, c[1] + 1), gt.sum(c[0]))  # noqa: E731
    start = x, gt.zeros((), "int64")
    return gt.while_loop(going, step, start, collect=True)[1]


def cooled_slope(x: Any) -> Any:
    going = lambda c: c[1] < x.shape[0]  # noqa: E731
    step = lambda c: (gt.sin(c[0]) + 0.1 * c[0], c[1] + 1)  # noqa: E731
    last = gt.while_loop(going, step, (x, gt.zeros((), "int64")))[0]
    return graphc.grad(gt.sum(last), x)


def prefixes(x: Any, k: Any) -> Any:
    """Sum the first 1, 2, ... elements, up to a number of them."""
    weights = lambda t: gt.arange(t, dtype="float32")  # noqa: E731
    step = lambda t, c: c + gt.sum(x[:t] * weights(t))  # noqa: E731
    return gt.fori_loop(1, k, step, gt.zeros((), "float32"))


def products(x: Any, y: Any) -> Any:
    return gt.sum(gt.exp(-((x[:, None] - y) ** 2)), axis=1)


def counted_in_a_loop(x: Any) -> Any:
    n = x.shape[0]

    def step(c: Any) -> Any:
        return c + gt.bincount(gt.abs(c - x) % n, minlength=n)[:n].astype("int32")

    return gt.while_loop(lambda c: gt.max(c) < 9, step, gt.zeros(n, "int32"))


def halved(x: Any) -> Any:
    """Return all states of a loop of unknown length."""
    going = lambda c: gt.sum(gt.abs(c)) > 1  # noqa: E731
    found = gt.while_loop(going, lambda c: (c / 2, c), x, collect=True)
    return gt.sum(gt.abs(found[1]), axis=1)


def recurrent(x: Any) -> Any:
    step = lambda c, row: (gt.tanh(c * 0.5 + row), c)  # noqa: E731
    return gt.scan(step, gt.zeros(4, "float32"), x)[1]


def recurrent_slope(x: Any) -> Any:
    return graphc.grad(gt.sum(recurrent(x) ** 2), x)


def newton(x: Any) -> Any:
    """Compute square roots, until all of them are exact."""
    a = gt.abs(x) + 1
    going = lambda r: gt.max(gt.abs(r * r - a)) > 1e-3  # noqa: E731
    return gt.while_loop(going, lambda r: (r + a / r) / 2, a, max_steps=30)


def suppressed(x: Any) -> Any:
    """Pick intervals by their scores, without those that a better one overlaps."""
    start, length, score = x[:, 0], gt.abs(x[:, 1]) / 8, x[:, 2]
    order = gt.argsort(-score)
    low, high = start[order], start[order] + length[order]
    shared = gt.minimum(high[:, None], high) - gt.maximum(low[:, None], low)
    n = x.shape[0]

    def step(i: Any, keep: Any) -> Any:
        later = gt.arange(n) > i
        return keep & ~(keep[i] & later & (shared[i] > 0))

    keep = gt.fori_loop(0, n, step, gt.ones(n, "bool"))
    return gt.stack([low[keep], high[keep]], axis=1)


def change_point(x: Any) -> Any:
    """Find where a series changes most, and the parts before and after."""
    n = x.shape[0]
    sums = gt.cumsum(x)
    at = gt.arange(1, n)
    left = sums[: n - 1] / at.astype("float32")
    right = (sums[n - 1] - sums[: n - 1]) / (n - at).astype("float32")
    where = gt.argmax(gt.abs(left - right)) + 1
    return [gt.sort(x[:where]), gt.std(x[where:])]


def sinkhorn(x: Any, y: Any) -> Any:
    """Compute a transport plan between the points of two masks."""
    a, b = x[x > 0], y[y > 0]
    kernel = gt.exp(-((a[:, None] - b) ** 2))
    step = lambda _, v: 1 / (1e-6 + (1 / (1e-6 + kernel @ v)) @ kernel)  # noqa: E731
    v = gt.fori_loop(0, 5, step, gt.ones(b.shape[0], "float32"))
    return kernel @ v


def interval_join(x: Any, y: Any) -> Any:
    """Find pairs of points of two series that are close to one another."""
    low, high = gt.sort(x), gt.sort(y)
    close = gt.abs(low[:, None] - high) < 0.01
    i, j = gt.nonzero(close)
    return low[i] - high[j]


def chain(x: Any) -> Any:
    """Compute the partition function of a chain of four states, and its slope."""
    weights = gt.constant(floats(4, 4))

    def step(alpha: Any, row: Any) -> Any:
        return gt.nn.logsumexp(alpha[:, None] + weights, axis=0) + row, alpha[0]

    total = gt.nn.logsumexp(gt.scan(step, x[0], x[1:])[0])
    return graphc.grad(total, x)


def kept_rows(x: Any) -> Any:
    kept = x[x[:, 0] > 0]
    return kept @ gt.constant(floats(4, 3))


def top_of_kept(x: Any, k: Any) -> Any:
    kept = x[x > 0]
    return gt.sort(kept, descending=True)[:k]


def runs(x: Any) -> Any:
    """Compute the lengths of runs of equal numbers."""
    starts = gt.nonzero(gt.concatenate([gt.ones(1, "bool"), x[1:] != x[:-1]]))[0]
    ends = gt.concatenate([starts[1:], gt.stack([x.shape[0]])])
    return ends - starts


def normal_equations(x: Any) -> Any:
    return gt.linalg.solve(x.T @ x + np.eye(4, dtype="float32"), gt.sum(x, axis=0))


def process(x: Any) -> Any:
    """Compute the logarithm of the density of a Gaussian process."""
    kernel = gt.exp(-((x[:, None] - x) ** 2)) + gt.eye(x.shape[0], dtype="float32")
    root = gt.linalg.cholesky(kernel)
    return gt.sum(gt.log(gt.diagonal(root)))


# Functions of JAX.


def attended(q: Array, k: Array) -> Array:
    return jax.nn.softmax(q @ k.T, axis=-1) @ k


def perceptron(x: Array, w: Array) -> Array:
    return jnp.mean(jnp.sum(jnp.tanh(x @ w), -1) ** 2)


def stepped(x: Array) -> Array:
    return jax.lax.scan(lambda c, r: (jnp.tanh(c + r), c), x[0], x)[1]


def causal(x: Array) -> Array:
    scores = jnp.where(jnp.tri(x.shape[0], dtype=bool), x @ x.T, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ x


def roots_so_far(x: Any) -> Any:
    """Collect the errors of square roots in each step of a loop."""
    a = gt.abs(x) + 1
    off = lambda r: gt.max(gt.abs(r * r - a))  # noqa: E731
    step = lambda r: ((r + a / r) / 2, off(r))  # noqa: E731
    return gt.while_loop(lambda r: off(r) > 1e-3, step, a, collect=True)[1]


def positive_states(x: Any) -> Any:
    """Select the states of a recurrence that are positive."""
    step = lambda c, row: (gt.tanh(c * 0.5 + row), c)  # noqa: E731
    states = gt.scan(step, gt.zeros((), "float32"), x)[1]
    return gt.exp(states[states > 0])


def edit_distance(x: Any, y: Any) -> Any:
    """Count how many letters two words are apart, row by row of a table."""

    def row(above: Any, letter: Any) -> Any:
        changed = gt.minimum(above[:-1] + (y != letter), above[1:] + 1)

        def cell(left: Any, best: Any) -> Any:
            least = gt.minimum(left + 1, best)
            return least, least

        cells = gt.scan(cell, above[0] + 1, changed.astype("float32"))[1]
        return gt.concatenate([(above[0] + 1)[None], cells]), above[0]

    return gt.scan(row, gt.arange(y.shape[0] + 1, dtype="float32"), x)[0][-1]


def beams(x: Any) -> Any:
    """Keep the three best sums in each step; return the best one of each step."""

    def step(best: Any, row: Any) -> Any:
        sums = gt.sort(gt.reshape(best[:, None] + row, (-1,)))[::-1][:3]
        return sums, sums[0]

    return gt.scan(step, gt.zeros(3, "float32"), x)[1]


def sums_of_threes(x: Array) -> Array:
    n = x.shape[0] // 3
    return jnp.sum(jnp.reshape(x[: 3 * n], (n, 3)), axis=1)


EVERYDAY = [
    of_vector("sorted", lambda x: gt.sort(x)),
    of_vector("ranks", lambda x: gt.argsort(gt.argsort(x))),
    of_vector("sums so far", lambda x: gt.cumsum(x) / (1 + gt.arange(x.shape[0]))),
    of_vector("median", lambda x: gt.median(x)),
    of_vector("quartiles", lambda x: gt.percentile(x, np.array([25.0, 75.0]))),
    of_vector("differences", lambda x: gt.std(gt.diff(x))),
    of_vector("distances", lambda x: gt.min(gt.abs(x[:, None] - x) + 1, axis=1), True),
    of_vector("smoothed", lambda x: gt.convolve(x, floats(5), mode="same")),
    of_vector("log of a sum", lambda x: gt.nn.logsumexp(x)),
    of_vector("reversed", lambda x: x[::-1] + gt.roll(x, 3)),
    of_vector("halves", lambda x: gt.sum(x[: x.shape[0] // 2]) / gt.sum(x)),
    of_vector("every other", lambda x: gt.exp(x[::2])),
    of_vector("both ends", lambda x: gt.concatenate([x, x * 2])),
    of_vector("triangle", lambda x: gt.sum(gt.tril(x[:, None] * x), axis=0), True),
    of_vector("diagonal", lambda x: gt.diag(x) @ x, True),
    of_vector("mean of the positive", lambda x: gt.mean(x[x > 0])),
    of_vector("the positive", lambda x: gt.exp(x[x > 0])),
    of_vector("places", lambda x: gt.nonzero(x > 1)[0]),
    of_vector("slope", lambda x: graphc.grad(gt.sum(gt.tanh(x) ** 2), x)),
    of_vector("mapped", lambda x: gt.map(lambda a: gt.sin(a) * a, x), True),
    of_vector("smallest so far", smallest_so_far, True),
    of_vector("means so far", prefix_means, True),
    of_vector("all halvings", halved, True),
    of_vector("overlaps", overlaps, True),
    of_vector("states of a loop", cooled, True),
    of_vector("slope of a loop", cooled_slope, True),
    of_vector("square roots", newton),
    of_vector("change point", change_point),
    of_vector("Gaussian process", process, True),
    of_rows("normal equations", normal_equations),
    of_rows("layer norm", lambda x: gt.nn.layer_norm(x)),
    of_rows("row softmax", lambda x: gt.nn.softmax(x, axis=-1)),
    of_rows("covariance", lambda x: gt.cov(x.T)),
    of_rows("kept rows", kept_rows),
    of_rows("recurrent", recurrent),
    of_rows("recurrent slope", recurrent_slope),
    of_rows("chain", chain),
    of_rows("beam search", beams),
    of_vector("roots so far", roots_so_far, True),
    of_vector("positive states", positive_states, True),
    Program("edit distance", edit_distance,
            lambda n: [integers(n // 8 + 1, 4), integers(n // 8 + 9, 4)],
            (*I, ("y", "int32", ("m",)))),
    Program("sums of threes of JAX", sums_of_threes, WHOLE),
    of_rows("suppressed", suppressed),
    Program("first ones", lambda x, k: gt.cumsum(x[:k]), lambda n: [floats(n), n // 2],
            K),
    Program("best of the positive", top_of_kept, lambda n: [floats(n), n // 4], K),
    Program("repeated", lambda x, k: gt.repeat(x, k), lambda n: [floats(n), 3], K),
    Program("table", lambda x: gt.bincount(x, minlength=8),
            lambda n: [integers(n, 8)], I),
    Program("sums by group", lambda x: gt.segment_sum(x * 2, x, 8),
            lambda n: [integers(n, 8)], I),
    Program("distinct", lambda x: gt.unique(x), lambda n: [integers(n, n // 2)], I),
    Program("runs", runs, lambda n: [integers(n, 3)], I),
    Program("counted in a loop", counted_in_a_loop, lambda n: [integers(n // 8, 9)], I),
    Program("one-hot", lambda x: gt.nn.one_hot(x, 5), lambda n: [integers(n, 5)], I),
    Program("correlation", lambda x, y: gt.corrcoef(x, y)[0, 1],
            lambda n: [floats(n), floats(n + 1)[1:]], XY),
    Program("places in a table", lambda x, y: gt.searchsorted(gt.sort(x), y),
            lambda n: [floats(n), floats(n + 1)[1:]], XY),
    Program("sinkhorn", sinkhorn, lambda n: [floats(n // 8), floats(n // 8 + 9)],
            (*X, ("y", "float32", ("m",)))),
    Program("interval join", interval_join,
            lambda n: [floats(n // 8), floats(n // 8 + 9)],
            (*X, ("y", "float32", ("m",)))),
    Program("prefixes", prefixes, lambda n: [floats(n // 8 + 2), n // 8], K),
    Program("two axes", products, lambda n: [floats(n // 8), floats(n // 8 + n // 16)],
            (*X, ("y", "float32", ("m",)))),
    Program("attention of JAX", attended,
            lambda n: [floats(n // 8, 4), floats(n // 8 + n // 16, 4)]),
    Program("perceptron of JAX", perceptron, lambda n: [floats(n, 3), floats(3, 4)]),
    Program("scan of JAX", stepped, lambda n: [floats(n // 8 + 2, 3)]),
    Program("causal attention of JAX", causal, lambda n: [floats(n // 8 + 2, 4)]),
]  # fmt: skip
