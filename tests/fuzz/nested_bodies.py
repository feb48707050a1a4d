"""Nested loops and branches that each take sizes from around them.

Hypothesis draws a `Nest`; `cost` computes it on symbolic values and on arrays, there
with the loops of `Plain`. It is smooth, so that differences approximate its gradient.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import graphc.tensor as gt
from tests.fuzz.loop_steps import Plain

EDGE = 0.0123  # further from each element of an argument than a difference
WIDTH = 40
# Sizes known before a call, even for many examples at once; LATE depend on data.
EARLY = {
    "axis": "x.shape[0]",
    "argument": "k",
    "of a size": "(x.shape[0] + 1) // 2",
    "of sizes": "x.shape[0] + k",
    "product": "2 * x.shape[0] * (k + 1)",
    "of a part": "x[:k].shape[0]",
}
LATE = {
    "count": f"xp.count_nonzero(x[:, 0] * 1 > {EDGE})",
    "rows": f"x[x[:, 0] > {EDGE}].shape[0]",
    "of a count": f"x[x[:, 0] > {EDGE}][:k].shape[0]",
    "count and axis": f"xp.count_nonzero(x[:, 1] > {EDGE}) + x.shape[0]",
}
# Sizes within a step that depend on its row.
OWN = (f"r[r > {EDGE}].shape[0]", f"r[r > {EDGE}].shape[0] + s")
# Terms of a step with a size `s`, a vector `v` of that size, the carry and a row.
TERMS = (
    "xp.sum(xp.tanh(xp.full((s,), c)))",
    "xp.sum(xp.sin(xp.arange(s) * c))",
    "xp.sum(xp.cos(v * c))",
    "xp.sum(xp.reshape(xp.full((s * 2,), c * 0.5), (2, s)) ** 2)",
    "c * s / (s + 3)",
    "xp.sum(xp.concatenate([v, v * c]))",
    "xp.sum(xp.tanh(xp.sum(r) * v)) * c",
    "xp.sum(xp.full((s,), c * 0 + 1) * v) * xp.sin(c)",
)
MAPPED = ("scan", "reversed", "fori", "while", "cond", "map", "checkpoint")
KINDS = (*MAPPED, "until")  # until: its steps differ by example


@dataclass(frozen=True)
class Nest:
    """A loop or branch: its sizes, the terms of its step, and the nests inside."""

    kind: str
    sizes: tuple[str, ...]  # code of sizes from around the nest
    terms: tuple[str, ...]  # one for each size
    inside: tuple["Nest", ...]
    own: str = ""  # code of a size that depends on the row, for `inside`


@st.composite
def nests(
    draw: Any, sizes: dict[str, str], depth: int = 2, kinds: tuple[str, ...] = KINDS
) -> Nest:
    """Draw a nest whose loops all use sizes from `sizes`."""
    count = draw(st.integers(1, 2))
    one_size, one_term = st.sampled_from([*sizes.values()]), st.sampled_from(TERMS)
    inside: tuple[Nest, ...] = ()
    if depth:
        inside = tuple(draw(st.lists(nests(sizes, depth - 1, kinds), max_size=1)))
    return Nest(
        draw(st.sampled_from(kinds)),
        tuple(draw(one_size) for _ in range(count)),
        tuple(draw(one_term) for _ in range(count)),
        inside,
    )


@st.composite
def told_by_rows(draw: Any) -> Nest:
    """Draw inner loops in a scan; each outer step has its own size for them."""
    sizes = {**EARLY, **LATE}
    inside = tuple(draw(st.lists(nests(sizes, 0), min_size=1, max_size=2)))
    outer = draw(nests(sizes, 0))
    own = draw(st.sampled_from(OWN))
    return Nest("scan", outer.sizes, outer.terms, inside, own)


def cost(nest: Nest, xp: Any, x: Any, k: Any, c: Any) -> Any:
    """Compute the scalar that a nest makes of the scalar `c`."""
    return _done(nest, xp, {"x": x, "k": k, "r": xp.sum(x, axis=0) * 0.3}, c)


def _done(nest: Nest, xp: Any, names: dict[str, Any], c: Any) -> Any:
    sizes = [_made(text, xp, names) for text in nest.sizes]
    vectors = [xp.arange(s) * 0.1 + 0.2 for s in sizes]

    def step(c: Any, r: Any) -> Any:
        own = {**names, "r": r}
        for s, v, term in zip(sizes, vectors, nest.terms, strict=True):
            c = xp.tanh(c * 0.7 + _made(term, xp, {**own, "s": s, "v": v, "c": c}) / 5)
        if nest.own:
            own["own"] = _made(nest.own, xp, {**own, "s": sizes[0]})
        for inner in nest.inside:
            c = xp.sin(_done(_of_own(inner) if nest.own else inner, xp, own, c))
        return c

    return _looped(nest.kind, xp, names, step, c)


def _looped(kind: str, xp: Any, names: dict[str, Any], step: Any, c: Any) -> Any:
    """Run a step in the loop or branch that `kind` names."""
    loops, x, outside = gt if xp is gt else Plain, names["x"], names["r"]
    rows = x * 0.5
    match kind:
        case "fori":
            return loops.fori_loop(0, 2, lambda i, c: step(c, outside), c)
        case "while":
            last = lambda p: p[1] < 3  # noqa: E731
            more = lambda p: (step(p[0], outside), p[1] + 1)  # noqa: E731
            return loops.while_loop(last, more, (c, 0), max_steps=4)[0]
        case "cond":
            yes = lambda: step(c, outside)  # noqa: E731
            return loops.cond(xp.sum(x) > EDGE, yes, lambda: c * 0.9)
        case "map":
            each = lambda r: step(c, r)  # noqa: E731
            made = gt.map(each, rows) if xp is gt else np.array([each(r) for r in rows])
            return c + xp.sum(made)
    options: dict[str, Any] = {"reverse": kind == "reversed"}
    if kind == "checkpoint":
        options["checkpoint"] = 2
    if kind == "until":
        options["until"] = lambda c, y: xp.sum(y) > 1.5
    both = lambda c, r: (lambda new: (new, new * xp.tanh(r)))(step(c, r))  # noqa: E731
    end, ys = loops.scan(both, c, rows, **options)
    return end + xp.sum(ys**2) / 9


def _of_own(nest: Nest) -> Nest:
    """The nest with all sizes replaced by that of the surrounding step."""
    return Nest(nest.kind, ("own",) * len(nest.sizes), nest.terms, nest.inside)


def _made(text: str, xp: Any, names: dict[str, Any]) -> Any:
    return eval(text, {"xp": xp, **names})


def behind(xp: Any, x: Any, out: Any, size: Any) -> Any:
    """A scan followed by a loss, which late rules turn into one loop."""
    add = lambda c, r: (c * 0.5 + r, xp.tanh(r + c))  # noqa: E731
    _, ys = (gt if xp is gt else Plain).scan(add, xp.sum(x, axis=0) * 0, x)
    return xp.sum(xp.exp(xp.tanh(ys @ out))) / 99 + xp.sum(xp.arange(size)) / 9


def variables() -> Any:
    """The inputs of a program: rows, a size, and the weights of the loss."""
    x = gt.tensor("x", "float64", ("n", WIDTH))
    return x, gt.tensor("k", "int64", ()), gt.tensor("out", "float64", (WIDTH, 500))


def arguments(n: int, k: int, seed: int) -> Any:
    """Arguments for `variables()`, none of them close to the edge."""
    rng = np.random.default_rng(seed)
    x, out = rng.normal(size=(n, WIDTH)), rng.normal(size=(WIDTH, 500)) / 9
    x[np.abs(x - EDGE) < 1e-3] += 0.01
    return x, np.int64(k), out
