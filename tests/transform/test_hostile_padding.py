"""No rule reads padding that it knows nothing about, and none states what is false.

`GRAPHC_FUZZ=2000 pytest tests/transform/test_hostile_padding.py` runs that many
programs of each kind.
"""

import os
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.op import GRADIENTS, PRIMITIVES
from graphc.rewrites import none
from tests.fuzz.generator import generate, tolerance
from tests.fuzz.loop_steps import LOOPS
from tests.fuzz.more_steps import MORE
from tests.transform.hostile import hostile_function

COUNT = int(os.environ.get("GRAPHC_FUZZ", "8"))
START = int(os.environ.get("GRAPHC_FUZZ_START", "0"))
POLICIES = {"pad": graphc.Pad(minimum=3, growth=1.6), "bound": "bound"}
KINDS = {"first": ((), 12), "wider": (MORE, 12), "loops": (LOOPS * 20, 4)}


def check(seed, more, length, dims):
    """Check the values of a program against NumPy's, and return their number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = generate(seed, more, length)
        values = [k.symbolic for k in program.made]
        if not values or any(s.startswith("signbit") for s in program.steps):
            return 0  # libraries leave the sign of NaN open
        f = hostile_function(program.inputs, values, dims=dims, backend="numpy")
        results = f(*program.arguments)
    steps = zip(program.steps, program.made, results, strict=True)
    for step, known, got in steps:
        where = f"seed {seed}, {step}, of {program.steps}"
        assert np.shape(got) == known.array.shape, where
        np.testing.assert_allclose(got, known.array, **tolerance(known), err_msg=where)
    return len(values)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_programs(kind, policy):
    seeds = range(START, START + COUNT)
    assert sum(check(s, *KINDS[kind], POLICIES[policy]) for s in seeds) > COUNT


NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e300, 5e-324, 2.0]


def smooth():
    """The elementwise functions of one float that have a gradient."""
    x = gt.vector("x", "float64")
    found = {}
    for name, primitive in PRIMITIVES.items():
        if primitive.elementwise and primitive in GRADIENTS:
            try:
                y = primitive(x)
                graphc.grad(gt.sum(y), x)
            except (graphc.GraphError, TypeError):
                continue
            if not isinstance(y, tuple):
                found[name] = primitive
    return found


def test_gradients_of_what_a_mask_takes_out():
    """NaN and infinite slopes in the padding enter no sum, whatever a mask says.

    An array is multiplied by a number, whose gradient sums over the padding.
    """
    x, w = gt.vector("x", "float64"), gt.scalar("w", "float64")
    functions = smooth()
    assert len(functions) > 40
    outputs = {}
    for name, function in functions.items():
        y = function(x * w)
        loss = gt.sum(y[x > 0] if len(outputs) % 4 else gt.where(x > 0, y, 0.0))
        slopes = graphc.grad(loss, [x, w], disconnected="zero")
        outputs |= {f"{name}, {v}": s for v, s in zip("xw", slopes, strict=True)}
    padded = hostile_function([x, w], outputs, POLICIES["pad"], backend="numpy")
    exact = graphc.function(
        [x, w], outputs, dims="specialize", rewrites=none, backend="numpy"
    )
    for numbers in (NUMBERS[:5], [0.5, 1.0], [], NUMBERS):
        arguments = np.array(numbers), 0.5
        with np.errstate(all="ignore"):
            found, expected = padded(*arguments), exact(*arguments)
        for name, slope in expected.items():
            np.testing.assert_allclose(found[name], slope, 1e-12, err_msg=name)
