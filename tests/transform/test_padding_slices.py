"""Slices with varying bounds stay at capacities: one segment, compiled rarely."""

import itertools

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.transform.dirty import dirty_function

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "jax"])
BOUNDS = (0, 1, 3, 5, 9, -1, -4, -30)
x, y = gt.vector("x"), gt.tensor("y", "float64", (7,))
m = gt.tensor("m", "float64", ("n", "p"))
a, b = (gt.tensor(name, "int64", ()) for name in "ab")


def with_gradient(part, array):
    return [part, graphc.grad(gt.sum(part**2), array)]


def branches():
    """Slices that only the branches contain, so that nothing else tells their sizes."""
    return gt.cond(b > 0, lambda: gt.sum(x[:a] * 2), lambda: gt.sum(x[a:]))


PROGRAMS = {
    "to": ([x, a], with_gradient(gt.exp(x[:a]), x)),
    "last": ([x, a], with_gradient(x[-a:], x)),
    "from": ([x, a], with_gradient(x[a:], x)),
    "between": ([x, a, b], with_gradient(x[a:b], x)),
    "behind": ([x, a], with_gradient(x[2:a], x)),
    "of a constant size": ([y, a, b], with_gradient(y[a:b], y)),
    "in steps": ([x, a], with_gradient(x[a::3], x)),
    "of a slice": ([x, a, b], with_gradient(x[:a][b:], x)),
    "of a rest": ([x, a, b], with_gradient(x[a:][:b], x)),
    "two axes": ([m, a, b], [*with_gradient(m[:a, b:], m), m[a:, None, b::2]]),
    "written in two axes": ([m, a, b], [m.at[:a, b:].set(3), m.at[a::2, b:].add(1)]),
    "backwards": ([x, a], with_gradient(x[a::-1], x)),
    "two axes backwards": ([m, a, b], with_gradient(m[a::-1, b::-2], m)),
    "set to a number": ([x, a], [x.at[:a].set(7), x.at[-a:].set(7)]),
    "neighbours": ([x, a], with_gradient(gt.diff(x[:a]), x)),
    "fronts of two axes": ([m, a, b], with_gradient(m[:a, :b], m)),
    "reduced": ([x, a], [gt.sum(x[:a]), gt.max(x[:a], initial=0.0), gt.sort(x[a:])]),
    "written": ([x, a], [x.at[:a].set(x[:a] * 3), x.at[:a].min(gt.cumsum(x[:a]))]),
    "written within": (
        [x],
        [x.at[1:-1].set(x[2:] - x[:-2]), x.at[2:].multiply(x[:-2])],
    ),
    "columns written within": (
        [m],
        [m.at[:, 1:-1].min(-m[:, 2:]), m.at[1:-1, 2:].set(5)],
    ),
    "written between": ([x, a, b], [x.at[a:b].max(x[a:b] ** 2), x.at[a:].set(-x[a:])]),
    "in branches": ([x, a, b], with_gradient(branches(), x)),
    "joined": ([x, a], [gt.concatenate([x[a:], x[:a]])]),
}


def arguments(inputs, n, bounds):
    rng, sizes = np.random.default_rng(n), {"n": n, "p": 3}
    found = []
    for value in inputs:
        if value.type.rank == 0:
            found.append(bounds[value is b])
            continue
        shape = [i if isinstance(i, int) else sizes.get(str(i), n) for i in value.shape]
        found.append(rng.normal(size=shape).astype(value.dtype))
    return found


def calls(inputs, lengths=(0, 1, 6)):
    """Arguments for arrays of few and many elements, cut in all ways."""
    pairs = itertools.product(BOUNDS, BOUNDS[::3] if len(inputs) == 3 else (0,))
    return [arguments(inputs, n, pair) for pair in pairs for n in lengths]


def same(got, expected):
    for one, wanted in zip(got, expected, strict=True):
        one, wanted = np.asarray(one), np.asarray(wanted)
        assert one.shape == wanted.shape and one.dtype == wanted.dtype
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-6)


@BACKENDS
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_segment_for_all_bounds(name, backend):
    """It is compiled once per capacity, and its results are NumPy's."""
    inputs, outputs = PROGRAMS[name]
    f = graphc.function(inputs, outputs, backend=backend, dims="pad")
    exact = graphc.function(inputs, outputs, backend="numpy")
    assert not f.plan.padded.cuts
    for given in calls(inputs):
        same(f(*given), exact(*given))
    assert len(f.plan.segments) == 1
    assert len(f.stats().compilations) == (backend == "jax")


DIRTY = [(name, "numpy") for name in PROGRAMS if name != "of a constant size"]
DIRTY += [(name, "jax") for name in ("last", "two axes backwards", "in branches")]


@pytest.mark.parametrize(("name", "backend"), DIRTY)
def test_nothing_behind_a_slice_leaks(name, backend):
    """Neither the padding's content nor elements after the slice may leak."""
    inputs, outputs = PROGRAMS[name]
    f = dirty_function(inputs, outputs, backend=backend)
    exact = graphc.function(inputs, outputs, backend="numpy")
    for given in calls(inputs, (5,)):
        same(f(*given), exact(*given))


@pytest.mark.parametrize("name", ["of a slice", "of a rest", "neighbours", "joined"])
def test_each_size_padded_alone(name):
    """Axes at true sizes may be empty; those at capacities never are."""
    inputs, outputs = PROGRAMS[name]
    exact = graphc.function(inputs, outputs, backend="numpy", dims="specialize")
    names = {v.name for v in inputs[1:]} | {str(x.shape[0])}
    for alone in names:
        dims = dict.fromkeys(names, graphc.Specialize()) | {alone: graphc.Pad()}
        f = graphc.function(inputs, outputs, backend="numpy", dims=dims)
        for pair in itertools.product((0, 3, 9, -4), (1, -1)):
            given = arguments(inputs, 6, pair)
            same(f(*given), exact(*given))


def test_slices_from_fixed_starts_are_written_in_place():
    """A scatter writes element by element, which is slow."""
    pad = graphc.function(
        [x, m], [x.at[1:-1].set(x[2:]), m.at[:, 1:].add(1)], dims="pad"
    )
    pad(np.zeros(5, "float32"), np.zeros((4, 6)))
    assert "scatter" not in pad.source


@BACKENDS
def test_special_values_behind_a_slice_do_not_reach_it(backend):
    part = x[:a]
    outputs = [
        gt.sum(part),
        gt.mean(part),
        gt.nn.softmax(part),
        *with_gradient(part, x),
    ]
    f = graphc.function([x, a], outputs, backend=backend, dims="pad")
    exact = graphc.function([x, a], outputs, backend="numpy")
    data = np.array([1, 2, np.nan, np.inf, -np.inf], "float32")
    for stop in (1, 2, 3, 4, 5):
        same(f(data, stop), exact(data, stop))


@BACKENDS
def test_attention_to_the_first_keys(backend):
    q, k, v = (gt.tensor(s, "float64", (f"{s}_n", 3)) for s in "qkv")
    v = gt.tensor("v", "float64", (k.shape[0], 3))
    out = gt.nn.softmax(q @ k[:a].T, -1) @ v[:a]
    inputs, outputs = [q, k, v, a], [out, *graphc.grad(gt.sum(out), [q, k, v])]
    f = graphc.function(inputs, outputs, backend=backend, dims="pad")
    exact = graphc.function(inputs, outputs, backend="numpy")
    assert not f.plan.padded.cuts and len(f.plan.segments) == 1
    rng = np.random.default_rng(0)
    for n in range(1, 13):
        given = [rng.normal(size=(i, 3)) for i in (4, 12, 12)]
        same(f(*given, n), exact(*given, n))
    assert len(f.stats().compilations) == (backend == "jax")


@BACKENDS
def test_a_slice_up_to_a_number_that_is_computed(backend):
    """The host reads nothing, since the slice is stored at its axis's size."""
    lengths = gt.tensor("lengths", "int64", ("p",))
    part = m.T[:, : gt.max(lengths)]
    inputs, outputs = [m, lengths], [gt.mean(part, 1), part * 2]
    f = graphc.function(inputs, outputs, backend=backend, dims="pad")
    exact = graphc.function(inputs, outputs, backend="numpy")
    for most in (1, 4, 9):
        given = np.ones((6, 3)), np.array([0, 1, most])
        same(f(*given), exact(*given))
    assert len(f.plan.segments) == 1


n, few = x.shape[0], gt.scalar("k", "int64")
COUNTED = {
    "an array of as many": x[:few] * gt.arange(few) + gt.ones(few),
    "a triangle": gt.tri(few, dtype="float64") @ x[:few],
    "a system": gt.linalg.solve(gt.eye(few) * 9 + gt.outer(x[:few], x[:few]), x[:few]),
    "a grid": x[0] * (gt.arange(few)[:, None] - gt.arange(few)),
    "windows": gt.max(x[gt.arange(n - few + 1)[:, None] + gt.arange(few)], 1),
    "pools": gt.mean(x[: n // few * few].reshape((-1, few)), 1),
    "put behind": gt.pad(x, (few, 1)),
    "shifted": x[few:] * x[: n - few],
}


@BACKENDS
@pytest.mark.parametrize("name", COUNTED)
def test_sizes_that_are_equal_or_have_capacities_of_their_own(name, backend):
    out = COUNTED[name]
    inputs, outputs = [x, few], with_gradient(out, x)
    f = graphc.function(inputs, outputs, backend=backend, dims="pad")
    exact = graphc.function(inputs, outputs, backend="numpy")
    numbers = np.random.default_rng(0).normal(size=9).astype("float32")
    for k in (1, 3, 5):
        same(f(numbers, k), exact(numbers, k))
    if backend == "jax":
        cut = name == "put behind"  # its gradient starts at a count
        assert cut or len(f.stats().compilations) == len(f.plan.segments) == 1
