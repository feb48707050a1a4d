"""Random functions of JAX that decide by the sizes of their arguments, as text.

A function asks some questions in some places: on the way, in inner functions, in rules
of derivatives, in bodies of loops. Its text is that of a user, so it has lines.
"""

import bisect
import dataclasses
import functools
import linecache
import math
import operator
from collections.abc import Callable
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LARGEST = 30  # of the numbers that sizes are compared with


@dataclasses.dataclass(frozen=True, order=True)
class Window:
    """What holds a size."""

    length: int
    step: int = 2


class Scale:
    """A module that knows a size."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, decide: Callable[[int], float], x: Any) -> Any:
        return x * decide(self.length)


def matched(shape: Any, a: int, b: int) -> bool:
    """A decision by patterns."""
    match shape:
        case (n, *_) if n == a:
            return True
        case (n, *_) if n > b:
            return True
        case _:
            return False


def with_vjp(decide: Callable[[int], float]) -> Callable[[Any], Any]:
    """A function whose derivative decides by a size."""

    @jax.custom_vjp
    def double(x: Any) -> Any:
        return 2 * x

    double.defvjp(lambda x: (2 * x, x), lambda x, g: (g * decide(x.shape[0]),))
    return double


def with_jvp(decide: Callable[[int], float]) -> Callable[[Any], Any]:
    """A function whose tangents are decided by a size."""

    @jax.custom_jvp
    def double(x: Any) -> Any:
        return 2 * x

    @double.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return 2 * primals[0], tangents[0] * decide(primals[0].shape[0])

    return double


def repeated(goes_on: Any, step: Any, y: Any) -> Any:
    """A while loop over an array."""
    start = 0, y
    count_and_y = lax.while_loop(
        lambda c: goes_on(c[0]), lambda c: (c[0] + 1, step(c[1])), start
    )
    return count_and_y[1]


# Integers that are made of the sizes of an array `y`; `{i}` are numbers.
SIZES = """
    y.shape[0]
    y.shape[0]
    y.shape[0]
    y.shape[0] + {0}
    y.shape[0] - {0}
    {0} - y.shape[0]
    2 * y.shape[0]
    y.shape[0] // 2
    y.shape[0] // {0}
    y.shape[0] % {0}
    y.shape[0] ** 2
    -y.shape[0]
    max(y.shape[0], {0})
    min(y.shape[0], {0})
    divmod(y.shape[0], {0})[1]
    sum(y.shape)
    math.prod(y.shape)
    y.size
    np.shape(y)[-1]
    jnp.size(y)
    len(y)
    y.shape[0] + y.ndim
    other.shape[0]
    other.shape[0] - y.shape[0]
    other.size + y.size
    np.prod(y.shape)
    y.nbytes // 4
""".split("\n")[1:-1]

# Questions about such an integer `n`, with numbers and the array.
QUESTIONS = """
    n == {0}
    n != {0}
    not n == {0}
    not (n != {0})
    n < {0}
    n <= {0}
    n > {0}
    n >= {0}
    not n >= {0}
    {0} <= n
    {0} > n
    {0} < n <= {1}
    n % 4 == 0
    n % 3 != 1
    n % 2
    not n % 5
    n // 4 == 3
    n in ({0}, {1})
    n not in [{0}, {1}]
    n in {{{0}, {1}}}
    n in range({0}, {0} + 9)
    n in range({0}, 40, 3)
    (n, 1) == ({0}, 1)
    (n, 1) != ({0}, 1)
    (n, 3) < ({0}, 4)
    [n] == [{0}]
    y.shape == ({0},)
    y.shape != ({0},)
    y.shape in [({0},), ({1},)]
    y.shape[:1] > ({0},)
    {{{0}: True}}.get(n, False)
    {{{0}: False}}.get(n, True)
    {{n}} & {{{0}, {1}}}
    {{n: 1}} == {{{0}: 1}}
    len({{n, {0}, {1}}}) == 2
    len(str(n)) == 2
    str(n)[-1] in "05"
    f"{{n:03d}}"[-1] == "4"
    "%s" % n == "{0}"
    repr((n,)) == "({0},)"
    cached(n, {0})
    Window(n) == Window({0})
    Window(n) != Window({0})
    Window(n) < Window({0})
    Window(n) in {{Window({0}), Window({1})}}
    dataclasses.asdict(Window(n))["length"] == {0}
    dataclasses.astuple(Window(n)) == ({0}, 2)
    dataclasses.replace(Window(n), step=3) == Window({0}, 3)
    n == float({0})
    n > {0} + 0.5
    n < float("inf") and n != {0}
    np.int64({0}) == n
    np.int32({0}) <= n
    np.float32({0}) > n
    any(n == k for k in ({0}, {1}))
    all(n % k for k in (2, 3))
    n.__eq__({0})
    operator.eq(n, {0})
    operator.lt(n, {0})
    isinstance(n, int) and n > {0}
    matched(y.shape, {0}, {1})
    sorted([n, {0}, {1}])[1] == {0}
    n >= {0} or n % 2 == 0
    np.array_equal(y.shape, ({0},))
    np.array(y.shape).max() > {0}
    (np.array([n, 3]) == {0}).any()
    np.isin(n, [{0}, {1}])
    [{0}, {1}].count(n)
    n is not None and n > {0}
    bisect.bisect([8, 16, 24], n) == 1
    next((b for b in (8, 16, 32) if n <= b), 64) == 16
    n and n % 2
    (n - {0}) or False
    min((8, 16, 32), key=lambda b: (b - n) ** 2) == 16
    sum(n % k == 0 for k in (2, 3, 5)) > 1
    Scale(n).length == {0}
    n == y.shape[0] == {0}
    n == other.shape[0]
    n > other.shape[0]
    other.shape == y.shape
    other.shape[0] % {0} == n % {0}
""".split("\n")[1:-1]

# What is done to an array: `decide(y)` is a number that is chosen by a question.
STEPS = """
    y = y * decide(y)
    y = jnp.cumsum(y) if ask(y) else y + 1
    y = jnp.sort(-y) if ask(y) else y
    y = jax.jit(lambda v: v * decide(v))(y)
    inner = jax.jit(lambda v: v * decide(v)); y = inner(y) + inner(y)
    y = jax.jit(lambda v: v * 2 if ask(v) else v)(y)
    y = jax.grad(lambda v: with_vjp(lambda n: decide(v))(v).sum())(y) + y
    y = jax.grad(lambda v: with_jvp(lambda n: decide(v))(v).sum())(y) + y
    y = jax.jvp(with_jvp(lambda n: decide(y)), (y,), (y,))[1]
    y = jax.grad(lambda v: (v ** 2).sum() * decide(v))(y)
    y = jax.checkpoint(lambda v: v * decide(v))(y)
    y = lax.scan(lambda c, r: (c + r * decide(y), c + r), 0.0, y)[1]
    y = lax.scan(lambda c, r: (c + r, c), 0.0, y, reverse=ask(y))[1]
    y = lax.fori_loop(0, 3, lambda i, v: v * decide(v), y)
    y = repeated(lambda i: i < decide(y), lambda v: v * 2, y)
    y = repeated(lambda i: i < 2, lambda v: v * decide(v), y)
    y = lax.cond(y.sum() > 3, lambda v: v * decide(v), lambda v: -v, y)
    y = lax.cond(ask(y), lambda v: v * 2, lambda v: -v, y)
    y = lax.switch(int(decide(y)), [jnp.negative, jnp.sign, jnp.sort, jnp.cumsum], y)
    y = jax.vmap(lambda r: r * decide(y))(y)
    y = jax.vmap(lambda r, s: r * s * decide(y), (0, None))(y, 2.0)
    later = lambda: decide(y); y = y * later()
    y = functools.partial(lambda k, v: v * k, decide(y))(y)
    y = Scale(y.shape[0])(lambda n: decide(y), y)
    y = jax.jit(lambda v, k: v * (2 if k else 3), static_argnums=1)(y, ask(y))
    y = jax.jit(lambda v, k: v * (2 if k == 12 else 3), static_argnums=1)(y, y.shape[0])
    y = functools.reduce(lambda v, k: v * k, [decide(y), decide(y)], y)
    y = sum([y for _ in range(int(decide(y)))], y)
    y = jnp.where(jnp.arange(y.shape[0]) < decide(y), y, 0)
    y = jnp.pad(y, (0, 2))[1:-1] if ask(y) else y
    y = jnp.full_like(y, decide(y)) + y
    y = y.at[:1].multiply(decide(y))
    y = jnp.clip(y, -100, decide(y) * 10)
    y = jnp.concatenate([y, y])[::2] if ask(y) else y
    y = y + jax.eval_shape(lambda v: v[:2] if ask(v) else v, y).size
    y = jax.tree.map(lambda v: v * decide(v), {"a": y})["a"]
    y = y / y.shape[0] if ask(y) else y
    y = y - y.mean() * decide(y)
""".split("\n")[1:-1]

RESULTS = """
    y
    y.sum()
    (y, y.max(initial=0))
    {"a": y} if ask(y) else (y, y.sum())
    [y] if ask(y) else y
    y[::2] if ask(y) else y
    y[1:] if ask(y) else y[:-1]
    y.astype("int32") if ask(y) else y
    y.sum() if ask(y) else y
    y.reshape(2, -1) if y.shape[0] % 2 == 0 else y
    y.reshape(-1, 3).sum(0) if y.shape[0] % 3 == 0 else y
    (y, 1.0 if ask(y) else jnp.float32(1))
    (y, 1 if ask(y) else 1.0)
    (y, decide(y))
    (y, y.shape[0] if ask(y) else 0)
    y[None] if ask(y) else y[:, None]
    y @ y if ask(y) else jnp.outer(y, y)
    jnp.zeros(y.shape[0]) if ask(y) else jnp.ones(y.shape[0], bool)
    None if ask(y) else y
""".split("\n")[1:-1]


# What the texts name.
OF_MODULES = (bisect, dataclasses, functools, jax, lax, math, operator)
OF_HERE = (Scale, Window, matched, repeated, with_jvp, with_vjp)
NAMES = {"jnp": jnp, "np": np, "__name__": "deciding"}
NAMES |= {item.__name__.rpartition(".")[2]: item for item in (*OF_MODULES, *OF_HERE)}


def cached_question() -> Callable[[int, int], bool]:
    """A question whose answers are kept, for one function."""
    return functools.cache(lambda n, k: n % 3 == k % 3)


class Deciding:
    """A function, and the answers of the questions that its last trace asked."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng((29, seed))
        self.traces = 0
        self.answers: list[bool] = []
        self.text = self._written()
        names = {**NAMES, "cached": cached_question(), "noted": self._noted}
        file = f"<deciding {seed}>"
        lines = self.text.splitlines(keepends=True)
        linecache.cache[file] = len(self.text), None, lines, file
        exec(compile(self.text, file, "exec"), names)
        self._function = names["function"]

    def __call__(self, x: Any, other: Any) -> Any:
        self.traces += 1
        self.answers = []
        return self._function(x, other)

    def _noted(self, answer: Any) -> bool:
        self.answers.append(bool(answer))
        return self.answers[-1]

    def _one_of(self, lines: list[str]) -> str:
        return lines[self._rng.integers(len(lines))].strip()

    def _question(self) -> str:
        size = self._one_of(SIZES).format(self._number(), self._number())
        asked = self._one_of(QUESTIONS).format(self._number(), self._number())
        return f"noted((lambda n: {asked})({size}))"

    def _number(self) -> int:
        return int(self._rng.integers(2, LARGEST))

    def _written(self) -> str:
        lines = ["def function(x, other):", "    y = x"]
        names = count()
        for _ in range(self._rng.integers(1, 4)):
            lines += self._asking(next(names))
            lines.append("    " + self._one_of(STEPS))
        lines += self._asking(next(names))
        return "\n".join([*lines, "    return " + self._one_of(RESULTS), ""])

    def _asking(self, i: int) -> list[str]:
        """The functions that a step asks, of the array that it has at hand."""
        first, second = (int(k) for k in self._rng.permutation(4)[:2])
        chosen = f"{first}.0 if {self._question()} else {second}.0"
        return [
            f"    def ask(y): return {self._question()}",
            f"    def decide(y): return {chosen}",
        ]


def sizes_of(seed: int, number: int) -> list[tuple[int, int]]:
    """Sizes of two arrays for each call; the second varies less."""
    rng = np.random.default_rng((30, seed))
    first = rng.integers(0, LARGEST + 4, size=number)
    second = rng.choice([3, 4, 9, 12], size=number)
    if rng.random() < 0.6:
        second[:] = 5
    return [(int(n), int(m)) for n, m in zip(first, second, strict=True)]


def arrays_of(n: int, m: int) -> tuple[Any, Any]:
    """Two arrays of these sizes, whose elements are few bits long."""
    return np.arange(n, dtype="float32") / 4 - 1, np.arange(m, dtype="float32")
