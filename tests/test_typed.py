"""A type checker sees the types in users' code, and reports their mistakes."""

import pytest
from mypy import api

from tests.test_package import ROOT

TENSORS = """\
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
def norm(row: graphc.Value) -> graphc.Value:
    return row / gt.sum(row)
batched: graphc.Value = graphc.vmap(norm)(x) + graphc.block(norm)(y)
again: graphc.Value = graphc.checkpoint(norm)(y)
"""
NO_TENSORS = {
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
    "gt.while_loop(lambda i: i < 3, lambda i, j: i, 0)": "Cannot infer type of lambda",
    "graphc.vmap(norm)(x, 0)": "Too many arguments",
    "graphc.block(norm)()": "Too few arguments",
    "gt.float33": 'Module has no attribute "float33"; maybe "float32"',
}
FUNCTIONS = """\
import jax, jax.numpy as jnp, numpy as np, graphc
from typing import Any
x = jnp.ones(3)
@graphc.jit
def f(x: jax.Array, k: int = 2) -> jax.Array:
    return x * k
@graphc.jit(shapes="n", dims="pad")
def g(x: jax.Array) -> tuple[jax.Array, int]:
    return x, 1
@graphc.jit(frontend="numpy")
def h(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x
class M:
    @graphc.jit(static_argnums=0)
    def m(self, x: jax.Array) -> jax.Array:
        return x
"""
TYPES = {
    "f(x)": "jax._src.basearray.Array",
    "g(x)": "tuple[jax._src.basearray.Array, int]",
    "h(np.ones(3))": "numpy.ndarray[Any, Any]",
    "M().m(x)": "jax._src.basearray.Array",
    "M.m(M(), x)": "jax._src.basearray.Array",
    "f.stats().calls": "int",
    "f.explain()": "str",
    "graphc.jit(lambda x: 1)(x)": "int",
}
NO_FUNCTIONS = {
    'f("a")': 'has incompatible type "str"; expected "Array"',
    "f(x, j=3)": 'Unexpected keyword argument "j"',
    "f()": 'Missing positional argument "x"',
    "h.lower(np.ones(3))": 'has no attribute "lower"',
    "graphc.jit(f, dimz=3)": 'Unexpected keyword argument "dimz"',
    'graphc.jit(f, backend="torch")': "No overload variant",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The messages of mypy, as strict as for graphc, by line of two programs."""
    types = (f"reveal_type({expression})" for expression in TYPES)
    programs = {
        "tensors.py": [*TENSORS.splitlines(), *NO_TENSORS],
        "functions.py": [*FUNCTIONS.splitlines(), *types, *NO_FUNCTIONS],
    }
    folder = tmp_path_factory.mktemp("typed")
    for name, lines in programs.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    options = [f"--config-file={ROOT / 'pyproject.toml'}", "--no-pretty"]
    out, problem, _ = api.run([*options, *(str(folder / name) for name in programs)])
    assert not problem
    about = {(name, line): [] for name, lines in programs.items() for line in lines}
    for text in out.splitlines():
        path, _, message = text.partition(":")
        name = path.rpartition("/")[2]
        if name in programs:
            number, _, message = message.partition(":")
            about[name, programs[name][int(number) - 1]].append(message)
    return about


def test_tensors(told):
    """Functions, methods and dtypes: exactly the wrong lines are errors."""
    for line, error in NO_TENSORS.items():
        assert f" error: {error}" in told["tensors.py", line][0]
    assert not any(told["tensors.py", line] for line in TENSORS.splitlines())


def test_functions(told):
    """Decorated functions keep the types of their results and arguments."""
    for expression, type in TYPES.items():
        (text,) = told["functions.py", f"reveal_type({expression})"]
        assert f'Revealed type is "{type}"' in text
    for line, message in NO_FUNCTIONS.items():
        assert any(message in text for text in told["functions.py", line])
    assert not any(told["functions.py", line] for line in FUNCTIONS.splitlines())
