"""Log densities written in PyTensor, with their gradients: our mode and its mode JAX.

    python -m benchmarks.pytensor_models [first] [calls] [lengths]

`first`: CPU seconds from the graph to the first result, with PyTensor's gradient and
with ours (`value_and_grad`). `calls`: time per call of a function of PyTensor in either
mode. `lengths`: CPU seconds of one function that is called on data of 20 lengths.
Targets: 0.5 for the first result, 1.0 for a call, 0.2 for the lengths.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import graphc
from benchmarks.harness import (
    CPU,
    Row,
    compare,
    comparison,
    named,
    print_table,
    row,
    same,
    seconds,
    setting,
    some,
)

try:
    import pytensor
    import pytensor.tensor as pt

    import graphc.pytensor
except ImportError:  # without PyTensor, the tables are empty
    pytensor = None

ROUNDS, CALLS, LENGTHS = setting((5, 200, 20), (2, 2, 2))
Graph = tuple[list[Any], Any, list[Any]]  # inputs, the log density, arguments


def normal(x: Any, mean: Any, scale: Any) -> Any:
    """The log density of a normal distribution, up to a constant."""
    return -0.5 * ((x - mean) / scale) ** 2 - pt.log(scale)


def radon(length: int = 900) -> Graph:
    """Varying intercepts of 85 groups: a regression."""
    rng = np.random.default_rng(1)
    group, floor = rng.integers(0, 85, length), rng.integers(0, 2, length) * 1.0
    y = rng.normal(size=length)
    q, a, f, d = pt.dvector("q"), pt.lvector("group"), pt.dvector("f"), pt.dvector("d")
    scale, within = pt.exp(q[1]), pt.exp(q[3])
    intercepts = q[0] + scale * q[4:]
    fit = normal(d, intercepts[a] + q[2] * f, within).sum()
    prior = normal(q, 0.0, pt.constant(2.0)).sum()
    return [q, a, f, d], fit + prior, [rng.normal(size=89) / 5, group, floor, y]


def process(length: int = 60) -> Graph:
    """A Gaussian process with a squared exponential kernel."""
    rng = np.random.default_rng(2)
    q, t, y = pt.dvector("q"), pt.dvector("t"), pt.dvector("y")
    apart = (t[:, None] - t[None, :]) / pt.exp(q[0])
    kernel = pt.exp(q[1] - 0.5 * apart**2) + pt.exp(q[2]) * pt.eye(t.shape[0])
    chol = pt.linalg.cholesky(kernel)
    z = pt.linalg.solve_triangular(chol, y, lower=True, b_ndim=1)
    density = -0.5 * (z**2).sum() - pt.log(pt.diag(chol)).sum()
    arrays = [np.zeros(3), np.linspace(0, 5, length), rng.normal(size=length)]
    return [q, t, y], density - (q**2).sum(), arrays


def scanned(step: Callable[..., Any], outputs: Any, *sequences: Any) -> Any:
    """What a scan of PyTensor stacks, whichever its version."""
    return pytensor.scan(
        step, sequences=sequences, outputs_info=outputs, return_updates=False
    )


def markov(length: int = 200) -> Graph:
    """A hidden Markov chain with three states, forwards."""
    rng = np.random.default_rng(3)
    q, y = pt.dmatrix("q"), pt.dvector("y")
    moves = pt.special.log_softmax(q[:, :3], axis=1)
    emitted = normal(y[:, None], q[:, 3], pt.constant(1.0))
    start = emitted[0] - np.log(3.0)
    ends = scanned(
        lambda e, a: e + pt.logsumexp(a[:, None] + moves, axis=0), [start], emitted[1:]
    )
    arrays = [rng.normal(size=(3, 4)), rng.normal(size=length)]
    return [q, y], pt.logsumexp(ends[-1]) - (q**2).sum(), arrays


def autoregression(length: int = 300) -> Graph:
    """Residuals of an autoregression of order two, one after the other."""
    rng = np.random.default_rng(4)
    q, y = pt.dvector("q"), pt.dvector("y")
    residual = y[2:] - q[0] - q[1] * y[1:-1] - q[2] * y[:-2]
    density = normal(residual, 0.0, pt.exp(q[3])).sum()
    return [q, y], density - (q**2).sum(), [np.zeros(4), rng.normal(size=length)]


def predators(length: int = 40) -> Graph:
    """Lotka and Volterra's equations, by the method of Runge and Kutta."""
    rng = np.random.default_rng(5)
    q, y = pt.dvector("q"), pt.dmatrix("y")
    a, b, c, d = (pt.exp(q[i]) for i in range(4))

    def slope(z: Any) -> Any:
        return pt.stack([a * z[0] - b * z[0] * z[1], d * z[0] * z[1] - c * z[1]])

    def step(_: Any, z: Any) -> Any:
        k1 = slope(z)
        k2 = slope(z + 0.05 * k1)
        k3 = slope(z + 0.05 * k2)
        return z + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + slope(z + 0.1 * k3))

    path = scanned(step, [pt.exp(q[4:6])], y)
    arrays = [np.full(6, -0.3), rng.normal(size=(length, 2))]
    return [q, y], normal(y, path, pt.constant(1.0)).sum() - (q**2).sum(), arrays


MODELS = [radon, process, markov, autoregression, predators]


def compiled(graph: Graph, mode: Any) -> Any:
    """PyTensor's function of the density and its gradient."""
    inputs, density, _ = graph
    outputs = [density, pytensor.grad(density, inputs[0])]
    return pytensor.function(inputs, outputs, mode=mode, trust_input=True)


def first(model: Callable[..., Graph], mode: Any) -> float:
    """CPU seconds from the graph to the first result."""
    jax.clear_caches()
    return seconds(lambda: compiled(graph := model(), mode)(*graph[2]), clock=CPU)


def own_first(model: Callable[..., Graph]) -> float:
    """The same where graphc takes the gradient."""
    jax.clear_caches()

    def run() -> Any:
        inputs, density, arrays = model()
        graph = graphc.pytensor.value_and_grad(density, inputs[0], inputs)
        return graphc.function(graph.inputs, graph.outputs)(*arrays)

    return seconds(run, clock=CPU)


def first_rows() -> Iterator[Row]:
    for model in some(MODELS):
        first(model, "JAX")  # whatever happens once only
        theirs = [first(model, "JAX") for _ in range(ROUNDS)]
        ours = [first(model, "GRAPHC") for _ in range(ROUNDS)]
        own = [own_first(model) for _ in range(ROUNDS)]
        name = model.__name__
        yield row(name, comparison(list(zip(ours, theirs, strict=True))), 0.5)
        own_gradient = comparison(list(zip(own, theirs, strict=True)))
        yield row(name, own_gradient, 0.5, "the gradient is ours")


def call_rows() -> Iterator[Row]:
    for model in some(MODELS):
        graph = model()
        ours, theirs = compiled(graph, "GRAPHC"), compiled(graph, "JAX")
        same(ours(*graph[2]), list(map(np.asarray, theirs(*graph[2]))), 1e-8)
        result = compare(
            lambda f=ours, g=graph: f(*g[2]),
            lambda f=theirs, g=graph: f(*g[2]),
            rounds=3 * ROUNDS,
            calls=CALLS,
        )
        yield row(model.__name__, result, 1.0)


def all_lengths(model: Callable[..., Graph], mode: Any) -> float:
    """CPU seconds of calls on data of several lengths, compilations included."""
    jax.clear_caches()
    graph, f = model(), None
    f = compiled(graph, mode)
    arrays = [model(40 + 7 * k)[2] for k in range(LENGTHS)]
    return seconds(lambda: [f(*given) for given in arrays][-1], clock=CPU)


def length_rows() -> Iterator[Row]:
    for model in some(MODELS):
        ours = [all_lengths(model, "GRAPHC") for _ in range(2)]
        theirs = [all_lengths(model, "JAX") for _ in range(2)]
        yield row(model.__name__, comparison(list(zip(ours, theirs, strict=True))), 0.2)


TABLES = {
    "first": ("CPU seconds to the first result", first_rows),
    "calls": ("time per call", call_rows),
    "lengths": (f"CPU seconds of calls on {LENGTHS} lengths", length_rows),
}


def main() -> None:
    for name in named() or some(TABLES):
        title, rows = TABLES[name]
        print_table(title, rows() if pytensor is not None else [])


if __name__ == "__main__":
    main()
