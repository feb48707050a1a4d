"""Steps that are loops and branches, with random bodies and random uses of the results.

On arrays, `Plain` runs them in Python.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.special

import graphc
import graphc.tensor as gt
from tests.fuzz.generator import Known, Step, pick

LOOPS: list[Step] = []
REDUCTIONS: list[Step] = []  # loops of which reductions leave fewer rows

# The next carry, from carry `c`, row `r` and an outer value `w`, all of one shape.
UPDATES = (
    "c * 0.5 + r",
    "xp.tanh(c + r)",
    "xp.maximum(c, r)",
    "xp.cos(c) * r - w",
    "c + xp.mean(r) * w",
    "xp.where(r > 0, c - r, xp.sin(w))",
    "(c + r)[::-1] if c.ndim else c * r / 9",
    "r",
    "c",
)
# The stacked output, from the new carry, the row and the outer value.
STACKED = (
    "c",
    "r * c / 9",
    "xp.sum(c * w)",
    "xp.exp(-c * c) + r",
    "xp.stack([c, r], axis=-1)",
    "w",
    "r - xp.sum(r)",
)
# Uses of the stacked outputs `y` in which hoisting has something to do.
USES = (
    "y",
    "xp.sum(y, axis=0)",
    "xp.mean(y)",
    "xp.max(y, axis=0, initial=-1.0)",
    "xp.sum((y - 0.3) ** 2)",
    "logsumexp(y, axis=0)",
    "xp.sum(xp.abs(y[1:]))",
    "xp.sum(y[::-1] * xp.reshape(xp.arange(y.shape[0]), (-1, *[1] * (y.ndim - 1))))",
    "xp.sum(xp.where(xp.isfinite(y), y, 0), axis=tuple(range(1, y.ndim)))",
    "y[-1:]",
    "xp.all(y < 1, axis=0)",
    "xp.linalg.norm(xp.reshape(y, (-1,)))",
)
# Uses that need several rows at once, or all rows before the first one is used.
REDUCED = (
    "xp.sum((y[1:] - y[:-1]) ** 2)",
    "xp.sum(y[2:] * y[:-2], axis=0)",
    "xp.mean(xp.abs(y[2:] - 2 * y[1:-1] + y[:-2]), axis=tuple(range(1, y.ndim)))",
    "xp.sum(y[1:] * y[:-1]) - xp.sum(y)",
    "xp.max(xp.cos(y)[3:] - xp.sin(y)[:-3], axis=0, initial=0.5)",
    "xp.var(y, axis=0)",
    "xp.var(y * 0.5 + 9) + xp.sum(y)",
    "xp.std(y, axis=0, keepdims=True, ddof=1)",
    "xp.sum(xp.where(y > 0, (y - xp.mean(y)) ** 2, 0))",
    "xp.sum(xp.var(y[1:] - y[:-1], axis=0))",
    "xp.sum(xp.exp(y - xp.max(y, initial=-9)), axis=0)",
)


class Plain:
    """The loops of `gt`, on arrays and in Python."""

    @staticmethod
    def scan(
        step: Any,
        first: Any,
        rows: Any,
        reverse: bool = False,
        until: Any = None,
        checkpoint: Any = None,
    ) -> Any:
        """Like `gt.scan`."""
        c, found = first, []
        for r in rows[::-1] if reverse else rows:
            c, y = step(c, r)
            found.append(np.asarray(y))
            if until is not None and until(c, y):
                break
        if not found:
            like = np.asarray(step(first, np.zeros(rows.shape[1:], rows.dtype))[1])
            return c, np.zeros((0, *like.shape), like.dtype)
        return c, np.stack(found[::-1] if reverse else found)

    @staticmethod
    def while_loop(cond: Any, body: Any, init: Any, max_steps: Any = None) -> Any:
        """Like `gt.while_loop`."""
        while cond(init):
            init = body(init)
        return init

    @staticmethod
    def fori_loop(
        lower: int, upper: int, body: Any, init: Any, checkpoint: Any = None
    ) -> Any:
        """Like `gt.fori_loop`."""
        for i in range(lower, upper):
            init = body(i, init)
        return init

    @staticmethod
    def cond(pred: Any, true_fun: Any, false_fun: Any) -> Any:
        """Like `gt.cond`."""
        return true_fun() if pred else false_fun()


def _loops(xp: Any) -> Any:
    return gt if xp is gt else Plain


def _made(text: str, **names: Any) -> Any:
    xp = names["xp"]
    logsumexp = gt.nn.logsumexp if xp is gt else scipy.special.logsumexp
    return eval(text, {"logsumexp": logsumexp, **names})


def _rows(rng: np.random.Generator, pool: list[Known]) -> Known | None:
    x = pick(rng, pool, "biuf", 1)
    fits = x is not None and x.array.ndim < 4 and np.isfinite(x.array).all()
    return x if fits else None


def step(name: str, steps: list[Step] = LOOPS) -> Any:
    """Register the decorated function, which draws a step."""

    def join(draw: Any) -> Any:
        def of_floats(rng: np.random.Generator, pool: list[Known]) -> Any:
            drawn = draw(rng, pool)
            if not drawn:
                return None
            call, (x,) = drawn
            floats = str(np.result_type(x.array.dtype, np.float32))
            return (lambda xp, x: call(xp, x.astype(floats))), (x,)

        steps.append(Step(name, of_floats, jumps=True, exact=False, narrows=True))
        return draw

    return join


def _body(rng: np.random.Generator) -> Any:
    """Draw a function that makes a body from the outer value that it uses."""
    update, stacked = str(rng.choice(UPDATES)), str(rng.choice(STACKED))

    def body(xp: Any, w: Any) -> Any:
        def one(c: Any, r: Any) -> Any:
            c = _made(update, xp=xp, c=c, r=r, w=w) + 0 * c
            return c, _made(stacked, xp=xp, c=c, r=r, w=w)

        return one

    return body


def _used(rng: np.random.Generator, uses: Sequence[str] = USES) -> Any:
    text = str(rng.choice(uses))
    return lambda xp, y: _made(text, xp=xp, y=y)


def _kept(pool: list[Known]) -> Any:
    """Take turns with the checkpoint intervals of gradients."""
    return (None, "sqrt", None, "log", 2)[len(pool) % 5]


@step("scan")
def _scan(
    rng: np.random.Generator, pool: list[Known], uses: Sequence[str] = USES
) -> Any:
    x, body, use = _rows(rng, pool), _body(rng), _used(rng, uses)
    reverse, last = bool(rng.random() < 0.4), bool(rng.random() < 0.2)
    options = {"reverse": reverse, "checkpoint": _kept(pool)}

    def call(xp: Any, x: Any) -> Any:
        w = xp.sum(x, axis=0) / 7
        carry, y = _loops(xp).scan(body(xp, w), w * 0, x, **options)
        return carry if last else use(xp, y)

    return x and (call, (x,))


@step("scan until")
def _until(
    rng: np.random.Generator, pool: list[Known], uses: Sequence[str] = USES
) -> Any:
    x, body, use = _rows(rng, pool), _body(rng), _used(rng, uses)

    def call(xp: Any, x: Any) -> Any:
        w = xp.sum(x, axis=0) / 7
        stop = lambda c, y: xp.sum(c) > 1.23456  # noqa: E731
        return use(xp, _loops(xp).scan(body(xp, w), w * 0, x, until=stop)[1])

    return x and (call, (x,))


@step("nested scan")
def _nested(
    rng: np.random.Generator, pool: list[Known], uses: Sequence[str] = USES
) -> Any:
    x, body = _rows(rng, pool), _body(rng)
    use, outer = _used(rng, uses), _used(rng, uses)
    if x is None or x.array.ndim < 2:
        return None

    def call(xp: Any, x: Any) -> Any:
        loops = _loops(xp)
        w = xp.sum(x, axis=(0, 1)) / 7

        def row(c: Any, r: Any) -> Any:
            c, y = loops.scan(body(xp, w + xp.sum(c)), c, r)
            return c, use(xp, y) * 1.0

        return outer(xp, loops.scan(row, w * 0, x)[1])

    return call, (x,)


@step("gradient of a scan")
def _gradient(rng: np.random.Generator, pool: list[Known]) -> Any:
    """The known derivative of half the sum of squares of running sums of rows."""
    x = _rows(rng, pool)
    reverse = bool(rng.random() < 0.4)

    def call(xp: Any, x: Any) -> Any:
        if xp is np:
            sums = np.cumsum(x[::-1] if reverse else x, axis=0)
            slopes = np.cumsum(sums[::-1], axis=0)[::-1]
            return slopes[::-1] if reverse else slopes
        first = gt.zeros(x.shape[1:], x.dtype)
        add = lambda c, r: (c + r, c + r)  # noqa: E731
        ys = gt.scan(add, first, x, reverse=reverse)[1]
        return graphc.grad(gt.sum(ys**2) / 2, x)

    return x and (call, (x,))


@step("while")
def _while(rng: np.random.Generator, pool: list[Known]) -> Any:
    x = _rows(rng, pool)
    most = 30 if rng.random() < 0.5 else None

    def call(xp: Any, x: Any) -> Any:
        large = lambda v: xp.sum(v * v) > 1.23456  # noqa: E731
        halved = lambda v: v / 2 + xp.roll(v, 1) / 7  # noqa: E731
        return _loops(xp).while_loop(large, halved, x, max_steps=most)

    return x and (call, (x,))


@step("fori with a buffer")
def _fori(rng: np.random.Generator, pool: list[Known]) -> Any:
    x, kept = _rows(rng, pool), _kept(pool)
    shift = int(rng.integers(1, 3))

    def call(xp: Any, x: Any) -> Any:
        def body(i: Any, v: Any) -> Any:
            new = xp.sin(v[i - shift] + v[i] * 0.5)
            if xp is gt:
                return v.at[i].set(new)
            v = v.copy()
            v[i] = new
            return v

        return _loops(xp).fori_loop(shift, x.shape[0], body, x, checkpoint=kept)

    return x and (call, (x,))


@step("map")
def _map(rng: np.random.Generator, pool: list[Known]) -> Any:
    x, body, use = _rows(rng, pool), _body(rng), _used(rng)
    size = int(rng.integers(1, 4)) if rng.random() < 0.5 else None

    def call(xp: Any, x: Any) -> Any:
        w = xp.sum(x, axis=0)
        one = lambda r: body(xp, w)(r, r)[1]  # noqa: E731
        if xp is gt:
            return use(xp, gt.map(one, x, batch_size=size))
        return use(xp, Plain.scan(lambda c, r: (c, one(r)), 0, x)[1])

    return x and (call, (x,))


@step("cond")
def _cond(rng: np.random.Generator, pool: list[Known]) -> Any:
    x, body, use = _rows(rng, pool), _body(rng), _used(rng)

    def call(xp: Any, x: Any) -> Any:
        loops = _loops(xp)
        w = xp.sum(x, axis=0)

        def scanned() -> Any:
            total = xp.sum(use(xp, loops.scan(body(xp, w), w, x)[1]) * 1.0)
            return total.astype(str(x.dtype))

        return loops.cond(xp.sum(x) > 0.1234, scanned, lambda: xp.sum(w) * 1.0)

    return x and (call, (x,))


for _name, _draw in (("scan", _scan), ("until", _until), ("nested", _nested)):
    step(f"{_name}, reduced", REDUCTIONS)(partial(_draw, uses=REDUCED))
