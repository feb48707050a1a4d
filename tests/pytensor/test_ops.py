"""Every Op with a conversion gives the same results as PyTensor, on either backend.

The samples of a family are outputs of one function, since most of the time is spent
compiling.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import graphc.pytensor
import tests.pytensor.rare_samples  # noqa: F401  (they join the others)
from graphc.pytensor import elemwise
from graphc.pytensor.gradients import ops_of
from graphc.pytensor.registry import RULES
from graphc.pytensor.steps import Performed
from tests.pytensor.samples import SAMPLES, Sample

pytestmark = pytest.mark.usefixtures("compiled_quickly", "python_only")
# These have no conversion, at least not with the parameters of the samples.
PERFORMED = {"CAReduce", "Elemwise", "Lstsq"}
SCALARS = set(elemwise.FUNCTIONS)  # compared in test_scalar_ops.py
SCALARS |= {"Angle", "Cast", "Complex", "ComplexFromPolar", "Imag", "PolyGamma", "Real"}
SCALARS |= {"Switch"}
SLICES = {"MakeSlice"}  # PyTensor versions make these of an index or drop them
OF_JAX = {"JAXOp"}  # each wraps another function: see test_of_jax.py
OF_PYMC = {"SplineWrapper"}  # see test_pymc.py
# Functions of graphc are tested on both backends elsewhere. These tests are about
# conversions; JAX runs only those that make loops, branches and reads by index.
WHOLE = ("control", "loops", "parts")
BACKENDS = [(name, "jax" if name in WHOLE else "numpy") for name in SAMPLES]
# Of the other families, every second sample is differentiated, since tests/ops tries
# the gradients of the functions that they use.


@dataclass
class Part:
    """The graph of a sample: its outputs, a cost of them, and the cost's gradient."""

    sample: Sample
    inputs: list
    outputs: list
    wrt: list
    cost: object = 0.0
    slopes: tuple = ()


def part_of(sample, differentiated):
    given = sample.arrays
    inputs = [pt.tensor(dtype=a.dtype.name, shape=(None,) * a.ndim) for a in given]
    made = sample.build(*inputs)
    outputs = list(made) if isinstance(made, (list, tuple)) else [made]
    if not (sample.smooth and differentiated):
        return Part(sample, inputs, outputs, [])
    weighted = [v * pt.cos(pt.arange(v.size).reshape(v.shape)) for v in outputs]
    cost = sum(v.sum() for v in weighted)
    wrt = [v for v in inputs if v.dtype == "float64"]
    slopes = pytensor.grad(cost, wrt, disconnected_inputs="ignore")
    return Part(sample, inputs, outputs, wrt, cost, slopes)


class Family:
    """The graphs of all samples of a family as one graph, and PyTensor's results."""

    def __init__(self, name):
        samples, whole = SAMPLES[name], name in WHOLE
        parts = [part_of(s, whole or i % 2) for i, s in enumerate(samples)]
        self.inputs = [v for p in parts for v in p.inputs]
        self.outputs = [v for p in parts for v in (*p.outputs, *p.slopes)]
        self.owners = [p.sample.name for p in parts for _ in (*p.outputs, *p.slopes)]
        self.arrays = [a for p in parts for a in p.sample.arrays]
        smooth = [p for p in parts if p.wrt]
        self.cost = sum(p.cost for p in smooth)
        self.wrt = [v for p in smooth for v in p.wrt]
        self.wrt_owners = [p.sample.name for p in smooth for _ in p.wrt]
        self.of_cost = [v for p in smooth for v in p.slopes]

    @cached_property
    def expected(self):
        """PyTensor's results."""
        return reference(self.inputs, self.outputs)(*self.arrays)

    @property
    def slopes(self):
        """PyTensor's gradient of the cost."""
        found = dict(zip(self.outputs, self.expected, strict=True))
        return [found[v] for v in self.of_cost]


@cache
def family(name):
    return Family(name)


def reference(inputs, outputs):
    """PyTensor's own function, run in Python."""
    plain = pytensor.Mode("py", optimizer="minimum_compile")
    return pytensor.function(inputs, outputs, mode=plain, on_unused_input="ignore")


@pytest.mark.parametrize(("name", "backend"), BACKENDS)
def test_results_are_those_of_pytensor(name, backend):
    made = family(name)
    mode = graphc.pytensor.mode(backend=backend)
    options = {"mode": mode, "on_unused_input": "ignore"}
    f = pytensor.function(made.inputs, made.outputs, **options)
    expected = map(np.asarray, made.expected)
    for owner, ours, theirs in zip(made.owners, f(*made.arrays), expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), owner
        rtol = 1e-5 if theirs.dtype.name == "float32" else 1e-9
        np.testing.assert_allclose(ours, theirs, rtol, 1e-12, err_msg=owner)
    steps = graphc.pytensor.program_of(f).steps
    performed = {type(s.node.op).__name__ for s in steps if isinstance(s, Performed)}
    assert performed <= PERFORMED


def test_every_conversion_has_a_sample():
    made = {type(op) for name in SAMPLES for op in ops_of(family(name).outputs)}
    used = {
        next((c.__name__ for c in k.__mro__ if c.__name__ in RULES), "") for k in made
    }
    here = {kind.__name__ for kind in subclasses(pytensor.graph.op.Op)}
    elsewhere = SCALARS | SLICES | OF_JAX | OF_PYMC
    assert sorted((set(RULES) & here) - used - elsewhere) == []


def subclasses(kind):
    for own in kind.__subclasses__():
        yield own
        yield from subclasses(own)


@pytest.mark.parametrize("name", SAMPLES)
def test_our_gradient_is_that_of_pytensor(name):
    """The cost adds up all smooth samples; each sample has inputs of its own."""
    made = family(name)
    graph = graphc.pytensor.value_and_grad(made.cost, made.wrt, made.inputs)
    f = graphc.function(graph.inputs, graph.outputs, backend="numpy", unused="ignore")
    slopes = f(*made.arrays)[1:]
    for owner, ours, theirs in zip(made.wrt_owners, slopes, made.slopes, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-8, 1e-10, err_msg=owner)
