"""Random programs with axes that may be 1, and that stretch if they are.

`GRAPHC_FUZZ=2000 pytest tests/fuzz/test_stretching.py` runs that many programs.
"""

import functools
import os
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.replay import substituted
from graphc.ir.sizes.dims import Dim
from graphc.ir.types import is_float
from tests.fuzz.generator import generate
from tests.fuzz.more_steps import MORE
from tests.fuzz.test_policies import check

COUNT = int(os.environ.get("GRAPHC_FUZZ", "8"))
START = int(os.environ.get("GRAPHC_FUZZ_START", "0"))
compared = functools.partial(check, stretching=True)
POLICIES = {"specialize": "specialize", "pad": graphc.Pad(minimum=3, growth=1.6)}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("more", [(), MORE], ids=["first", "wider"])
def test_on_numpy(more, policy):
    seeds = range(START, START + COUNT)
    values = sum(compared(s, more, "numpy", POLICIES[policy]) for s in seeds)
    assert values > 5 * COUNT


@pytest.mark.parametrize("policy", POLICIES)
def test_on_jax(policy):
    seeds = range(START, START + COUNT // 4)
    values = sum(compared(s, (), "jax", POLICIES[policy]) for s in seeds)
    assert values > 5 * (COUNT // 4)


def slopes(outputs, inputs):
    """The gradients of all smooth outputs; None if there are none."""
    smooth = [v for v in inputs if is_float(v.dtype)]
    costs = [gt.sum(gt.cos(v)) for v in outputs if is_float(v.dtype)]
    try:
        found = graphc.grad(sum(costs), smooth, disconnected="zero") if costs else []
    except graphc.GraphError as error:
        assert "there is no gradient" in str(error)
        found = []
    return found


def check_gradients(seed, more):
    """Compare gradients with those of the program whose sizes are all numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = generate(seed, more, dtypes=("float64", "int64"), stretching=True)
        outputs = [k.symbolic for k in program.made]
        new, sizes = {}, {}
        for value, array in zip(program.inputs, program.arguments, strict=True):
            new[value] = gt.tensor(value.name, value.dtype, array.shape)
            pairs = zip(value.type.shape, array.shape, strict=True)
            sizes |= {n.symbols[0]: m for n, m in pairs if isinstance(n, Dim)}
        expected, found = (
            graphc.function(inputs, wanted, backend="numpy")(*program.arguments)
            for inputs, wanted in (
                (new.values(), slopes(substituted(outputs, new, sizes), new.values())),
                (program.inputs, slopes(outputs, program.inputs)),
            )
        )
    for a, b in zip(expected, found, strict=True):
        assert a.shape == b.shape, f"seed {seed}"
        np.testing.assert_allclose(b, a, 1e-6, 1e-8, err_msg=f"seed {seed}")
    return len(found)


@pytest.mark.parametrize("more", [(), MORE], ids=["first", "wider"])
def test_gradients(more):
    seeds = range(START, START + COUNT // 2)
    assert sum(check_gradients(seed, more) for seed in seeds) > COUNT // 3
