"""Steps in forms that rewrite rules are written for."""

from typing import Any

import numpy as np
import scipy.special

import graphc.tensor as gt
from tests.fuzz.generator import Known, Step, pick

REWRITABLE: list[Step] = []


def form(text: str, kinds: str, rank: int = 0, **flags: bool) -> None:
    """Register a step written in terms of `xp`, `x` and its rows `r`."""
    function = eval(f"lambda xp, sp, x: {text}")

    def call(xp: Any, x: Any) -> Any:
        spaces = (gt.special, gt.nn) if xp is gt else (scipy.special, scipy.special)
        return function(xp, dict(zip(("special", "nn"), spaces, strict=True)), x)

    def draw(rng: np.random.Generator, pool: list[Known]) -> Any:
        x = pick(rng, pool, kinds, rank)
        if x is None or 0 in x.array.shape or not np.isfinite(x.array).all():
            return None
        return (call, (x,))

    REWRITABLE.append(Step(text, draw, **flags))


FLOATS = {"exact": False}
BRANCHING = {"exact": False, "jumps": True}

for text in (
    "x * 1",
    "x / 1",
    "x - 0",
    "x ** 1",
    "-(-x)",
    "xp.where(x == x, x + 1, x)",
    "xp.broadcast_to(xp.ones(()), x.shape) * x",
    "xp.log(1 + xp.absolute(x))",
    "xp.log(1 - xp.tanh(x) / 2)",
    "xp.exp(x / 99) - 1",
    "xp.log1p(xp.exp(x / 99))",
    "1 - sp['special'].expit(x)",
    "xp.log(sp['special'].expit(x / 9))",
    "xp.log(xp.sum(xp.exp(x / 99)))",
    "xp.squeeze(xp.tanh(xp.sum(x, keepdims=True)))",
):
    form(text, "f", **FLOATS)

for text in (
    "xp.sum(x[:, None] * x[None])",
    "xp.sum(x[:, None] + x[None], 0)",
    "xp.sum(x[None] - x[:, None], (0, 1))",
    "xp.sum((x[:, None] - x[None]) ** 2)",
    "xp.sum(x * 3, 0) / 7",
    "xp.sum(-x, 0)",
    "xp.sum(xp.sum(x, 0))",
    "xp.sum(xp.cumsum(x, 0))",
    "xp.sum(xp.reshape(x, (-1, 1)))",
    "xp.sum(xp.transpose(x), 0)",
    "xp.sum(xp.broadcast_to(x, (3, *x.shape)), 0)",
    "xp.cumsum(x, 0)[-1]",
    "xp.cumprod(xp.tanh(x), 0)[-1]",
    "xp.exp(x / 99)[0]",
    "xp.tanh(x)[::2]",
    "xp.tanh(x + x[0])[xp.asarray([0, 0])]",
    "xp.sum(xp.tanh(x)[x > 0])",
    "xp.sum(x[xp.asarray([0, 0, -1])], 0)",
    "xp.log(sp['nn'].softmax(x / 99, axis=-1))",
    "xp.exp(x / 99) / xp.sum(xp.exp(x / 99), 0, keepdims=True)",
    "xp.reshape(xp.exp(x / 99), (-1,))",
    "sp['nn'].logsumexp(x[:, None] / 99 + x[None] / 99)",
):
    form(text, "f", 1, **FLOATS)

for text in (
    "xp.max(x[:, None] + x[None])",
    "xp.min(xp.exp(x / 99), 0)",
    "xp.max(xp.expand_dims(x, 1), 1)",
    "xp.sort(x, 0)[-1]",
    "xp.sort(x, 0)[0]",
    "xp.argmax(xp.exp(x / 99), -1)",
    "xp.max(xp.broadcast_to(x, (2, *x.shape)))",
):
    form(text, "f", 1, **BRANCHING)

for text in (
    "xp.sum(x @ xp.swapaxes(x, -1, -2))",
    "xp.sum(x @ xp.swapaxes(x, -1, -2), -1)",
    "(x @ xp.swapaxes(x, -1, -2))[..., 0]",
    "(x @ xp.swapaxes(x, -1, -2)) @ x",
    "x @ xp.eye(x.shape[-1], dtype=x.dtype)",
    "(x * 2) @ xp.swapaxes(x, -1, -2)",
    "xp.sum(x[..., None] * x[..., None, :], 0)",
):
    form(text, "f", 2, **FLOATS)

for text in (
    "xp.cumsum(x, 0)[-1]",
    "xp.sum(x[x > 1])",
    "xp.sum(xp.expand_dims(x, 0), 0) + 0",
    "xp.transpose(xp.transpose(x))",
    "xp.reshape(xp.reshape(x, (-1, 1)), (1, -1))",
    "xp.sort(x, 0)[-1]",
    "xp.all(x[x > 0] > 1)",
):
    form(text, "i", 1)
