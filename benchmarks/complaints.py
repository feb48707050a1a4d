"""Complaints of users of other systems: results here, and how much is compiled.

    python -m benchmarks.complaints

Each complaint has the issue that describes it, and does what the issue does or asks
for. Results are compared with NumPy's. `number` is how often XLA compiles, and `target`
is the largest number that is allowed.
"""

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt

import graphc
import graphc.pytensor
import graphc.tensor as gt
from benchmarks.harness import Row, print_table, setting, some, xla_compilations

SIZES = setting([5, 6, 9, 12, 17, 23, 31, 40, 47, 55, 62, 64], [5, 17, 40])
Pairs = Iterator[tuple[Any, Any]]


@dataclass(frozen=True)
class Complaint:
    """An issue, its text, and the most compilations of its program."""

    issue: str
    text: str
    most: int
    run: Callable[[], Pairs]


COMPLAINTS: list[Complaint] = []


def complaint(issue: str, text: str, most: int) -> Any:
    """Register a function that yields results of an issue's program with NumPy's."""

    def noted(run: Callable[[], Pairs]) -> Callable[[], Pairs]:
        COMPLAINTS.append(Complaint(issue, text, most, run))
        return run

    return noted


def vector(n: int) -> Any:
    return np.random.default_rng(n).normal(size=n).astype("float32")


def softmax(x: Any) -> Any:
    shifted = np.exp(x - x.max())
    return shifted / shifted.sum()


def of_vector(body: Callable[[Any], Any], **how: Any) -> Any:
    x = gt.tensor("x", "float32", ("n",))
    return graphc.function([x], body(x), **how)


# Programs that other systems compile again, or give up compiling.


@complaint("TensorRT-LLM#6142", "uncompiled for ever after 8 recompilations", 5)
def _() -> Pairs:
    f = of_vector(lambda x: gt.nn.softmax(x))
    for n in SIZES:
        yield f(vector(n)), softmax(vector(n))


@complaint("pytorch#174704", "a limit of recompilations per function", 5)
def _() -> Pairs:
    f = graphc.jit(lambda x: jnp.cumsum(x))
    for n in SIZES:
        yield f(vector(n)), np.cumsum(vector(n), dtype="float32")


@complaint("pytorch#149635", "max(n, 16) makes two graphs", 4)
def _() -> Pairs:
    f = of_vector(lambda x: gt.sum(x) / gt.maximum(x.shape[0], 16))
    for n in SIZES:
        yield f(vector(n)), np.sum(vector(n)) / max(n, 16)


@complaint("pytorch#131893", "the size of an argument that nothing reads", 1)
def _() -> Pairs:
    f = graphc.jit(lambda x, unread: x * 2)
    for n in SIZES:
        yield f(vector(3), vector(n)), vector(3) * 2


@complaint("pytorch#129456", "sizes that are equal once are taken for one size", 9)
def _() -> Pairs:
    f = graphc.jit(lambda x, y: jnp.sum(x) * jnp.sum(y))
    for n, m in [(8, 8), (8, 8), *((n, n + 3) for n in SIZES)]:
        yield f(vector(n), vector(m)), vector(n).sum() * vector(m).sum()


@complaint("pytorch#118213", "hundreds of symbols take minutes", 1)
def _() -> Pairs:
    count = setting(200, 20)
    inputs = [gt.tensor(f"x{i}", "float32", (f"n{i}",)) for i in range(count)]
    f = graphc.function(inputs, sum(map(gt.sum, inputs)), dims="pad", jit=True)
    given = [vector(3 + i % 9) for i in range(count)]
    yield f(*given), sum(x.sum() for x in given)


@complaint("pytorch#141675", "simplifying sizes takes 35 to 87 seconds", 1)
def _() -> Pairs:
    def parts(x: Any) -> Any:
        for _ in range(setting(12, 4)):
            n = x.shape[0]
            x = gt.concatenate([x[: n // 3], x[n // 3 :], x[:1]])
        return gt.sum(x)

    f = of_vector(parts, dims="pad")
    x = y = vector(30)
    for _ in range(setting(12, 4)):
        y = np.concatenate([y, y[:1]])
    yield f(x), y.sum()


@complaint("pytorch#190631", "buckets, padding and masks by the compiler", 3)
def _() -> Pairs:
    f = graphc.jit(jax.nn.softmax, dims="pad", shapes="n")
    for n in SIZES:
        yield f(vector(n)), softmax(vector(n))


@complaint("jax#803", "masking as a transformation, since 2019", 3)
def _() -> Pairs:
    loss = of_vector(lambda x: graphc.grad(gt.var(x), x), dims="pad")
    for n in SIZES:
        x = vector(n)
        yield loss(x), 2 * (x - x.mean()) / n


@complaint("jax#38584", 'jit(shapes="... i j, ... i j")', 3)
def _() -> Pairs:
    shapes = "i j, i j -> i j"
    f = graphc.jit(lambda a, b: a * b + a.sum(), shapes=shapes, dims={"i": "pad"})
    for n in SIZES:
        a = vector(3 * n).reshape(n, 3)
        yield f(a, a), a * a + a.sum()


@complaint("jax#17863", "ragged arrays", 2)
def _() -> Pairs:
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.ragged([x], gt.mean(x))
    rows = [vector(n) for n in SIZES]
    yield np.asarray(f(rows)), np.array([row.mean() for row in rows])


@complaint("mace#1590", "buckets by hand, and a gate on recompilations", 3)
def _() -> Pairs:
    f = of_vector(lambda x: gt.segment_sum(x, gt.arange(x.shape[0]) % 3, 3), dims="pad")
    with graphc.assert_compiles(f, at_most=3):
        for n in SIZES:
            x = vector(n)
            yield f(x), np.array([x[i::3].sum() for i in range(3)])


@complaint("sglang-jax#609", "padded twice, to sizes that differ", 3)
def _() -> Pairs:
    f = of_vector(lambda x: gt.sort(gt.nn.softmax(x)), dims={"n": graphc.Pad()})
    g = of_vector(lambda x: gt.sum(x), dims={"n": graphc.Pad(minimum=64)})
    del g
    for n in SIZES:
        yield f(vector(n)), np.sort(softmax(vector(n)))


@complaint("verl#7272", "lengths of batches compile again", 3)
def _() -> Pairs:
    f = graphc.jit(lambda x: jnp.mean(x, axis=0), shapes="n 2 -> 2", dims="pad")
    for n in SIZES:
        x = vector(2 * n).reshape(n, 2)
        yield f(x), x.mean(0)


@complaint("mlx#3201", "one graph for all shapes is silently wrong", 5)
def _() -> Pairs:
    f = graphc.jit(lambda x: jnp.sum(x) / x.shape[0])
    for n in SIZES:
        yield f(vector(n)), vector(n).mean()


@complaint("mlx#4464", "a cache of programs that grows without bound", 3)
def _() -> Pairs:
    f = of_vector(lambda x: x[::-1], dims={"n": graphc.Pad(buckets=(16, 32, 64))})
    for n in SIZES:
        yield f(vector(n)), vector(n)[::-1]


@complaint("keras#20757", "ragged input becomes dense, and padding counts", 1)
def _() -> Pairs:
    x = gt.tensor("x", "float32", ("n", 2))
    f = graphc.ragged([x], gt.max(x, axis=0))
    rows = [vector(2 * n).reshape(n, 2) - 9 for n in (2, 5, 3)]
    yield np.asarray(f(rows)), np.stack([row.max(0) for row in rows])


@complaint("onnxruntime#13851", "engines are built again as shapes widen", 5)
def _() -> Pairs:
    x = gt.tensor("x", "float32", ("n", 3))
    f = graphc.function([x], x @ np.ones((3, 2), "float32"))
    for n in sorted(SIZES):
        a = vector(3 * n).reshape(n, 3)
        yield f(a), a @ np.ones((3, 2), "float32")


@complaint("vllm#16726", "a promise not to compile, broken at odd maxima", 3)
def _() -> Pairs:
    f = of_vector(lambda x: gt.nn.softmax(x), dims="pad")
    f.compile({"n": range(1, 64)})
    with graphc.stance("no_compile"):
        for n in (1, 31, 32, 33, 63):
            yield f(vector(n)), softmax(vector(n))


# Failing when something is compiled, and counting.


@complaint("jax#457", "raise where something would be compiled", 1)
def _() -> Pairs:
    f = graphc.jit(jnp.tanh)
    f(vector(4))
    refused = False
    with graphc.stance("no_compile"):
        try:
            f(vector(5))
        except graphc.NoCompileError:
            refused = True
        yield f(vector(4)), np.tanh(vector(4))
    yield refused, True


@complaint("jax#8655", "tell which argument made it compile", 2)
def _() -> Pairs:
    f = of_vector(lambda x: x + 1, dims="specialize")
    f(vector(4))
    f(vector(5))
    reason = f.stats().compilations[-1].reason
    yield "n changed from 4 to 5" in reason, True


@complaint("jax#12212", "a test that limits compilations", 1)
def _() -> Pairs:
    f = of_vector(lambda x: x + 1, dims="pad")
    told = False
    try:
        with graphc.assert_compiles(f, at_most=1):
            f(vector(4))
            yield f(vector(9)), vector(9) + 1
            f(vector(40))
    except AssertionError:
        told = True
    yield told, True


# Files.


@complaint("vllm#35061", "files are written in place, and found half", 1)
def _() -> Pairs:
    f = of_vector(lambda x: x + 1, dims="pad")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "decisions.json")
        f(vector(5))
        f.decisions.save(path)
        yield os.listdir(folder), ["decisions.json"]
        yield graphc.SavedDecisions.load(path) == f.decisions, True


@complaint("jax#39494", "files of models that expire", 1)
def _() -> Pairs:
    f = of_vector(lambda x: x * 3, dims="pad")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tripled.model")
        f.export(path, {"n": [4]}, graph=True)
        yield graphc.load(path, graph=True)(vector(9)), vector(9) * 3


# PyTensor and PyMC, in JAX mode.


def of_pytensor(inputs: list[Any], output: Any) -> Any:
    return pytensor.function(inputs, output, mode="GRAPHC")


@complaint("pymc#5927", "reshape to sizes that are computed", 5)
def _() -> Pairs:
    x = pt.vector("x", dtype="float32")
    f = of_pytensor([x], x.reshape((x.shape[0] // 2, 2)).sum(axis=0))
    for n in SIZES:
        a = vector(2 * n)
        yield f(a), a.reshape(-1, 2).sum(0)


@complaint("pymc#7387", "missing values, as a mask of data", 6)
def _() -> Pairs:
    x = pt.vector("x", dtype="float32")
    f = of_pytensor([x], x[pt.isnan(x).nonzero()].shape[0] + x[~pt.isnan(x)].sum())
    for n in SIZES:
        a = vector(n)
        a[::3] = np.nan
        yield f(a), np.isnan(a).sum() + np.nansum(a)


@complaint("pytensor#853", "boolean masks as indices", 6)
def _() -> Pairs:
    x = pt.vector("x", dtype="float32")
    f = of_pytensor([x], pt.exp(x[x > 0]).sum())
    for n in SIZES:
        a = vector(n)
        yield f(a), np.exp(a[a > 0]).sum()


@complaint("pytensor#1509", "nonzero", 8)
def _() -> Pairs:
    x = pt.vector("x", dtype="float32")
    f = of_pytensor([x], x.nonzero()[0])
    for n in SIZES:
        a = np.maximum(vector(n), 0)
        yield f(a), a.nonzero()[0]


@complaint("pytensor#2317", "a convolution keeps a marketing model away", 5)
def _() -> Pairs:
    x = pt.vector("x", dtype="float32")
    kernel = np.array([1.0, 0.5, 0.25], "float32")
    f = of_pytensor([x], pt.signal.convolve1d(x, pt.constant(kernel), mode="full"))
    for n in SIZES:
        yield f(vector(n)), np.convolve(vector(n), kernel)


@complaint("pymc#7348", "data that are set are frozen", 5)
def _() -> Pairs:
    data = pytensor.shared(vector(3))
    f = of_pytensor([], pt.tanh(data).sum())
    for n in SIZES:
        data.set_value(vector(n))
        yield f(), np.tanh(vector(n)).sum()


@complaint("pymc#8330", "each predictive call compiles again", 5)
def _() -> Pairs:
    data, slope = pytensor.shared(vector(3)), pt.scalar("slope", dtype="float32")
    f = of_pytensor([slope], data * slope)
    for n in SIZES:
        data.set_value(vector(n))
        yield f(np.float32(2)), vector(n) * 2


def checked(one: Complaint) -> Row:
    """Check the results of a complaint; return its row."""
    with warnings.catch_warnings(), xla_compilations() as found:
        warnings.simplefilter("ignore", graphc.RecompilationWarning)
        pairs = list(one.run())
    for got, expected in pairs:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5) if isinstance(
            expected, (np.ndarray, float, np.floating)
        ) else np.testing.assert_equal(got, expected)
    count = len(found)
    texts = one.text, f"{len(pairs)} results"
    return Row(one.issue, *texts, number=count, target=one.most)


def main() -> None:
    """Print the table."""
    rows = [checked(one) for one in some(COMPLAINTS)]
    print_table("Complaints about other systems", rows, "compilations")


if __name__ == "__main__":
    main()
