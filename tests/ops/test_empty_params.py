"""Emitted text is valid Python whatever is empty: shapes, axes, index lists, paddings.

Nodes of the samples are built anew with inputs of rank 0, with empty axes, and with
empty tuples as params. Whatever the type rule accepts must print as a program on both
backends.
"""

import itertools
import warnings
from dataclasses import replace

import pytest

import graphc
from graphc.ir.graph.build import variable
from graphc.ir.graph.op import EMISSION
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import Dim
from graphc.ir.types import TensorType
from tests.ops.sampling import Batch, Trial
from tests.ops.test_samples import EVERY

MOST = 2  # nodes of one primitive to vary
REFUSED = (graphc.GraphError, ArithmeticError, AssertionError, LookupError, ValueError)


def sampled():
    """Nodes from one call of every sample, at most `MOST` of each primitive."""
    found = {}
    for one in EVERY:
        dtype = "float32" if "float32" in one.dtypes else one.dtypes[0]
        batch = Batch(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            batch.add(Trial(one, one.calls[0], dtype, [], None))
        for node in ancestors(batch.outputs.values()):
            known = found.setdefault(node.primitive.name, {})
            shape = tuple(v.type.rank for v in node.inputs), str(node.params)
            if len(known) < MOST and not any(map(is_symbolic, node.outputs)):
                known[shape] = node
    return [node for nodes in found.values() for node in nodes.values()]


def is_symbolic(value):
    return any(isinstance(n, Dim) for n in value.type.shape)


def emptied(node):
    """Yield the input types and params of a node with some of them made empty."""
    kept = [v.type for v in node.inputs]
    scalars = [replace(t, shape=()) for t in kept]
    nothing = [replace(t, shape=(0,) * t.rank) for t in kept]
    rows = [kept, scalars, nothing]
    rows += [[*kept[:i], t, *kept[i + 1 :]] for i, t in enumerate(scalars)]
    blank = {name: () for name, v in node.params.items() if isinstance(v, tuple)}
    for types, other in itertools.product(rows, ({}, blank)):
        if types is not kept or other:
            yield types, {**node.params, **other}


def variants():
    """The nodes with something empty that type rules accept."""
    found = {}
    for node in sampled():
        if node.primitive.name in ("input", "constant", "size"):
            continue
        for types, params in emptied(node):
            inputs = tuple(
                variable(f"x{i}", TensorType(t.dtype, t.shape))
                for i, t in enumerate(types)
            )
            shapes = tuple((t.dtype, str(t)) for t in types)
            try:
                made = node.primitive.bind(inputs, params)
            except REFUSED:
                continue
            found[node.primitive.name, shapes, str(params)] = made
    return list(found.values())


def unprintable(nodes, backend):
    """Describe the nodes whose program is not valid Python."""
    inputs = [v for node in nodes for v in node.inputs]
    outputs = [v for node in nodes for v in node.outputs]
    try:
        compile(graphc.function(inputs, outputs, backend=backend).source, "", "exec")
    except Exception as error:
        if len(nodes) == 1:
            types = ", ".join(str(v.type) for v in nodes[0].inputs)
            shown = f"{nodes[0].primitive.name}({types}) with {dict(nodes[0].params)}"
            return [f"{shown}: {type(error).__name__} {error}"]
        half = len(nodes) // 2
        parts = nodes[:half], nodes[half:]
        return [text for part in parts for text in unprintable(part, backend)]
    return []


@pytest.fixture(scope="module")
def nodes():
    return variants()


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_empty_params_are_printed(nodes, backend):
    able = [n for n in nodes if n.primitive not in EMISSION[backend].reasons]
    found = [
        text
        for start in range(0, len(able), 200)
        for text in unprintable(able[start : start + 200], backend)
    ]
    assert len(able) > 200
    assert not found, "\n".join(found)
