"""Matrix products with fewer multiplications, and look-ups replaced by counts."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewriting.rules.contraction import CONTRACTION
from graphc.rewriting.rules.lookup import LOOKUP
from tests.rewriting.sides import (
    agree,
    arrays_of,
    before_after,
    rules_used,
    variables,
)

SIZES = [{"n": n, "m": m, "k": 2} for n, m in ((5, 4), (1, 3), (4, 1), (1, 1))]
EMPTY = [{"n": 0, "m": 3, "k": 2}, {"n": 2, "m": 0, "k": 2}, {"n": 2, "m": 3, "k": 0}]
VECTORS = {"a": ("n",), "b": ("m",)}
SQUARE = {"a": ("n", "n"), "b": ("n", "m")}

# name: (rule, build, shapes)
CASES = {
    "product by a vector": (
        "matmul_right_first",
        lambda a, b, c: a @ b @ c,
        {"a": ("n", "k"), "b": ("k", "m"), "c": ("m",)},
    ),
    "vector by a product": (
        "matmul_left_first",
        lambda a, b, c: c @ (a @ b),
        {"a": ("n", "k"), "b": ("k", "m"), "c": ("n",)},
    ),
    "skinny chain": (
        "matmul_right_first",
        lambda a, b, c: a @ b @ c,
        {"a": (30, 2), "b": (2, 30), "c": (30, 3)},
    ),
    "wide chain": (
        "matmul_left_first",
        lambda a, b, c: a @ (b @ c),
        {"a": (2, 30), "b": (30, 4), "c": (4, 30)},
    ),
    "outer product by a vector": (
        "scaled_rows_by",
        lambda a, b, c: gt.outer(a, b) @ c,
        VECTORS | {"c": ("m",)},
    ),
    "vector by an outer product": (
        "by_scaled_columns",
        lambda a, b, c: c @ gt.outer(a, b),
        VECTORS | {"c": ("n",)},
    ),
    "rows scaled": (
        "scaled_rows_by",
        lambda a, b, c: (a[:, None] * b) @ c,
        {"a": ("n",), "b": ("n", "m"), "c": ("m",)},
    ),
    "columns scaled": (
        "by_scaled_columns",
        lambda a, b, c: c @ (b * a),
        {"a": ("m",), "b": ("n", "m"), "c": ("n",)},
    ),
    "all scaled": (
        "scaled_rows_by",
        lambda a, b: (3.0 * a) @ b,
        {"a": ("n", "m"), "b": ("m",)},
    ),
    "diagonal": (
        "diagonal_by",
        lambda a, b: gt.diag(a) @ b,
        {"a": ("n",), "b": ("n", "m")},
    ),
    "diagonal by a vector": (
        "diagonal_by",
        lambda a, b: gt.diag(a) @ b,
        {"a": ("n",), "b": ("n",)},
    ),
    "by a diagonal": (
        "by_diagonal",
        lambda a, b: b @ gt.diag(a),
        {"a": ("m",), "b": ("n", "m")},
    ),
    "identity": (
        "identity_by",
        lambda a: gt.eye(a.shape[0], dtype=a.dtype) @ a + a,
        {"a": ("n", "m")},
    ),
    "by an identity": (
        "by_identity",
        lambda a: a @ gt.eye(a.shape[1], dtype=a.dtype),
        {"a": ("n", "m")},
    ),
    "Kronecker product by a vector": (
        "kron_by",
        lambda a, b, c: gt.kron(a, b) @ c,
        {"a": (3, 2), "b": (4, 5), "c": (10,)},
    ),
    "Kronecker product by a matrix": (
        "kron_by",
        lambda a, b, c: gt.kron(a, b) @ c,
        {"a": (3, 2), "b": (4, 5), "c": (10, "m")},
    ),
    "quadratic forms": (
        "row_by_column",
        lambda a, b: graphc.vmap(lambda x: x @ b @ x)(a),
        {"a": ("n", 3), "b": (3, 3)},
    ),
    "trace of a product": (
        "diagonal_of_matmul",
        lambda a, b: gt.trace(a @ b),
        {"a": ("n", "k"), "b": ("k", "m")},
    ),
    "diagonal of a product": (
        "diagonal_of_matmul",
        lambda a, b: gt.diagonal(a @ b),
        {"a": ("n", "k"), "b": ("k", "n")},
    ),
    "inverse": (
        "inverse_by",
        lambda a, b: gt.linalg.inv(a + 9 * gt.eye(4)) @ b,
        {"a": (4, 4), "b": (4, "m")},
    ),
    "by an inverse": (
        "by_inverse",
        lambda a, b: b @ gt.linalg.inv(a + 9 * gt.eye(4)),
        {"a": (4, 4), "b": ("m", 4)},
    ),
    "sum of outer products": (
        "sum_of_outer_rows",
        lambda a, b: gt.sum(a[:, :, None] * b[:, None, :], 0),
        {"a": ("k", "n"), "b": ("k", "m")},
    ),
    "sum of a product with weights": (
        "sum_of_weighted_product",
        lambda w, a, b: (w @ b) * gt.sum(-w * (a @ b.T) / 3, 1, keepdims=True),
        {"w": ("n", "k"), "a": ("n", 2), "b": ("k", 2)},
    ),
    "sum of products with weights, in a batch": (
        "sum_of_weighted_product",
        lambda w, a, b: (
            gt.sum(w @ b, -1)
            * gt.sum((a @ gt.swapaxes(b, 1, 2)) * (a[..., :1] * w), -1)
        ),
        {"w": (2, "n", "k"), "a": (2, "n", 2), "b": (2, "k", 2)},
    ),
    "sum of outer products, turned": (
        "sum_of_outer",
        lambda a, b: gt.sum(a[None, :, :] * b[:, None, :], 2),
        {"a": ("n", "k"), "b": ("m", "k")},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_products_keep_their_values_at_all_sizes(case):
    rule, build, shapes = CASES[case]
    assert rule in rules_used(build, shapes)
    agree(build, shapes, [arrays_of(shapes, s) for s in SIZES + EMPTY])


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int64"])
@pytest.mark.parametrize(
    "case", ["product by a vector", "diagonal", "identity", "trace of a product"]
)
def test_products_of_every_wide_dtype(case, dtype):
    rule, build, shapes = CASES[case]
    assert rule in rules_used(build, shapes, dtype)
    agree(build, shapes, [arrays_of(shapes, s, dtype) for s in SIZES], rtol=1e-5)


def test_chains_that_are_cheap_as_written_are_left_alone():
    shapes = {"a": (2, 30), "b": (30, 30), "c": (30, 30)}
    assert not rules_used(lambda a, b, c: a @ b @ c, shapes)
    unknown = {"a": ("n", "k"), "b": ("k", "m"), "c": ("m", "l")}
    assert not rules_used(lambda a, b, c: a @ b @ c, unknown)
    assert not rules_used(lambda a, b, c: a @ (b @ c), unknown)


def test_a_product_that_is_wanted_itself_is_left_alone():
    def build(a, b, c):
        product = a @ b
        return product @ c + gt.sum(product)

    shapes = {"a": ("n", "k"), "b": ("k", "m"), "c": ("m",)}
    assert not rules_used(build, shapes)


def test_a_sum_comes_with_a_product_that_is_a_result():
    def build(w, a, b, also_product):
        product = w * (a @ b.T)
        total = (w @ b) * gt.sum(product, 1)[:, None]
        return [total, product] if also_product else total

    shapes = {"w": ("n", "k"), "a": ("n", 2), "b": ("k", 2)}
    inputs = [gt.tensor(name, "float32", shape) for name, shape in shapes.items()]
    for also_product in (False, True):
        f = graphc.function(inputs, build(*inputs, also_product))
        names = [a.rule.name for a in f.rewrites]
        assert ("sum_of_weighted_product" in names) is not also_product


def test_what_only_looks_like_a_diagonal():
    shifted = lambda a, b: gt.diag(a, 1) @ b  # noqa: E731
    shapes = {"a": (3,), "b": (4, 2)}
    assert "diagonal_by" not in rules_used(shifted, shapes)
    off = lambda a: gt.eye(4, k=1, dtype=a.dtype) @ a  # noqa: E731
    assert "identity_by" not in rules_used(off, {"a": (4, 2)})


def test_texts_before_and_after():
    _, after = before_after(lambda a, b: gt.trace(a @ b), SQUARE | {"b": ("n", "n")})
    assert after == (
        "transpose: float32[n, n] = transpose(b; axes=(1, 0))\n"
        "multiply: float32[n, n] = multiply(a, transpose)\n"
        "sum: float32[] = sum(multiply; axes=(0, 1), keepdims=False)"
    )
    shapes = {"a": ("n",), "b": ("n", "m")}
    before, after = before_after(lambda a, b: gt.diag(a) @ b, shapes)
    assert "scatter" in before
    assert after == (
        "expand_dims: float32[n, 1] = expand_dims(a; axes=(1,))\n"
        "multiply: float32[n, m] = multiply(expand_dims, b)"
    )


def test_sizes_that_do_not_fit_stay_errors():
    a, b = variables({"a": ("n",), "b": ("m", 2)}, "float64")
    f = graphc.function([a, b], gt.eye(a.shape[0]) @ b + a[0])
    assert "identity_by" in {r.rule.name for r in f.rewrites}
    assert f(np.ones(3), np.ones((3, 2))).shape == (3, 2)
    with pytest.raises(graphc.GraphError):
        f(np.ones(4), np.ones((3, 2)))


TABLE = {"table": (5, 8), "i": (70,)}
WEIGHTED = {"w": (70,), **TABLE}
IDS = {"i": (70,), "x": (70, 3)}


def hot(i, dtype):
    return gt.nn.one_hot(i, 9, dtype=dtype)


def picked(x, i):
    """One element of each row."""
    return gt.take_along_axis(x, i[:, None], 1)


LOOKUPS = {
    "sum of rows": ("sum_of_rows", lambda table, i: gt.sum(table[i], 0), TABLE),
    "weighted sum of rows": (
        "sum_of_weighted_rows",
        lambda w, table, i: gt.sum(w[:, None] * table[i], 0),
        WEIGHTED,
    ),
    "sum within rows": (
        "sum_within_rows",
        lambda table, i: gt.sum(table[i], 1),
        TABLE,
    ),
    "sum of all": ("sum_within_rows", lambda table, i: gt.sum(table[i]), TABLE),
    "rows by a matrix": (
        "rows_by",
        lambda table, i, w: table[i] @ w,
        TABLE | {"w": (8, 3)},
    ),
    "one-hot, transposed": (
        "one_hot_transposed_by_row",
        lambda i, x: hot(i, x.dtype).T @ x,
        IDS,
    ),
    "one-hot": (
        "one_hot_by_row",
        lambda i, x: hot(i, x.dtype) @ x,
        {"i": (40,), "x": (9, 3)},
    ),
    "one-hot by a vector": (
        "one_hot_by_row",
        lambda i, x: hot(i, x.dtype) @ x,
        {"i": (40,), "x": (9,)},
    ),
    "one-hot as written": (
        "one_hot_transposed_by",
        lambda i, x: (i[:, None] == gt.arange(9)).astype(x.dtype).T @ x,
        IDS,
    ),
    "gradient of picked elements": (
        "sum_of_written_2",
        lambda i, x: gt.sum(graphc.grad(gt.sum(picked(x, i) ** 2), x), 1),
        {"i": (40,), "x": (40, 9)},
    ),
    "one-hot, summed": (
        "one_hot_transposed_by_row",
        lambda i, x: gt.sum(hot(i, x.dtype)[:, :, None] * x[:, None, :], 0),
        IDS,
    ),
}


@pytest.mark.parametrize("case", LOOKUPS)
def test_lookups_keep_their_values(case):
    """As before, numbers beyond a table are clamped and belong to no segment."""
    rule, build, shapes = LOOKUPS[case]
    assert rule in rules_used(build, shapes, "float64")
    given = arrays_of(shapes, {})
    places = list(shapes).index("i")
    arrays = [given]
    for change in (lambda i: i - 12, lambda i: 7 - i, lambda i: i * 0):
        arrays.append([a if at != places else change(a) for at, a in enumerate(given)])
    agree(build, shapes, arrays)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_rows_that_are_not_looked_up_count_for_nothing(backend):
    table, i = variables(TABLE, "float64")
    f = graphc.function([table, i], gt.sum(table[i], 0), backend=backend)
    assert "sum_of_rows" in {r.rule.name for r in f.rewrites}
    rows = np.ones((5, 8))
    rows[3], rows[4] = np.nan, np.inf
    np.testing.assert_array_equal(f(rows, np.arange(70) % 3), np.full(8, 70.0))
    np.testing.assert_array_equal(f(rows, np.full(70, 4)), np.full(8, np.inf))


def test_out_of_bounds_is_still_found_when_asked_for():
    table, i = variables(TABLE, "float64")
    f = graphc.function([table, i], gt.sum(table[i], 0), check=True)
    assert "sum_of_rows" in {r.rule.name for r in f.rewrites}
    f(np.ones((5, 8)), np.arange(70) % 5)
    with pytest.raises(graphc.GraphError):
        f(np.ones((5, 8)), np.arange(70))


def test_few_lookups_in_a_large_table_are_made_as_written():
    large = {"table": (50, 8), "i": (40,)}
    assert not rules_used(lambda table, i: gt.sum(table[i], 0), large)
    assert not rules_used(lambda table, i: gt.sum(table[i], 1), large)
    thin = {"table": (5, 2), "i": (40,)}
    assert not rules_used(lambda table, i: gt.sum(table[i], 0), thin)
    assert not rules_used(lambda table, i, w: table[i] @ w, large | {"w": (8, 3)})


@pytest.mark.parametrize(("count", "counted"), [(56, False), (64, True), ("n", True)])
def test_few_rows_are_added_up_as_written(count, counted):
    """A count takes half a loop step, as long as 64 rows of 8 elements do."""
    shapes = {"i": (count,), "x": (count,)}
    build = LOOKUPS["one-hot as written"][1]
    assert ("one_hot_transposed_by" in rules_used(build, shapes)) is counted
    if count != "n":
        looked_up = {"table": (5, 8), "i": (count,)}
        found = rules_used(lambda table, i: gt.sum(table[i], 0), looked_up)
        assert ("sum_of_rows" in found) is counted


def test_gradients_of_products():
    def build(a, b, c):
        return graphc.grad(gt.sum(gt.tanh(gt.diag(c) @ a @ b)), a)

    shapes = {"a": ("n", "k"), "b": ("k",), "c": ("n",)}
    agree(build, shapes, [arrays_of(shapes, s) for s in SIZES])


def test_every_rule_says_what_it_does():
    assert all(rule.doc for rule in CONTRACTION + LOOKUP)


def test_copies_of_a_number_are_no_factor_of_a_product():
    """The gradient of a sum of outer products multiplies by no matrix of ones."""
    x = gt.tensor("x", "float32", (3, "n"))
    y = gt.sum(gt.sum(x[:, :, None] * x[:, None], 0))
    source = graphc.function([x], graphc.grad(y, x)).source
    assert "matmul" not in source and "tensordot" not in source
