"""One compiled call on examples of different sizes gives the results of a loop."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

BACKENDS = ["numpy", "jax"]
W = np.array([1, 2, -1], "float32")


def examples(*lengths, width=3):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, width)).astype("float32") for n in lengths]


def model():
    """Inputs, and outputs of various sizes or none."""
    x, w = gt.tensor("x", "float32", ("n", 3)), gt.tensor("w", "float32", (3,))
    logits = x @ w
    outputs = {
        "attention": gt.nn.softmax(x @ x.T, -1) @ x,
        "loss": gt.mean(gt.nn.softplus(logits)),
        "sorted": gt.sort(logits),
        "scaled": x / x.shape[0],
    }
    return x, w, outputs


def close(got, expected):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


PACKINGS = [("numpy", g, b) for g in (False, True) for b in (None, 1, 2, 9)]
PACKINGS += [("jax", False, None), ("jax", True, None)]
PACKINGS += [("jax", True, 2), ("jax", False, 9)]


@pytest.mark.parametrize(("backend", "group", "batch"), PACKINGS)
def test_as_a_loop_over_examples(backend, group, batch):
    x, w, outputs = model()
    packing = {"pad": graphc.Pad(minimum=4), "group": group, "batch": batch}
    f = graphc.ragged([x, w], outputs, shared=[w], backend=backend, **packing)
    exact = graphc.function([x, w], outputs, backend="numpy")
    given = examples(3, 1, 7, 5, 2)
    found = f(given, W)
    assert found.keys() == outputs.keys()
    for i, example in enumerate(given):
        for name, expected in exact(example, W).items():
            close(found[name][i], expected)


@pytest.mark.parametrize("group", [False, True])
def test_batches_are_compiled_for_capacities_of_examples_alone(group):
    x, w, _ = model()
    pad = graphc.Pad(minimum=4)
    packing = {"pad": pad, "batch": 3, "group": group}
    f = graphc.ragged([x, w], gt.nn.softmax(x @ w), shared=[w], **packing)
    rng = np.random.default_rng(1)
    for count in (0, 1, 2, 5, 9, 20):
        given = examples(*rng.integers(1, 17, count))
        for row, example in zip(f(given, W), given, strict=True):
            e = np.exp(example @ W - (example @ W).max())
            close(row, e / e.sum())
    taken = {pad.capacity(n) for n in range(1, 17)}
    assert len(f.function.stats().compilations) <= len(taken) == 3


def test_a_batch_has_examples():
    x, w, _ = model()
    with pytest.raises(graphc.GraphError) as caught:
        graphc.ragged([x, w], x @ w, shared=[w], batch=0)
    start = "ragged: batch must be an integer of at least 1\n  got: 0\n"
    assert str(caught.value).startswith(start)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("batch", [None, 2])
def test_gradients_add_up(backend, batch):
    x, w, outputs = model()
    slope = graphc.grad(outputs["loss"], w)
    options = {"total": True, "backend": backend, "batch": batch}
    f = graphc.ragged([x, w], slope, shared=[w], **options)
    exact = graphc.function([x, w], slope, backend="numpy")
    given = examples(3, 1, 7)
    close(f(given, W), sum(exact(example, W) for example in given))


def test_two_sizes_and_two_inputs():
    x = gt.tensor("x", "float32", ("n", "m"))
    y = gt.tensor("y", "float32", ("m",))
    f = graphc.ragged([x, y], (x @ y, gt.sum(x)), backend="numpy")
    rng = np.random.default_rng(0)
    a = [rng.normal(size=s).astype("float32") for s in [(2, 3), (4, 1), (1, 5)]]
    b = [rng.normal(size=s.shape[1]).astype("float32") for s in a]
    products, sums = f(a, b)
    for i in range(3):
        close(products[i], a[i] @ b[i])
        close(sums[i], a[i].sum())


def test_what_is_compiled_depends_on_capacities():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.ragged([x], gt.sum(x), pad=graphc.Pad(minimum=8))
    for lengths in [(3, 5), (8, 1), (2, 2)]:
        f([np.ones(n, "float32") for n in lengths])
    assert len(f.function.stats().compilations) == 1


def test_no_examples_and_empty_ones():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.ragged([x], [gt.sum(x), x * 2], backend="numpy")
    assert f([]) == [[], []]
    sums, doubled = f([np.zeros(0, "float32"), np.ones(2, "float32")])
    assert sums == [0, 2] and [len(d) for d in doubled] == [0, 2]


def test_rows_one_after_another():
    x = gt.tensor("x", "float32", ("n", 3))
    f = graphc.ragged([x], gt.sum(x, 0), backend="numpy")
    given = examples(3, 0, 2)
    rows = graphc.Rows(np.concatenate(given), [3, 0, 2])
    for a, b in zip(f(rows), f(given), strict=True):
        close(a, b)
    with pytest.raises(graphc.GraphError, match="the lengths do not add up"):
        f(graphc.Rows(np.concatenate(given), [3, 3]))


def test_lists_of_numbers():
    x = gt.tensor("x", "float32", ("n",))
    assert graphc.ragged([x], gt.sum(x), backend="numpy")([[1, 2], [3]]) == [3, 3]


@pytest.mark.parametrize("batch", [None, 2])
def test_a_number_of_each_example(batch):
    x, k = gt.tensor("x", "float32", ("n",)), gt.tensor("k", "float32", ())
    f = graphc.ragged([x, k], [k * gt.sum(x), x + k], backend="numpy", batch=batch)
    for numbers in ([1, 2, 3], np.array([1, 2, 3], "float32")):
        products, sums = f([np.ones(n, "float32") for n in (3, 0, 1)], numbers)
        assert products == [3, 0, 3]
        assert [s.tolist() for s in sums] == [[2, 2, 2], [], [4]]


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_results_as_long_as_an_integer_says(backend):
    """The integer belongs to each example, to all of them, or is computed."""
    x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    later, first = x[k:], gt.astype(x[0], "int32")
    f = graphc.ragged([x, k], [later, x[first:]], backend=backend)
    given = [np.arange(1, n + 1, dtype="float32") for n in (3, 2, 1)]
    parts, computed = f(given, [0, 1, 4])
    assert [p.tolist() for p in parts] == [[1, 2, 3], [2], []]
    assert [p.tolist() for p in computed] == [[2, 3], [2], []]
    f = graphc.ragged([x, k], [later, x[:k]], shared=[k], backend=backend, batch=2)
    parts, others = f(given, 1)
    assert [p.tolist() for p in parts] == [[2, 3], [2], []]
    assert [p.tolist() for p in others] == [[1], [1], [1]]


def refused(call, *parts):
    with pytest.raises(graphc.GraphError) as caught:
        call()
    text = str(caught.value)
    assert "test_ragged.py" in text
    for part in parts:
        assert part in text, text


def test_arguments_that_do_not_fit():
    x, y = gt.tensor("x", "float32", ("n", 3)), gt.tensor("y", "float32", ("n",))
    f = graphc.ragged([x, y], x.T @ y, backend="numpy")
    a, b = np.ones((2, 3), "float32"), np.ones(2, "float32")
    refused(lambda: f([a]), "wrong number of arguments", "expected: x, y")
    refused(lambda: f([a], [b, b]), "different numbers of examples", "got: 1, 2")
    refused(lambda: f([a, a], [b, b[:1]]), "sizes do not agree", "example 1 of y")
    refused(lambda: f([a[:, :2]], [b]), "sizes do not agree", "[n, 3] = (2, 3)")
    refused(lambda: f([a.astype("float64")], [b]), "an example of x has another type")
    refused(lambda: f([a], [np.float32(1)]), "got: float32[]")
    refused(lambda: f(3, [b]), "input x must be a list of examples", "got: int")


def test_graphs_that_cannot_be_ragged():
    x, w = gt.tensor("x", "float32", ("n",)), gt.tensor("w", "float32", ("n",))
    drawn = gt.random.permutation(gt.random.key(1), x[:, None], independent=True)
    refused(lambda: graphc.ragged([x], drawn), "permutation: ", "cannot be padded here")
    refused(
        lambda: graphc.ragged([x, w], x * w, shared=[w]),
        "the size n of a shared input differs between examples",
    )
    refused(lambda: graphc.ragged([x], x, total=True), "cannot be summed")
    refused(lambda: graphc.ragged([x], gt.sum(x), shared=[w]), "no input")
