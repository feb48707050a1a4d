"""Random nests of loops and branches that take sizes from around them.

They give what plain NumPy gives, with gradients, for many examples at once, with late
rules and under every policy; and every body in them is closed.

`GRAPHC_FUZZ=500 pytest tests/fuzz/test_bodies.py` runs that many of each kind.
"""

import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.verify import verify
from tests.fuzz.nested_bodies import (
    EARLY,
    LATE,
    MAPPED,
    arguments,
    behind,
    cost,
    nests,
    told_by_rows,
    variables,
)

pytestmark = pytest.mark.usefixtures("wide", "compiled_quickly")
COUNT = int(os.environ.get("GRAPHC_FUZZ", "4"))
WAYS = {
    "specialize": {"dims": "specialize"},
    "as written": {"dims": "specialize", "rewrites": graphc.rewrites.none},
    "pad": {"dims": graphc.Pad(minimum=3, growth=1.6)},
    "bound": {"dims": "bound"},
}
SIZES = {"n": st.integers(0, 4), "k": st.integers(0, 3), "seed": st.integers(0, 99)}
ANY = st.sampled_from([*WAYS])


def fuzzed(count, **strategies):
    """Run the decorated test on `count` examples, the same in each run."""

    def decorate(test):
        run = given(**strategies)(test)
        checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
        return settings(
            max_examples=count,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=checks,
        )(run)

    return decorate


def start(xp, x):
    return xp.sum(x) * 0.01 + 0.1


def whole(nest, xp, x, k, out, late):
    found = cost(nest, xp, x, k, start(xp, x))
    return found + behind(xp, x, out, xp.count_nonzero(x[:, 0] * 1 > 0.0123) * late)


def compiled(inputs, outputs, backend, options):
    """Compile a function and verify the graph that its rewrites left."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = graphc.function(
            inputs, outputs, backend=backend, unused="ignore", **options
        )
    verify(f.plan.graph)
    return f


def check(nest, n, k, seed, late, way, backend="numpy"):
    """Compare values with NumPy, and gradients with finite differences."""
    inputs, given = variables(), arguments(n, k, seed)
    symbolic = whole(nest, gt, *inputs, late)
    slopes = graphc.grad(symbolic, inputs[0], disconnected="zero")
    with np.errstate(all="ignore"):
        expected = whole(nest, np, *given, late)
        along = np.random.default_rng(seed + 1).normal(size=given[0].shape)
        near = [
            whole(nest, np, given[0] + h * along, *given[1:], late)
            for h in (1e-6, -1e-6)
        ]
    f = compiled(inputs, [symbolic, slopes], backend, WAYS[way])
    value, found = f(*given)
    np.testing.assert_allclose(value, expected, 1e-9, 1e-9)
    slope = (near[0] - near[1]) / 2e-6
    np.testing.assert_allclose(np.sum(np.asarray(found) * along), slope, 1e-4, 1e-4)


@fuzzed(COUNT, nest=nests({**EARLY, **LATE}), late=st.booleans(), way=ANY, **SIZES)
def test_values_and_gradients(nest, n, k, seed, late, way):
    check(nest, n, k, seed, late, way)


@fuzzed(COUNT, nest=told_by_rows(), late=st.booleans(), way=ANY, **SIZES)
def test_sizes_of_steps(nest, n, k, seed, late, way):
    check(nest, n, k, seed, late, way)


@fuzzed(COUNT // 4, nest=nests(EARLY, 1), late=st.booleans(), way=ANY, **SIZES)
def test_on_jax(nest, n, k, seed, late, way):
    check(nest, n, k, seed, late, way, "jax")


@fuzzed(COUNT, nest=nests(EARLY, 2, MAPPED), graph=st.booleans(), way=ANY, **SIZES)
def test_many_examples(nest, n, k, seed, graph, way):
    """By `vmap` of a function, and of a graph, which has sizes of its own."""
    many = gt.tensor("many", "float64", ("b", "m", 40))
    x, size, _ = variables()
    one = lambda x: cost(nest, gt, x, size, start(gt, x))  # noqa: E731
    if graph:
        y = one(x)
        made = Graph((x, size), (y,), ("x", "k"), ("",))
        outputs = [graphc.vmap(made, in_axes=(0, None))(many, size)]
    else:
        outputs = [graphc.vmap(one)(many)]
        outputs.append(graphc.vmap(lambda x: graphc.grad(one(x), x))(many))
    each = [arguments(n, k, seed + i)[0] for i in range(2)]
    with np.errstate(all="ignore"):
        values = [cost(nest, np, x, np.int64(k), start(np, x)) for x in each]
    slopes = compiled([x, size], graphc.grad(one(x), x), "numpy", {})
    f = compiled([many, size], outputs, "numpy", WAYS[way])
    found, *more = f(np.stack(each), k)
    np.testing.assert_allclose(found, values, 1e-9, 1e-9)
    for got in more:
        wanted = [slopes(x, k) for x in each]
        np.testing.assert_allclose(got, wanted, 1e-9, 1e-9)
