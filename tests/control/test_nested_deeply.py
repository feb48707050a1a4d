"""Structures nested too deeply, or within themselves, at every entry point."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

X = gt.vector("x", "float32")
STRUCTURES = "lists, tuples and dicts are nested more than 100 deep"
ARRAYS = "lists are nested deeper than the 64 axes of arrays"


def nested(value, depth=2000):
    for _ in range(depth):
        value = [value]
    return value


def within_itself():
    given = [X]
    given += [given, given]
    return given


ENTRIES = {
    "outputs": lambda given: graphc.function([X], given),
    "grad": lambda given: graphc.grad(gt.sum(X), given),
    "scan": lambda given: gt.scan(lambda c, _: (c, None), given, None, length=3),
    "scan, ys": lambda given: gt.scan(lambda c, _: (c, given), X, None, length=3),
    "while": lambda given: gt.while_loop(lambda c: True, lambda c: c, given),
    "fori": lambda given: gt.fori_loop(0, 3, lambda i, c: given, X),
    "map": lambda given: gt.map(lambda x: given, X),
    "cond": lambda given: gt.cond(X[0] > 0, lambda: given, lambda: given),
    "vmap": lambda given: graphc.vmap(lambda x: given)(X),
    "associative": lambda given: gt.associative_scan(lambda a, b: a, given),
    "checkpoint": lambda given: graphc.checkpoint(lambda x: given)(X),
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())
@pytest.mark.parametrize("given", [nested(X), within_itself()], ids=["deep", "itself"])
def test_structures(entry, given):
    with pytest.raises(graphc.GraphError, match=STRUCTURES):
        entry(given)


@pytest.mark.parametrize("entry", [gt.exp, gt.asarray, lambda given: X[given]])
@pytest.mark.parametrize("leaf", [X, 1])
def test_arrays(entry, leaf):
    with pytest.raises(graphc.GraphError, match=ARRAYS):
        entry(nested(leaf))


def test_shapes():
    with pytest.raises(graphc.GraphError, match=r"got: list \[\[\[\[\[\[\[\.\.\.\]"):
        gt.zeros(nested(3))


def test_deep_structures_are_compiled_as_they_are():
    f = graphc.function([X], nested(X * 2, 100), backend="numpy")
    found = f(np.ones(2, "float32"))
    for _ in range(100):
        (found,) = found
    assert found.tolist() == [2.0, 2.0]
