"""Kernel sums and attention: in blocks by rule, in JAX as written, and by KeOps.

    python -m benchmarks.kernel_sums

The programs are `exp(-|x_i - y_j|^2) @ b` of many points, its gradient, and
softmax(q k^T) v. The number is graphc's time over that of the rival; the note has the
temporary memory of both in MiB. Naive JAX is left out if it would need more than a few
GiB. KeOps (`pip install pykeops`, and a C++ compiler) is left out if it cannot be
imported. Targets: 1.5 times the time of the better one, and memory that does not grow
with the points.
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import (
    Row,
    compare,
    emitted,
    peak_bytes,
    print_table,
    row,
    same,
    setting,
    some,
)

POINTS = setting((100, 1_000, 3_000, 10_000, 30_000), (10,))
MOST = 2**31  # the most bytes of all pairs for naive JAX
Array = Any
Program = Callable[..., Any]


def kernel(xp: Any, x: Array, y: Array, b: Array) -> Array:
    """Sum Gaussians, written in the plain way."""
    return xp.exp(-xp.sum((x[:, None] - y) ** 2, -1)) @ b


def attention(xp: Any, q: Array, k: Array, v: Array) -> Array:
    """Compute attention of one head, written in the plain way."""
    scores = q @ k.T / q.shape[1] ** 0.5
    weights = xp.exp(scores - xp.max(scores, 1, keepdims=True))
    return weights @ v / xp.sum(weights, 1, keepdims=True)


WORK: dict[str, tuple[Program, bool, tuple[int, ...]]] = {
    "kernel sum": (kernel, False, (3, 3, 0)),
    "kernel sum, gradient": (kernel, True, (3, 3, 0)),
    "attention": (attention, False, (64, 64, 64)),
    "attention, gradient": (attention, True, (64, 64, 64)),
}


def ours(how: Program, gradient: bool, widths: tuple[int, ...]) -> Any:
    """Compile the program as a graph."""
    names, sizes = ("x", "y", "b"), ("n", "m", "m")
    shapes = [(n, w) if w else (n,) for n, w in zip(sizes, widths, strict=True)]
    inputs = [
        gt.tensor(name, "float32", shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    found = how(gt, *inputs)
    if gradient:
        loss = gt.mean(found**2)
        found = [loss, *graphc.grad(loss, inputs)]
    return graphc.function(inputs, found, dims="specialize")


def naive(how: Program, gradient: bool) -> Program:
    """Jit the program in JAX."""

    def loss(*args: Array) -> Array:
        return jnp.mean(how(jnp, *args) ** 2)

    if not gradient:
        return jax.jit(lambda *args: how(jnp, *args))
    both = jax.value_and_grad(loss, (0, 1, 2))
    return jax.jit(lambda *args: [both(*args)[0], *both(*args)[1]])


def keops() -> Program | None:
    """Return the kernel sum by KeOps on NumPy arrays, or None without KeOps."""
    if importlib.util.find_spec("pykeops") is None:
        return None
    lazy = importlib.import_module("pykeops.numpy").LazyTensor

    def run(x: Array, y: Array, b: Array) -> Array:
        gap = lazy(x[:, None]) - lazy(y[None])
        return ((-(gap**2).sum(-1)).exp() @ b[:, None])[:, 0]

    return run


def rows(what: str) -> list[Row]:
    """Measure one kind of work."""
    how, gradient, widths = WORK[what]
    f, plain = ours(how, gradient, widths), naive(how, gradient)
    third = keops() if what == "kernel sum" else None
    segment = emitted(f)["segment_0"]
    rng, found = np.random.default_rng(0), []
    for n in POINTS:
        shapes = [(n, w) if w else (n,) for w in widths]
        host = [rng.normal(size=s).astype("float32") for s in shapes]
        given = [jax.device_put(x) for x in host]
        memory = peak_bytes(segment, *given) / 2**20
        name, options = f"{what}, {n} points", {"rounds": 15 if n < 10_000 else 3}
        if n * n * 4 * max(widths[0] * (how is kernel), 1) <= MOST:
            same(f(*given), plain(*given), rtol=1e-3)
            result = compare(
                lambda given=given: f(*given),
                lambda given=given: plain(*given),
                **options,
            )
            other = peak_bytes(plain, *given) / 2**20
            note = f"naive; {memory:.3g} MiB, naive {other:.3g} MiB"
            found.append(row(name, result, 1.5, note))
        else:
            found.append(alone(name, lambda given=given: f(*given), memory))
        if third is not None:
            same(f(*given), third(*host), rtol=1e-3)
            result = compare(
                lambda given=given: f(*given),
                lambda host=host: third(*host),
                **options,
            )
            found.append(row(name, result, 1.5, f"KeOps; {memory:.3g} MiB"))
    return found


def alone(name: str, run: Callable[[], Any], memory: float) -> Row:
    """Make the row of a program for which naive JAX lacks the memory."""
    result = compare(run, run, rounds=2)
    note = f"naive needs too much; {memory:.3g} MiB"
    return Row(name, row(name, result).ours, note=note)


def main() -> None:
    """Print the tables."""
    for what in some(WORK):
        print_table(what, rows(what))


if __name__ == "__main__":
    main()
