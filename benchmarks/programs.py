"""The measured programs, written once over `xp`: `graphc.tensor` or `jnp`."""

import random
from typing import Any

import numpy as np

Arrays = list[Any]
FRONTIER = 64  # unused values of a random DAG


def chain(xp: Any, x: Any, steps: int) -> Any:
    """Apply elementwise ops, each to the one before: as deep as it is long."""
    y = x
    for _ in range(steps // 2):
        y = xp.tanh(y)
        y = y + x
    return y


def wide(xp: Any, x: Any, steps: int) -> Any:
    """Build as many branches as `steps` ops allow, added up in a tree."""
    level = [xp.tanh(x * (i / steps)) for i in range(steps // 3)]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [a + b for a, b in pairs] + level[len(level) & ~1 :]
    return level[0]


def dag(xp: Any, x: Any, steps: int) -> Any:
    """Apply ops to random earlier values, and use all; every tenth is a reduction."""
    choose = random.Random(0)
    values = [xp.tanh(x + 0.01 * i) for i in range(FRONTIER)]
    unused, made = list(values), 2 * FRONTIER
    while made < steps - FRONTIER:
        at = choose.randrange(FRONTIER)
        a, b = unused[at], choose.choice(values[-1000:])
        kind = choose.randrange(10)
        unused[at] = _step(xp, kind, a, b)
        values.append(unused[at])
        made += 1 + (kind in (0, 1))
    return sum(unused[1:], unused[0])


def _step(xp: Any, kind: int, a: Any, b: Any) -> Any:
    if kind == 0:
        return a - xp.max(b)
    if kind == 1:
        return xp.where(a > b, a, b)
    if kind < 5:
        return xp.tanh(a)
    return (a + b) if kind < 7 else xp.maximum(a, b) if kind < 9 else a - b


def blocks(xp: Any, x: Any, steps: int) -> Any:
    """Build a deep residual net of products, means over an axis, reshapes, slices."""
    rows, width = x.shape
    w = xp.eye(width, dtype="float32")
    h = x
    for _ in range(steps // 11):
        h = h - xp.mean(h, axis=-1, keepdims=True)
        pair = xp.reshape(xp.tanh(h @ w), (rows, 2, width // 2))
        h = h + 0.1 * xp.concatenate([pair[:, 1], pair[:, 0]], axis=1)
    return h


def mlp(xp: Any, h: Any, weights: Any, biases: Any) -> Any:
    """Apply layers `tanh(h @ w + b)`."""
    for w, b in zip(weights, biases, strict=True):
        h = xp.tanh(h @ w + b)
    return h


def layers(count: int, width: int, seed: int) -> tuple[Arrays, Arrays]:
    """Draw weights and biases of layers that keep the size of their input."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(count, width, width)) / np.sqrt(width)
    biases = rng.normal(size=(count, width)) / 10
    return list(weights.astype("float32")), list(biases.astype("float32"))
