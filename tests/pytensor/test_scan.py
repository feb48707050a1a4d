"""Random PyTensor scans and their gradients give PyTensor's own results.

`GRAPHC_FUZZ=500 pytest tests/pytensor/test_scan.py` tries 500 of them.
"""

import functools
import os
from dataclasses import dataclass

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import HealthCheck, given, note, reject, settings
from hypothesis import strategies as st
from pytensor.scan.utils import until

import graphc
import graphc.pytensor
from graphc.pytensor.steps import Performed

pytestmark = pytest.mark.usefixtures("compiled_quickly", "python_only")
COUNT = int(os.environ.get("GRAPHC_FUZZ", "2"))
PLAIN = pytensor.Mode("py", "minimum_compile")
SETTLED = pytensor.Mode("py", "fast_run")
FUNCTIONS = [
    lambda x, y: pt.tanh(x) + 0.5 * y,
    lambda x, y: pt.sin(x) * y,
    lambda x, y: 0.7 * x - y,
    lambda x, y: pt.switch(x > y, 0.5 * x, y),
    lambda x, y: pt.exp(-(x**2)) + y,
]
READS = {
    "all": lambda y: y,
    "last": lambda y: y[-1],
    "later": lambda y: y[1:],
    "first": lambda y: y[0] * 2,
    "lasts": lambda y: y[-2:],
    "back": lambda y: y[::-1],
}


@dataclass(frozen=True)
class Recurrence:
    taps: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Recipe:
    """A scan: its sequences, its carries, and which of its outputs are read."""

    steps: int
    sequences: tuple[tuple[int, ...], ...]
    recurrences: tuple[Recurrence, ...]
    mapped: int
    mixed: tuple[int, ...]  # which functions a step combines
    reads: tuple[str, ...]
    limit: float | None
    truncated: int
    backwards: bool
    nested: bool
    counted: bool
    known: bool  # whether PyTensor is told the number of steps


TAPS = st.sampled_from([(-1,), (-2, -1), (-2,), (-3, -1)])
RECIPES = st.builds(
    Recipe,
    steps=st.integers(1, 5),
    sequences=st.lists(st.sampled_from([(0,), (0, 1), (-1, 0)]), max_size=2).map(tuple),
    recurrences=st.lists(
        st.builds(Recurrence, TAPS, st.integers(0, 1)), max_size=2
    ).map(tuple),
    mapped=st.integers(0, 2),
    mixed=st.lists(st.integers(0, len(FUNCTIONS) - 1), min_size=1, max_size=5).map(
        tuple
    ),
    reads=st.lists(st.sampled_from(list(READS)), min_size=1, max_size=3).map(tuple),
    limit=st.one_of(st.none(), st.floats(-0.5, 1.5)),
    truncated=st.sampled_from([-1, -1, 1, 2, 3]),
    backwards=st.booleans(),
    nested=st.booleans(),
    counted=st.booleans(),
    known=st.booleans(),
).filter(lambda r: r.recurrences or r.mapped)


def mix(recipe, k, values):
    """An expression of all `values` with the shape of the first."""
    made = values[0]
    for i, value in enumerate(values[1:]):
        chosen = recipe.mixed[(i + k) % len(recipe.mixed)]
        made = FUNCTIONS[chosen](made, value if value.ndim <= made.ndim else value[0])
    return made


def step_of(recipe, weight, inner):
    """The step function of a scan."""
    reads = sum(map(len, recipe.sequences))

    def step(*given):
        rows, left = list(given[:reads]), list(given[reads:])
        states = [[left.pop(0) for _ in r.taps] for r in recipe.recurrences]
        extra = [*rows, weight]
        if recipe.counted:
            count = left.pop(0)
            extra.append(1 + 0.1 * count)
        if recipe.nested:
            extra.append(inner_scan(inner, weight))
        flat = [v for values in states for v in values]
        made = [
            mix(recipe, k, [values[0], *flat, *extra])
            for k, values in enumerate(states)
        ]
        made += [
            mix(recipe, k, [pt.as_tensor(0.3), *extra, *flat])
            for k in range(recipe.mapped)
        ]
        results = made + ([count + 1] if recipe.counted else [])
        if recipe.limit is None:
            return results
        return results, until(pt.sum(made[0]) > recipe.limit)

    return step


def inner_scan(vector, weight):
    made = pytensor.scan(
        lambda a, y, w: 0.5 * y + a * w,
        sequences=[vector],
        outputs_info=[pt.constant(0.5, dtype="float64")],
        non_sequences=[weight],
        return_updates=False,
    )
    return made[-1]


def graph_of(recipe):
    """Inputs with their arguments, and outputs with their gradients."""
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=recipe.steps + 1) for _ in recipe.sequences]
    for r in recipe.recurrences:
        rows = () if r.taps == (-1,) else (-min(r.taps),)
        arrays.append(rng.normal(size=(*rows, *(2,) * r.rank)))
    arrays += [np.asarray(0.7), rng.normal(size=3)]
    inputs = [pt.tensor(dtype="float64", shape=(None,) * a.ndim) for a in arrays]
    firsts = inputs[len(recipe.sequences) : -2]
    info = [
        v if r.taps == (-1,) else {"initial": v, "taps": list(r.taps)}
        for r, v in zip(recipe.recurrences, firsts, strict=True)
    ]
    info += [None] * recipe.mapped
    info += [pt.constant(0, dtype="int64")] if recipe.counted else []
    pairs = zip(inputs[: len(recipe.sequences)], recipe.sequences, strict=True)
    known = recipe.known or not recipe.sequences
    made = pytensor.scan(
        step_of(recipe, inputs[-2], inputs[-1]),
        sequences=[{"input": v, "taps": list(taps)} for v, taps in pairs],
        outputs_info=info,
        n_steps=recipe.steps if known else None,
        go_backwards=recipe.backwards,
        truncate_gradient=recipe.truncated,
        return_updates=False,
        return_list=True,
    )
    reads = [recipe.reads[i % len(recipe.reads)] for i in range(len(made))]
    outputs = [READS[name](y) for name, y in zip(reads, made, strict=True)]
    smooth = outputs[: len(outputs) - recipe.counted]
    cost = sum((y * pt.cos(pt.arange(y.size).reshape(y.shape))).sum() for y in smooth)
    slopes = pytensor.grad(cost, inputs, disconnected_inputs="ignore")
    return inputs, [*outputs, *slopes], arrays


def check(recipe, compiled):
    """Check that our results are PyTensor's; `compiled` makes our function."""
    note(str(recipe))
    inputs, outputs, arrays = graph_of(recipe)
    theirs_in = functools.partial(
        pytensor.function, inputs, outputs, on_unused_input="ignore"
    )
    try:
        theirs = list(map(np.asarray, theirs_in(mode=PLAIN)(*arrays)))
    except ValueError as error:
        # For a loop that stops early, PyTensor's gradient pads what it found with
        # zeros, by the number of steps that were asked for. That count can come out
        # negative.
        none = str(error).startswith("negative dimensions are not allowed")
        if recipe.limit is None or not none:
            raise
        reject()
    ours = list(map(np.asarray, compiled(inputs, outputs)(*arrays)))
    if not all(map(close, ours, theirs)):
        # Without its rewrites, some of PyTensor's gradients disagree with differences.
        theirs = list(map(np.asarray, theirs_in(mode=SETTLED)(*arrays)))
    for one, other in zip(ours, theirs, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert close(one, other), (one, other)


def close(one, other):
    return one.shape == other.shape and np.allclose(one, other, 1e-9, 1e-11, True)


def as_written(inputs, outputs):
    """Our function, without PyTensor's rewrites, which take most of the time."""
    graph = graphc.pytensor.convert(outputs, inputs)
    options = {"backend": "numpy", "unused": "ignore"}
    return graphc.function(graph.inputs, graph.outputs, **options)


def by_mode(backend):
    mode = graphc.pytensor.mode(backend=backend)

    def compiled(inputs, outputs):
        f = pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
        steps = graphc.pytensor.program_of(f).steps
        assert not [s for s in steps if isinstance(s, Performed)]
        return f

    return compiled


def examples(count):
    checks = list(HealthCheck)
    return settings(max_examples=count, deadline=None, suppress_health_check=checks)


@examples(COUNT)
@given(recipe=RECIPES)
def test_scans_as_written(recipe):
    check(recipe, as_written)


@examples(max(COUNT // 3, 1))
@given(recipe=RECIPES, backend=st.sampled_from(["numpy", "jax"]))
def test_scans_that_pytensor_rewrites(recipe, backend):
    check(recipe, by_mode(backend))


def test_a_scan_over_nothing_is_empty():
    """XLA aborts where everything that is joined is cut away."""
    x = pt.dvector("x")
    sums = pytensor.scan(lambda v, s: s + v, x, pt.zeros(()), return_updates=False)
    for options in ({"backend": "numpy"}, {}, {"dims": "pad"}):
        f = pytensor.function([x], sums, mode=graphc.pytensor.mode(**options))
        for n in (0, 1, 3):
            np.testing.assert_allclose(f(np.ones(n)), np.arange(n) + 1.0)
