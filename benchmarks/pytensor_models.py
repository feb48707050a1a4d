"""Log densities written in PyTensor, with their gradients: our mode and its mode JAX.

    python -m benchmarks.pytensor_models [first] [calls] [lengths]

`first`: the CPU seconds from the graph to the first result, with PyTensor's gradient
and with ours (`value_and_grad`). `calls`: the time per call of a PyTensor function in
either mode, until NumPy has the results. `lengths`: the CPU seconds of one function
that is called on data of 20 lengths. Targets: 0.5 for the first result, 1.0 for a call,
0.2 for the lengths. The mode JAX must know all sizes, so there each length needs its
own function.
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
SIZES = [40 + 7 * k for k in range(LENGTHS)]
Graph = tuple[list[Any], Any, list[Any]]  # inputs, the log density, arguments


def variables(known: bool, arrays: list[Any]) -> list[Any]:
    """Make variables like the arrays, with sizes only if they are `known`."""
    shapes = [a.shape if known else (None,) * a.ndim for a in arrays]
    pairs = zip(arrays, shapes, strict=True)
    return [pt.tensor(dtype=a.dtype.name, shape=shape) for a, shape in pairs]


def normal(x: Any, mean: Any, scale: Any) -> Any:
    """Return the log density of a normal distribution, up to a constant."""
    return -0.5 * ((x - mean) / scale) ** 2 - pt.log(scale)


def radon(length: int = 900, known: bool = True) -> Graph:
    """Make a regression with varying intercepts of 85 groups."""
    rng = np.random.default_rng(1)
    group, floor = rng.integers(0, 85, length), rng.integers(0, 2, length) * 1.0
    y = rng.normal(size=length)
    arrays = [rng.normal(size=89) / 5, group, floor, y]
    q, a, f, d = inputs = variables(known, arrays)
    scale, within = pt.exp(q[1]), pt.exp(q[3])
    intercepts = q[0] + scale * q[4:]
    fit = normal(d, intercepts[a] + q[2] * f, within).sum()
    prior = normal(q, 0.0, pt.constant(2.0)).sum()
    return inputs, fit + prior, arrays


def process(length: int = 60, known: bool = True) -> Graph:
    """Make a Gaussian process with a squared exponential kernel."""
    rng = np.random.default_rng(2)
    arrays = [np.zeros(3), np.linspace(0, 5, length), rng.normal(size=length)]
    q, t, y = inputs = variables(known, arrays)
    apart = (t[:, None] - t[None, :]) / pt.exp(q[0])
    kernel = pt.exp(q[1] - 0.5 * apart**2) + pt.exp(q[2]) * pt.eye(t.shape[0])
    chol = pt.linalg.cholesky(kernel)
    z = pt.linalg.solve_triangular(chol, y, lower=True, b_ndim=1)
    density = -0.5 * (z**2).sum() - pt.log(pt.diag(chol)).sum()
    return inputs, density - (q**2).sum(), arrays


def scanned(step: Callable[..., Any], outputs: Any, *sequences: Any) -> Any:
    """Return what a scan of PyTensor stacks, in any version."""
    return pytensor.scan(
        step, sequences=sequences, outputs_info=outputs, return_updates=False
    )


def markov(length: int = 200, known: bool = True) -> Graph:
    """Make the forward algorithm of a hidden Markov chain with three states."""
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=(3, 4)), rng.normal(size=length)]
    q, y = inputs = variables(known, arrays)
    moves = pt.special.log_softmax(q[:, :3], axis=1)
    emitted = normal(y[:, None], q[:, 3], pt.constant(1.0))
    start = emitted[0] - np.log(3.0)
    ends = scanned(
        lambda e, a: e + pt.logsumexp(a[:, None] + moves, axis=0), [start], emitted[1:]
    )
    return inputs, pt.logsumexp(ends[-1]) - (q**2).sum(), arrays


def autoregression(length: int = 300, known: bool = True) -> Graph:
    """Make an autoregression of order two, whose residuals come one by one."""
    rng = np.random.default_rng(4)
    arrays = [np.zeros(4), rng.normal(size=length)]
    q, y = inputs = variables(known, arrays)
    residual = y[2:] - q[0] - q[1] * y[1:-1] - q[2] * y[:-2]
    density = normal(residual, 0.0, pt.exp(q[3])).sum()
    return inputs, density - (q**2).sum(), arrays


def predators(length: int = 40, known: bool = True) -> Graph:
    """Make the Lotka-Volterra equations, by the Runge-Kutta method."""
    rng = np.random.default_rng(5)
    arrays = [np.full(6, -0.3), rng.normal(size=(length, 2))]
    q, y = inputs = variables(known, arrays)
    a, b, c, d = (pt.exp(q[i]) for i in range(4))

    def slope(z: Any) -> Any:
        return pt.stack([a * z[0] - b * z[0] * z[1], d * z[0] * z[1] - c * z[1]])

    def step(_: Any, z: Any) -> Any:
        k1 = slope(z)
        k2 = slope(z + 0.05 * k1)
        k3 = slope(z + 0.05 * k2)
        return z + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + slope(z + 0.1 * k3))

    path = scanned(step, [pt.exp(q[4:6])], y)
    return inputs, normal(y, path, pt.constant(1.0)).sum() - (q**2).sum(), arrays


MODELS = [radon, process, markov, autoregression, predators]


def compiled(graph: Graph, mode: Any) -> Any:
    """Compile the density and its gradient with PyTensor."""
    inputs, density, _ = graph
    outputs = [density, pytensor.grad(density, inputs[0])]
    return pytensor.function(inputs, outputs, mode=mode, trust_input=True)


def first(model: Callable[..., Graph], mode: Any) -> float:
    """Return the CPU seconds from the graph to the first result."""
    jax.clear_caches()
    return seconds(lambda: compiled(graph := model(), mode)(*graph[2]), clock=CPU)


def own_first(model: Callable[..., Graph]) -> float:
    """Return these seconds if graphc takes the gradient."""
    jax.clear_caches()

    def run() -> Any:
        inputs, density, arrays = model()
        graph = graphc.pytensor.value_and_grad(density, inputs[0], inputs)
        return graphc.function(graph.inputs, graph.outputs)(*arrays)

    return seconds(run, clock=CPU)


def first_rows() -> Iterator[Row]:
    for model in some(MODELS):
        first(model, "JAX")  # do all work that happens only once
        taken = [
            (first(model, "GRAPHC"), own_first(model), first(model, "JAX"))
            for _ in range(ROUNDS)
        ]
        name = model.__name__
        yield row(name, comparison([(ours, theirs) for ours, _, theirs in taken]), 0.5)
        own_gradient = comparison([(own, theirs) for _, own, theirs in taken])
        yield row(name, own_gradient, 0.5, "the gradient is ours")


def read(results: list[Any]) -> list[Any]:
    """Read results as samplers do: mode "JAX" returns before it has computed them."""
    return list(map(np.asarray, results))


def call_rows() -> Iterator[Row]:
    for model in some(MODELS):
        graph = model()
        ours, theirs = compiled(graph, "GRAPHC"), compiled(graph, "JAX")
        same(ours(*graph[2]), read(theirs(*graph[2])), 1e-8)
        result = compare(
            lambda f=ours, g=graph: read(f(*g[2])),
            lambda f=theirs, g=graph: read(f(*g[2])),
            rounds=3 * ROUNDS,
            calls=CALLS,
        )
        yield row(model.__name__, result, 1.0)


def our_lengths(model: Callable[..., Graph]) -> float:
    """Return the CPU seconds of one function on several lengths, from its graph on."""
    jax.clear_caches()

    def run() -> Any:
        f = compiled(model(known=False), "GRAPHC")
        return [f(*model(length)[2]) for length in SIZES][-1]

    return seconds(run, clock=CPU)


def their_lengths(model: Callable[..., Graph]) -> float:
    """Return the CPU seconds with a function for each length."""
    jax.clear_caches()

    def run() -> Any:
        graphs = [model(length) for length in SIZES]
        return [compiled(graph, "JAX")(*graph[2]) for graph in graphs][-1]

    return seconds(run, clock=CPU)


def length_rows() -> Iterator[Row]:
    for model in some(MODELS):
        ours = [our_lengths(model) for _ in range(2)]
        theirs = [their_lengths(model) for _ in range(2)]
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
