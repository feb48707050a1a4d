"""Loops with several padded axes give the same results as at true sizes."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.transform.dirty import clean_function, dirty_function
from tests.transform.uncovered import NAME, REASON, uncovered

SIZES = [(3, 2, 4), (1, 1, 1), (5, 7, 2), (0, 3, 2), (4, 0, 3), (6, 9, 5)]
BACKENDS = ["numpy", "jax"]


def inputs():
    """Steps, examples and features, all of sizes that vary."""
    x = gt.tensor("x", "float64", ("t", "n", "m"))
    return x, gt.tensor("w", "float64", ("m", "m"))


def recurrent(x, w):
    def step(h, row):
        h = gt.tanh(h @ w + row)
        return h, gt.sum(h, axis=-1)

    last, sums = gt.scan(step, gt.zeros(x.shape[1:], "float64"), x)
    return [last, sums, gt.mean(sums**2)]


def backwards(x, w):
    def step(c, row):
        return c + gt.max(row, axis=0, initial=-9.0), gt.nn.softmax(row * c, axis=0)

    return list(gt.scan(step, gt.zeros(x.shape[2], "float64"), x, reverse=True))


def mixing(x, w):
    """A loop with contractions, orders and means over axes of its body."""

    def step(c, row):
        gram = row.T @ row
        c = c + gram / (1 + gt.mean(gt.abs(gram)))
        return c, (gt.sort(row, axis=0), gt.cumsum(row, axis=1), gt.var(row))

    last, stacked = gt.scan(step, gt.zeros_like(w), x)
    return [last, *stacked]


def nested(x, w):
    def step(c, row):
        inner, ys = gt.scan(lambda d, v: (d + v @ w, gt.sum(d * v)), c, row)
        return inner, ys

    return list(gt.scan(step, gt.zeros(x.shape[2], "float64"), x))


def growing(x, w):
    """A loop that computes with the number of examples."""

    def step(c, row):
        return c + row / x.shape[1], row[::-1]

    return list(gt.scan(step, gt.zeros(x.shape[1:], "float64"), x))


def chosen(x, w):
    """Branches, of which one reduces a padded axis."""
    total = gt.sum(x)
    centred = lambda: (x - gt.mean(x, axis=1, keepdims=True), gt.sum(w))  # noqa: E731
    picked = gt.cond(total > 0, centred, lambda: (x @ w, total))
    other = gt.switch(
        gt.astype(gt.abs(total), "int32") % 3,
        [lambda: gt.cumsum(x, axis=0), lambda: x[::-1], lambda: gt.nn.softmax(x, 0)],
    )
    return [*picked, other]


def iterated(x, w):
    """A loop that stops depending on its values, and one with three steps."""
    scale = lambda v: gt.sum(v**2) / (1 + gt.sum(gt.abs(x)))  # noqa: E731
    cooled = gt.while_loop(
        lambda s: scale(s[1]) > 0.5,
        lambda s: (s[0] + 1, s[1] * 0.7 + 0.1 * gt.mean(s[1], axis=1, keepdims=True)),
        (0, x),
        max_steps=50,
    )
    return [*cooled, gt.fori_loop(0, 3, lambda i, v: gt.tanh(v @ w) + i, x)]


WHOLE = (recurrent, backwards, mixing, nested, growing, chosen, iterated)
PROGRAMS = {p.__name__: p for p in WHOLE}


def arrays(t, n, m):
    rng = np.random.default_rng(t + 10 * n + 100 * m)
    return rng.normal(size=(t, n, m)), rng.normal(size=(m, m)) / 2


def close(found, expected):
    for got, wanted in zip(found, expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("make", [clean_function, dirty_function])
def test_several_axes(program, make):
    variables = inputs()
    outputs = program(*variables)
    f = make(list(variables), outputs, backend="numpy")
    exact = graphc.function(variables, outputs, backend="numpy", dims="specialize")
    assert not f.plan.padded.cuts and len(f.plan.padded.policies) == 3
    for sizes in SIZES:
        close(f(*arrays(*sizes)), exact(*arrays(*sizes)))


def gradients(outputs, wrt):
    parts = [gt.sum(y * gt.cos(1.3 + y)) for y in outputs]
    return graphc.grad(sum(parts[1:], parts[0]), wrt)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients(name, backend):
    variables = inputs()
    wrt = list(variables) if name in ("recurrent", "nested") else variables[:1]
    outputs = gradients(PROGRAMS[name](*variables), list(wrt))
    f = dirty_function(list(variables), outputs, backend=backend)
    exact = graphc.function(variables, outputs, backend="numpy", dims="specialize")
    assert not f.plan.padded.cuts
    sizes = SIZES if backend == "numpy" else SIZES[::3]
    for given in sizes:
        close(f(*arrays(*given)), exact(*arrays(*given)))


def test_an_op_without_a_rule_makes_the_loop_one_of_true_sizes():
    x, _ = inputs()
    y = gt.scan(lambda c, row: (c, uncovered(row[:, None])), 0.0, x)[1]
    f = graphc.function([x], y, dims="pad", backend="numpy")
    exact = graphc.function([x], y, dims="specialize", backend="numpy")
    (cut,) = f.plan.padded.cuts
    assert cut.node.primitive.name == "scan"
    assert cut.reason == f"{NAME} inside it: {REASON}"
    for sizes in SIZES[:3]:
        given, _ = arrays(*sizes)
        np.testing.assert_array_equal(f(given), exact(given))


@pytest.mark.parametrize("backend", BACKENDS)
def test_sequences_of_many_examples_are_compiled_for_capacities_alone(backend):
    x, w = gt.tensor("x", "float64", ("t", 3)), gt.tensor("w", "float64", (3, 3))
    start = gt.zeros(3, dtype="float64")
    loss = gt.sum(gt.scan(lambda h, r: 2 * (gt.tanh(h @ w + r),), start, x)[1])
    f = graphc.ragged(
        [x, w], graphc.value_and_grad(loss, w), shared=[w], total=True, batch=4,
        backend=backend, pad=graphc.Pad(minimum=8),
    )
    exact = graphc.function([x, w], graphc.value_and_grad(loss, w), backend="numpy")
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, 3))
    for lengths in ([3, 1, 7], [5], [8, 8, 2, 1, 4], [13, 0, 2, 16]):
        given = [rng.normal(size=(t, 3)) for t in lengths]
        each = [exact(one, weights) for one in given]
        close(f(given, weights), [sum(parts) for parts in zip(*each, strict=True)])
    assert len(f.function.plan.segments) == 1
    if backend == "jax":
        assert len(f.function.stats().compilations) == 2


NEEDS = {
    "index": lambda row: row[-1],
    "max": gt.max,
    "top_k": lambda row: gt.sum(gt.top_k(row, 1)[0]),
    "loop": lambda row: gt.scan(lambda c, x: (c + x * row[-1], c), gt.sum(row), row)[0],
    "branch": lambda row: gt.cond(row[0] > 2, lambda: row[-1], lambda: row[0]),
}


@pytest.mark.parametrize("dims", ["specialize", "pad", "bound"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("needs", NEEDS)
def test_sizes_that_steps_need_may_lack_where_there_is_no_step(needs, backend, dims):
    x = gt.tensor("x", "float64", ("n", "k"))
    step = NEEDS[needs]
    last, ys = gt.scan(lambda c, row: (c + step(row), c), gt.asarray(np.float64(7)), x)
    outputs = [last, ys, graphc.grad(last + gt.sum(ys), x)]
    f = graphc.function([x], outputs, backend=backend, dims=dims)
    expected = f(np.ones((3, 2)))
    for shape in [(0, 0), (0, 2)]:
        right_ones = [7, [], np.ones(shape)]
        for result, right in zip(f(np.ones(shape)), right_ones, strict=True):
            np.testing.assert_array_equal(result, right)
    with pytest.raises(graphc.CallError, match="needs 1 <= k"):
        f(np.ones((2, 0)))
    for result, right in zip(f(np.ones((3, 2))), expected, strict=True):
        np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_that_never_has_a_step_needs_no_size(backend):
    x = gt.tensor("x", "float64", (0, "k"))
    last, _ = gt.scan(lambda c, row: (c + row[-1], c), gt.asarray(np.float64(7)), x)
    f = graphc.function([x], last, backend=backend, dims="pad")
    assert [f(np.ones((0, k))) for k in (0, 3, 0)] == [7, 7, 7]


ROWS = gt.tensor("rows", "float64", ("m", "n"))
NEEDED = {
    "an element": lambda row: row[20],
    "a place": lambda row: gt.sum(row.at[20].set(2.0)),
    "several": lambda row: gt.sum(gt.take(row, gt.asarray([1, 20]))),
    "a slice": lambda row: gt.sum(row.at[15:20].set(gt.ones(5))),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NEEDED)
def test_what_steps_need_is_needed_where_there_is_a_step(name, backend):
    """Capacities have room for as many elements as steps need."""
    step = lambda c, row: (c + NEEDED[name](row), c)
    last, _ = gt.scan(step, gt.asarray(np.float64(7)), ROWS)
    f = graphc.function([ROWS], last, backend=backend, dims="pad")
    exact = graphc.function([ROWS], last, backend="numpy", dims="specialize")
    for m, n in [(0, 3), (2, 26), (0, 0), (3, 30), (0, 3)]:
        rows = np.arange(m * n).reshape(m, n) / 7
        np.testing.assert_allclose(f(rows), exact(rows), rtol=1e-6)
    with pytest.raises(graphc.CallError, match="needs"):
        f(np.ones((1, 3)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_size_outside_of_a_loop_is_not_stored_at_one_of_its_body(backend):
    """Both are equal, as is the size of a result of a branch, which links them."""
    x, v = (gt.tensor(name, "float64", (f"n_{name}",)) for name in "xv")
    y, z = gt.pad(x, 2, mode="reflect"), v[v > 0]

    def step(i, c):
        return c + gt.cond(i % 2 == 0, lambda: z[z > 0], lambda: v[v > 0.25])

    outputs = [y, gt.fori_loop(0, 3, step, z + y)]
    f = graphc.function([x, v], outputs, backend=backend, dims="pad")
    for n in (5, 30, 6):
        positive = np.arange(n + 4) + 0.5
        padded = np.pad(np.arange(n) + 1.0, 2, mode="reflect")
        results = f(np.arange(n) + 1.0, np.append(positive, -np.ones(n)))
        for result, right in zip(results, [padded, padded + 4 * positive], strict=True):
            np.testing.assert_array_equal(result, right)
