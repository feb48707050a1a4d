"""Every Op that has a conversion gives what PyTensor itself gives, on both backends.

The samples of a family are outputs of one function: compiling is most of the time.
"""

from functools import cache

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import graphc.pytensor
from graphc.pytensor.steps import Performed
from tests.pytensor.samples import SAMPLES

pytestmark = pytest.mark.usefixtures("compiled_quickly", "python_only")
# There is no conversion of these, or not with the parameters of the samples.
PERFORMED = {"CAReduce", "Choose", "Lstsq", "UnravelIndex"}
# Functions of graphc are tested on both backends elsewhere: here it is conversions, and
# on JAX those that make loops, branches and reads by index.
BACKENDS = [(name, "numpy") for name in SAMPLES if name != "loops"]
BACKENDS += [(name, "jax") for name in ("control", "loops", "parts")]


def graph_of(sample):
    """Inputs, and outputs with the gradients of a sum of them."""
    given = sample.arrays
    inputs = [pt.tensor(dtype=a.dtype.name, shape=(None,) * a.ndim) for a in given]
    made = sample.build(*inputs)
    outputs = list(made) if isinstance(made, (list, tuple)) else [made]
    if sample.smooth:
        cost = sum(
            (v * pt.cos(pt.arange(v.size).reshape(v.shape))).sum() for v in outputs
        )
        wrt = [v for v in inputs if v.dtype == "float64"]
        outputs += pytensor.grad(cost, wrt, disconnected_inputs="ignore")
    return inputs, outputs


@cache
def family(name):
    """The graph of all samples of a family, their arrays, and PyTensor's results."""
    samples = SAMPLES[name]
    parts = [graph_of(s) for s in samples]
    inputs = [v for own, _ in parts for v in own]
    outputs = [v for _, own in parts for v in own]
    owners = [s.name for s, (_, own) in zip(samples, parts, strict=True) for _ in own]
    arrays = [a for s in samples for a in s.arrays]
    return inputs, outputs, arrays, owners, reference(inputs, outputs)(*arrays)


def reference(inputs, outputs):
    """PyTensor's own function, in Python."""
    plain = pytensor.Mode("py", optimizer="minimum_compile")
    return pytensor.function(inputs, outputs, mode=plain, on_unused_input="ignore")


@pytest.mark.parametrize(("name", "backend"), BACKENDS)
def test_results_are_those_of_pytensor(name, backend):
    inputs, outputs, arrays, owners, expected = family(name)
    mode = graphc.pytensor.mode(backend=backend)
    f = pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
    found = f(*arrays)
    for owner, ours, theirs in zip(
        owners, found, map(np.asarray, expected), strict=True
    ):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), owner
        rtol = 1e-5 if theirs.dtype.name == "float32" else 1e-9
        np.testing.assert_allclose(ours, theirs, rtol, 1e-12, err_msg=owner)
    steps = graphc.pytensor.program_of(f).steps
    performed = {type(s.node.op).__name__ for s in steps if isinstance(s, Performed)}
    assert performed <= PERFORMED
