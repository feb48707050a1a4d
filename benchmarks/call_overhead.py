"""What a call costs beyond hand-written `jax.jit`, for arrays of 10 elements.

    taskset -c 1 python -m benchmarks.call_overhead

Times are CPU seconds. Targets: one segment and `graphc.jit` take at most 1.05 times as
long with JAX arrays, and 1.1 times with NumPy arrays. A padded call takes at most 10 us
more than one at the true size. Two segments with one host integer between them take at
most 2.5 times as long as one jitted call plus the read of an integer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import (
    CPU,
    Comparison,
    Row,
    Run,
    compare,
    print_table,
    row,
    same,
    time_text,
)

ROUNDS, CALLS = 101, 100
OPTIONS: Any = {"rounds": ROUNDS, "calls": CALLS, "clock": CPU}


def measured(what: str, ours: Run, theirs: Run, target: float | None = None) -> Row:
    """Measure both in turns; the row has the ratio of their fastest turns."""
    result = compare(ours, theirs, **OPTIONS)
    return row(what, result, target, f"of the fastest {fastest(result):.3g}")


def fastest(result: Comparison) -> float:
    """Return the ratio of the fastest turns."""
    ours, theirs = result.least
    return ours / theirs


@contextmanager
def global_x64() -> Iterator[None]:
    """Allow 64 bits in JAX, as a user does at the top of a script."""
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


def total(*xs: Any) -> Any:
    """Compute a few additions and products."""
    y = xs[0] * 2
    for x in xs[1:]:
        y = y * 0.5 + x
    return y


def under_x64(call: Run) -> Run:
    """Return `call` with 64 bits allowed while it runs, as JAX's own context does."""

    def wrapped() -> Any:
        with jax.enable_x64(True):
            return call()

    return wrapped


def one_segment(count: int) -> list[Row]:
    """Compare functions of `count` inputs with one `jax.jit`."""
    host = [np.linspace(0, i + 1, 10, dtype="float32") for i in range(count)]
    device = [jnp.asarray(x) for x in host]
    xs = [gt.tensor(f"x{i}", "float32", (10,)) for i in range(count)]
    f, hand = graphc.function(xs, total(*xs)), jax.jit(total)
    same(f(*host), hand(*host))
    assert len(f.plan.segments) == len(f.stats().compilations) == 1
    rows = []
    for kind, args, target in (("JAX", device, 1.05), ("NumPy", host, 1.1)):
        ours, theirs = lambda a=args: f(*a), lambda a=args: hand(*a)
        what = f"{count} inputs, float32, {kind} arrays"
        rows.append(measured(what, ours, theirs, target))
    bare, rival = f.compiled(*device), hand.lower(*device).compile()
    what = f"{count} inputs, f.compiled; rival: lower().compile()"
    rows.append(measured(what, lambda: bare(*device), lambda: rival(*device), 1.05))
    return rows


def doubles(count: int) -> list[Row]:
    """Compare in float64: graphc needs no flag, hand-written JAX one of two."""
    host = [np.linspace(0, i + 1, 10) for i in range(count)]
    with jax.enable_x64(True):
        device = [jnp.asarray(x) for x in host]
    xs = [gt.tensor(f"x{i}", "float64", (10,)) for i in range(count)]
    f, hand = graphc.function(xs, total(*xs)), jax.jit(total)
    scoped = under_x64(lambda: hand(*device))
    same(f(*device), scoped(), 1e-12)
    what = f"{count} inputs, float64, "
    no_flag = what + "no flag; rival: jax.enable_x64"
    rows = [measured(no_flag, lambda: f(*device), scoped, 1.05)]
    numpy = under_x64(lambda: hand(*host))
    rows.append(measured(f"{no_flag}, NumPy arrays", lambda: f(*host), numpy, 1.1))
    with global_x64():
        both = what + "both under the global flag"
        rows.append(measured(both, lambda: f(*device), lambda: hand(*device), 1.05))
    return rows


def functions_of_jax() -> list[Row]:
    """Compare `graphc.jit` with `jax.jit` on arrays, on a tree and on NumPy arrays."""
    ours, theirs = graphc.jit(total), jax.jit(total)
    host = [np.linspace(0, i + 1, 10, dtype="float32") for i in range(3)]
    device = [jnp.asarray(x) for x in host]
    tree = {"w": device[0], "rest": device[1:]}
    mine, other = graphc.jit(of_tree), jax.jit(of_tree)
    same(mine(tree), other(tree))
    return [
        measured("graphc.jit, 3", lambda: ours(*device), lambda: theirs(*device), 1.05),
        measured("graphc.jit, a tree", lambda: mine(tree), lambda: other(tree), 1.05),
        measured("graphc.jit, NumPy", lambda: ours(*host), lambda: theirs(*host), 1.05),
    ]


def of_tree(tree: Any) -> Any:
    """Compute from a dict and a list."""
    return tree["w"] * tree["rest"][0] + tree["rest"][1]


def padded() -> list[Row]:
    """Measure calls at a capacity of 16, in seconds beyond those at the true size."""
    host = np.linspace(0, 1, 10, dtype="float32")
    x = gt.tensor("x", "float32", ("n",))
    rows = []
    for what, value in (("a sum", gt.sum(x)), ("a result that is cut", x * 2)):
        ways = "pad", "specialize"
        pad, exact = (graphc.function([x], value, dims=way) for way in ways)
        for kind, array in (("JAX", jnp.asarray(host)), ("NumPy", host)):
            same(pad(array), exact(array))
            found = compare(lambda: pad(array), lambda: exact(array), **OPTIONS)
            more, least = found.ours - found.theirs, found.least
            rows.append(
                Row(
                    f"padded, {what}, {kind} arrays; rival: exact",
                    *map(time_text, (found.ours, found.theirs)),
                    more * 1e6,
                    10,
                    f"us more; by the fastest {1e6 * (least[0] - least[1]):.3g}",
                )
            )
        assert len(pad.stats().compilations) == 1
    return rows


def on_numpy() -> list[Row]:
    """Compare the NumPy backend with NumPy by hand."""
    xs = [gt.tensor(f"x{i}", "float64", ("n",)) for i in range(3)]
    f, host = graphc.function(xs, total(*xs), backend="numpy"), [np.ones(10)] * 3
    what = "3 inputs, the NumPy backend; rival: NumPy"
    return [measured(what, lambda: f(*host), lambda: total(*host))]


@jax.jit
def _first(x: Any) -> Any:
    mask = x > 0
    return mask, jnp.count_nonzero(mask)


def _second_rows(x: Any, mask: Any, count: int) -> Any:
    (rows,) = jnp.nonzero(mask, size=count)
    return x[rows]


_second = jax.jit(_second_rows, static_argnums=2)


def partitioned(x: Any) -> Any:
    """Compute what a careful user writes by hand."""
    mask, count = _first(x)
    return _second(x, mask, int(count))


def two_segments() -> list[Row]:
    """Compare two segments, and an integer read between them, with a jit and a read.

    The result is the rows that a mask keeps, so no rule can do without them.
    """
    host = np.linspace(-1, 1, 10, dtype="float32")
    device = jnp.asarray(host)
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], x[x > 0], dims="specialize")
    same(f(device), partitioned(device))
    assert [len(f.plan.segments), len(f.plan.glue)] == [2, 1]
    rows = [
        measured(
            "two segments; rival: one jit and the read",
            lambda: f(device),
            lambda: int(_first(device)[1]),
            2.5,
        ),
        measured(
            "two segments; rival: partitioned by hand",
            lambda: f(device),
            lambda: partitioned(device),
        ),
    ]
    assert len(f.stats().compilations) == 2
    return rows


def main() -> None:
    """Print the table."""
    rows = [r for count in (1, 3, 20) for r in (*one_segment(count), *doubles(count))]
    rows += [*functions_of_jax(), *padded(), *on_numpy(), *two_segments()]
    print_table("call overhead (time per call)", rows)


if __name__ == "__main__":
    main()
