"""Primitives of libraries, by stand-ins with their names: one program for all sizes."""

import warnings

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import Primitive
from jax.interpreters import mlir

import graphc
from tests.importers.jax.comparing import by_turns

SIZES = (3, 4, 5, 8)


def primitive(name, impl, result=lambda *avals, **_: avals[0]):
    """A primitive lowered by a JAX function, as equinox and lineax have them."""
    made = Primitive(name)
    made.def_impl(impl)
    made.def_abstract_eval(result)
    mlir.register_lowering(made, mlir.lower_fun(impl, multiple_results=False))
    return made


def scalar(x):
    return x.update(shape=())


SELECT = primitive("select_if_vmap", lambda pred, x, y: x, lambda pred, x, y, **_: x)
SAME = primitive("nonbatchable", lambda x, *, msg: x)
ANY = primitive("unvmap_any", jnp.any, scalar)
ALL = primitive("unvmap_all", jnp.all, scalar)
MAX = primitive("unvmap_max", jnp.max, scalar)
SET = primitive(
    "maybe_set",
    lambda xs, x, i, *, kwargs: xs.at[i].set(x, **dict(kwargs)),
    lambda xs, x, i, **_: xs,
)


def solve(a, b, *, solver, throw):
    """Solve by a function that is a param, as lineax does."""
    return solver(jax.scipy.linalg.lu_factor(a), b)


SOLVE = primitive("linear_solve", solve, lambda a, b, **_: b)


def like_a_loop_of_equinox(x):
    def step(carry):
        i, rows = carry
        new = SET.bind(rows, x * i, i, kwargs=(("mode", "clip"),))
        again = ANY.bind(x > 0)
        return i + 1, SELECT.bind(again, SAME.bind(new, msg="no"), rows)

    start = jnp.int32(0), jnp.zeros((4, x.shape[0]), x.dtype)
    _, rows = jax.lax.while_loop(lambda c: c[0] < 4, step, start)
    return rows, MAX.bind(x), ALL.bind(x > 1)


def solved(x):
    matrix = jnp.eye(x.shape[0]) * 3 + x[:, None] / 9
    solver = jax.scipy.linalg.lu_solve
    return SOLVE.bind(matrix, x, solver=solver, throw=False)


INNER = primitive("linear_solve", lambda a, b, *, like: a @ b, lambda a, b, **_: b)


def solved_with_sizes(x):
    """Like lineax, solve within a solve, with params that contain sizes."""
    n = x.shape[0]

    def solver(factors, b):
        first = INNER.bind(jnp.eye(n), b, like=jax.tree.structure({f"{n}": 0}))
        return jax.scipy.linalg.lu_solve(factors, first) / np.sqrt(int(n))

    matrix = jnp.eye(n) * 3 + x[:, None] / 9
    once = jax.checkpoint(lambda v: SOLVE.bind(matrix, v, solver=solver, throw=int(n)))
    return jax.lax.scan(lambda v, _: (once(v), None), x, length=3)[0]


@custom_partitioning
def partitioned(x):
    return jnp.cumsum(x) * 2


partitioned.def_partition(
    infer_sharding_from_operands=lambda *_: None,
    partition=lambda *_: None,
    sharding_rule="i -> i",
)


CASES = [like_a_loop_of_equinox, solved, solved_with_sizes, partitioned]


@pytest.mark.parametrize(("function", "dims"), by_turns(CASES))
def test_one_program_serves_all_sizes(function, dims):
    ours, theirs = graphc.jit(function, dims=dims), jax.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in SIZES:
            x = np.arange(1, n + 1, dtype="float32") / n
            pairs = zip(*map(jax.tree.leaves, (ours(x), theirs(x))), strict=True)
            for own, other in pairs:
                assert own.dtype == other.dtype and own.shape == other.shape
                np.testing.assert_allclose(own, other, rtol=1e-5)
    stats = ours.stats()
    assert stats.foreign == [] and stats.fallbacks == []
    assert len(stats.compilations) <= 4


def test_a_solve_that_calls_python_serves_all_sizes():
    """Lineax calls Python to raise if the result is not finite."""

    def checked(factors, b):
        struct = jax.ShapeDtypeStruct(b.shape, b.dtype)
        return jax.pure_callback(lambda x: np.asarray(x) * 2, struct, b)

    ours = graphc.jit(
        lambda x: SOLVE.bind(jnp.eye(x.shape[0]), x, solver=checked, throw=True),
        dims="pad",
    )
    for n in (3, 4, 5, 6):
        x = np.arange(n, dtype="float32")
        np.testing.assert_array_equal(ours(x), x * 2)
    assert ours.stats().foreign == [] and len(ours.stats().compilations) == 2


def test_a_gradient_through_a_solve_of_lineax_serves_all_sizes():
    """A callback in Python raises its errors."""
    lineax = pytest.importorskip("lineax")

    def cost(a, b):
        return lineax.linear_solve(lineax.MatrixLinearOperator(a), b).value.sum()

    function = jax.grad(cost, (0, 1))
    ours, theirs = graphc.jit(function, dims="pad"), jax.jit(function)
    for n in (3, 4, 5):
        b = np.cos(np.arange(n)).astype("float32")
        a = np.eye(n, dtype="float32") * 3 + b[:, None] * b
        for own, other in zip(ours(a, b), theirs(a, b), strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-5)
    stats = ours.stats()
    assert stats.foreign == [] and stats.fallbacks == []
    assert len(stats.compilations) == 2


def test_a_solve_by_steps_of_lineax_serves_all_sizes():
    """The solver computes bounds from sizes, which its loops capture."""
    lineax = pytest.importorskip("lineax")
    tag, solver = lineax.positive_semidefinite_tag, lineax.CG(1e-5, 1e-5)

    def solution(a, b):
        operator = lineax.MatrixLinearOperator(a, tag)
        return lineax.linear_solve(operator, b, solver).value

    ours = graphc.jit(solution, dims="pad")
    for n in (3, 4):
        b = np.cos(np.arange(n)).astype("float32")
        a = np.eye(n, dtype="float32") * 3 + b[:, None] * b
        np.testing.assert_allclose(a @ ours(a, b), b, rtol=1e-3, atol=1e-4)
    stats = ours.stats()
    assert stats.foreign == [] and stats.fallbacks == []
    assert len(stats.compilations) == 2


def test_a_gradient_through_an_integration_of_diffrax_serves_all_sizes():
    """It takes the square root of a size, and checks values by Python callbacks."""
    diffrax = pytest.importorskip("diffrax")
    term = diffrax.ODETerm(lambda t, y, args: -y * args)

    def cost(y):
        steps = diffrax.PIDController(rtol=1e-3, atol=1e-3)
        solution = diffrax.diffeqsolve(
            *(term, diffrax.Heun(), 0.0, 1.0, 0.25, y),
            args=jnp.cos(y),
            stepsize_controller=steps,
            max_steps=64,
        )
        return (solution.ys**2).sum()

    ours, theirs = graphc.jit(jax.grad(cost), dims="pad"), jax.jit(jax.grad(cost))
    for n in (3, 4, 5, 6):
        y = np.arange(1, n + 1, dtype="float32")
        np.testing.assert_allclose(ours(y), theirs(y), rtol=1e-4, atol=1e-4)
    stats = ours.stats()
    assert stats.foreign == [] and stats.fallbacks == []
    assert len(stats.compilations) <= 3


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (1, 1)])
def test_permutations_of_pivots(shape):
    matrix = np.random.default_rng(0).normal(size=shape).astype("float32")

    def permutation(a):
        _, pivots, _ = jax.lax.linalg.lu(a)
        return jax.lax.linalg.lu_pivots_to_permutation(pivots, a.shape[0])

    graph = graphc.from_jax(permutation, matrix)
    ours = graphc.function(graph.inputs, graph.outputs[0], backend="numpy")
    np.testing.assert_array_equal(ours(matrix), jax.jit(permutation)(matrix))


def test_python_that_is_called_serves_all_sizes_beside_hashes_of_shapes():
    """Like optimistix and lineax, it looks things up by hashing a structure."""

    def function(x):
        struct = jax.ShapeDtypeStruct(x.shape, x.dtype)
        scale = {struct: 2}[struct]
        return jax.pure_callback(lambda v: np.asarray(v) * scale, struct, x) + x

    ours = graphc.jit(function, dims="pad")
    for n in (3, 4, 5, 6):
        x = np.arange(n, dtype="float32")
        np.testing.assert_array_equal(ours(x), x * 3)
    assert ours.stats().foreign == [] and ours.stats().fallbacks == []
    assert len(ours.stats().compilations) == 2
