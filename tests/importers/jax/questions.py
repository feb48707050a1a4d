"""The texts that generated functions consist of, and the names used in them.

There are sizes, questions about sizes, steps that ask questions, and results.
"""

import bisect
import collections
import dataclasses
import enum
import functools
import heapq
import itertools
import math
import numbers
import operator
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@dataclasses.dataclass(frozen=True, order=True)
class Window:
    """A data class that holds a size."""

    length: int
    step: int = 2


class Scale:
    """A module that holds a size."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, decide: Callable[[int], float], x: Any) -> Any:
        return x * decide(self.length)


class Pair(NamedTuple):
    """A named tuple of two sizes."""

    length: int
    step: int = 2


class Kind(enum.Enum):
    """The kinds of sizes, by their remainder modulo 3."""

    WHOLE = 0
    MORE = 1
    LESS = 2


LIMITS = {"most": 11, "list": [4, 8, 12]}  # read by the functions
KNOWN = SimpleNamespace(of_5=1, of_12=1, of_20=1)  # with sizes in their names


def halves(n: int) -> Iterator[int]:
    """Halve a size repeatedly, in a generator whose state is the size."""
    while n > 1:
        yield n
        n //= 2


def raises(error: type[Exception], function: Callable[[], object]) -> bool:
    """Decide by whether a function raises an exception."""
    try:
        function()
    except error:
        return True
    return False


def require(condition: object) -> None:
    """Raise AssertionError unless the condition holds."""
    assert condition


def padded(n: int) -> int:
    """The least power of two that is no less than a size, by a loop."""
    room = 1
    while room < n:
        room *= 2
    return room


@functools.singledispatch
def doubled(n: object) -> bool:
    """Decide by the type of a size, which has to count as an integer."""
    return False


@doubled.register
def _(n: int) -> bool:
    return n % 2 == 0


class Dense:
    """A layer whose weights have a size that was decided."""

    def __init__(self, width: int) -> None:
        self.weights = jnp.ones((width, width)) * width

    def __call__(self, y: Any) -> Any:
        if y.shape[0] % len(self.weights):
            return y * len(self.weights)
        return (y.reshape(-1, len(self.weights)) @ self.weights).reshape(-1)


def halved_sum(y: Any) -> Any:
    """Sum by halving while the size is even: recursion over the size."""
    n = y.shape[0]
    if n < 2 or n % 2:
        return y.sum()
    return halved_sum(y[: n // 2] + 2 * y[n // 2 :])


def matched(shape: Any, a: int, b: int) -> bool:
    """Decide by matching patterns."""
    match shape:
        case (n, *_) if n == a:
            return True
        case (n, *_) if n > b:
            return True
        case _:
            return False


def with_vjp(decide: Callable[[Any], float]) -> Callable[[Any], Any]:
    """A function whose backward rule decides by a size."""

    @jax.custom_vjp
    def double(x: Any) -> Any:
        return 2 * x

    double.defvjp(lambda x: (2 * x, x), lambda x, g: (g * decide(x),))
    return double


def with_jvp(decide: Callable[[Any], float]) -> Callable[[Any], Any]:
    """A function whose tangent rule decides by a size."""

    @jax.custom_jvp
    def double(x: Any) -> Any:
        return 2 * x

    @double.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return 2 * primals[0], tangents[0] * decide(primals[0])

    return double


def repeated(goes_on: Any, step: Any, y: Any) -> Any:
    """Run a while loop over an array."""
    start = 0, y
    count_and_y = lax.while_loop(
        lambda c: goes_on(c[0]), lambda c: (c[0] + 1, step(c[1])), start
    )
    return count_and_y[1]


# Integers made from the sizes of an array `y`; `{i}` are numbers.
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
    (y.shape[0] + 3) // 4 * 4
    -(-y.shape[0] // {0})
    -y.shape[0] % 8
    y[:{0}].shape[0]
    y[y.shape[0] // 2:].size
    jnp.concatenate([y, other]).shape[0]
    sorted((y.shape[0], {0}))[0]
    abs(y.shape[0] - {0})
    math.ceil(y.shape[0] / 4)
    int(y.shape[0] * 0.5)
    round(y.shape[0] / 3)
    math.gcd(y.shape[0], 12)
    padded(y.shape[0])
    len(range(0, y.shape[0], 4))
    int(np.ceil(y.shape[0] / 4))
    y.shape[0] ^ 1
    y.shape[0].bit_length()
    operator.index(y.shape[0])
""".split("\n")[1:-1]

# Questions about such an integer `n`, with numbers and the array `y`.
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
    bool(n)
    not bool(n - {0})
    n / {0} > 1.5
    n / 4 == 3.0
    n * 0.5 > {0}
    float(n) == {0}.0
    abs(n - {0}) < 3
    pow(n, 2, 7) == 4
    (m := n // 2) > 4 and m % 2
    n & 3 == 1
    n.bit_length() == 4
    hex(n)[-1] == "c"
    hash(n) == hash({0})
    int.__eq__(n, {0})
    math.isqrt(n) == 4
    math.sqrt(n) > 4.5
    math.log2(n).is_integer()
    math.gcd(n, 12) == 4
    math.comb(n, 2) % 2 == 0
    math.floor(n / 3) == 5
    math.isclose(n, {0})
    np.sqrt(n) > 4.5
    np.ceil(n / 4) == 3
    np.mod(n, 3) == 0
    np.maximum(n, {0}) == {0}
    np.clip(n, {0}, {1}) == n
    np.gcd(n, 12) == 3
    np.log2(np.float32(n)) > 3
    np.arange(n).sum() > 60
    np.linspace(0, 1, n)[-1] > 0.5
    raises(IndexError, lambda: list(range({0}))[n])
    raises(IndexError, lambda: (1, 2, 3)[n])
    raises(KeyError, lambda: {{{0}: 1, {1}: 1}}[n])
    raises(ZeroDivisionError, lambda: 7 // (n - {0}))
    raises(AssertionError, lambda: require(n % 3 == 0))
    raises(ValueError, lambda: [{0}, {1}].index(n))
    raises(StopIteration, lambda: next(k for k in (8, 16) if k == n))
    raises(ValueError, lambda: Kind(n))
    Kind(n % 3) is Kind.MORE
    len(range(n)) == {0}
    sum(range(n)) > 99
    sum(1 for k in range(0, n, 4)) == 4
    sum(k == n for k in range({0}, 30)) == 1
    next((i for i, k in enumerate((8, 16, 24)) if k == n), 9) == 1
    [k for k, i in zip(range(n), range({0}))][-1:] == [{1}]
    len(range(40)[:n]) == {0}
    "abcdefghijklmnop"[n:n + 1] == "h"
    len([1, 2, 3, 4, 5, 6][n:]) == 2
    len("x" * n) > {0}
    y[:n].shape[0] == {0}
    sum(itertools.accumulate(range(n))) % 2 == 0
    len(list(itertools.product(range(n), range(2)))) > {0}
    len(list(itertools.takewhile(lambda k: k < n, range(40)))) == {0}
    list(itertools.islice(range(40), n, n + 1)) == [{0}]
    next(itertools.dropwhile(lambda k: k < n, (8, 16, 24, 99))) == 16
    sum(halves(n)) % 2 == 0
    list(halves(n))[:1] == [{0}]
    LIMITS["most"] < n
    n in LIMITS["list"]
    hasattr(KNOWN, f"of_{{n}}")
    getattr(KNOWN, "of_" + str(n), False)
    hasattr(n, "bit_length") and n > {0}
    {{"of_{0}": True}}.get(f"of_{{n}}", False)
    f"{{y.shape}}" == "({0},)"
    "x".join(map(str, y.shape)).endswith("2")
    {{y.shape: 1}}.get(({0},), 0)
    {{n}} <= {{{0}, {1}}}
    {{n, {0}}} == {{{0}}}
    frozenset((n,)) | {{{0}}} == {{{0}}}
    {0} in set(range(n))
    collections.Counter([n, {0}])[{0}] == 2
    collections.defaultdict(bool, {{{0}: True}})[n]
    len(collections.deque(range(9), maxlen=max(n, 0))) > 4
    heapq.nsmallest(1, [n, {0}, {1}]) == [n]
    Pair(n) == Pair({0})
    Pair(n)[0] > {0}
    Pair(n) in {{Pair({0}): 1}}
    SimpleNamespace(n=n) == SimpleNamespace(n={0})
    isinstance(n, numbers.Integral) and n == {0}
    isinstance(n, (int, np.integer)) and n < {0}
    issubclass(type(n), object) and n < {0}
    doubled(n)
    cached_shape(y.shape)
    padded(n) == 16
    max((n, {0}), key=lambda k: -k) == n
    min(n, {0}) == min(n, {1})
    list(map(lambda k: k + 1, [n])) == [{0}]
    list(filter(lambda k: k % 2, [n, {0}, {1}])) == [n]
    [*y.shape, 1] == [{0}, 1]
    dict(length=n) == dict(length={0})
    functools.partial(operator.gt, n)({0})
    operator.contains(({0}, {1}), n)
    operator.truth(n % 4)
    (lambda *shape: shape[0] == {0})(*y.shape)
    slice(n) == slice({0})
    range(n) == range({0})
    jnp.zeros((n, 2)).shape == ({0}, 2)
    jnp.arange(n).size > {0}
    np.empty(n).shape == ({0},)
    jnp.ndim(jnp.zeros(n)) and n == {0}
""".split("\n")[1:-1]

# Operations on an array: `decide(y)` is a number chosen by a question.
STEPS = """
    y = y * decide(y)
    y = jnp.cumsum(y) if ask(y) else y + 1
    y = jnp.sort(-y) if ask(y) else y
    y = jax.jit(lambda v: v * decide(v))(y)
    inner = jax.jit(lambda v: v * decide(v)); y = inner(y) + inner(y)
    y = jax.jit(lambda v: v * 2 if ask(v) else v)(y)
    y = jax.grad(lambda v: with_vjp(decide)(v).sum())(y) + y
    y = jax.grad(lambda v: with_jvp(decide)(v).sum())(y) + y
    y = jax.jvp(with_jvp(decide), (y,), (y,))[1]
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
    y = y * jnp.linalg.det(jnp.eye(y.shape[0]) * 1.1)
    y = jnp.linalg.solve(jnp.eye(y.shape[0]) * decide(y) + 5 * jnp.eye(y.shape[0]), y)
    y = lax.map(lambda r: r * decide(y), y)
    y = lax.associative_scan(jnp.add if ask(y) else jnp.maximum, y)
    y = jnp.vectorize(lambda r: r * decide(y))(y)
    y = jax.linearize(lambda v: v * decide(v), y)[1](y)
    y = jax.vjp(lambda v: v ** 2 * decide(v), y)[1](y)[0]
    y = jax.jacfwd(lambda s: s * y * decide(y))(2.0)
    y = y * jax.hessian(lambda s: s ** 3 * decide(y))(2.0)
    y = lax.scan(lambda c, _: (jax.jit(lambda v: v * decide(v))(c), 0), y, length=2)[0]
    y = jax.vmap(jax.vmap(lambda r: r * decide(y)))(y[None])[0]
    y = jnp.roll(y, y.shape[0] // 2) * decide(y)
    for _ in range(y.shape[0] % 3): y = y + decide(y)
    y = jnp.pad(y, (0, -y.shape[0] % 4)).reshape(-1, 4).sum(1) if ask(y) else y
    y = sum(y[i:i + 12].sum() for i in range(0, y.shape[0], 12)) + y
    y = Dense(3 if ask(y) else 2)(y)
    y = halved_sum(y) * y
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


# The names that the texts use.
OF_PYTHON = (bisect, collections, dataclasses, functools, heapq, itertools, math)
OF_MODULES = (*OF_PYTHON, jax, lax, numbers, operator)
OF_CLASSES = (Dense, Kind, Pair, Scale, SimpleNamespace, Window)
OF_QUESTIONS = (doubled, halves, matched, padded, raises, require)
OF_HERE = (*OF_CLASSES, *OF_QUESTIONS, halved_sum, repeated, with_jvp, with_vjp)
NAMES = {"jnp": jnp, "np": np, "__name__": "deciding", "KNOWN": KNOWN, "LIMITS": LIMITS}
NAMES |= {item.__name__.rpartition(".")[2]: item for item in (*OF_MODULES, *OF_HERE)}
