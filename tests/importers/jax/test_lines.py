"""Nodes are attributed to lines of the user, in functions of JAX too."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import NOWHERE, is_library
from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.walk import ancestors
from tests.importers.jax.table import ROWS

KEY = jax.random.key(0)
DTYPES = {"i": "int32", "b": "bool", "c": "complex64"}


def variables(words, n="n"):
    """The arguments of a row of the table, with symbols or numbers as sizes."""
    given = []
    for word in words:
        sizes, _, kind = word.partition(":")
        if word == "k":
            given.append(jax.ShapeDtypeStruct((), KEY.dtype))
            continue
        shape = tuple(int(s) if s.isdigit() else n for s in sizes.split())
        dtype = DTYPES.get(kind, "float32")
        if n == "n":
            given.append(gt.tensor("x", dtype, shape))
        else:
            given.append(jax.ShapeDtypeStruct(shape, dtype))
    return given


def graph_of(function, words):
    """The graph of a row, at a symbol if it can be traced with one."""
    try:
        return graphc.from_jax(function, *variables(words))
    except Exception:
        return graphc.from_jax(function, *variables(words, 4))


def places(graph):
    return {node.place for node in with_inner_nodes(ancestors(graph.outputs))}


@pytest.mark.parametrize("name", ROWS)
def test_all_idioms_of_the_table(name):
    function, words = ROWS[name]
    try:
        graph = graph_of(function, words)
    except Exception as error:  # JAX refuses some rows at this size
        with pytest.raises(type(error)):
            jax.eval_shape(function, *variables(words, 4))
        return
    assert NOWHERE not in places(graph)
    assert not any(is_library(place.filename) for place in places(graph))


IDIOMS = {
    "cumsum": lambda x: jnp.cumsum(x),
    "pad": lambda x: jnp.pad(x, (0, 2)),
    "relu": lambda x: jax.nn.relu(x),
    "normal": lambda x: jax.random.normal(KEY, x.shape),
    "bernoulli": lambda x: jax.random.bernoulli(KEY, 0.5, x.shape),
    "vmap": lambda x: jax.vmap(lambda a: jnp.clip(a, 0, 1))(x),
    "fft": lambda x: jnp.fft.fft(x),
    "percentile": lambda x: jnp.percentile(x, 30),
    "unique": lambda x: jnp.unique(x, size=3),
    "resize": lambda x: jax.image.resize(x, (7,), "linear"),
    "norm": lambda x: jnp.linalg.norm(x),
    "grad": lambda x: jax.grad(lambda a: jnp.sum(jax.nn.gelu(a)))(x),
    "scan": lambda x: jax.lax.scan(lambda c, a: (c + jnp.clip(a, 0, 1), c), 0.0, x),
    "softmax": lambda x: jnp.where(x > 0, jax.nn.softmax(x), 0),
    "einsum": lambda x: jnp.einsum("i,i->", x, x),
    "solve": lambda x: jnp.linalg.solve(jnp.eye(3), jnp.ones(3)) * x[0],
    "interp": lambda x: jnp.interp(x, jnp.arange(3.0), jnp.arange(3.0)),
    "inverse": lambda x: jnp.linalg.inv(jnp.eye(3)) * x[0],
    "sort": lambda x: jnp.sort(x),
    "rows": lambda x: x[jnp.array([0, 1])],
    "written": lambda x: x.at[jnp.array([0, 1])].add(1.0),
    "while": lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, jnp.exp, x),
    "cond": lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "top": lambda x: jax.lax.top_k(x, 1),
    "segments": lambda x: jax.ops.segment_sum(x, jnp.zeros(x.shape, int), 2),
}


@pytest.mark.parametrize("name", IDIOMS)
def test_each_stands_at_its_own_line(name):
    """JAX traces its own functions once, yet their lines are those of each call."""
    function = IDIOMS[name]
    line = inspect.getsourcelines(function)[1]
    x = gt.tensor("x", "float32", ("n",))
    found = places(graphc.from_jax(function, x))
    assert (__file__, line) in {(place.filename, place.line) for place in found}
    assert NOWHERE not in found


def twice(x):
    y = jax.nn.relu(x)
    z = jax.nn.relu(y - 1)
    return jnp.pad(z, (0, 2))


def test_explanations_and_programs_name_them():
    ours = graphc.jit(twice, dims="pad")
    for n in (3, 4, 5):
        ours(np.ones(n, "float32"))
    first = twice.__code__.co_firstlineno
    told = ours.explain(full=True) + ours.source
    assert "<unknown>" not in told
    for line in (1, 2, 3):
        assert f"test_lines.py:{first + line}" in told


def test_errors_name_them():
    def summed(x):
        return jnp.cumsum(jax.pure_callback(np.sin, jax.typeof(x), x))

    ours = graphc.jit(summed)
    for n in (3, 4, 5):
        ours(np.ones(n, "float32"))
    line = summed.__code__.co_firstlineno + 1
    assert all(f"test_lines.py:{line}" in text for text in ours.stats().foreign)


MISMATCHES = {
    "product": lambda x, y: x @ y,
    "stack": lambda x, y: jnp.stack([x, y]),
    "scan": lambda x, y: jax.lax.scan(lambda c, row: (c, row), 0.0, (x, y)),
    "vmap": lambda x, y: jax.vmap(jnp.add)(x, y),
    "solve": lambda x, y: jnp.linalg.solve(jnp.eye(x.shape[0]), y),
    "written": lambda x, y: x.at[:].set(y),
    "cond": lambda x, y: jax.lax.cond(x[0] > 0, lambda: x, lambda: y),
}


@pytest.mark.misfit
@pytest.mark.parametrize("name", MISMATCHES)
def test_sizes_that_do_not_fit_name_them(name):
    function = MISMATCHES[name]
    ours, line = graphc.jit(function), inspect.getsourcelines(function)[1]
    ours(np.ones(3, "float32"), np.ones(3, "float32"))
    with pytest.raises((TypeError, ValueError)) as raised:
        ours(np.ones(6, "float32"), np.ones(4, "float32"))
    frames = [(str(f.path), f.lineno + 1) for f in raised.traceback]
    assert (__file__, line) in frames
    home = graphc.__file__.removesuffix("__init__.py")
    assert not any(path.startswith(home) for path, _ in frames)
