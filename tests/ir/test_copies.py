"""Copying a value gives the same value; errors of pickling say what to do instead."""

import copy
import pickle

import graphc
import graphc.tensor as gt
from tests.errors.messages import ones, whole

x = gt.tensor("x", "float32", ("n", 3))


def test_copies_of_values_are_the_values():
    y = gt.tanh(x) + 1
    for copied in (copy.copy(y), copy.deepcopy(y), copy.deepcopy({"y": [y]})["y"][0]):
        assert copied is y
    f = graphc.function([copy.deepcopy(x)], copy.deepcopy(y), backend="numpy")
    assert f(ones(2, 3)).shape == (2, 3)


def test_values_are_not_pickled():
    whole(
        lambda: pickle.dumps(x),
        "pickle: a value cannot be pickled: it belongs to a graph of this process\n"
        "  got: float32[n, 3], the symbolic value x\n"
        "  hint: keep graphc.dump(value), which is text, or save a compiled function",
    )


def test_sizes_are_copied_and_not_pickled():
    n = graphc.known(x.shape[0] + 1)
    assert copy.copy(n) is n and copy.deepcopy({"n": [n]})["n"][0] is n
    whole(
        lambda: pickle.dumps(n),
        "pickle: a size cannot be pickled: its symbols belong to this process\n"
        "  got: n + 1\n"
        "  hint: keep str(size), or save a compiled function",
    )


def test_methods_are_listed():
    listed = dir(x)
    assert {"sum", "shape", "astype", "at", "reshape", "T"} <= set(listed)
    assert all(hasattr(x, name) for name in listed if not name.startswith("__"))
