"""Random programs give the same results under every policy for sizes.

`GRAPHC_FUZZ=2000 pytest tests/fuzz/test_policies.py` runs that many programs.
"""

import os
import warnings

import numpy as np
import pytest

import graphc
from tests.fuzz.generator import generate, run, tolerance
from tests.fuzz.more_steps import MORE

COUNT = int(os.environ.get("GRAPHC_FUZZ", "16"))
START = int(os.environ.get("GRAPHC_FUZZ_START", "0"))
JAX_COUNT = COUNT // 8  # a program takes seconds to compile
POLICIES = {"pad": graphc.Pad(minimum=3, growth=1.6), "bound": "bound"}


def check(seed, more, backend, dims, **options):
    """Compare one program with NumPy; return how many values were compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = generate(seed, more, **options)
        if not program.made:
            return 0
        results = run(program, backend, dims=dims)
    steps = zip(program.steps, program.made, results, strict=True)
    for step, known, got in steps:
        where = f"seed {seed}, {backend}, {step}, of {program.steps}"
        if step.startswith("signbit"):
            continue  # the sign of NaN is up to the library, and varies by lane
        assert got.dtype == known.array.dtype, where
        assert got.shape == known.array.shape, where
        np.testing.assert_allclose(
            got, known.array, **tolerance(known), equal_nan=True, err_msg=where
        )
    return len(program.made)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("more", [(), MORE], ids=["first", "wider"])
def test_on_numpy(more, policy):
    seeds = range(START, START + COUNT)
    values = sum(check(s, more, "numpy", POLICIES[policy]) for s in seeds)
    assert values > 5 * COUNT


@pytest.mark.parametrize("policy", POLICIES)
def test_on_jax(policy):
    seeds = range(START, START + JAX_COUNT)
    values = sum(check(s, MORE, "jax", POLICIES[policy]) for s in seeds)
    assert values > 5 * JAX_COUNT
