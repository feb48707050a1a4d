"""Random loops give what Python loops on NumPy give, under all rules and policies.

`GRAPHC_FUZZ=2000 pytest tests/fuzz/test_loops.py` runs that many programs.
"""

import os
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.fuzz.generator import DTYPES, generate, run, tolerance
from tests.fuzz.loop_steps import LOOPS, REDUCTIONS

COUNT = int(os.environ.get("GRAPHC_FUZZ", "8"))
START = int(os.environ.get("GRAPHC_FUZZ_START", "0"))
JAX_COUNT = COUNT // 8  # a program takes seconds to compile
FOUND = [(21, "numpy"), (3018, "jax"), (4012, "jax")]  # once failed; they stay
WAYS = {
    "hoisted": {},
    "as written": {"rewrites": graphc.rewrites.none},
    "padded": {"dims": graphc.Pad(minimum=3, growth=1.6)},
    "bound": {"dims": "bound"},
}


def program_of(seed, dtypes=DTYPES, loops=LOOPS):
    return generate(seed, loops * 20, length=4, dtypes=dtypes)


def check(seed, backend, options, loops=LOOPS):
    """Run one program and count the values compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = program_of(seed, loops=loops)
        if not program.made:
            return 0
        results = run(program, backend, **options)
    steps = zip(program.steps, program.made, results, strict=True)
    for step, known, got in steps:
        where = f"seed {seed}, {backend}, {options}, {step}, of {program.steps}"
        assert got.dtype == known.array.dtype, where
        assert got.shape == known.array.shape, where
        np.testing.assert_allclose(
            got, known.array, **tolerance(known), equal_nan=True, err_msg=where
        )
    return len(program.made)


@pytest.mark.parametrize("way", WAYS)
def test_on_numpy(way):
    seeds = range(START, START + COUNT)
    assert sum(check(s, "numpy", WAYS[way]) for s in seeds) > 2 * COUNT


def test_reductions():
    seeds = range(START, START + COUNT)
    found = [check(s, "numpy", WAYS["hoisted"], REDUCTIONS) for s in seeds]
    assert sum(found) > 2 * COUNT


@pytest.mark.parametrize("way", ["hoisted", "padded"])
def test_on_jax(way):
    seeds = range(START, START + JAX_COUNT)
    assert sum(check(s, "jax", WAYS[way]) for s in seeds) > 2 * JAX_COUNT


def test_that_failed_once():
    assert check(525, "jax", WAYS["padded"])


def slope(seed, backend, loops=LOOPS):
    """The slope of a program along a direction: by differences and by each gradient.

    None if the program has no gradient. Its numbers lie off the grid, away from jumps.
    """
    program = program_of(seed, ["float64"], loops)
    finite = all(np.isfinite(a).all() for a in program.arguments)
    made = [k.symbolic for k in program.made if k.array.dtype == "float64"]
    if not (made and finite):
        return None
    rng = np.random.default_rng(seed)
    loss = sum(gt.sum(gt.tanh(y / 9)) for y in made)
    along = [rng.normal(size=a.shape) for a in program.arguments]
    given = list(zip(program.arguments, along, strict=True))
    f = graphc.function(program.inputs, loss, backend="numpy")
    near = lambda h: [a + h * d for a, d in given]  # noqa: E731
    ends = [f(*near(0.1 + h)) for h in (1e-6, -1e-6)]
    found = []
    slopes_of = graphc.grad(loss, list(program.inputs), disconnected="zero")
    ways = WAYS.values() if backend == "numpy" else [WAYS["hoisted"], WAYS["padded"]]
    for options in ways:
        slopes = graphc.function(program.inputs, slopes_of, backend=backend, **options)(
            *near(0.1)
        )
        pairs = zip(slopes, along, strict=True)
        found.append(sum(float(np.sum(np.asarray(s) * d)) for s, d in pairs))
    return (ends[0] - ends[1]) / 2e-6, found


def check_slope(seed, backend, loops=LOOPS):
    """Check the slope of a program; return whether it has one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = slope(seed, backend, loops)
    if made is None or not np.isfinite(made[0]):
        return False
    where = f"seed {seed}, {program_of(seed, ['float64'], loops).steps}"
    limits = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(made[1], made[0], **limits, err_msg=where)
    return True


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_gradients(backend):
    count = COUNT if backend == "numpy" else JAX_COUNT
    tried = [check_slope(s, backend) for s in range(START, START + count)]
    assert sum(tried) >= count // 3


@pytest.mark.parametrize(("seed", "backend"), FOUND)
def test_gradients_that_failed_once(seed, backend):
    assert check_slope(seed, backend)
