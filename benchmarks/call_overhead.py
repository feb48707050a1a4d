"""What a call costs beyond hand-written `jax.jit`, for arrays of 10 elements.

    python -m benchmarks.call_overhead

Targets: one segment at most 1.1x; two segments with one host integer between them at
most 2.5x one jitted call plus the read of an integer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import Row, Run, compare, print_table, row, same

ROUNDS, CALLS = 201, 100


@contextmanager
def global_x64() -> Iterator[None]:
    """What a user writes at the top of a script to have 64 bits in JAX."""
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


def total(*xs: Any) -> Any:
    """A few additions and products."""
    y = xs[0]
    for x in xs[1:]:
        y = y * 0.5 + x
    return y


def under_x64(call: Run) -> Run:
    """`call` with 64 bits allowed for its time, as JAX's own context does it."""

    def wrapped() -> Any:
        with jax.enable_x64(True):
            return call()

    return wrapped


def one_segment(count: int) -> list[Row]:
    """Functions of `count` inputs, against one `jax.jit`."""
    host = [np.linspace(0, i + 1, 10, dtype="float32") for i in range(count)]
    device = [jnp.asarray(x) for x in host]
    xs = [gt.tensor(f"x{i}", "float32", (10,)) for i in range(count)]
    f, hand = graphc.function(xs, total(*xs)), jax.jit(total)
    same(f(*host), hand(*host))
    assert len(f.plan.segments) == len(f.stats().compilations) == 1
    rows = []
    for kind, args in (("JAX", device), ("NumPy", host)):
        result = compare(
            lambda a=args: f(*a), lambda a=args: hand(*a), rounds=ROUNDS, calls=CALLS
        )
        rows.append(row(f"{count} inputs, float32, {kind} arrays", result, 1.1))
    return rows


def doubles(count: int) -> list[Row]:
    """The same in float64: graphc needs no flag, hand-written JAX one of two."""
    host = [np.linspace(0, i + 1, 10) for i in range(count)]
    with jax.enable_x64(True):
        device = [jnp.asarray(x) for x in host]
    xs = [gt.tensor(f"x{i}", "float64", (10,)) for i in range(count)]
    f, hand = graphc.function(xs, total(*xs)), jax.jit(total)
    scoped = under_x64(lambda: hand(*device))
    same(f(*device), scoped(), 1e-12)
    what = f"{count} inputs, float64, "
    options = {"rounds": ROUNDS, "calls": CALLS}
    rows = [
        row(
            what + "no flag; rival: jax.enable_x64",
            compare(lambda: f(*device), scoped, **options),
            1.1,
        )
    ]
    with global_x64():
        both = compare(lambda: f(*device), lambda: hand(*device), **options)
    rows.append(row(what + "both under the global flag", both, 1.1))
    return rows


@jax.jit
def _first(x: Any) -> Any:
    mask = x > 0
    return mask, jnp.count_nonzero(mask)


def _second_rows(x: Any, mask: Any, count: int) -> Any:
    (rows,) = jnp.nonzero(mask, size=count)
    return x[rows]


_second = jax.jit(_second_rows, static_argnums=2)


def partitioned(x: Any) -> Any:
    """What a careful user writes by hand."""
    mask, count = _first(x)
    return _second(x, mask, int(count))


def two_segments() -> list[Row]:
    """One integer read between two segments, against one jit and the read.

    The rows that a mask keeps are the result, so that no rule can do without them.
    """
    host = np.linspace(-1, 1, 10, dtype="float32")
    device = jnp.asarray(host)
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], x[x > 0], dims="specialize")
    same(f(device), partitioned(device))
    assert [len(f.plan.segments), len(f.plan.glue)] == [2, 1]
    options = {"rounds": ROUNDS, "calls": CALLS // 2}
    read = compare(lambda: f(device), lambda: int(_first(device)[1]), **options)
    hand = compare(lambda: f(device), lambda: partitioned(device), **options)
    assert len(f.stats().compilations) == 2
    return [
        row("two segments; rival: one jit and the read", read, 2.5),
        row("two segments; rival: partitioned by hand", hand),
    ]


def main() -> None:
    """Print the table."""
    rows = [*one_segment(3), *one_segment(20), *doubles(3), *doubles(20)]
    print_table("call overhead (time per call)", [*rows, *two_segments()])


if __name__ == "__main__":
    main()
