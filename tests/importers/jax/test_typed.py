"""A decorated function keeps its signature, and type checkers see its types."""

import functools
import inspect
import pathlib
import typing

import numpy as np
import pytest
from mypy import api

import graphc

ROOT = pathlib.Path(__file__).parents[3]
TEXT = """\
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
WRONG = {
    'f("a")': 'has incompatible type "str"; expected "Array"',
    "f(x, j=3)": 'Unexpected keyword argument "j"',
    "f()": 'Missing positional argument "x"',
    "h.lower(np.ones(3))": 'has no attribute "lower"',
    "graphc.jit(f, dimz=3)": 'Unexpected keyword argument "dimz"',
    'graphc.jit(f, backend="torch")': "No overload variant",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The lines of mypy about each line of a program."""
    lines = [*TEXT.splitlines(), *(f"reveal_type({e})" for e in TYPES), *WRONG]
    path = tmp_path_factory.mktemp("typed") / "program.py"
    path.write_text("\n".join(lines) + "\n")
    config = ROOT / "pyproject.toml"
    told, errors, _ = api.run([f"--config-file={config}", "--no-pretty", str(path)])
    assert not errors
    found = {line: [] for line in lines}
    for text in told.splitlines():
        if text.startswith(f"{path}:") or "program.py:" in text:
            found[lines[int(text.split(":")[1]) - 1]].append(text)
    return found


def test_types_of_results_and_arguments(told):
    for expression, type in TYPES.items():
        (text,) = told[f"reveal_type({expression})"]
        assert f'Revealed type is "{type}"' in text
    for line, message in WRONG.items():
        assert any(message in text for text in told[line])
    assert not any(told[line] for line in TEXT.splitlines())


def scaled(x: int, *, by: float = 2.0) -> float:
    """The product."""
    return x * by


@pytest.mark.parametrize("told", [{}, {"frontend": "numpy"}, {"shapes": "()"}])
def test_signatures(told):
    f = graphc.jit(scaled, **told)
    assert inspect.signature(f) == inspect.signature(scaled)
    assert (f.__name__, f.__doc__, f.__module__) == ("scaled", "The product.", __name__)
    assert typing.get_type_hints(f) == typing.get_type_hints(scaled)
    assert inspect.unwrap(f) is scaled and callable(f)


class Model:
    scale = 3

    @functools.partial(graphc.jit, static_argnums=0)
    def method(self, x):
        return self.scale * x

    @functools.partial(graphc.jit, static_argnames="self", frontend="numpy")
    def of_numpy(self, x):
        return self.scale * np.sum(x)

    @staticmethod
    @graphc.jit
    def static(x):
        return 3 * x

    @property
    @functools.partial(graphc.jit, static_argnums=0)
    def value(self):
        return np.float32(self.scale)


def test_methods():
    model = Model()
    for n in (2, 3, 4):
        x = np.ones(n, "float32")
        for found in (model.method(x), Model.method(model, x), model.static(x)):
            np.testing.assert_array_equal(found, 3 * x)
        assert model.of_numpy(x) == 3 * n and model.value == 3
    assert inspect.ismethod(model.method)
    assert list(inspect.signature(model.method).parameters) == ["x"]
    assert model.method.stats().calls == 6
