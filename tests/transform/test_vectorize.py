"""The engine of vmap: axes, structures, messages, nesting and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.op import BATCHING, PRIMITIVES

A = np.arange(24.0).reshape(2, 3, 4) / 7 - 1


def tensor(name, *shape, dtype="float64"):
    return gt.tensor(name, dtype, shape)


def value(outputs, given):
    """The outputs on NumPy for a dict from inputs to arrays."""
    return graphc.function(list(given), outputs, backend="numpy")(*given.values())


def refusal(call):
    with pytest.raises(graphc.GraphError) as caught:
        call()
    lines = caught.value.args[0].splitlines()
    assert lines[-1].startswith("  at ") and "test_vectorize.py" in lines[-1]
    return "\n".join(lines[:-1])


def softmax(x):
    e = gt.exp(x - gt.max(x))
    return e / gt.sum(e)


def softmaxes(x, axis):
    """NumPy's softmaxes, along the axes that are left when one is mapped over."""
    moved = np.moveaxis(x, axis, 0)
    e = [np.exp(part - part.max()) for part in moved]
    return np.stack([part / part.sum() for part in e])


# Graphs.


def scaled(*shape):
    """A graph with two outputs, of which one uses a size in its own computation."""
    x, n = tensor("x", *shape), gt.scalar("n", "int64")
    outputs = [x / gt.sum(x) * n, gt.reshape(gt.stack([x, x]), (2 * x.shape[0],))]
    return Graph((x, n), tuple(outputs), ("x", "n"), ("", ""))


@pytest.mark.parametrize("size", ["rows", "other", 4])
def test_a_graph_is_the_function_of_its_inputs(size):
    xs, ns = tensor("xs", "batch", size), gt.vector("ns", "int64")
    found = value(graphc.vmap(scaled("rows"))(xs, ns), {xs: A[0], ns: np.arange(3)})
    totals = A[0].sum(1, keepdims=True)
    np.testing.assert_allclose(found[0], A[0] / totals * np.arange(3)[:, None])
    np.testing.assert_array_equal(found[1], np.tile(A[0], 2))


def test_a_graph_of_one_output_gives_it():
    x, xs = tensor("x", "k"), tensor("xs", 2, 3, 4)
    graph = Graph((x,), (gt.sum(x),), ("x",), ("",))
    mapped = graphc.vmap(graphc.vmap(graph, in_axes=1, out_axes=0))
    np.testing.assert_allclose(value(mapped(xs), {xs: A}), A.sum(1))


def test_what_does_not_fit_a_graph():
    mapped = graphc.vmap(scaled("rows"))
    assert refusal(lambda: mapped(tensor("xs", 2, 3))) == (
        "vmap: 1 arguments for a graph of 2 inputs\n  got: x, n"
    )
    assert refusal(lambda: mapped(tensor("xs", 2, 3, 4), gt.vector("ns", "int64"))) == (
        "vmap: an example does not fit the input x of the graph\n"
        "  got: float64[3, 4]\n  expected: float64[rows]"
    )


# The axis that is mapped.


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_axes_by_number(axis):
    x = tensor("x", 2, 3, 4)
    y = graphc.vmap(softmax, in_axes=axis)(x)
    found = value(y, {x: A})
    np.testing.assert_allclose(found, softmaxes(A, axis))
    assert y.type.shape == found.shape


def test_axes_by_name():
    x = tensor("x", "rows", "n", "columns")
    y = graphc.vmap(softmax, in_axes="n")(x)
    assert str(y.type) == "float64[n, rows, columns]"
    np.testing.assert_allclose(value(y, {x: A}), softmaxes(A, 1))


def test_a_name_must_be_that_of_one_axis():
    x = tensor("x", "n", "n")
    vmap = graphc.vmap(softmax, in_axes="n")
    assert refusal(lambda: vmap(x)) == (
        "vmap: 2 axes have the size 'n'\n  got: float64[n, n]\n"
        "  hint: name an axis by its size, or give its number, as in_axes=0"
    )
    absent = graphc.vmap(softmax, in_axes="m")
    assert "vmap: no axis has the size 'm'" in refusal(lambda: absent(x))


def test_an_axis_must_be_there():
    x = tensor("x", "n")
    for axis in (1, -2):
        text = refusal(lambda: graphc.vmap(gt.sin, in_axes=axis)(x))
        assert text.startswith("vmap: ") and "axis" in text
    for bad in (True, 1.0, {0}):
        assert "not an axis" in refusal(lambda: graphc.vmap(gt.sin, in_axes=bad)(x))


def test_none_gives_every_example_the_whole():
    x, w = tensor("x", "n", 3), tensor("w", 3)
    y = graphc.vmap(lambda row, w: gt.sum(row * w), in_axes=(0, None))(x, w)
    given = {x: A[0].T[:, :3].copy(), w: np.array([1.0, -2, 3])}
    np.testing.assert_allclose(value(y, given), given[x] @ given[w])


def test_something_must_be_mapped():
    x = tensor("x", 3)
    text = refusal(lambda: graphc.vmap(gt.sin, in_axes=None)(x))
    assert text == "vmap: no argument is mapped\n  hint: give an axis to one: in_axes=0"


def test_mapped_sizes_must_agree():
    x, y = tensor("x", 3), tensor("y", 4)
    assert refusal(lambda: graphc.vmap(gt.add)(x, y)) == (
        "vmap: mapped axes differ: 3 and 4\n  got: float64[3], float64[4]"
    )


def test_symbolic_sizes_are_checked_at_the_call():
    x, y = tensor("x", "n"), tensor("y", "m")
    z = graphc.vmap(gt.add)(x, y)
    f = graphc.function([x, y], z, backend="numpy")
    np.testing.assert_allclose(f(np.ones(3), np.ones(3)), [2, 2, 2])
    with pytest.raises(graphc.CallError, match="needs m == n; got 4 and 3"):
        f(np.ones(3), np.ones(4))


def test_numbers_are_the_same_for_all():
    x = tensor("x", "n")
    y = graphc.vmap(lambda a, b: a * b, in_axes=(0, None))(x, 3.0)
    np.testing.assert_allclose(value(y, {x: A[0, 0]}), A[0, 0] * 3)


# Structures.


def test_structures_share_an_axis_or_have_their_own():
    x, w, b = tensor("x", "n", 3), tensor("w", 3, "n"), tensor("b", "n")

    def model(row, parameters):
        return {"y": gt.sum(row * parameters["w"]), "b": [parameters["b"][0]]}

    parameters = {"w": w, "b": [b]}
    axes = (0, {"w": 1, "b": [0]})
    found = graphc.vmap(model, in_axes=axes)(x, parameters)
    one, other = A[0].T[:, :3].copy(), A[1][:3].copy()
    bias = np.arange(4.0)
    y, same = value([found["y"], found["b"][0]], {x: one, w: other, b: bias})
    np.testing.assert_allclose(y, np.sum(one * other.T, axis=1))
    np.testing.assert_array_equal(same, bias)

    shared = graphc.vmap(lambda d: d["a"] * d["b"][0])
    p = {"a": b, "b": [b + 1]}
    np.testing.assert_allclose(value(shared(p), {b: bias}), bias * (bias + 1))


@pytest.mark.parametrize("axes", [(0,), [0, 0, 0], {"a": 0}, (0, (0, 0))])
def test_axes_must_have_the_structure_of_the_arguments(axes):
    x = tensor("x", 3)
    vmap = graphc.vmap(lambda a, b: a + b["k"], in_axes=axes)
    text = refusal(lambda: vmap(x, {"k": x}))
    assert "vmap: in_axes does not have the structure of its values" in text


# The place of the new axis.


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_the_new_axis_of_outputs(axis):
    x = tensor("x", 2, 3, 4)
    y = graphc.vmap(gt.sin, out_axes=axis)(x)
    np.testing.assert_allclose(value(y, {x: A}), np.moveaxis(np.sin(A), 0, axis))


def test_out_axes_of_structures():
    x = tensor("x", 2, 3)
    axes = {"a": 1, "b": (0, None)}
    f = graphc.vmap(lambda r: {"a": r, "b": (gt.sum(r), gt.ones(2))}, out_axes=axes)
    found = f(x)
    assert found["a"].type.shape == (3, 2)
    assert found["b"][0].type.shape == found["b"][1].type.shape == (2,)


def test_outputs_that_are_the_same_for_all():
    x, y = tensor("x", "n"), tensor("y", 2)
    same = graphc.vmap(lambda a: y * 2)(x)
    assert str(same.type) == "float64[n, 2]"
    found = value(same, {x: np.zeros(3), y: np.ones(2)})
    np.testing.assert_array_equal(found, np.full((3, 2), 2.0))
    none = graphc.vmap(lambda a: y * 2, out_axes=None)(x)
    assert none.type.shape == (2,)
    text = refusal(lambda: graphc.vmap(gt.sin, out_axes=None)(x))
    assert "an output that differs between examples needs an axis" in text


# Errors.


def test_sizes_that_would_differ():
    x = tensor("x", "n", 3)
    text = refusal(lambda: graphc.vmap(lambda row: gt.sum(row[row > 0]))(x))
    assert text.startswith("vmap: the size count_nonzero would differ between examples")
    assert "hint: compute on the largest size and mask: gt.where(" in text
    k = tensor("k", "n", dtype="int64")
    text = refusal(lambda: graphc.vmap(lambda n: gt.sum(gt.arange(n)))(k))
    assert "would differ between examples" in text


def test_sizes_that_are_the_same_for_all():
    x, k = tensor("x", "n", 3), tensor("k", dtype="int64")
    y = graphc.vmap(lambda row, k: row[:k], in_axes=(0, None))(x, k)
    given = {x: A[0].T[:, :3].copy(), k: np.array(2)}
    np.testing.assert_array_equal(value(y, given), given[x][:, :2])


def test_ops_that_cannot_be_batched_are_named(monkeypatch):
    monkeypatch.setattr(PRIMITIVES["sin"], "elementwise", False)
    monkeypatch.setitem(BATCHING.reasons, PRIMITIVES["sin"], "a test forbids it")
    x = tensor("x", 3)
    text = refusal(lambda: graphc.vmap(lambda a: gt.sin(a) + 1)(x))
    assert text == "vmap: sin cannot be batched: a test forbids it\n  got: float64[3]"


def test_results_must_be_values_or_structures():
    x = tensor("x", 3)
    assert graphc.vmap(lambda a: [a, 2.0])(x)[1].type.shape == (3,)
    with pytest.raises((graphc.GraphError, TypeError)):
        graphc.vmap(lambda a: object())(x)


# Few examples.


@pytest.mark.parametrize("n", [0, 1])
def test_few_examples(n):
    x = tensor("x", "n", 3)
    found = value(graphc.vmap(softmax)(x), {x: A[0].T[:n, :3].copy()})
    assert found.shape == (n, 3)
    fixed = tensor("x", n, 3)
    assert graphc.vmap(softmax)(fixed).type.shape == (n, 3)


def test_a_batch_of_one_does_not_stretch():
    """A single example of a vector meets a vector that is the same for all."""
    x, y = tensor("x", 1), tensor("y", 3)
    z = graphc.vmap(lambda a: a + y)(x)
    assert z.type.shape == (1, 3)


# Nesting and derivatives.


def test_vmap_of_vmap():
    x, y = tensor("x", "n", 3), tensor("y", "m", 3)
    inner = graphc.vmap(lambda a, b: gt.sum((a - b) ** 2), in_axes=(None, 0))
    distances = graphc.vmap(inner, in_axes=(0, None))(x, y)
    assert str(distances.type) == "float64[n, m]"
    one, other = A[0].T[:, :3].copy(), A[1].T[:2, :3].copy()
    expected = ((one[:, None] - other[None]) ** 2).sum(-1)
    np.testing.assert_allclose(value(distances, {x: one, y: other}), expected)


def test_three_deep():
    x = tensor("x", 2, 3, 4)
    f = graphc.vmap(graphc.vmap(graphc.vmap(lambda a: a * a + 1)))
    np.testing.assert_allclose(value(f(x), {x: A}), A * A + 1)


def test_grad_of_vmap():
    x = tensor("x", "n", 3)
    cost = gt.sum(graphc.vmap(lambda r: gt.max(softmax(r)) ** 2)(x))
    at = A[0].T[:, :3].copy()
    found = value(graphc.grad(cost, x), {x: at})
    with jax.enable_x64(True):
        theirs = jax.grad(
            lambda x: jnp.sum(jax.vmap(lambda r: jnp.max(jax.nn.softmax(r)) ** 2)(x))
        )(at)
    np.testing.assert_allclose(found, theirs)


def test_vmap_of_grad():
    x, w = tensor("x", "n", 3), tensor("w", 3)

    def loss(w, row):
        return gt.sum(gt.tanh(row * w)) ** 2

    each = graphc.vmap(lambda w, row: graphc.grad(loss(w, row), w), in_axes=(None, 0))
    at, weights = A[0].T[:, :3].copy(), np.array([0.5, -1, 2])
    found = value(each(w, x), {w: weights, x: at})
    with jax.enable_x64(True):
        theirs = jax.vmap(
            jax.grad(lambda w, row: jnp.sum(jnp.tanh(row * w)) ** 2), in_axes=(None, 0)
        )(weights, at)
    np.testing.assert_allclose(found, theirs)


def test_values_from_outside_are_the_same_for_all():
    x, w = tensor("x", "n", 3), tensor("w", 3)
    scaled = w * 2
    y = graphc.vmap(lambda row: gt.sum(row * scaled))(x)
    at, weights = A[0].T[:, :3].copy(), np.array([0.5, -1, 2])
    np.testing.assert_allclose(value(y, {x: at, w: weights}), at @ (2 * weights))


def test_dtypes_and_constants_stay():
    x = tensor("x", "n", dtype="float16")
    y = graphc.vmap(lambda a: a * 2 + gt.zeros((), "float16"))(x)
    assert y.dtype == "float16"


def test_long_chains_need_no_recursion():
    x = tensor("x", 3)

    def chain(a):
        for _ in range(5000):
            a = gt.sin(a) * 1.01
        return a

    assert graphc.vmap(chain)(x).type.shape == (3,)


def test_it_keeps_the_name_of_the_function():
    assert graphc.vmap(softmax).__name__ == "softmax"
