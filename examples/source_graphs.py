"""Is it a method? A graph network on the syntax of functions, without padded graphs.

The functions are those of modules of Python's standard library, as it is installed. The
graph of a function has the nodes of its syntax tree, known only by their kinds; edges
lead from each node to its parts, and from each part to the next. A network passes
messages along the edges, and guesses whether the function is a method. No two graphs
have the same number of nodes and edges. `jax.jit` compiles for each of them, so people
usually pad graphs by hand, with one more node and with edges that lead to it. Here, the
step of the optimiser is written for one graph as it is, and decorated with
`graphc.jit`: it is compiled for a few capacities.

The first losses are compared with those of `jax.jit`. Compilations and seconds of both
are drawn into source_graphs.png. Run it: python examples/source_graphs.py
"""

import ast
import sys
import sysconfig
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import graphc

MODULES = ("argparse", "calendar", "configparser", "textwrap", "zipfile")
KINDS, WIDTH, ROUNDS, LONGEST = 96, 16, 2, 120
RATE, STEPS, COMPARED = 0.1, 60, 15
Parameters = dict[str, Any]


class Sample(NamedTuple):
    """A Python function: kinds of nodes, edges between them, and whether a method."""

    kinds: np.ndarray
    senders: np.ndarray
    receivers: np.ndarray
    is_method: np.ndarray


def samples() -> list[Sample]:
    """Return the graphs of functions that are not too long, in a random order."""
    root, found = Path(sysconfig.get_path("stdlib")), []
    for name in MODULES:
        path = root / f"{name}.py"
        text = path if path.exists() else root / name / "__init__.py"
        tree = ast.parse(text.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.args.args:
                found.append(graph_of(node))
    some = [s for s in found if len(s.kinds) <= LONGEST]
    return [some[i] for i in np.random.default_rng(0).permutation(len(some))]


def graph_of(function: ast.FunctionDef) -> Sample:
    """Make the graph of a function from its syntax tree."""
    nodes = list(ast.walk(function))
    place = {id(node): i for i, node in enumerate(nodes)}
    kinds = [sum(map(ord, type(n).__name__)) % KINDS for n in nodes]
    edges = []
    for node in nodes:
        parts = [place[id(part)] for part in ast.iter_child_nodes(node)]
        edges += [(place[id(node)], part) for part in parts]
        edges += pairwise(parts)
    senders, receivers = np.array(edges, "int32").reshape(-1, 2).T
    method = np.float32(function.args.args[0].arg == "self")
    return Sample(np.array(kinds, "int32"), senders, receivers, method)


def shapes(graph: Sample) -> tuple[int, int]:
    """Return the numbers of nodes and edges."""
    return len(graph.kinds), len(graph.senders)


def loss(p: Parameters, graph: Sample) -> Any:
    """Return minus the log probability that the function is what it is."""
    count = graph.kinds.shape[0]
    h = p["embedding"][graph.kinds]
    for i in range(ROUNDS):
        messages = jnp.tanh(h[graph.senders] @ p["message"][i])
        got = jax.ops.segment_sum(messages, graph.receivers, count)
        h = jnp.tanh(h @ p["own"][i] + got @ p["got"][i])
    score = jnp.mean(h, axis=0) @ p["out"]
    return jax.nn.softplus(score) - graph.is_method * score


def step(p: Parameters, graph: Sample) -> tuple[Parameters, Any]:
    """Return the parameters after a step downhill, and the loss before it."""
    value, slopes = jax.value_and_grad(loss)(p, graph)
    return jax.tree.map(lambda x, slope: x - RATE * slope, p, slopes), value


def start() -> Parameters:
    """Draw random parameters."""
    rng = np.random.default_rng(1)
    shapes = {"embedding": (KINDS, WIDTH), "out": (WIDTH,)}
    shapes |= dict.fromkeys(("message", "own", "got"), (ROUNDS, WIDTH, WIDTH))
    return {
        name: rng.normal(0, WIDTH**-0.5, shape).astype("float32")
        for name, shape in shapes.items()
    }


def trained(
    compiled: Callable[..., Any], graphs: list[Sample]
) -> tuple[np.ndarray, np.ndarray]:
    """Take a step on each graph; return the losses, and the time after each step."""
    p, losses, seconds, began = start(), [], [], time.perf_counter()
    for graph in graphs:
        p, value = compiled(p, graph)
        losses.append(float(value))
        seconds.append(time.perf_counter() - began)
    return np.array(losses), np.array(seconds)


def draw(path: Path, seconds: dict[str, np.ndarray]) -> None:
    """Draw when the steps were done."""
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for name, times in seconds.items():
        axes.plot(range(1, len(times) + 1), times, label=name)
    axes.set(xlabel="steps, each on another graph", ylabel="seconds since the start")
    axes.legend()
    figure.savefig(path)


def main(steps: int = STEPS, compared: int = COMPARED, folder: Path = Path()) -> int:
    """Train, for some steps both ways; return 0 if everything agrees."""
    graphs = samples()[:steps]
    count = len(set(map(shapes, graphs)))
    print(f"{len(graphs)} functions, graphs of {count} sizes")
    ours, theirs = graphc.jit(step), jax.jit(step)
    losses, seconds = trained(ours, graphs)
    wanted, others = trained(theirs, graphs[:compared])
    few, many = len(ours.stats().compilations), len(set(map(shapes, graphs[:compared])))
    print(f"graphc.jit, {steps} steps: {few} compilations, {seconds[-1]:.1f} s")
    print(f"jax.jit, {compared} steps: {many} compilations, {others[-1]:.1f} s")
    print(*ours.stats().changes, sep="\n")
    print(f"losses: first {losses[0]:.3f}, mean of the last ten", end=" ")
    print(f"{np.mean(losses[-10:]):.3f}")
    names = f"graphc.jit, {few} compilations", f"jax.jit, {many} compilations"
    draw(folder / "source_graphs.png", dict(zip(names, (seconds, others), strict=True)))
    agree = np.allclose(losses[:compared], wanted, rtol=1e-3, atol=1e-4)
    print("everything agrees" if agree else "THEY DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
