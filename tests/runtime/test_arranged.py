"""Inputs in lists, tuples and dicts, and JAX keys as arguments."""

import copy
import pickle

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

w = gt.tensor("w", "float32", (3,))
b = gt.scalar("b")
x = gt.tensor("x", "float32", ("n", 3))
k = gt.iscalar("k")
both = pytest.mark.parametrize("backend", ["jax", "numpy"])
PARAMS = {"w": np.array([1, 2, 3], "float32"), "b": np.float32(0.5)}
X = np.arange(12, dtype="float32").reshape(4, 3)
EXPECTED = X @ PARAMS["w"] + PARAMS["b"]


def model(inputs=None, outputs=None, **options):
    inputs = [{"w": w, "b": b}, x] if inputs is None else inputs
    outputs = x @ w + b if outputs is None else outputs
    return graphc.function(inputs, outputs, **options)


@both
@pytest.mark.parametrize("dims", ["auto", "specialize", "pad"])
def test_calls_give_the_structure_that_was_declared(backend, dims):
    f = model(backend=backend, dims=dims)
    for n in (4, 3, 4, 2, 4, 4):
        np.testing.assert_allclose(f(PARAMS, X[:n]), EXPECTED[:n], rtol=1e-6)
        turned = dict(reversed(PARAMS.items()))
        on_device = jax.tree.map(jax.numpy.asarray, turned), jax.numpy.asarray(X[:n])
        np.testing.assert_allclose(f(*on_device), EXPECTED[:n], rtol=1e-6)
    assert f.stats().calls == 12


@both
def test_structures_nest_and_have_names(backend):
    inputs = {"model": {"layers": [(w, b)], "more": ()}, "x": x}
    f = model(inputs, backend=backend)
    tree = {"layers": [(PARAMS["w"], PARAMS["b"])], "more": ()}
    np.testing.assert_allclose(f(x=X, model=tree), EXPECTED, rtol=1e-6)
    np.testing.assert_allclose(f(tree, X), EXPECTED, rtol=1e-6)
    np.testing.assert_allclose(f(tree, x=X), EXPECTED, rtol=1e-6)


def test_gradients_have_the_structure_too():
    params = {"w": w, "b": b}
    loss = gt.sum((x @ w + b) ** 2)
    f = graphc.function([params, x], graphc.grad(loss, params))
    slopes = f(PARAMS, X)
    expected = jax.grad(lambda p: ((X @ p["w"] + p["b"]) ** 2).sum())(PARAMS)
    for name, slope in expected.items():
        np.testing.assert_allclose(slopes[name], slope, rtol=1e-5)


@pytest.mark.parametrize("again", [copy.copy, lambda f: pickle.loads(pickle.dumps(f))])
def test_copies_take_the_structure(again):
    f = again(model(backend="numpy"))
    np.testing.assert_allclose(f(PARAMS, X), EXPECTED, rtol=1e-6)


def test_integers_within_a_structure_are_sizes_and_files_take_them_in_order(tmp_path):
    f = graphc.function([{"x": x, "k": k}], x[:k])
    np.testing.assert_array_equal(f({"x": X, "k": 2}), X[:2])
    np.testing.assert_array_equal(f({"x": X, "k": 3}), X[:3])
    f.export(tmp_path / "first.model", {"n": [4], "k": [2]})
    np.testing.assert_array_equal(graphc.load(tmp_path / "first.model")(X, 2), X[:2])


@pytest.mark.parametrize(
    ("args", "named", "told", "kind"),
    [
        (({"w": 1}, X), {}, "input number 0 has another structure", "argument"),
        (([1, 2], X), {}, "expected: a dict with the keys 'w', 'b'", "argument"),
        ((PARAMS,), {}, "call: missing input: x", "missing"),
        ((PARAMS, X, X), {}, "call: 3 arguments for 2 inputs", "unexpected"),
        ((PARAMS, X), {"x": X}, "call: input 'x' is given twice", "unexpected"),
        ((PARAMS,), {"y": X}, "call: there is no input called 'y'", "unexpected"),
        (({"w": X, "b": 1}, X), {}, "input w has 2 axes, not 1", "shape"),
    ],
)
def test_other_structures_are_refused(args, named, told, kind):
    with pytest.raises(graphc.CallError) as caught:
        model(backend="numpy")(*args, **named)
    assert told in str(caught.value) and caught.value.kind == kind
    assert f"at {__file__}:" in str(caught.value)


def test_what_cannot_be_declared_is_refused():
    with pytest.raises(graphc.GraphError, match="inputs must be variables"):
        model([{"w": 3}, x])
    with pytest.raises(graphc.GraphError, match="cannot have a default"):
        model([{"w": w}, graphc.Input(b, 1.0), x])
    with pytest.raises(graphc.GraphError, match="is given twice"):
        model([{"w": w, "b": b}, w, x])
    y = gt.tensor("y", "float32", ("m?",))
    with pytest.raises(graphc.GraphError, match="not supported in structures"):
        graphc.function([{"y": y}], y + gt.ones(3))


@both
def test_keys_of_jax_are_taken_as_they_are(backend):
    words = gt.tensor("key", "uint32", (2,))
    f = graphc.function([words, x], x + gt.random.normal(words, (3,)), backend=backend)
    key = jax.random.key(7)
    expected = X + jax.random.normal(key, (3,))
    for _ in range(3):
        np.testing.assert_allclose(f(key, X), expected, rtol=1e-6)
        np.testing.assert_allclose(f(jax.random.key_data(key), X), expected, rtol=1e-6)
    if backend == "jax":
        np.testing.assert_allclose(jax.jit(f)(key, X), expected, rtol=1e-6)
