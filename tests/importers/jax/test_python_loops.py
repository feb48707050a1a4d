"""Loops of Python over an axis, in functions of JAX, are one program for all sizes."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.importers.jax.unrolled.reading import records_of
from graphc.ir.graph.nodes import Graph

SIZES = 9, 12, 11, 2, 17, 12
pytestmark = pytest.mark.usefixtures("compiled_quickly")
WEIGHTS = jnp.asarray(np.cos(np.arange(9.0)).reshape(3, 3), "float32")


def smoothed(x):
    level, levels = x[0], []
    for i in range(len(x)):
        level = 0.25 * x[i] + 0.75 * level
        levels.append(level)
    return jnp.stack(levels)


def recurrent(rows):
    state = jnp.zeros(3)
    for row in rows:
        state = jnp.tanh(WEIGHTS @ state + row)
    return {"state": state}


def recurrent_loss(weights, rows):
    state = jnp.zeros(3)
    for t in range(rows.shape[0]):
        state = jnp.tanh(state @ weights + rows[t])
    return jnp.sum(state**2)


def slopes(rows):
    return jax.grad(recurrent_loss, argnums=(0, 1))(WEIGHTS, rows)


def set_in_turn(x):
    out = jnp.zeros_like(x)
    for i in range(len(x)):
        out = out.at[i].set(x[i] + (out[i - 1] if i else 0))
    return out


def means(x):
    return jnp.stack([x[i : i + 3].mean() for i in range(len(x) - 2)])


def padded_sums(x):
    total, n = jnp.ones(1), x.shape[0]
    for i in range(n):  # the first sum makes one element many
        total = total + jnp.pad(x[i : i + 1], (i, n - 1 - i))
    return total


def distances(x):
    return jnp.array([[jnp.abs(a - b) for b in x] for a in x])


def drawn(x):
    key, total = jax.random.key(3), 0.0
    for element in x:
        key, one = jax.random.split(key)
        total = total + element * jax.random.normal(one)
    return total


def with_bodies(rows):
    total = jnp.float32(0)
    for row in rows:
        start = jax.lax.fori_loop(0, 3, lambda _, c: 0.5 * c + row.sum(), total)  # noqa: B023
        total = jax.lax.cond(start > 0, lambda a: a / 2, jnp.cos, start)
    return total


def nested_with_constants(rows):
    state = jnp.zeros(2)
    for i, row in enumerate(rows):
        turn, other = np.array([np.sin(i), np.cos(i)], "float32"), np.float32(np.sin(i))
        for _ in range(5):
            state = jnp.cos(state * turn / 2 + row[0] * other + i * i)
    return state


def nested_from_a_row(rows):
    state = rows[0, 0]
    for row in rows:
        total = jnp.float32(0)
        for _ in range(5):
            total = total + jnp.sin(state * row[1])
        state = total / 9
    return state


def grown(rows):
    out = rows[:1]
    for row in rows[1:]:
        out = jnp.concatenate([out, (row + out[-1] / 2)[None]])
    return out


OF_VECTORS = smoothed, set_in_turn, means, padded_sums, distances, drawn
OF_NESTED = nested_with_constants, nested_from_a_row
OF_ROWS = recurrent, slopes, with_bodies, grown, *OF_NESTED


@pytest.mark.parametrize(
    ("function", "dims"),
    [(function, "pad") for function in OF_VECTORS + OF_ROWS]
    + [(smoothed, None), (slopes, None)],
    ids=lambda parameter: getattr(parameter, "__name__", parameter),
)
def test_one_program_serves_all_sizes(function, dims):
    compiled = graphc.jit(function, dims=dims)
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in SIZES:
            shape = (n, 3) if function in OF_ROWS else (n,)
            x = np.random.default_rng(n).normal(size=shape).astype("float32")
            if function is means and n < 3:
                continue
            results, expected = compiled(x), function(x)
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6),
                results,
                expected,
            )
            assert jax.tree.map(jnp.result_type, results) == jax.tree.map(
                jnp.result_type, expected
            )
    assert compiled.explain().count("compiled for all sizes") == 1


def by_chunks(x):
    total = 0 * x[0]
    for i in range(0, len(x), 10):
        total = total / 2 + x[i : i + 10].sum()
    return total


def every_third(x):
    total = 0 * x[0]
    for i, element in enumerate(x):
        total = total / 2 + element if i % 3 == 0 else total - element
    return total


@pytest.mark.parametrize(("function", "programs"), [(by_chunks, 1), (every_third, 3)])
@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_sizes_of_equal_remainders_share_programs(function, programs, frontend):
    options = {} if frontend == "jax" else {"frontend": frontend}
    compiled = graphc.jit(function, dims="pad", **options)
    for n in (95, 121, 111, 142, 123, 155, 141, 98, 112):
        x = np.cos(np.arange(n, dtype="float32"))
        np.testing.assert_allclose(compiled(x), function(x), rtol=2e-5, atol=1e-6)
    assert compiled.explain().count("compiled for all sizes") == programs
    assert compiled.explain().count("compiled exactly") == 1


def filtered(x, weights):
    n, m = len(x), len(weights)
    return jnp.stack([x[i : i + m] @ weights for i in range(n - m + 1)])


def filtered_in_turn(x, weights):
    n, m = len(x), len(weights)
    parts = [[x[i + j] * weights[j] for j in range(m)] for i in range(n - m + 1)]
    return jnp.stack([sum(part) for part in parts])


@pytest.mark.parametrize("function", [filtered, filtered_in_turn])
def test_windows_may_be_as_long_as_an_axis(function):
    compiled = graphc.jit(function)
    for n, m in ((20, 9), (23, 10), (22, 7), (30, 11)):
        x, weights = (np.cos(np.arange(k, dtype="float32")) for k in (n, m))
        expected = np.correlate(x, weights)
        np.testing.assert_allclose(compiled(x, weights), expected, rtol=1e-4, atol=1e-5)


def attended(rows):
    """Attention of each row to those before it."""
    results = []
    for i, row in enumerate(rows):
        weights = jax.nn.softmax(rows[: i + 1] @ row)
        results.append(weights @ rows[: i + 1])
    return jnp.stack(results)


def substituted(rows):
    factors, x = rows @ rows.T / 9, jnp.zeros(len(rows))
    for i in range(len(rows)):
        x = x.at[i].set((rows[i, 0] - factors[i, :i] @ x[:i]) / (2 + factors[i, i]))
    return x


def slopes_through_parts(rows):
    return jax.grad(lambda rows: jnp.sum(substituted(rows) ** 2))(rows)


def slopes_through_rows_of_several_lengths(rows):
    """The gradient of attention, which reads the weights of all steps once more."""
    return jax.grad(lambda rows: jnp.sum(attended(rows) ** 2))(rows)


def slopes_through_differences(rows):
    """The gradient through steps each of which has one row less than before."""

    def last_difference(rows):
        while len(rows) > 1:
            rows = jnp.tanh(jnp.diff(rows, axis=0))
        return jnp.sum(rows**2)

    return jax.grad(last_difference)(rows)


OF_PARTS = (
    attended,
    substituted,
    slopes_through_parts,
    slopes_through_rows_of_several_lengths,
    slopes_through_differences,
)


@pytest.mark.parametrize("function", OF_PARTS)
def test_sizes_may_differ_from_step_to_step(function):
    compiled = graphc.jit(function, dims="pad")
    for n in (13, 16, 14):
        rows = np.random.default_rng(n).normal(size=(n, 3)).astype("float32")
        expected = function(jnp.asarray(rows))
        np.testing.assert_allclose(compiled(rows), expected, rtol=2e-4, atol=1e-5)
    assert compiled.explain().count("compiled for all sizes") == 1


def test_a_step_that_differs_is_noticed():
    def stepped(x):
        total = 0.0
        for i in range(len(x)):
            total = total + (x[i] if i != 20 else 2 * x[i])
        return total

    compiled = graphc.jit(stepped)
    for n in (9, 10, 11, 12):
        np.testing.assert_allclose(compiled(np.ones(n, "float32")), n)
    for n in (21, 30, 21, 14):
        np.testing.assert_allclose(compiled(np.ones(n, "float32")), n + (n > 20))


def test_constants_that_another_trace_has_made_are_in_the_order_of_their_use():
    older, x = gt.arange(5.0), gt.tensor("x", "float64", (5,))
    table = gt.zeros((5, 5)).at[0].set(older)
    records = records_of(Graph.of([x], [table * x])).records
    names = [record.primitive.name for record in records]
    assert names.index("full") < names.index("iota")


def test_captured_arrays_are_arguments_of_the_program():
    large = jnp.asarray(np.sin(np.arange(10_000.0)).reshape(100, 100) / 100, "float32")

    def applied(rows):
        state = jnp.zeros(100)
        for row in rows:
            state = jnp.tanh(large @ state + row)
        return state

    compiled = graphc.jit(applied, dims="pad")
    for n in (9, 12, 11, 13):
        rows = np.random.default_rng(n).normal(size=(n, 100)).astype("float32")
        np.testing.assert_allclose(compiled(rows), applied(rows), rtol=2e-4, atol=1e-5)
    assert compiled.explain().count("compiled for all sizes") == 1


def decayed(x):
    level = 0.0
    for element in x:
        level = 0.5 * level + element
    return level


def alternating(rows):
    state, even = 0 * rows[0], len(rows) % 2 == 0
    for row in rows:
        state = state * 0.5 + row if even else state * 0.5 - row
    return state


@pytest.mark.parametrize("shapes", [None, "n"])
@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_first_calls_may_have_few_steps(frontend, shapes):
    options = {} if frontend == "jax" else {"frontend": frontend}
    compiled = graphc.jit(decayed, shapes=shapes, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in (2, 3, 1, 9, 12, 3):
            x = np.arange(n, dtype="float32")
            np.testing.assert_allclose(compiled(x), decayed(x), rtol=1e-6)
    assert compiled.explain().count("compiled for all sizes") == 1


def test_short_axes_without_a_loop_keep_no_size_alone():
    compiled = graphc.jit(alternating)
    for shape in ((9, 2), (11, 3), (12, 4), (13, 3), (10, 5)):
        rows = np.random.default_rng(0).normal(size=shape).astype("float32")
        np.testing.assert_allclose(compiled(rows), alternating(rows), rtol=1e-5)
    assert compiled.explain().count("compiled for all sizes") == 2
    assert compiled.explain().count("compiled exactly") == 1


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_an_axis_said_to_vary_may_be_fixed(frontend):
    def from_zeros(rows, weights):
        state = np.zeros(3, "float32")
        for row in rows:
            state = weights @ state + row
        return state

    options = {} if frontend == "jax" else {"frontend": frontend}
    compiled = graphc.jit(from_zeros, shapes="n d, d d", **options)
    told = "takes only 3 for the axis d"
    with pytest.warns(graphc.FallbackWarning, match=told):
        compiled(np.ones((9, 3), "float32"), np.eye(3, dtype="float32"))
    for n in (12, 11):
        rows = np.ones((n, 3), "float32")
        np.testing.assert_allclose(compiled(rows, np.eye(3, dtype="float32")), [n] * 3)
    assert compiled.explain().count("compiled for all sizes") == 1
    assert compiled.explain().count("compiled exactly") == 0


IN_A_LOOP = "the steps that Python counts run in a loop"


@pytest.mark.parametrize("function", [smoothed, set_in_turn, recurrent, slopes])
def test_many_steps_run_in_a_loop_at_the_first_size_already(function):
    shape = (120, 3) if function in OF_ROWS else (120,)
    x = np.random.default_rng(3).normal(size=shape).astype("float32")
    compiled = graphc.jit(function)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6),
        compiled(x),
        function(x),
    )
    assert IN_A_LOOP in compiled.explain()


def test_steps_in_a_loop_have_gradients():
    x = np.random.default_rng(3).normal(size=120).astype("float32")

    def last(function, x):
        return function(x)[-1] ** 2

    compiled = graphc.jit(smoothed)
    np.testing.assert_allclose(
        jax.grad(lambda x: last(compiled, x))(x),
        jax.grad(lambda x: last(smoothed, x))(x),
        rtol=1e-5,
        atol=1e-7,
    )


def evaluated(coefficients, x):
    value = jnp.zeros_like(x)
    for coefficient in coefficients:
        value = value * x + coefficient
    return value


def test_steps_that_are_faster_without_a_loop_are_compiled_as_they_are():
    coefficients, x = np.ones(101, "float32"), np.full(9000, 0.5, "float32")
    large, few = graphc.jit(evaluated), graphc.jit(evaluated)
    for compiled, points in ((large, x), (few, x[:100])):
        np.testing.assert_allclose(compiled(coefficients, points), 2, rtol=1e-5)
    assert IN_A_LOOP not in large.explain()
    assert IN_A_LOOP in few.explain()
    ordered = graphc.jit(evaluated, rewrites=graphc.rewrites.none)
    np.testing.assert_allclose(ordered(coefficients, x[:100]), 2, rtol=1e-5)
    assert IN_A_LOOP not in ordered.explain()


def test_explanations_name_the_steps_that_python_counts():
    compiled = graphc.jit(smoothed)
    for n in (9, 12, 11):
        compiled(np.ones(n, "float32"))
    compared = "each new size is traced and compared, since Python counts the steps at"
    assert f"{compared} test_python_loops.py:" in compiled.explain()
    steps = "the number of steps that Python takes (test_python_loops.py:"
    assert any(fact.startswith(steps) for fact in compiled.stats().decisions)
