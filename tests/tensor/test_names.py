"""What users see of `graphc.tensor`: in an editor, in `dir`, in a type checker."""

import importlib
import os

import pytest
from mypy import api

import graphc.tensor as gt
from graphc.ir.namespace import SPACES

# The bodies of graphc's functions are checked elsewhere, and no line is about JAX.
SETTINGS = """\
[mypy]
strict = true
[mypy-graphc.*]
ignore_errors = true
[mypy-jax.*,jaxlib.*,ml_dtypes.*,pymc.*,pytensor.*,scipy.*]
follow_imports = skip
ignore_missing_imports = true
"""
RIGHT = """\
import graphc
import graphc.tensor as gt
import graphc.tensor.linalg as la
import numpy as np

x = gt.tensor("x", gt.float32, ("n", 3))
y: graphc.Value = gt.sum(x * 2.0, axis=0) + x.mean() + gt.random.uniform(gt.pi)
z: graphc.Value = la.solve(gt.eye(3), y) + gt.linalg.norm(x) + gt.nn.relu(x.T)
k = gt.iscalar("k")
rows = gt.concatenate([x, gt.zeros((k, 3), "float32"), np.ones((2, 3))], axis=0)
part: graphc.Value = rows.at[0, 1:].set(1.0).reshape(-1, 3)[::2, ..., None] - [1, 2]
lists: graphc.Value = gt.nn.relu6([0.5, 7.0]) + gt.full((k, x.shape[0]), 2, "int8")
f = graphc.function([x, k], [part, lists])
results = f(np.ones((2, 3), "float32"), 3)
slope: graphc.Value = graphc.grad(gt.sum(x), x)
slopes: list[graphc.Value] = graphc.grad(gt.sum(x), [x, y])
"""
WRONG = {
    "gt.summ(x)": 'Module has no attribute "summ"; maybe "sum"?',
    "x.summ()": '"Value" has no attribute "summ"',
    "gt.linalg.solv(x, x)": 'Module has no attribute "solv"; maybe "solve"?',
    "la.solv(x, x)": 'Module has no attribute "solv"; maybe "solve"?',
    "gt.sum(x, axes=0)": 'Unexpected keyword argument "axes" for "sum"',
    "x.mean(axes=0)": 'Unexpected keyword argument "axes" for "mean" of "Methods"',
    "x.at[0].sett(1)": '"Update" has no attribute "sett"; maybe "set"?',
    'gt.sin("x")': 'Argument 1 to "sin" has incompatible type "str"',
    "gt.nn.relu(None)": 'Argument 1 to "relu" has incompatible type "None"',
    'gt.zeros((2, "n"))': 'Argument 1 to "zeros" has incompatible type "tuple',
    "gt.zeros(3, dtype=4)": 'Argument "dtype" to "zeros" has incompatible type "int"',
    'gt.sum(x, axis="n")': 'Argument "axis" to "sum" has incompatible type "str"',
    "gt.float33": 'Module has no attribute "float33"; maybe "float32"',
}


def test_a_type_checker_sees_functions_methods_and_dtypes(tmp_path):
    """In strict mode: each wrong line is an error, and nothing else is."""
    user, config = tmp_path / "user.py", tmp_path / "mypy.ini"
    user.write_text(RIGHT + "\n".join(WRONG) + "\n")
    config.write_text(SETTINGS)
    options = [f"--config-file={config}", f"--cache-dir={os.devnull}", "--no-pretty"]
    found, problem, _ = api.run([*options, str(user)])
    assert not problem
    first = len(RIGHT.splitlines()) + 1
    errors = [line for line in found.splitlines() if ": error: " in line]
    for number, (line, told) in enumerate(zip(errors, WRONG.values(), strict=True)):
        assert f"user.py:{first + number}: error: {told}" in line


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
