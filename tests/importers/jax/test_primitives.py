"""Primitives of JAX with params that its array functions seldom give them.

They are read into a graph and run by NumPy, with sizes as numbers and as symbols, and
JAX runs them itself.
"""

import itertools
import os
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jax import lax

import graphc
from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.walk import ancestors
from graphc.ops.effects.foreign import FOREIGN
from tests.importers.jax.comparing import outcomes_by_jax

EXAMPLES = 12 * int(os.environ.get("GRAPHC_EXAMPLES", "1"))
RNG = np.random.default_rng(0)


def read(function, *arrays, unread=0, **options):
    """Compute a function of JAX by way of a graph on NumPy.

    JAX runs exactly `unread` equations of it, for which there is no rule.
    """
    graph = graphc.from_jax(function, *arrays)
    primitives = [node.primitive for node in with_inner_nodes(ancestors(graph.outputs))]
    assert primitives.count(FOREIGN) == unread
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = graphc.function(
            list(graph.inputs), list(graph.outputs), backend="numpy", **options
        )
    return f(*arrays)


def alike(function, *arrays, limit=0.0, unread=0):
    """Require JAX's results, up to a relative and absolute error of `limit`."""
    expected = jax.tree.leaves(jax.jit(function)(*arrays))
    results = read(function, *arrays, unread=unread)
    for found, wanted in zip(results, expected, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, limit, limit)


# Reads and writes of windows.

KINDS = {
    "float32": lambda shape: RNG.integers(-9, 9, shape) / 4,
    "int32": lambda shape: RNG.integers(-9, 9, shape),
    "uint8": lambda shape: RNG.integers(0, 9, shape),
    "bool": lambda shape: RNG.integers(0, 2, shape),
}
MODES = ("clip", "fill", "promise_in_bounds")


@st.composite
def windows(draw):
    """Draw an array, indices, window sizes, and the axes that an index refers to."""
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    axes = draw(st.permutations(range(rank)))
    batched = sorted(axes[: draw(st.integers(0, min(1, rank - 1)))])
    others = [a for a in axes if a not in batched]
    started = others[: draw(st.integers(1, len(others)))]
    dropped = {a for a in others if draw(st.booleans())} | set(batched)
    sizes = tuple(
        1 if a in dropped else draw(st.integers(1, shape[a])) for a in range(rank)
    )
    points = [shape[a] for a in batched]
    points += [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 1)))]
    along = tuple(range(len(batched)))
    mode = draw(st.sampled_from(MODES))
    beyond = 0 if mode == "promise_in_bounds" else 2
    columns = [
        RNG.integers(-beyond, shape[a] - sizes[a] + 1 + beyond, points) for a in started
    ]
    indices = np.stack(columns, axis=-1).astype("int32")
    kept = rank - len(dropped)
    offsets = sorted(draw(st.permutations(range(len(points) + kept)))[:kept])
    collapsed = tuple(sorted(dropped - set(batched)))
    numbers = (tuple(offsets), collapsed, tuple(started), tuple(batched), along)
    dtype = draw(st.sampled_from(sorted(KINDS)))
    x = np.asarray(KINDS[dtype](shape), dtype)
    return x, indices, sizes, numbers, mode, draw(st.booleans())


def quickly(test):
    """Run the decorated test on EXAMPLES examples, the same in each run."""
    how = {"deadline": None, "derandomize": True, "database": None}
    checks = [HealthCheck.too_slow]
    run = given(windows())(test)
    return settings(max_examples=EXAMPLES, suppress_health_check=checks, **how)(run)


@quickly
def test_windows_are_read_as_jax_reads_them(case):
    """The indices are arguments, or constants."""
    x, indices, sizes, numbers, mode, constant = case
    numbers = lax.GatherDimensionNumbers(*numbers)

    def taken(x, indices=indices):
        return lax.gather(x, indices, numbers, sizes, mode=mode)

    alike(taken, x) if constant else alike(taken, x, indices)


WRITES = {
    "scatter_add": lax.scatter_add,
    "scatter_mul": lax.scatter_mul,
    "scatter_min": lax.scatter_min,
    "scatter_max": lax.scatter_max,
}


@quickly
def test_windows_are_written_as_jax_writes_them(case):
    """Several windows may be written to one place."""
    x, indices, sizes, numbers, mode, constant = case
    x = x.astype("int32") if x.dtype == bool else x
    write = WRITES[sorted(WRITES)[indices.size % 4]]
    offsets, collapsed, *others = numbers
    assume(mode != "clip" or sizes != x.shape or collapsed or others[1])
    numbers = lax.ScatterDimensionNumbers(offsets, collapsed, *others)
    count = len(offsets) + indices.ndim - 1
    kept = iter(n for a, n in enumerate(sizes) if a not in {*collapsed, *others[1]})
    points = iter(indices.shape[:-1])
    shape = [next(kept) if i in offsets else next(points) for i in range(count)]
    updates = np.asarray(KINDS[x.dtype.name](shape), x.dtype)

    def written(x, updates, indices=indices):
        return write(x, indices, updates, numbers, mode=mode)

    alike(written, x, updates) if constant else alike(written, x, updates, indices)


def test_whole_arrays_written_many_times_are_left_to_jax():
    numbers = lax.ScatterDimensionNumbers((1,), (), (0,))
    x, v = np.arange(3, dtype="float32"), np.ones((2, 3), "float32")
    added = lambda x, v, i: lax.scatter_add(x, i, v, numbers, mode="clip")
    alike(added, x, v, np.array([[1], [5]], "int32"), unread=1)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_indices_of_few_bits(dtype):
    """The axis has more elements than the indices can count, or fewer.

    XLA counts the end of the axis in their bits or not, depending on its optimisations;
    JAX documents only that a window is moved inside.
    """
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    v = np.array([-1, -2], "float32")

    def gathered(x, i):
        return [lax.gather(x, i, numbers, (1,), mode=m) for m in ("clip", "fill")]

    def moved(x, v, i):
        written = [lax.dynamic_update_slice(x, v[:k], (i,)) for k in (1, 2)]
        return [lax.dynamic_slice(x, (i,), (3,)), *written]

    indices = np.array([[0], [100], [200]]).astype(dtype)
    for n in (300, 90):
        x = np.arange(n, dtype="float32")
        alike(gathered, x, indices)
        part, *written = read(moved, x, v, np.asarray(100, dtype))
        np.testing.assert_array_equal(part, x[min(100, n - 3) :][:3])
        for k, found in enumerate(written, 1):
            x[min(100, n - k) :][:k], before = v[:k], x.copy()
            np.testing.assert_array_equal(found, x)
            x = before


# Reductions.


def test_windows_are_reduced_as_by_jax():
    """Axes with windows of one element come first, last and in between."""
    x = np.asarray(KINDS["float32"]((4, 5, 6)), "float32")
    ways = [
        ((1, 1, 2), (1, 1, 1), "VALID", None),
        ((1, 2, 1), (1, 2, 1), "SAME", None),
        ((2, 1, 3), (1, 1, 2), [(0, 1), (0, 0), (2, 0)], None),
        ((1, 1, 1), (1, 1, 1), "VALID", None),
        ((1, 1, 1), (2, 1, 1), "VALID", None),
        ((1, 1, 1), (1, 1, 1), [(0, 0), (1, 0), (0, 0)], None),
        ((1, 1, 1), (1, 1, 1), [(0, 0), (0, 1), (0, 0)], None),
        ((1, 2, 2), (1, 1, 1), "VALID", (1, 2, 3)),
    ]

    def reduced(x):
        kinds = [(0.0, lax.add), (-np.inf, lax.max), (np.inf, lax.min)]
        return [
            lax.reduce_window(x, start, f, w, s, p, window_dilation=d)
            for start, f in kinds
            for w, s, p, d in ways
        ]

    alike(reduced, x, limit=1e-6)
    dilated = lambda x: lax.reduce_window(
        x, 0.0, lax.add, (1, 2), (1, 1), "VALID", base_dilation=(1, 2)
    )
    alike(dilated, x[0], limit=1e-6, unread=1)  # there is no op for it


SPECIAL = [np.nan, 1, -np.inf, 0.0, -np.nan, -0.0]


def test_reductions_and_orders_as_by_jax():
    """With NaN, complex numbers and bools; along each axis, in both directions."""
    x = np.array([SPECIAL, SPECIAL[::-1], np.arange(6.0)], "float32")
    z = np.stack([x[::-1], np.roll(x, 2)], -1).view("complex64")[..., 0]
    i = np.asarray(KINDS["int32"]((3, 6)), "int32")

    def ordered(x, z, i):
        found = []
        for axis, reverse in itertools.product((0, 1), (False, True)):
            running = (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin)
            found += [f(v, axis, reverse) for f in running for v in (x, i)]
            found += [lax.cumsum(z, axis, reverse), lax.cumlogsumexp(i * 0.5, axis)]
            found += lax.sort((i, x, z), axis, num_keys=1)
            found += lax.sort((i // 4, x, i), axis, num_keys=2)
            found += [lax.sort(x, axis), lax.sort(z, axis)]
            found += lax.top_k(x, 2, axis=axis)
            found += [f(x, axis, "int8") for f in (lax.argmax, lax.argmin)]
        for axes in ((0,), (1,), (0, 1), ()):
            found += [lax.reduce_max(v, axes) for v in (x, i, i > 0)]
            found += [lax.reduce_min(v, axes) for v in (x, i, i > 0)]
            found += [lax.reduce_sum(v, axes) for v in (x, z, i)]
            found += [lax.reduce_prod(v, axes) for v in (x, i)]
            of_bits = lax.reduce_and, lax.reduce_or, lax.reduce_xor
            found += [f(v, axes) for f in of_bits for v in (i, i > 0)]
        return found

    alike(ordered, x, z, i, limit=1e-6)
    unread = lambda i: [lax.cummax(i + 1j), lax.cummin(i * 1j)]
    alike(unread, i, unread=2)


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float16", "bfloat16", "int8", "uint32", "bool", "complex64"],
)
@pytest.mark.parametrize("extreme", [lax.reduce_max, lax.reduce_min])
def test_extremes_of_no_elements_as_by_jax(extreme, dtype):
    empty = jnp.zeros((0, 2, 3), dtype)
    alike(lambda x: [extreme(x, axes=axes) for axes in [(0,), (0, 2), (1,)]], empty)


OF_PARTS = {
    "a maximum": lambda x: x.max(initial=0),
    "of a part": lambda x: x[5:].max(initial=0),
    "of rows": lambda x: x[:, None][:, 1:].min(1, initial=2),
    "where": lambda x: jnp.max(x[4:], where=x[4:] > 5, initial=-1),
    "softmax": lambda x: jax.nn.softmax(x[5:]),
    "in a loop": lambda x: lax.scan(lambda c, r: (c + x[5:].max(initial=0), r), 0.0, x),
}


@pytest.mark.parametrize("name", OF_PARTS)
def test_extremes_of_parts_that_may_have_no_elements(name):
    ours, sizes = graphc.jit(OF_PARTS[name]), (7, 6, 5, 9, 0, 4, 5, 1, 8)
    calls = {n: (np.arange(n, dtype="float32"),) for n in sizes}
    expected = outcomes_by_jax(OF_PARTS[name], calls)
    for n in sizes:
        pairs = map(jax.tree.leaves, (ours(*calls[n]), expected[n]))
        for a, b in zip(*pairs, strict=True):
            np.testing.assert_array_equal(a, b)
    assert ours.stats().fallbacks == []


# Matrices.


def test_triangular_systems_as_by_jax():
    """Either side or triangle, transposed, conjugated, with a unit diagonal."""
    a = (RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))).astype("complex64")
    a += 4 * np.eye(3, dtype="complex64")
    b = RNG.normal(size=(3, 3)).astype("complex64")

    def solved(a, b):
        names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
        ways = itertools.product((False, True), repeat=5)
        return [
            lax.linalg.triangular_solve(a, b, **dict(zip(names, way, strict=True)))
            for way in ways
        ]

    alike(solved, a, b, limit=1e-4)


def test_decompositions_as_by_jax():
    """The triangle that must not be read holds other numbers."""
    x = RNG.normal(size=(3, 4)).astype("float32")
    square = (x @ x.T + np.triu(np.ones((3, 3)))).astype("float32")

    def decomposed(x, square):
        found = [lax.linalg.cholesky(square, symmetrize_input=s) for s in (False, True)]
        for lower in (False, True):
            v, w = lax.linalg.eigh(square, lower=lower, symmetrize_input=False)
            found += [w, (v * w) @ v.T]
        for whole in (False, True):
            u, s, vh = lax.linalg.svd(x, full_matrices=whole)
            found += [s, jnp.abs(u), (u * s) @ vh[:3], jnp.abs(vh)[:3]]
            q, r = lax.linalg.qr(x.T, full_matrices=whole)
            found += [q @ r, jnp.abs(r)]
        lu, pivots, order = lax.linalg.lu(x)
        found += [lax.linalg.svd(x, compute_uv=False), lu, pivots, order]
        return [*found, lax.linalg.lu_pivots_to_permutation(pivots, 5)]

    alike(decomposed, x, square, limit=1e-4)
