"""Rewrites against JAX of the written program, and of one rewritten by hand.

    python -m benchmarks.rewriting [forms] [time] [rival] [neutral] [rules]

Targets: each form has at least 90 % of the gain of the rewriting by hand, so its time
is at most 1.11 of that. If no rule applies, nothing gets slower (1.02). Rewriting is
linear in the number of nodes up to 100,000. It takes a tenth of the time of PyTensor's
`function(mode="JAX")`, which leaves the compilation by JAX to the first call. With any
default rule, a program takes at most 1.02 of its time, and 1.05 of its memory.
"""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks import pytensor_rival
from benchmarks.harness import (
    CPU,
    Row,
    compare,
    exponent,
    named,
    print_table,
    row,
    same,
    seconds,
    setting,
    some,
    time_text,
)
from benchmarks.programs import chain, dag, layers, mlp
from benchmarks.rules import rule_rows
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.walk import ancestors
from graphc.rewrites import Rules, default, none, rewritten
from graphc.rewriting.rules.reduction import REDUCTION

N, ROWS, WORDS = setting((1_000_000, 1000, 20_000), (1000, 10, 20))
Call = Callable[..., Any]


class Form(NamedTuple):
    """A program as written over `xp`, and as an expert writes it in JAX."""

    written: Call
    by_hand: Call
    shapes: Mapping[str, tuple[int, ...]]
    rtol: float = 1e-3
    more: Rules = none  # rules that users must ask for


VECTORS = {"a": (3 * ROWS,), "b": (3 * ROWS,)}
MATRICES = {"a": (ROWS, ROWS), "b": (ROWS, ROWS)}
THREE = MATRICES | {"c": (ROWS, ROWS)}
BY_VECTOR = MATRICES | {"v": (ROWS,)}
LONG = {"x": (N,)}
TABLE = {"table": (3 * ROWS, 64), "i": (N // 5,)}
lse = jax.nn.logsumexp


def _one_hot(xp: Any, i: Any, x: Any) -> Any:
    return xp.astype(xp.equal(i[:, None], xp.arange(ROWS)), "float32").T @ x


def _squares(a: Any, b: Any) -> Any:
    n, c = len(a), jnp.mean(a)
    a, b = a - c, b - c
    mixed = 2 * jnp.sum(a) * jnp.sum(b)
    return n * (jnp.sum(a * a) + jnp.sum(b * b)) - mixed


FORMS = {
    "sum(broadcast a)": Form(
        lambda xp, a: xp.sum(xp.broadcast_to(a[:, None], (len(a), len(a)))),
        lambda a: len(a) * jnp.sum(a),
        {"a": VECTORS["a"]},
    ),
    "sum(outer(a, b))": Form(
        lambda xp, a, b: xp.sum(xp.outer(a, b)),
        lambda a, b: jnp.sum(a) * jnp.sum(b),
        VECTORS,
    ),
    "sum(a[:, None] + b)": Form(
        lambda xp, a, b: xp.sum(a[:, None] + b[None]),
        lambda a, b: len(b) * jnp.sum(a) + len(a) * jnp.sum(b),
        VECTORS,
    ),
    "sum((a[:, None] - b)**2)": Form(
        lambda xp, a, b: xp.sum((a[:, None] - b[None]) ** 2),
        _squares,
        VECTORS,
        more=Rules((REDUCTION["sum_of_power"],)),
    ),
    "max(a[:, None] + b)": Form(
        lambda xp, a, b: xp.max(a[:, None] + b[None]),
        lambda a, b: jnp.max(a) + jnp.max(b),
        VECTORS,
    ),
    "logsumexp(a[:, None] + b)": Form(
        lambda xp, a, b: (gt if xp is gt else jax).nn.logsumexp(a[:, None] + b[None]),
        lambda a, b: lse(a) + lse(b),
        VECTORS,
    ),
    "sum(A @ B)": Form(
        lambda xp, a, b: xp.sum(a @ b),
        lambda a, b: jnp.sum(a, 0) @ jnp.sum(b, 1),
        MATRICES,
    ),
    "(A @ B).sum(0)": Form(
        lambda xp, a, b: xp.sum(a @ b, 0), lambda a, b: jnp.sum(a, 0) @ b, MATRICES
    ),
    "mean(X @ W + b, 0)": Form(
        lambda xp, a, b, v: xp.mean(a @ b + v, 0),
        lambda a, b, v: jnp.mean(a, 0) @ b + v,
        BY_VECTOR,
    ),
    "trace(A @ B)": Form(
        lambda xp, a, b: xp.trace(a @ b), lambda a, b: jnp.sum(a * b.T), MATRICES
    ),
    "diagonal(A @ B)": Form(
        lambda xp, a, b: xp.diagonal(a @ b),
        lambda a, b: jnp.sum(a * b.T, 1),
        MATRICES,
    ),
    "(A @ B) @ v": Form(
        lambda xp, a, b, v: (a @ b) @ v, lambda a, b, v: a @ (b @ v), BY_VECTOR
    ),
    "(A @ B @ C)[0]": Form(
        lambda xp, a, b, c: (a @ b @ c)[0], lambda a, b, c: a[0] @ b @ c, THREE
    ),
    "(A @ B)[7]": Form(lambda xp, a, b: (a @ b)[7], lambda a, b: a[7] @ b, MATRICES),
    "(A @ B) @ C, skinny": Form(
        lambda xp, a, b, c: (a @ b) @ c,
        lambda a, b, c: a @ (b @ c),
        {"a": (2000, 20), "b": (20, 2000), "c": (2000, 20)},
    ),
    "outer(u, v) @ w": Form(
        lambda xp, a, b, c: xp.outer(a, b) @ c,
        lambda a, b, c: a * (b @ c),
        {"a": (ROWS,), "b": (ROWS,), "c": (ROWS,)},
    ),
    "diag(d) @ A": Form(
        lambda xp, v, a: xp.diag(v) @ a,
        lambda v, a: v[:, None] * a,
        {"v": (ROWS,), "a": (ROWS, ROWS)},
    ),
    "eye @ A + A": Form(
        lambda xp, a: xp.eye(ROWS, dtype="float32") @ a + a,
        lambda a: a + a,
        {"a": (ROWS, ROWS)},
    ),
    "kron(A, B) @ w": Form(
        lambda xp, a, b, v: xp.kron(a, b) @ v,
        lambda a, b, v: (a @ v.reshape(32, 32) @ b.T).reshape(-1),
        {"a": (32, 32), "b": (32, 32), "v": (1024,)},
    ),
    "inv(S) @ v": Form(
        lambda xp, a, v: xp.linalg.inv(a + 100 * xp.eye(ROWS, dtype="float32")) @ v,
        lambda a, v: jnp.linalg.solve(a + 100 * jnp.eye(ROWS), v),
        {"a": (ROWS, ROWS), "v": (ROWS,)},
    ),
    "vmap(x' S x)": Form(
        lambda xp, x, s: (graphc if xp is gt else jax).vmap(lambda v: v @ s @ v)(x),
        lambda x, s: jnp.sum((x @ s) * x, 1),
        {"x": (10_000, 64), "s": (64, 64)},
    ),
    "sum(E[i], 0)": Form(
        lambda xp, table, i: xp.sum(table[i], 0),
        lambda table, i: jnp.zeros(len(table)).at[i].add(1.0) @ table,
        TABLE,
    ),
    "sum(w * E[i], 0)": Form(
        lambda xp, table, i, w: xp.sum(w[:, None] * table[i], 0),
        lambda table, i, w: jnp.zeros(len(table)).at[i].add(w) @ table,
        TABLE | {"w": TABLE["i"]},
    ),
    "E[i] @ W": Form(
        lambda xp, table, i, w: table[i] @ w,
        lambda table, i, w: (table @ w)[i],
        TABLE | {"w": (64, 64)},
    ),
    "one-hot matrix products": Form(
        _one_hot,
        lambda i, x: jax.ops.segment_sum(x, i, ROWS),
        {"i": (WORDS,), "x": (WORDS, 8)},
    ),
    "max(exp(x))": Form(
        lambda xp, x: xp.max(xp.exp(x)), lambda x: jnp.exp(jnp.max(x)), LONG
    ),
    "argmax(softmax(x))": Form(
        lambda xp, x: xp.argmax((gt if xp is gt else jax).nn.softmax(x)),
        jnp.argmax,
        LONG,
    ),
    "sort(x)[-1]": Form(lambda xp, x: xp.sort(x)[-1], jnp.max, LONG),
    "cumsum(x)[-1]": Form(lambda xp, x: xp.cumsum(x)[-1], jnp.sum, LONG),
    "sum(cumsum(x))": Form(
        lambda xp, x: xp.sum(xp.cumsum(x)),
        lambda x: x @ jnp.arange(N, 0, -1, dtype="float32"),
        LONG,
        1e-2,
    ),
}


def arguments(form: Form) -> tuple[list[Any], list[Any]]:
    """Make variables and arrays for a form, with the form's sizes."""
    rng = np.random.default_rng(0)
    inputs, arrays = [], []
    for name, shape in form.shapes.items():
        places = name == "i"
        dtype = "int32" if places else "float32"
        found = rng.integers(0, ROWS, shape) if places else rng.uniform(0, 1, shape)
        inputs.append(gt.tensor(name, dtype, shape))
        arrays.append(jnp.asarray(found.astype(dtype)))
    return inputs, arrays


def form_rows() -> list[Row]:
    """Compare the time of each form with the one by hand; the note has the gain."""
    rows = []
    for name, form in some(FORMS.items()):
        inputs, arrays = arguments(form)
        f = graphc.function(
            inputs, form.written(gt, *inputs), rewrites=default + form.more
        )
        written = jax.jit(lambda *xs, form=form: form.written(jnp, *xs))
        by_hand = jax.jit(form.by_hand)
        same(_as_32_bits(f(*arrays)), _as_32_bits(written(*arrays)), form.rtol)
        calls = _calls(lambda: f(*arrays))
        gain = compare(
            lambda: written(*arrays), lambda: f(*arrays), rounds=7, clock=CPU
        )
        result = compare(
            lambda: f(*arrays), lambda: by_hand(*arrays), calls=calls, clock=CPU
        )
        note = f"{gain.ratio:.1f} times as fast as written"
        rows.append(row(name, result, 1.11, note))
    return rows


def _calls(run: Callable[[], Any]) -> int:
    """Return a number of calls that take about 20 ms."""
    jax.block_until_ready(run())
    start = time.perf_counter()
    jax.block_until_ready(run())
    return max(1, min(200, int(0.02 / (time.perf_counter() - start))))


def _as_32_bits(x: Any) -> Any:
    found = np.asarray(x)
    return found.astype("int32") if found.dtype.kind == "i" else found


Tensor = Callable[[str, tuple[int | None, ...]], Any]


def program_of(name: str, nodes: int, xp: Any, tensor: Tensor) -> tuple[Any, Any]:
    """Make the inputs and the output of a program of about `nodes` nodes.

    No rule of graphc simplifies the program.
    """
    x = tensor("x", (None, 64))
    if name != "mlp":
        return [x], (chain if name == "chain" else dag)(xp, x, nodes)
    weights = [tensor(f"w{i}", (64, 64)) for i in range(nodes // 3)]
    biases = [tensor(f"b{i}", (64,)) for i in range(nodes // 3)]
    return [x, *weights, *biases], mlp(xp, x, weights, biases)


def our_tensor(name: str, shape: tuple[int | None, ...]) -> Any:
    """Make a float32 variable; a size that is not known is called n."""
    return gt.tensor(name, "float32", ["n" if n is None else n for n in shape])


def graph_of(name: str, nodes: int) -> Graph:
    """Make the program as a graph."""
    inputs, y = program_of(name, nodes, gt, our_tensor)
    names = tuple(v.name for v in inputs)
    return Graph(tuple(inputs), (y,), names, ("y",))


def time_rows() -> list[Row]:
    """Measure the rewriting time per node, and how it grows."""
    rows = []
    for name in ("chain", "mlp", "dag"):
        sizes = [100, 1000, 10_000] + ([100_000] if name == "chain" else [])
        sizes = setting(sizes, [300, 400, 500])
        counts, times = [], []
        for size in sizes:
            graph = graph_of(name, max(size, 300) if name == "dag" else size)
            start = time.process_time()
            applied = len(rewritten(graph, default).log)
            times.append(time.process_time() - start)
            counts.append(len(ancestors(graph.outputs)))
            rows.append(
                Row(
                    f"{name}, {counts[-1]:,} nodes",
                    time_text(times[-1]),
                    note=f"{times[-1] / counts[-1] * 1e6:.1f} us per node, "
                    f"{applied} rewrites",
                )
            )
        slope = exponent(counts[1:], times[1:])
        rows.append(Row(f"{name}: exponent", "", "", slope, 1.1))
    return rows


def rival_rows() -> list[Row]:
    """Compare the rewriting time with PyTensor's, if PyTensor is installed."""
    if not pytensor_rival.available:
        return []
    rows, limit = [], sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)  # PyTensor needs it for deep graphs
    try:
        for name in ("chain", "mlp", "dag"):
            for size in (300, 1000, 10_000) if name == "dag" else (100, 1000, 10_000):
                rows.append(_against_pytensor(name, size))
    finally:
        sys.setrecursionlimit(limit)
    return rows


def _against_pytensor(name: str, size: int) -> Row:
    inputs, y = program_of(name, size, pytensor_rival.Space(), pytensor_rival.tensor)
    graph, rounds = graph_of(name, size), 3 if size <= 1000 else 2
    result = compare(
        lambda: rewritten(graph, default),
        lambda: pytensor_rival.compiled(inputs, y, "JAX"),
        rounds=rounds,
        clock=CPU,
    )
    alone = seconds(lambda: pytensor_rival.rewriting(inputs, y), clock=CPU)
    count = len(ancestors(graph.outputs))
    note = f"its rewrites alone {time_text(alone)}"
    return row(f"{name}, {count:,} nodes; rival: PyTensor", result, 0.1, note)


def neutral_rows() -> list[Row]:
    """Measure run time with and without rules, for programs where none applies."""
    weights, biases = layers(setting(20, 2), 64, seed=0)
    x = np.random.default_rng(0).normal(size=(1000, 64)).astype("float32")
    v = gt.tensor("x", "float32", ("n", 64))
    rows = []
    for name, y in {
        "mlp": mlp(gt, v, weights, biases),
        "chain": chain(gt, v, setting(100, 10)),
        "dag": dag(gt, v, setting(400, 80)),
    }.items():
        new = graphc.function([v], y)
        old = graphc.function([v], y, rewrites=none)
        same(new(x), old(x))
        rows.append(
            row(
                name, compare(lambda: new(x), lambda: old(x), calls=20, clock=CPU), 1.02
            )
        )
    return rows


TABLES: dict[str, tuple[str, Callable[[], list[Row]], str]] = {
    "forms": ("Forms, against those rewritten by hand", form_rows, "ratio"),
    "time": ("Rewriting time", time_rows, "exponent"),
    "rival": ("Rewriting time against PyTensor", rival_rows, "ratio"),
    "rules": ("Each rule, against no rules", rule_rows, "ratio"),
    "neutral": (
        "Programs that no rule simplifies, against no rules",
        neutral_rows,
        "ratio",
    ),
}


def main() -> None:
    """Print all tables, or those that are named."""
    for name in named() or TABLES:
        title, rows, number = TABLES[name]
        print_table(title, rows(), number=number)


if __name__ == "__main__":
    main()
