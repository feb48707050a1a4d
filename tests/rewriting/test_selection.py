"""Rules that push selections towards inputs."""

import itertools

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewriting.rules.selection import SELECTION
from tests.rewriting.sides import (
    agree,
    arrays_of,
    before_after,
    made,
    rules_used,
    variables,
)

CHAIN = {"a": ("n", "k"), "b": ("k", "m")}
TABLE = {"a": ("n", "m")}
SIZES = [{"n": n, "m": m, "k": 2} for n, m in ((5, 4), (1, 3), (4, 1), (1, 1))]
EMPTY = [{"n": 0, "m": 3, "k": 2}, {"n": 2, "m": 0, "k": 2}, {"n": 2, "m": 3, "k": 0}]

# name: (rule, build, shapes)
CASES = {
    "row of a product": ("index_of_matmul", lambda a, b: (a @ b)[0], CHAIN),
    "rows of a product": ("index_of_matmul", lambda a, b: (a @ b)[1:3], CHAIN),
    "every other column": ("index_of_matmul", lambda a, b: (a @ b)[:, ::-2], CHAIN),
    "element of a product": ("index_of_matmul", lambda a, b: (a @ b)[-1, 0], CHAIN),
    "row of a product by a vector": (
        "index_of_matmul",
        lambda a, b: (a @ b)[0],
        {"a": ("n", "k"), "b": ("k",)},
    ),
    "column of a vector by a matrix": (
        "index_of_matmul",
        lambda a, b: (a @ b)[1:],
        {"a": ("k",), "b": ("k", "m")},
    ),
    "of a batch": (
        "index_of_matmul",
        lambda a, b: (a @ b)[0, :, 0],
        {"a": ("n", 3, "k"), "b": ("k", "m")},
    ),
    "row of a layer": (
        "index_of_matmul",
        lambda a, b, c: gt.tanh(a @ b + c)[0],
        CHAIN | {"c": ("m",)},
    ),
    "computed row": (
        "gather_of_matmul",
        lambda a, b, i: (a @ b)[i],
        CHAIN | {"i": ()},
    ),
    "computed row of a layer": (
        "gather_of_matmul",
        lambda a, b, c, i: gt.tanh(a @ b + c)[i],
        CHAIN | {"c": ("m",), "i": ()},
    ),
    "elementwise": ("index_of_elementwise", lambda a: gt.exp(a)[0], TABLE),
    "elementwise, a stretched operand": (
        "index_of_elementwise",
        lambda a, b: gt.tanh(a + b)[:2, 1:],
        {"a": ("n", "m"), "b": ("n", 1)},
    ),
    "elementwise, a stretched row": (
        "index_of_elementwise",
        lambda a, b: gt.maximum(a, b)[0, -1],
        {"a": ("n", "m"), "b": (1, "m")},
    ),
    "computed element": (
        "gather_of_elementwise",
        lambda a, b, i: (gt.exp(a) * b)[i],
        {"a": ("n", "m"), "b": (1, "m"), "i": ()},
    ),
    "new axes": ("index_new_axes", lambda a: a[None, 0, :, None], TABLE),
    "last in order": ("end_of_sort", lambda a: gt.sort(a)[-1], {"a": ("n",)}),
    "first in order": ("end_of_sort", lambda a: gt.sort(a, 0)[0], TABLE),
    "row in order, last": (
        "index_of_sort",
        lambda a: gt.sort(a, -1)[0, -1],
        TABLE,
    ),
    "last running sum": ("last_of_cumsum", lambda a: gt.cumsum(a)[-1], {"a": ("n",)}),
    "last running product": (
        "last_of_cumprod",
        lambda a: gt.cumprod(a, 1)[:, -1],
        TABLE,
    ),
    "running sum of a row": (
        "index_of_cumsum",
        lambda a: gt.cumsum(a, 1)[0, 1:],
        TABLE,
    ),
    "running sum of columns": (
        "index_of_cumsum",
        lambda a: gt.cumsum(a, 1)[:2, ::2],
        TABLE,
    ),
    "squeezed": (
        "squeeze_of_elementwise",
        lambda a: gt.squeeze(gt.exp(gt.sum(a, 0, keepdims=True)) + a[0], 0),
        TABLE,
    ),
    "squeezed at once": (
        "squeeze_of_max",
        lambda a: gt.squeeze(gt.max(a, 1, keepdims=True), 1),
        TABLE,
    ),
    "some of the new axes": (
        "squeeze_of_expanded",
        lambda a: gt.squeeze(gt.expand_dims(a, (0, 2)), 0),
        TABLE,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_selections_keep_their_values_at_all_sizes(case):
    """Positions that are out of bounds at some sizes remain errors."""
    rule, build, shapes = CASES[case]
    assert rule in rules_used(build, shapes)
    agree(build, shapes, [arrays_of(shapes, s) for s in SIZES + EMPTY])


def test_texts_before_and_after():
    shapes = CHAIN | {"c": ("m", "l")}
    before, after = before_after(lambda a, b, c: (a @ b @ c)[0], shapes)
    assert before == (
        "matmul: float32[n, m] = matmul(a, b)\n"
        "matmul_1: float32[n, l] = matmul(matmul, c)\n"
        "basic_index: float32[l] = basic_index(matmul_1; "
        'kinds="i", starts=(0,), stops=(None,), steps=(None,))'
    )
    assert after == (
        "basic_index: float32[k] = basic_index(a; "
        'kinds="i", starts=(0,), stops=(None,), steps=(None,))\n'
        "matmul: float32[m] = matmul(basic_index, b)\n"
        "matmul_1: float32[l] = matmul(matmul, c)"
    )
    _, after = before_after(lambda a: gt.sort(a)[-1], {"a": ("n",)})
    assert after == "max_1: float32[] = max(a; axes=(0,), keepdims=False)"
    _, after = before_after(lambda a: gt.argmax(gt.nn.softmax(a)), {"a": ("n",)})
    assert after == "argmax: int64[] = argmax(a; axis=0, keepdims=False)"


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int64"])
def test_ends_in_order_with_nan_and_infinities(place, dtype):
    special = [1, 0, 5, 5, 2]
    if dtype.startswith("float"):
        special = [np.inf, -np.inf, np.nan, 0.5, -2.0]
    threes = itertools.product(special, repeat=3)
    rows = np.array(list(threes), dtype)
    assert "end_of_sort" in rules_used(lambda a: gt.sort(a)[:, place], TABLE, dtype)
    agree(lambda a: gt.sort(a)[:, place], TABLE, [[rows]], rtol=0)


def test_argmax_of_softmax_is_that_of_its_input():
    def build(a):
        return gt.argmax(gt.nn.softmax(a, axis=1), axis=1)

    assert "argmax_of_increasing" in rules_used(build, TABLE)
    agree(build, TABLE, [[made((6, 5))], [made((3, 1))], [made((0, 2))]], rtol=0)


@pytest.mark.parametrize(
    "build",
    [
        lambda a: gt.argmax(gt.sin(a)),
        lambda a: gt.argmax(gt.exp(-a)),
        lambda a: gt.argmax(gt.exp(a) / a),
        lambda a: gt.argmax(gt.exp(a - a * a)),
    ],
)
def test_argmax_of_what_does_not_grow(build):
    vector = {"a": ("n",)}
    agree(build, vector, [[made((9,))], [-np.abs(made((9,)))]], rtol=0)


def test_what_is_used_twice_is_computed_once():
    def build(a, b):
        product = a @ b
        return product[0] + gt.sum(product * product)

    assert "index_of_matmul" not in rules_used(build, CHAIN)
    twice = lambda a: gt.exp(a)[1:] - gt.exp(a)[:-1]  # noqa: E731
    assert not rules_used(twice, {"a": ("n",)})


def test_more_places_than_there_are_stay_behind():
    """Otherwise, some elements of the product would be computed more than once."""
    shapes = CHAIN | {"i": ("many",)}
    assert not rules_used(lambda a, b, i: (a @ b)[i], shapes)
    fewer = {"a": (50, 3), "b": (3, 4), "i": (7,)}
    assert "gather_of_matmul" in rules_used(lambda a, b, i: (a @ b)[i], fewer)


def test_a_place_that_the_program_computes_stays_behind():
    """Nodes moved behind it would be compiled anew for each of its values."""
    a, i = variables({"a": ("n",), "i": ()}, "float64")
    f = graphc.function([a, i], gt.tanh(a)[: gt.sum(i)])
    assert not {r.rule.name for r in f.rewrites} & {"index_of_elementwise"}
    np.testing.assert_allclose(f(made((5,)), 3), np.tanh(made((5,))[:3]))


def test_running_results_out_of_bounds_stay_errors():
    x = gt.tensor("x", "float64", ("n",))
    f = graphc.function([x], gt.cumsum(x)[-1])
    assert "last_of_cumsum" in {r.rule.name for r in f.rewrites}
    with pytest.raises(graphc.GraphError, match="out of bounds"):
        f(np.zeros(0))


def test_gradients_of_selections():
    def build(a, b):
        return graphc.grad(gt.sum(gt.tanh(a @ b)[0] ** 2), a)

    agree(build, CHAIN, [arrays_of(CHAIN, s) for s in SIZES])


def test_every_rule_says_what_it_does():
    assert all(rule.doc for rule in SELECTION)
