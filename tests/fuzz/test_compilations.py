"""Random programs at many sizes: XLA rarely compiles, and never for a size seen before.

`GRAPHC_FUZZ=2400 pytest tests/fuzz/test_compilations.py` runs 300 programs.
"""

import math
import os
import warnings

import numpy as np
import pytest

import graphc
from graphc.ir.sizes.dims import Dim
from graphc.runtime.driver.xla import EVENTS
from tests.fuzz.generator import arguments_at, generate, made_of, tolerance
from tests.fuzz.more_steps import MORE

pytestmark = pytest.mark.usefixtures("compiled_quickly")
COUNT = int(os.environ.get("GRAPHC_FUZZ", "16")) // 8
START = int(os.environ.get("GRAPHC_FUZZ_START", "7"))
FACTORS = range(1, 21)
MOST = math.ceil(math.log2(FACTORS[-1] / FACTORS[0])) + 2  # for one size
# Their results vary: signs of NaN, rounding, overflow that depends on the order.
LOOSE = ("signbit", "spacing", "prod", "nanprod")
LENGTH = 3  # steps; longer programs have more segments


@pytest.mark.parametrize("dims", ["pad", "auto"])
@pytest.mark.parametrize("seed", range(START, START + COUNT))
def test_compilations_are_few(seed, dims):
    """At most `MOST` for each independent size, and none for a repeated call."""
    program = generate(seed, MORE, LENGTH)
    calls = [arguments_at(program, factor) for factor in FACTORS]
    values = [made_of(program, given) for given in calls]
    places = [
        i
        for i in range(len(program.made))
        if all(found[i] is not None for found in values)
        and not program.steps[i].startswith(LOOSE)
    ]
    sizes = {n for v in program.inputs for n in v.type.shape if isinstance(n, Dim)}
    outputs = [program.made[i].symbolic for i in places]
    if not outputs:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = graphc.function(program.inputs, outputs, dims=dims, unused="ignore")
        start = EVENTS.count
        for given, wanted in zip(calls, values, strict=True):
            for i, found in zip(places, f(*given), strict=True):
                known = program.made[i]
                np.testing.assert_allclose(
                    found, wanted[i], **tolerance(known), equal_nan=True
                )
                assert found.shape == wanted[i].shape
        once = EVENTS.count - start
        for given in calls:
            f(*given)
    assert once <= MOST * max(1, len(sizes)), program.steps
    assert EVENTS.count - start == once
