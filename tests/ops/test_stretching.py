"""Every function of several arrays, with axes of one array that may be 1, and are.

Results and gradients must equal those with axes known to be 1. At CI size, one array of
one call of each sample is tried; at length, each array of every call.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.build import as_value, strong
from graphc.ir.graph.nodes import Graph
from graphc.ir.types import is_inexact
from graphc.transform.padding.stretching import axes_maybe_one, resolve_ones
from tests.ops.sampling import applied, arrays_in, flat, shown
from tests.ops.test_samples import AT_LENGTH, FAMILIES

OF_SIZES = {  # they depend on sizes while the graph is built
    "einsum_path",  # the order of the products
    "insert",  # whether several elements come in at one place
}
REFUSALS = (graphc.GraphError, TypeError, ValueError, IndexError)
MOST = 6  # axes of a program that may be 1


def built(sample, call, specs, dtype, shapes):
    """Variables of these shapes for a call, its outputs, and their gradients."""
    inputs = [
        gt.tensor(f"x{i}", spec.dtype or dtype, shape)
        for i, (spec, shape) in enumerate(zip(specs, shapes, strict=True))
    ]
    rest = iter(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = applied(sample.function(), call, lambda spec: next(rest))
        outputs = [strong(as_value(v)) for v in flat(made)]
    smooth = [v for v in inputs if is_inexact(v.dtype)]
    costs = [
        gt.sum(gt.real(v) * gt.cos(gt.real(v))) for v in outputs if is_inexact(v.dtype)
    ]
    if smooth and costs:
        try:
            outputs += graphc.grad(sum(costs), smooth, disconnected="zero")
        except graphc.GraphError as error:
            if "there is no gradient" not in str(error):
                raise
    return inputs, outputs


def maybe_one(shapes):
    """The shapes, with the first few axes of 1 named as axes that may be 1."""
    names = iter([f"a{i}?" for i in range(MOST)])
    return [tuple(next(names, n) if n == 1 else n for n in shape) for shape in shapes]


def tried(sample):
    """Calls with their arrays and shapes; one array at a time has all axes 1."""
    found = []
    for call in sample.calls:
        specs = arrays_in(call)
        shapes = [spec.shape for spec in specs]
        for k in range(len(specs)) if len(specs) > 1 else ():
            if any(n != 1 for n in shapes[k]):
                thin = [(1,) * len(s) if i == k else s for i, s in enumerate(shapes)]
                found.append((call, specs, thin))
    turn = len(sample.name) % max(len(found), 1)
    return found if AT_LENGTH else found[turn : turn + 1]


def outcome(inputs, outputs, arrays):
    """The results of a program without rewrites; None if sizes do not agree."""
    f = graphc.function(
        inputs,
        outputs,
        backend="numpy",
        unused="ignore",
        rewrites=graphc.rewrites.none,
    )
    try:
        return f(*arrays)
    except graphc.CallError:
        return None


def problem(sample, call, specs, shapes, dtype):
    """Describe how results differ between axes that may be 1 and axes known to be 1."""
    try:
        known, expected = built(sample, call, specs, dtype, shapes)
    except REFUSALS:
        return ""
    inputs, outputs = built(sample, call, specs, dtype, maybe_one(shapes))
    names = tuple(v.name for v in inputs)
    graph = Graph(tuple(inputs), tuple(outputs), names, ("",) * len(outputs))
    made = resolve_ones(graph, axes_maybe_one(graph)).graph
    for a, b in zip(expected, made.outputs, strict=True):
        if str(a.type) != str(b.type):
            return f"{b.type}, not {a.type}"
    arrays = [
        replace(spec, shape=shape).make(dtype)
        for spec, shape in zip(specs, shapes, strict=True)
    ]
    results = outcome(known, expected, arrays)
    found = outcome(list(made.inputs), list(made.outputs), arrays)
    if (results is None) != (found is None):
        return "only one of them is refused"
    for a, b in zip(results or (), found or (), strict=True):
        if a.shape != b.shape or not np.allclose(a, b, 1e-4, 1e-5, equal_nan=True):
            return f"{b}, not {a}"
    return ""


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "random"])
def test_stretched_as_where_it_is_known(family):
    found, count = [], 0
    for sample in FAMILIES[family]:
        dtype = "float32" if "float32" in sample.dtypes else sample.dtypes[0]
        for call, specs, shapes in tried(sample) if sample.name not in OF_SIZES else ():
            count += 1
            text = problem(sample, call, specs, shapes, dtype)
            if text:
                found.append(f"{shown(sample, call, dtype)} of {shapes}: {text}")
    assert not found, "\n".join(found)
    calls = [call for sample in FAMILIES[family] for call in sample.calls]
    assert count or all(len(arrays_in(call)) < 2 for call in calls)
