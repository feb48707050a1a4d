"""Every op family against the same call of JAX and NumPy, and the time of an import.

    python -m benchmarks.families

Targets: compared with `jax.jit` of the `jnp` call, the run time is at most 1.02 in the
median over the ops of a family, and trace and lowering at most 1.0. The NumPy program
takes at most 1.05 of the time of hand-written NumPy on arrays of 10^4 elements.
Importing graphc takes at most 0.3 s more than importing NumPy.
"""

import os
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import (
    CPU,
    Row,
    compare,
    emitted,
    print_table,
    same,
    setting,
    some,
    time_text,
)

N = 10_000
ROUNDS = setting(9, 1)  # each in a new process
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
Call = Callable[[Any, Any, Any], Any]

FAMILIES: dict[str, dict[str, Call]] = {
    "elementwise": {
        "add": lambda xp, x, m: x + x,
        "multiply by a number": lambda xp, x, m: x * 2.5,
        "exp": lambda xp, x, m: xp.exp(x),
        "tanh": lambda xp, x, m: xp.tanh(x),
        "where": lambda xp, x, m: xp.where(x > 0, x, 0.0),
        "arctan2": lambda xp, x, m: xp.arctan2(x, x + 1),
    },
    "reduce": {
        "sum": lambda xp, x, m: xp.sum(x),
        "mean over an axis": lambda xp, x, m: xp.mean(m, axis=0),
        "max": lambda xp, x, m: xp.max(m, axis=1),
        "var": lambda xp, x, m: xp.var(x),
        "argmax": lambda xp, x, m: xp.argmax(x).astype("int32"),
        "cumsum": lambda xp, x, m: xp.cumsum(x),
    },
    "shape and join": {
        "reshape": lambda xp, x, m: xp.reshape(x, (100, -1)) * 2.0,
        "transpose": lambda xp, x, m: xp.transpose(m) * 2.0,
        "concatenate": lambda xp, x, m: xp.concatenate([x, x]),
        "stack": lambda xp, x, m: xp.stack([x, x]),
        "repeat": lambda xp, x, m: xp.repeat(x, 3),
        "pad": lambda xp, x, m: xp.pad(x, (3, 4)),
        "flip": lambda xp, x, m: xp.flip(x) * 2.0,
    },
    "index": {
        "slice": lambda xp, x, m: x[1:-1:2] * 2.0,
        "row": lambda xp, x, m: m[3],
        "column": lambda xp, x, m: m[:, 5] * 2.0,
    },
    "search": {
        "sort": lambda xp, x, m: xp.sort(x),
        "count_nonzero": lambda xp, x, m: xp.count_nonzero(x > 0).astype("int32"),
    },
    "contract": {
        "matmul": lambda xp, x, m: m @ m,
        "matrix by vector": lambda xp, x, m: m @ m[0],
        "outer": lambda xp, x, m: xp.outer(m[0], m[1]),
    },
}


def measured(call: Call, backend: str) -> tuple[Any, Any, Any]:
    """Return the compiled function, the rival, and their arguments."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=N).astype("float32")]
    arrays.append(rng.normal(size=(100, 100)).astype("float32"))
    x = gt.tensor("x", "float32", ("n",))
    m = gt.tensor("m", "float32", ("r", "c"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.UnusedInputWarning)
        f = graphc.function([x, m], call(gt, x, m), backend=backend)
    if backend == "numpy":
        return f, lambda x, m: np.asarray(call(np, x, m)), arrays
    theirs = jax.jit(lambda x, m: call(jnp, x, m))
    return f, theirs, [jnp.asarray(a) for a in arrays]


def run_ratio(call: Call, backend: str) -> float:
    """Return the ratio of our time of one call to theirs."""
    ours, theirs, arrays = measured(call, backend)
    same(ours(*arrays), theirs(*arrays), rtol=1e-4)
    pair = compare(
        lambda: ours(*arrays), lambda: theirs(*arrays), rounds=15, calls=200
    )
    return pair.ratio


def lowering_ratio(call: Call) -> float:
    """Return the ratio of our CPU time to trace and lower to theirs."""
    f, _, arrays = measured(call, "jax")

    def ours() -> Any:
        return emitted(f)["segment_0"].lower(*arrays)

    def theirs() -> Any:
        return jax.jit(lambda x, m: call(jnp, x, m)).lower(*arrays)

    def prepared() -> None:
        emitted(f)

    whole = compare(ours, theirs, rounds=9, clock=CPU)
    load = compare(prepared, theirs, rounds=9, clock=CPU)
    return whole.ratio - load.ratio  # loading the text is not tracing


def family_rows() -> list[Row]:
    """Return the median ratio of each family, with its worst op."""
    rows = []
    for family, every in some(FAMILIES.items()):
        calls = dict(some(every.items()))
        for what, limit, ratio_of in (
            ("run on JAX", 1.02, lambda c: run_ratio(c, "jax")),
            ("trace and lower", 1.0, lowering_ratio),
            ("run on NumPy", 1.05, lambda c: run_ratio(c, "numpy")),
        ):
            usable = {
                name: call
                for name, call in calls.items()
                if what != "trace and lower" or one_jit(call)
            }
            if not usable:
                continue
            ratios = {name: ratio_of(call) for name, call in usable.items()}
            worst = max(ratios, key=ratios.__getitem__)
            note = f"{len(ratios)} ops, most: {worst} {ratios[worst]:.2f}"
            middle = statistics.median(ratios.values())
            rows.append(Row(f"{family}: {what}", "", "", middle, limit, note))
    return rows


def one_jit(call: Call) -> bool:
    """Whether the program is one jitted function without a driver."""
    f, _, _ = measured(call, "jax")
    return "program = segment_0" in f.source


def import_row() -> Row:
    """Measure the seconds to import graphc beyond NumPy's, in fresh processes.

    Bytecode is kept, as in an installation, even if the shell says otherwise.
    """
    environment = {k: v for k, v in os.environ.items() if k != NO_BYTECODE}

    def once(module: str) -> float:
        code = (
            "import time; t = time.process_time(); "
            f"import {module}; print(time.process_time() - t)"
        )
        run = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        return float(run.stdout)

    once("graphc")  # writes the bytecode
    ours = statistics.median(once("graphc") for _ in range(ROUNDS))
    base = statistics.median(once("numpy") for _ in range(ROUNDS))
    return Row(
        "import graphc, beyond NumPy", time_text(ours), time_text(base), ours - base,
        0.3, "CPU seconds, medians of 9",
    )


def main() -> None:
    """Print both tables."""
    print_table("Op families, median over their ops", family_rows())
    print_table("Import", [import_row()], number="seconds")


if __name__ == "__main__":
    main()
