"""The text of docs/idioms.md: which idioms pad well, and which do not.

Run `python -m graphc.dev regenerate idioms` after changing a mask rule; a test compares
the file.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.runtime.function import Function
from graphc.transform.planning.plan import Plan, Read

SIZES = np.geomspace(16, 4096, 50).astype(int).tolist()
HEAD = f"""\
# Idioms under padding

`python -m graphc.dev regenerate idioms` writes this page, for which it plans each line
with `dims="pad"`. A test compares the padded results with those at true sizes. The
inputs are `x: (n,)`, `rows: (n, 8)` and `square: (n, n)`, all float64, and the integer
`k`; `key` is a random key. The compilations are those for
{len(SIZES)} sizes from {SIZES[0]} to {SIZES[-1]}: if there are 9,
each of 9 capacities is compiled once.

"""

GROUPS = {
    "Slices and windows": (
        "gt.exp(x[:k])",
        "x[-k:].sum()",
        "rows[k : 2 * k]",
        "x[gt.arange(k)]",
        "gt.reshape(x[: 2 * k], (k, 2)).max(1)",
        "gt.reshape(x[: 4 * (n // 4)], (-1, 4)).mean(1)",
        "x[::2] + x[: (n + 1) // 2]",
        "x.at[:k].add(1.0)",
    ),
    "Copies and grids": (
        "gt.repeat(x, k)",
        "gt.repeat(rows, 3, axis=0)",
        "gt.tile(rows, (k, 1))",
        "gt.concatenate([x, x[:k]])",
        "gt.arange(n)[:, None] * gt.arange(k)",
        "gt.tri(n) @ rows",
        "gt.stack([x, x], 1).reshape(-1)",
        "gt.linspace(0.0, 1.0, n)",
    ),
    "Reductions and orders": (
        "gt.mean(rows, 0)",
        "gt.var(x)",
        "gt.nn.softmax(rows @ rows.T) @ rows",
        "gt.sort(x)[: n // 2]",
        "gt.median(x)",
        "gt.cumsum(x[::-1])",
        "gt.argmax(x)",
    ),
    "Sizes that depend on data": (
        "gt.sum(x[x > 0])",
        "gt.sort(x[x > 0])",
        "gt.unique(gt.round(x))",
        "gt.nonzero(x > 0)[0]",
    ),
    "Linear algebra": (
        "gt.linalg.solve(square + n * gt.eye(n), x)",
        "gt.linalg.cholesky(square @ square.T + gt.eye(n))",
        "gt.linalg.eigvalsh(square + square.T)",
        "gt.linalg.eigvals(square)",
        "gt.linalg.svdvals(rows)",
        "gt.linalg.svd(rows, full_matrices=False)[1]",
        "gt.linalg.lstsq(rows, x)[0]",
    ),
    "Transforms and convolution": (
        "gt.abs(gt.fft.rfft(x))",
        "gt.fft.irfft(gt.fft.rfft(x) * 0.5, n=n)",
        "gt.nn.conv(x[None, None], gt.ones((1, 1, 3), 'float64'))",
        "gt.nn.conv(x[None, None], x[None, None, :k])",
    ),
    "Random draws": (
        "gt.random.normal(key, (n, 3))",
        "gt.random.normal(key, (3, n))",
        "gt.random.gamma(key, gt.abs(rows) + 0.1)",
        "gt.random.permutation(key, x)",
        "gt.random.choice(key, x, (k,), replace=False)",
        "gt.random.choice(key, x, (9,), p=gt.nn.softmax(x))",
        "gt.random.categorical(key, rows.T)",
    ),
    "Loops": (
        "gt.fori_loop(1, n, lambda t, s: s + gt.min(x[:t]), gt.zeros((), 'float64'))",
        "gt.scan(lambda c, a: (c + a, c * a), gt.zeros(8, 'float64'), rows)[1]",
    ),
}


class Idiom(NamedTuple):
    """A line of code, its plan under padding, and the sizes of its calls."""

    text: str
    plan: Plan
    sizes: dict[str, list[int]]

    def row(self) -> str:
        """One line of the table."""
        forecast = self.plan.forecast(self.sizes)
        more = " and more" if forecast.unknown else ""
        cells = [
            f"`{self.text}`",
            f"{forecast.compilations}{more}",
            str(len(self.plan.segments)),
            self.note(),
        ]
        return f"| {' | '.join(cells)} |"

    def note(self) -> str:
        """The reasons if it is slow, or no single segment compiled for capacities."""
        if self.plan.padded is None:
            left = ", as | at .* needs true sizes: "
            return ": ".join(re.split(left, self.plan.budget)[1:])
        cuts = [f"{c.node.reported}: {c.reason}" for c in self.plan.padded.cuts]
        reads = [s.reason for s in self.plan.steps if isinstance(s, Read)]
        prices = [p.reason for p in self.plan.padded.prices]
        return "; ".join(dict.fromkeys([*cuts, *reads, *prices]))


def variables() -> dict[str, Any]:
    """The variables of the idioms."""
    x = gt.tensor("x", "float64", ("n",))
    return {
        "x": x,
        "rows": gt.tensor("rows", "float64", ("n", 8)),
        "square": gt.tensor("square", "float64", ("n", "n")),
        "k": gt.scalar("k", "int64"),
        "n": x.shape[0],
        "key": gt.random.key(7),
    }


def compile_idiom(text: str, **how: Any) -> tuple[Function, bool]:
    """The compiled function of an idiom, and whether it uses `k` as a size."""
    known = variables()
    inputs = [known[name] for name in ("x", "rows", "square", "k")]
    value = eval(text, {"gt": gt, **known})
    f = graphc.function(inputs, value, unused="ignore", **how)
    return f, inputs[-1]._symbol is not None


def idioms() -> Iterator[tuple[str, Idiom]]:
    """Yield all idioms, each with the name of its group."""
    for group, texts in GROUPS.items():
        for text in texts:
            f, counts = compile_idiom(text, dims="pad")
            sizes = {"n": SIZES} | ({"k": [n // 3 for n in SIZES]} if counts else {})
            yield group, Idiom(text, f.plan, sizes)


def text() -> str:
    """The whole text of docs/idioms.md."""
    lines: dict[str, list[str]] = {}
    for group, idiom in idioms():
        lines.setdefault(group, []).append(idiom.row())
    head = "| idiom | compilations | segments | why |\n|---|---|---|---|\n"
    parts = [f"## {g}\n\n{head}" + "\n".join(rows) for g, rows in lines.items()]
    return HEAD + "\n\n".join(parts) + "\n"
