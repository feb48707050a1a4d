"""The text of docs/pytensor_jax_mode.md: programs that PyTensor's mode JAX fails on.

Run `python -m graphc.dev regenerate pytensor-jax-mode` to try all of them in both modes
and to write the page anew. A program is in the table if PyTensor's mode JAX raises, or
gives other numbers than its Python mode, while graphc's mode does not.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.ifelse import ifelse
from pytensor.scan.utils import until

import graphc.pytensor  # noqa: F401  (registers the mode)
from graphc.ir.types import NDArray

VECTOR = np.array([0.5, -1.0, 2.0, 0.25])
MATRIX = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
WHOLE = np.array([3, 1, 2, 1])
HEAD = """\
# Programs that PyTensor's mode JAX does not run

Written by `python -m graphc.dev regenerate pytensor-jax-mode`,
which tries each of them with
`mode="JAX"` and with `mode="GRAPHC"`, PyTensor {version}: results are compared with
those of PyTensor's own Python mode. All of these run in the mode "GRAPHC". {ran} more
programs of the script run in both modes.

| program | the mode JAX |
|---|---|
"""


class Halved(Op):  # type: ignore[misc]
    """An Op as a user may define it, for which JAX has no conversion."""

    __props__ = ()

    def make_node(self, x: Variable) -> Apply:
        """Return a node with one output, of the type of the input."""
        return Apply(self, [x], [x.type()])

    def perform(
        self, node: "Apply", inputs: Sequence[NDArray], outputs: list[list[object]]
    ) -> None:
        """Compute the output with NumPy."""
        outputs[0][0] = inputs[0] / 2


@dataclass(frozen=True)
class Attempt:
    """A program: its text on the page, how it is built, and its arguments."""

    text: str
    build: Callable[..., Any]
    arguments: tuple[Any, ...]


def counted(x: object) -> Variable:
    """A loop with `until`, which stops by itself."""
    return pytensor.scan(
        lambda y: (y * 2, until(y > 20)),
        outputs_info=[x],
        n_steps=50,
        return_updates=False,
    )


def repeated(x: object, n: object) -> Variable:
    """A loop whose number of steps is an argument."""
    return pytensor.scan(
        lambda y: y * 1.5, outputs_info=[x], n_steps=n, return_updates=False
    )


def drawn(n: object) -> Variable:
    """Draw as many numbers as the argument says."""
    return pt.random.normal(size=(n,), rng=pytensor.shared(np.random.default_rng(1)))


x, k, v = VECTOR, 2, WHOLE
PROGRAMS = [
    Attempt("`x[x > 0]`", lambda x: x[x > 0], (x,)),
    Attempt("`x[x > 0].set(0)`", lambda x: x[x > 0].set(0.0), (x,)),
    Attempt("`x[x > 0].inc(x[x > 0])`", lambda x: x[x > 0].inc(x[x > 0]), (x,)),
    Attempt("`x[:k]`", lambda x, k: x[:k], (x, k)),
    Attempt("`x[k:].sum()`", lambda x, k: x[k:].sum(), (x, k)),
    Attempt("`pt.arange(k)`", pt.arange, (k,)),
    Attempt("`pt.zeros((k, 2))`", lambda k: pt.zeros((k, 2)), (k,)),
    Attempt("`pt.eye(k)`", pt.eye, (k,)),
    Attempt("`x.reshape((k, -1))`", lambda x, k: x.reshape((k, -1)), (x, k)),
    Attempt(
        "`x.reshape(s)`", lambda x, s: pt.reshape(x, s, ndim=2), (x, v[2:] * 0 + 2)
    ),
    Attempt("`pt.tile(x, k)`", lambda x, k: pt.tile(x, (k,)), (x, k)),
    Attempt("`pt.repeat(x, k)`", pt.repeat, (x, k)),
    Attempt("`pt.repeat(x, counts)`", pt.repeat, (x, v)),
    Attempt(
        "`pt.split(x, sizes)`", lambda x, s: pt.split(x, s, n_splits=2), (x, v[:2])
    ),
    Attempt("`pt.roll(x, k)`", pt.roll, (x, k)),
    Attempt("`pt.pad(x, (k, 0))`", lambda x, k: pt.pad(x, (k, 0)), (x, k)),
    Attempt("`pt.nonzero(x)`", lambda x: pt.nonzero(x)[0], (x,)),
    Attempt("`pt.unique(v)`", pt.unique, (v,)),
    Attempt(
        "`pt.unique(v, return_counts=True)`",
        lambda v: list(pt.unique(v, return_counts=True)),
        (v,),
    ),
    Attempt("`pt.bincount(v)`", pt.bincount, (v,)),
    Attempt("`pt.choose(v, m)`", lambda v, m: pt.choose(v - 1, m), (v[:3], MATRIX)),
    Attempt(
        "`pt.unravel_index(v, (2, 3))`",
        lambda v: list(pt.unravel_index(v, (2, 3))),
        (v,),
    ),
    Attempt(
        "`pt.searchsorted(x, y, sorter=order)`",
        lambda x, y, s: pt.searchsorted(x, y, sorter=s),
        (x, x, np.argsort(x)),
    ),
    Attempt("`pt.fill_diagonal(m, 9)`", lambda m: pt.fill_diagonal(m, 9.0), (MATRIX,)),
    Attempt("`ifelse(k > 1, x, x[:1])`", lambda k, x: ifelse(k > 1, x, x[:1]), (k, x)),
    Attempt("a scan with `until`", counted, (0.7,)),
    Attempt(
        "the gradient of a scan with `until`",
        lambda x: pytensor.grad(counted(x).sum(), x),
        (0.7,),
    ),
    Attempt("a scan of `k` steps", repeated, (x, k)),
    Attempt(
        "the gradient of a scan of `k` steps",
        lambda x, k: pytensor.grad(repeated(x, k).sum(), x),
        (x, k),
    ),
    Attempt("`pt.random.normal(size=(k,)).shape`", lambda k: drawn(k).shape, (k,)),
    Attempt("an Op of one's own", lambda x: Halved()(pt.exp(x)), (x,)),
    Attempt(
        "`pt.betaincinv(x, x, p)`",
        lambda x, p: pt.betaincinv(x, x, p),
        (abs(x), abs(x) / 4),
    ),
    Attempt(
        "`pt.hyp2f1(x, 1, 2, p)`",
        lambda x, p: pt.hyp2f1(x, 1.0, 2.0, p),
        (abs(x), abs(x) / 4),
    ),
    Attempt("`pt.kve(v, x)`", pt.kve, (abs(x), abs(x))),
    Attempt("`pt.jv(v, x)`", pt.jv, (abs(x), abs(x))),
    Attempt(
        "`pt.linalg.lstsq(m, y)`",
        lambda m, y: pt.linalg.lstsq(m, y, -1.0)[0],
        (MATRIX, x[:3]),
    ),
    Attempt(
        "`pt.linalg.solve_sylvester(m, m, m)`",
        lambda m: pt.linalg.solve_sylvester(m, m, m),
        (MATRIX,),
    ),
]


def results_in_mode(program: Attempt, mode: object) -> list[NDArray]:
    """The results of a program in a mode of PyTensor."""
    arrays = list(map(np.asarray, program.arguments))
    inputs = [pt.tensor(dtype=a.dtype.name, shape=(None,) * a.ndim) for a in arrays]
    built = program.build(*inputs)
    outputs = list(built) if isinstance(built, (list, tuple)) else [built]
    run = pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
    return list(map(np.asarray, run(*arrays)))


def expected(program: Attempt) -> list[NDArray]:
    """The results of PyTensor's Python mode, without rewrites."""
    return results_in_mode(program, pytensor.Mode("py", "minimum_compile"))


def are_close(one: list[NDArray], other: list[NDArray]) -> bool:
    """Whether results are the same up to rounding."""
    pairs = list(zip(one, other, strict=True))
    return all(a.shape == b.shape and np.allclose(a, b) for a, b in pairs)


def failure_of(program: Attempt) -> str:
    """How a program fails in the mode JAX; "" if it does not."""
    try:
        right = are_close(results_in_mode(program, "JAX"), expected(program))
    except Exception as error:
        return f"`{type(error).__name__}`"
    return "" if right else "other numbers"


def text() -> str:
    """The text of docs/pytensor_jax_mode.md."""
    warnings.simplefilter("ignore")
    rows, ran = [], 0
    for program in PROGRAMS:
        results = results_in_mode(program, "GRAPHC")
        assert are_close(results, expected(program)), program.text
        failure = failure_of(program)
        ran += not failure
        rows += [f"| {program.text} | {failure} |\n"] if failure else []
    head = HEAD.format(version=pytensor.__version__, ran=ran)
    return head + "".join(rows)
