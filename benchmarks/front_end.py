"""How long the compiler itself takes: build, plan and emit.

    python -m benchmarks.front_end [most nodes, 100000 by default]

Targets: the time is linear in the number of nodes, 100,000 nodes take less than 10 s,
and nothing recurses. The compiler takes at most the time of JAX's own trace and
lowering of the same program. The way from nothing to the first result takes at most
1.1 times that of hand-written `jax.jit`. Times are CPU times of this process.
"""

import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks import programs, pytensor_rival
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
from graphc.backends.jax import emit_jax
from graphc.backends.program import Outputs
from graphc.ir.garbage import only_young_garbage
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.graph.walk import ancestors
from graphc.transform.planning.partition import partition
from graphc.transform.planning.plan import Plan

Program = Callable[[Any, Any, int], Any]
PROGRAMS: dict[str, Program] = {
    "chain": programs.chain,
    "wide": programs.wide,
    "random DAG": programs.dag,
    "residual blocks": programs.blocks,
}
SIZES = setting((1_000, 10_000, 100_000), (100, 200))
X = np.linspace(-1, 1, 64, dtype="float32")
XW = np.stack([X] * 16)
LINEAR = 1.1  # the exponent that still counts as linear


def build(program: Program, steps: int) -> tuple[Value, Value]:
    """Build a symbolic program; return its variable and its output."""
    if program is programs.blocks:
        x = gt.tensor("x", "float32", ("n", 64))
    else:
        x = gt.tensor("x", "float32", ("n",))
    return x, program(gt, x, steps)


def array(program: Program) -> np.ndarray:
    """Return the argument of a program."""
    return XW if program is programs.blocks else X


def plan(x: Value, y: Value) -> Plan:
    """Make the plan, as `graphc.function` does."""
    return partition(Graph((x,), (y,), ("x",), ("",)))


def front_end(program: Program, steps: int) -> str:
    """Print a program from nothing, collecting garbage as `graphc.function` does."""
    x, y = build(program, steps)
    with only_young_garbage():
        return emit_jax(plan(x, y), Outputs("single")).text


@dataclass(frozen=True)
class Stages:
    """The number of nodes, and the CPU seconds of each stage."""

    nodes: int
    build: float
    plan: float
    emit: float

    @property
    def total(self) -> float:
        """Return the seconds of all stages."""
        return self.build + self.plan + self.emit


def stages(program: Program, steps: int) -> Stages:
    """Run the compiler once, stage by stage."""
    start = CPU()
    x, y = build(program, steps)
    built = CPU()
    with only_young_garbage():  # as in `graphc.function`
        made = plan(x, y)
        planned = CPU()
        emit_jax(made, Outputs("single"))
    end = CPU()
    nodes = sum(not n.primitive.inline for n in ancestors([y])) - 1
    assert len(made.segments) == 1 and not made.glue
    return Stages(nodes, built - start, planned - built, end - planned)


def growth(name: str, program: Program, most: int) -> list[Row]:
    """Measure seconds by number of nodes, and the exponent over all sizes."""
    found = []
    for size in (s for s in SIZES if s <= most):
        runs = [stages(program, size) for _ in range(3 if size < 100_000 else 1)]
        found.append(min(runs, key=lambda s: s.total))
    rows = []
    for s in found:
        parts = f"build {s.build:.3f}, plan {s.plan:.3f}, emit {s.emit:.3f}"
        target = 10.0 if s.nodes > 50_000 else None
        what = f"{name}, {s.nodes:,} nodes"
        rows.append(Row(what, time_text(s.total), "", s.total, target, parts))
    slope = exponent([s.nodes for s in found], [s.total for s in found])
    return [*rows, Row(f"{name}, exponent", "", "", slope, LINEAR)]


def by_hand(program: Program, steps: int) -> Any:
    """Return the same program by `jax.jit`, as a new function each time."""
    return jax.jit(lambda x: program(jnp, x, steps))


def against_jax(name: str, program: Program, steps: int, rounds: int) -> Row:
    """Compare our front end with JAX's trace and lowering."""
    argument = jnp.asarray(array(program))
    result = compare(
        lambda: front_end(program, steps),
        lambda: by_hand(program, steps).lower(argument),
        rounds=rounds,
        clock=CPU,
    )
    return row(f"{name}, {steps:,} ops; rival: JAX trace and lower", result, 1.0)


def first_result(name: str, program: Program, steps: int) -> Row:
    """Compare the time from nothing to the first numbers with that of `jax.jit`."""
    argument = jnp.asarray(array(program))

    def ours() -> Any:
        x, y = build(program, steps)
        return graphc.function([x], y)(argument)

    same(ours(), by_hand(program, steps)(argument), 1e-4)
    result = compare(
        ours, lambda: by_hand(program, steps)(argument), rounds=7, clock=CPU
    )
    return row(f"{name}, {steps:,} ops, first result; rival: jax.jit", result, 1.1)


def pytensor_rows(name: str, program: Program, steps: int) -> list[Row]:
    """Measure PyTensor's way to a function, which mode "JAX" has not yet traced."""
    if not pytensor_rival.available or program is programs.blocks:
        return []

    def theirs() -> Any:
        x = pytensor_rival.tensor("x", (None,))
        y = program(pytensor_rival.Space(), x, steps)
        return pytensor_rival.compiled([x], y, "JAX")

    result = compare(
        lambda: front_end(program, steps), theirs, rounds=3, clock=CPU
    )
    return [row(f"{name}, {steps:,} ops; rival: PyTensor to JAX", result)]


def peak_memory() -> Row:
    """Report the most memory that this process has held."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Row("peak memory of the process", f"{kilobytes / 1024:,.0f} MiB")


def main() -> None:
    """Print both tables."""
    most = int(*named() or [SIZES[-1]])
    seconds(lambda: front_end(programs.chain, 100))
    rows = [r for name, p in some(PROGRAMS.items()) for r in growth(name, p, most)]
    print_table("front end: build + plan + emit", [*rows, peak_memory()], "s or exp.")
    rows = []
    for name, p in some(PROGRAMS.items()):
        rows.append(against_jax(name, p, SIZES[0], 7))
        rows.append(against_jax(name, p, SIZES[1], 3))
        rows.append(first_result(name, p, SIZES[0]))
        rows += pytensor_rows(name, p, SIZES[0])
    print_table("front end against others", rows)


if __name__ == "__main__":
    main()
