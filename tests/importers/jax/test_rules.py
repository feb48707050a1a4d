"""Each primitive that JAX exports has a rule, or a reason not to have one."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import primitives

import graphc
import graphc.tensor as gt
from graphc.importers.jax.read.rules import PRIMITIVES, RulesByName
from graphc.importers.jax.read.sizes import JaxSizes
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.trace import tracing
from graphc.ir.sizes.dims import axis, equal, maximum, minimum

EXPORTED = [getattr(primitives, n) for n in dir(primitives) if n.endswith("_p")]


def test_every_primitive_that_jax_exports_is_in_the_table():
    assert tracing.FAMILIES  # importing them fills the table
    assert len(EXPORTED) > 150
    assert [p.name for p in EXPORTED if p.name not in PRIMITIVES] == []


def test_a_table_has_one_rule_per_name():
    table = RulesByName()
    table.define("a")(abs)
    table.refuse("it is not wanted", "b")
    assert table.find("a") is abs
    assert list(table) == ["a", "b"]
    for name, reason in {"b": "it is not wanted", "c": "is not known here"}.items():
        with pytest.raises(Unsupported, match=reason):
            table.find(name)
    with pytest.raises(ValueError, match="a has a rule already"):
        table.refuse("", "a")


N, M = axis("n"), axis("m")
WRITTEN = {
    "n": N,
    "2*n + 1": 2 * N + 1,
    "n*m - 3": N * M - 3,
    "n^2": N * N,
    "-n + 5": 5 - N,
    "floordiv(n, 2)": N // 2,
    "mod(n, 3)": N % 3,
    "max(n, m)": maximum(N, M),
    "min(n, 4)": minimum(N, 4),
    "floordiv(n + 1, 2)*m": (N + 1) // 2 * M,
}


@pytest.mark.parametrize("text", WRITTEN)
def test_sizes_are_read_from_the_text_of_jax(text):
    scope = jax.export.SymbolicScope()
    jax.export.symbolic_shape("n, m", scope=scope)
    (size,) = jax.export.symbolic_shape(text, scope=scope)
    assert equal(JaxSizes({"n": N, "m": M}).of(size), WRITTEN[text])


def integers(x, y):
    return jax.lax.div(x, y), jax.lax.rem(x, y)


def test_division_of_integers_is_that_of_jax_at_the_edges(graph_of):
    least = np.iinfo("int32").min
    pairs = [(7, 2), (-7, 2), (7, -2), (-7, -2), (5, 0), (-5, 0), (0, 0), (least, -1)]
    x, y = (np.array(v, "int32") for v in zip(*pairs, strict=True))
    for found, wanted in zip(graph_of(integers, x, y), integers(x, y), strict=True):
        np.testing.assert_array_equal(found, wanted)


def ordered(x, y):
    return jnp.searchsorted(x, y, side="left"), jnp.searchsorted(x, y, side="right")


def test_the_order_of_special_floats_is_that_of_jax(graph_of):
    x = np.array([-np.inf, -1.0, -0.0, 0.0, 2.0, np.inf, np.nan], "float32")
    for found, wanted in zip(graph_of(ordered, x, x), ordered(x, x), strict=True):
        np.testing.assert_array_equal(found, wanted)


def of_complex_numbers(x, y):
    return jax.lax.max(x, y), jax.lax.min(x, y), jax.lax.sign(x)


def test_complex_numbers_at_special_values_are_compared_as_by_jax(graph_of):
    parts = [0.0, -0.0, 0.5, -2.5, np.inf, -np.inf, np.nan]
    numbers = [complex(a, b) for a in parts for b in parts]
    pairs = zip(*[(a, b) for a in numbers for b in numbers[::5]], strict=True)
    x, y = (np.array(column, "complex64") for column in pairs)
    wanted = jax.jit(of_complex_numbers)(x, y)
    for found, results in zip(graph_of(of_complex_numbers, x, y), wanted, strict=True):
        np.testing.assert_allclose(np.real(found), np.real(results), rtol=1e-6)
        np.testing.assert_allclose(np.imag(found), np.imag(results), rtol=1e-6)


FLOATS = [0.0, -0.0, 0.5, -2.5, 1.0, -1.0, 7.0, np.inf, -np.inf, np.nan]
ARITIES = {"digamma": 1, "lgamma": 1, "igamma": 2, "igammac": 2, "zeta": 2}


@pytest.mark.parametrize("name", ARITIES)
def test_special_functions_have_the_limits_of_jax(graph_of, name):
    function = getattr(jax.lax, name)
    arguments = zip(*itertools.product(FLOATS, repeat=ARITIES[name]), strict=True)
    arrays = [np.array(column, "float32") for column in arguments]
    (found,) = graph_of(function, *arrays)
    np.testing.assert_allclose(found, jax.jit(function)(*arrays), rtol=1e-6)


def test_complex_roots_have_the_side_of_the_cut_that_jax_takes(graph_of):
    numbers = [complex(-2.5, -0.0), complex(-2.5, 0.0), complex(0.5, -0.0), 3 + 4j]
    x = np.array(numbers, "complex64")
    wanted = jax.jit(jax.lax.rsqrt)(x)
    (found,) = graph_of(jax.lax.rsqrt, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_function_that_finds_something_by_the_hash_of_a_size_is_read():
    def function(x):
        known = {x.shape: jnp.sin}
        return known[x.shape](x)

    graph = graphc.from_jax(function, gt.tensor("x", "float32", ("n",)))
    run = graphc.function(list(graph.inputs), list(graph.outputs))
    x = np.arange(3, dtype="float32")
    np.testing.assert_allclose(run(x)[0], np.sin(x), rtol=1e-6)
