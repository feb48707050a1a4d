"""Random programs: NumPy backend, JAX backend and NumPy itself agree.

`GRAPHC_FUZZ=5000 pytest tests/fuzz` runs that many programs; the default is small.
"""

import os
import warnings

import numpy as np
import pytest

import graphc
from tests.fuzz.generator import generate, run, tolerance
from tests.fuzz.more_steps import MORE

COUNT = int(os.environ.get("GRAPHC_FUZZ", "8"))
START = int(os.environ.get("GRAPHC_FUZZ_START", "0"))
FOUND = (458, 490, 722)  # seeds that once failed; they stay
FOUND_WIDER = (209, 922)  # likewise, for programs with more kinds of steps


def check(seed, more=()):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.UnusedInputWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        program = generate(seed, more)
        if not program.made:
            return 0
        for backend in ("numpy", "jax"):
            for step, known, got in zip(
                program.steps, program.made, run(program, backend), strict=True
            ):
                where = f"seed {seed}, {backend}, {step}, of {program.steps}"
                assert got.dtype == known.symbolic.dtype == known.array.dtype, where
                assert got.shape == known.array.shape, where
                np.testing.assert_allclose(
                    got, known.array, **tolerance(known), equal_nan=True, err_msg=where
                )
    return len(program.made)


@pytest.mark.parametrize("seed", FOUND)
def test_programs_that_failed_once(seed):
    assert check(seed)


@pytest.mark.parametrize("seed", FOUND_WIDER)
def test_wider_programs_that_failed_once(seed):
    assert check(seed, MORE)


@pytest.mark.parametrize("more", [(), MORE], ids=["first", "wider"])
def test_random_programs_agree(more):
    values = sum(check(seed, more) for seed in range(START, START + COUNT))
    assert values > 5 * COUNT
