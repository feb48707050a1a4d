"""The names of `graphc.tensor` that users see, in an editor and in `dir`."""

import importlib

import pytest

import graphc.tensor as gt
from graphc.ir.namespace import SPACES


def test_dir_shows_public_names_and_each_is_there():
    assert {"sum", "linalg", "float32", "tensor", "pi", "newaxis"} <= set(dir(gt))
    for space in (gt, *(getattr(gt, name) for name in SPACES)):
        assert dir(space)
        for name in dir(space):
            assert not name.startswith("_") and getattr(space, name) is not gt
    hidden = {"GraphError", "Any", "sys", "getitem", "size_value", "updates_of"}
    assert not hidden & set(dir(gt))


@pytest.mark.parametrize("space", SPACES)
def test_a_space_is_a_module(space):
    module = importlib.import_module(f"graphc.tensor.{space}")
    assert module is getattr(gt, space)
    with pytest.raises(AttributeError, match=f"graphc.tensor.{space} has no function"):
        module.no_such_function  # noqa: B018
