"""Copies and pickles of compiled functions compile anew, from the same graph."""

import copy
import pickle

import cloudpickle
import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

x = gt.tensor("x", "float32", ("n", 3))
k = gt.tensor("k", "int64", ())
X = np.arange(12, dtype="float32").reshape(4, 3)
TABLE = np.linspace(0, 1, 3000, dtype="float32").reshape(1000, 3)

WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda f: pickle.loads(pickle.dumps(f)),
    "cloudpickle": lambda f: cloudpickle.loads(cloudpickle.dumps(f)),
}


def steps(carry, row):
    return carry + row, carry * row


BUILDERS = {
    "one": lambda **told: graphc.function([x], gt.tanh(x) @ x.T, **told),
    "structure": lambda **told: graphc.function(
        {"rows": x, "k": graphc.Input(k, default=2)},
        {"first": x[:k], "all": [gt.sum(x, 0), k]},
        **told,
    ),
    "constants": lambda **told: graphc.function([x], x + gt.sum(TABLE, 0), **told),
    "loop": lambda **told: graphc.function(
        [x], gt.scan(steps, gt.zeros(3), x)[1], **told
    ),
    "counts": lambda **told: graphc.function([x], x[x[:, 0] > 3], **told),
}
OPTIONS = {
    "numpy": {"backend": "numpy"},
    "padded": {"dims": {x.shape[0]: graphc.Pad(buckets=[8])}},
    "rules": {"rewrites": graphc.rewrites.default - "double_negative", "check": True},
    "device": {"device": "cpu", "casting": "exact"},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", OPTIONS)
def test_they_give_what_the_function_gives(options, way):
    for name in BUILDERS if options == "numpy" else ("one",):
        f = BUILDERS[name](**OPTIONS[options])
        wanted = f(X)
        g = WAYS[way](f)
        assert g is not f and g.stats().calls == 0
        jax.tree.map(np.testing.assert_array_equal, g(X), wanted)
        assert f.stats().calls == 1 and g.stats().calls == 1
        assert "pickle" in way or g.source == f.source


def test_defaults_and_names_are_kept():
    f = BUILDERS["structure"](backend="numpy")
    g = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(g(rows=X, k=3)["first"], X[:3])
    np.testing.assert_array_equal(g(X)["first"], X[:2])


def test_a_device_of_this_process_is_known_by_its_platform():
    f = graphc.function([x], 2 * x, device=jax.devices("cpu")[0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(X), 2 * X)


def test_what_has_no_text_says_so():
    graph = graphc.from_jax(
        lambda x: jax.pure_callback(np.sin, jax.typeof(x), x), X
    )
    f = graphc.function(list(graph.inputs), graph.outputs[0])
    with pytest.raises(graphc.GraphError, match="holds a function, and has no") as told:
        pickle.dumps(f)
    assert "hint: pickle what builds the function" in str(told.value)
    np.testing.assert_allclose(copy.copy(f)(X), np.sin(X), rtol=1e-6)


def test_axes_that_may_be_one():
    b = gt.tensor("b", "float32", ("b?",))
    f = graphc.function([b, x], x[:, 0] * b, backend="numpy")
    for way in WAYS.values():
        g = way(f)
        np.testing.assert_array_equal(g(np.float32([2]), X), 2 * X[:, 0])
        np.testing.assert_array_equal(g(X[:, 1], X), X[:, 0] * X[:, 1])


def test_examples():
    f = graphc.ragged([x], gt.sum(x, 0), backend="numpy")
    for way in (copy.copy, copy.deepcopy):
        g = way(f)
        np.testing.assert_array_equal(g([X, X[:2]])[1], X[:2].sum(0))
        assert f.function.stats().calls == 0
