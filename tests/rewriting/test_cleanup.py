"""Clean-up rules stay away where they must not apply, and keep values as they were."""

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.rewrites import Rules, default, rewritten
from graphc.rewriting.rules.cleanup import BINARY, CLEANUP, FOLDED

X = gt.tensor("x", "float32", ("n", 3))


def cleaned(value, *rules):
    inputs = (X,)
    made = rewritten(
        Graph(inputs, (value,), ("x",), ("",)), Rules(rules or CLEANUP.rules)
    )
    return made.graph.outputs[0], made.log


def far(x, *dtypes):
    """An array that is cast to each of the dtypes in turn."""
    for dtype in dtypes:
        x = x.astype(dtype)
    return x


KEPT = {
    "0.0 takes the sign of -0.0": lambda x: x + np.float32(0),
    "-0.0 is no 0.0": lambda x: x - np.float32(-0.0),
    "NaN times 0 is NaN": lambda x: x * np.float32(0),
    "infinities less themselves are NaN": lambda x: x - x,
    "0 / 0 is NaN": lambda x: x / x,
    "a complex infinity times 1 has NaN": lambda x: x.astype("complex64") * 1,
    "a complex power has another rounding": lambda x: x.astype("complex64") ** 1,
    "a wider 1 stretches": lambda x: gt.sum(x) * np.ones(3, "float32"),
    "a narrower dtype loses digits": lambda x: x.astype("float16").astype("float32"),
    "floats round 64-bit integers": lambda x: far(x, "int64", "float64", "int64"),
    "they round at most once": lambda x: far(x, "uint64", "float64", "float32"),
    "so do complex ones": lambda x: far(x, "int64", "complex128", "complex64"),
    "negative floats have no uint8": lambda x: far(x, "int8", "float32", "uint8"),
    "large floats have no int32": lambda x: far(x, "uint32", "float64", "int32"),
    "floats have no int32": lambda x: far(x, "float16", "float32", "int32"),
    "integers wrap": lambda x: x.astype("int8").astype("int32"),
    "which branch is data": lambda x: gt.where(x > 0, x, 1),
    "a square root squared has no sign": lambda x: gt.sqrt(gt.square(x)),
    "not twice is no integer": lambda x: gt.negative(gt.logical_not(x).astype("int8")),
}


@pytest.mark.parametrize("reason", KEPT)
def test_what_must_stay(reason):
    value = KEPT[reason](X)
    made, log = cleaned(value)
    assert made is value and log == ()


@pytest.mark.parametrize(
    "dtypes",
    [
        ("int32", "float64", "int64"),
        ("uint8", "float32", "int16"),
        ("bool", "float32", "int8"),
        ("int16", "int64", "uint8"),
        ("float16", "float64", "float32"),
        ("int32", "float64", "float32"),
    ],
)
def test_casts_that_lose_nothing_go(dtypes):
    first, _, last = dtypes
    x = gt.tensor("x", first, ("n",))
    value = far(x, *dtypes)
    made = rewritten(Graph((x,), (value,), ("x",), ("",)), CLEANUP).graph.outputs[0]
    assert made is x.astype(last)


@pytest.mark.parametrize("op", FOLDED)
def test_numbers_are_computed_as_they_would_be(op):
    numbers = [gt.asarray(np.float32(2)), gt.asarray(np.float32(0.1))]
    function = getattr(gt, op)
    value = function(*numbers[: getattr(np, op).nin])
    made, log = cleaned(value, default[f"fold_{op}"])
    assert len(log) == 1 and made.node.primitive.name == "constant"
    args = [np.float32(2), np.float32(0.1)][: getattr(np, op).nin]
    assert made.node.params["data"].array == getattr(np, op)(*args)


@pytest.mark.parametrize("op", BINARY)
def test_what_stretches_by_itself_is_not_broadcast(op):
    dtype = "bool" if op.startswith("logical") else "float32"
    x = gt.tensor("x", dtype, ("n", 3))
    row = gt.broadcast_to(x[0], x.shape)
    for value in (getattr(gt, op)(row, x), getattr(gt, op)(x, row)):
        graph = Graph((x,), (value,), ("x",), ("",))
        made = rewritten(graph, Rules((default[f"broadcast_in_{op}"],)))
        names = [v.node.primitive.name for v in made.graph.outputs[0].node.inputs]
        assert sorted(names) == ["basic_index", "input"]
