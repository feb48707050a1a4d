"""Rules that push reductions towards inputs."""

import itertools

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewriting.default import DEFAULT
from graphc.rewriting.rules.reduction import REDUCTION
from tests.rewriting.sides import (
    agree,
    arrays_of,
    before_after,
    made,
    rules_used,
    variables,
)

VECTORS = {"a": ("n",), "b": ("m",)}
MATRICES = {"a": ("n", "k"), "b": ("k", "m")}
SIZES = [{"n": n, "m": m, "k": 3} for n, m in ((5, 4), (1, 3), (4, 1), (1, 1))]
EMPTY = [{"n": 0, "m": 3, "k": 2}, {"n": 2, "m": 0, "k": 2}, {"n": 2, "m": 3, "k": 0}]

# name: (rule, build, shapes)
SUMS = {
    "outer": ("sum_of_multiply", lambda a, b: gt.sum(gt.outer(a, b)), VECTORS),
    "scaled": ("sum_of_multiply", lambda a: gt.sum(gt.exp(a) * 3.0), {"a": ("n",)}),
    "divided": (
        "sum_of_true_divide",
        lambda a: gt.sum(a / 3.0, keepdims=True),
        {"a": ("n", "m")},
    ),
    "both axes and one": (
        "sum_of_multiply",
        lambda a, b: gt.sum(a[:, None] * b[None], (0, 2)),
        {"a": ("n", "k"), "b": ("m", "k")},
    ),
    "sums of pairs": ("sum_of_add", lambda a, b: gt.sum(a[:, None] + b), VECTORS),
    "kept": (
        "sum_of_add",
        lambda a, b: gt.sum(a[:, None] + b, 0, keepdims=True),
        VECTORS,
    ),
    "differences": ("sum_of_subtract", lambda a, b: gt.sum(a[:, None] - b, 1), VECTORS),
    "squares": (
        "sum_of_square",
        lambda a, b: gt.sum(gt.square(a[:, None] - b)),
        VECTORS,
    ),
    "powers": ("sum_of_power", lambda a, b: gt.sum((a[:, None] - b) ** 2), VECTORS),
    "squares of rows": (
        "sum_of_square",
        lambda a, b: gt.sum(gt.square(a[:, None] - b), (0, 1)),
        {"a": ("n", "k"), "b": ("m", "k")},
    ),
    "negative": ("sum_of_negative", lambda a: gt.sum(-a, 0), {"a": ("n", "m")}),
    "broadcast": (
        "sum_of_broadcast",
        lambda a: gt.sum(gt.broadcast_to(a[:, None], (a.shape[0], 7))),
        {"a": ("n",)},
    ),
    "one stretched axis": (
        "sum_of_broadcast",
        lambda a: gt.sum(gt.broadcast_to(a, (7, 3, a.shape[0])), 0),
        {"a": ("n",)},
    ),
    "expanded": ("sum_of_expanded", lambda a: gt.sum(a[:, None], 0), {"a": ("n", "m")}),
    "transposed": (
        "sum_of_transposed",
        lambda a: gt.sum(gt.transpose(a, (2, 0, 1)), 1),
        {"a": ("n", "m", 2)},
    ),
    "transposed, kept": (
        "sum_of_transposed",
        lambda a: gt.sum(gt.transpose(a, (2, 0, 1)), (0, 2), keepdims=True),
        {"a": ("n", "m", 2)},
    ),
    "reshaped": (
        "sum_of_all_reshaped",
        lambda a: gt.sum(gt.reshape(a, (-1,))),
        {"a": ("n", "m")},
    ),
    "sum of a sum": (
        "sum_of_sum",
        lambda a: gt.sum(gt.sum(a, 1)),
        {"a": ("n", "m", 2)},
    ),
    "matmul": ("sum_of_matmul", lambda a, b: gt.sum(a @ b), MATRICES),
    "matmul, rows": ("sum_of_matmul", lambda a, b: gt.sum(a @ b, 0), MATRICES),
    "matmul, columns": (
        "sum_of_matmul",
        lambda a, b: gt.sum(a @ b, -1, keepdims=True),
        MATRICES,
    ),
    "matmul, batch of one factor": (
        "sum_of_matmul",
        lambda a, b: gt.sum(a @ b, 0),
        {"a": (4, "n", "k"), "b": ("k", "m")},
    ),
    "matmul, batch of both": (
        "sum_of_matmul",
        lambda a, b: gt.sum(a @ b, (0, 1)),
        {"a": (4, "n", "k"), "b": (4, "k", "m")},
    ),
    "layer": (
        "sum_of_matmul",
        lambda a, b, c: gt.mean(a @ b + c, 0),
        MATRICES | {"c": ("m",)},
    ),
    "cumsum": ("sum_of_cumsum", lambda a: gt.sum(gt.cumsum(a)), {"a": ("n",)}),
    "cumsum of rows": (
        "sum_of_cumsum",
        lambda a: gt.sum(gt.cumsum(a, 0), (0, 1)),
        {"a": ("n", "m")},
    ),
    "cumsum, backwards": (
        "sum_of_cumsum",
        lambda a: graphc.grad(gt.sum(gt.cumsum(a) * 2.0), a),
        {"a": ("n",)},
    ),
}


@pytest.mark.parametrize("case", SUMS)
def test_sums_keep_their_values_at_all_sizes(case):
    rule, build, shapes = SUMS[case]
    rules = DEFAULT + REDUCTION  # some are not on by default
    used = rules_used(build, shapes, rules=rules)
    assert rule in used or "backwards" in case, used
    empty = [s for s in EMPTY if set(s) & {n for v in shapes.values() for n in v}]
    arrays = [arrays_of(shapes, s) for s in SIZES + empty]
    agree(build, shapes, arrays, rtol=1e-9, rules=rules)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint64"])
@pytest.mark.parametrize(
    "case", ["outer", "sums of pairs", "matmul", "cumsum", "broadcast"]
)
def test_sums_of_every_wide_dtype(case, dtype):
    rule, build, shapes = SUMS[case]
    assert rule in rules_used(build, shapes, dtype)
    agree(build, shapes, [arrays_of(shapes, s, dtype) for s in SIZES], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", ["outer", "sums of pairs", "matmul", "broadcast"])
def test_half_precision_is_left_alone(case, dtype):
    rule, build, shapes = SUMS[case]
    assert rule not in rules_used(build, shapes, dtype)


def test_a_sum_that_is_wanted_in_parts_is_left_alone():
    def build(a, b):
        product = a @ b
        return gt.sum(product) * product

    assert "sum_of_matmul" not in rules_used(build, MATRICES)


def test_texts_before_and_after():
    before, after = before_after(lambda a, b: gt.sum(a @ b), MATRICES)
    assert before == (
        "matmul: float32[n, m] = matmul(a, b)\n"
        "sum: float32[] = sum(matmul; axes=(0, 1), keepdims=False)"
    )
    assert after == (
        "sum: float32[k] = sum(a; axes=(0,), keepdims=False)\n"
        "sum_1: float32[k] = sum(b; axes=(1,), keepdims=False)\n"
        "matmul: float32[] = matmul(sum, sum_1)"
    )
    _, after = before_after(lambda a, b: gt.sum(gt.outer(a, b)), VECTORS)
    assert after == (
        "sum: float32[] = sum(a; axes=(0,), keepdims=False)\n"
        "sum_1: float32[] = sum(b; axes=(0,), keepdims=False)\n"
        "multiply: float32[] = multiply(sum, sum_1)"
    )
    before, after = before_after(lambda a: gt.prod(gt.tanh(a), 0), {"a": ("n",)})
    assert before == after  # no rule is about products


def test_guards_of_what_goes_away_stay():
    a, b = variables(VECTORS, "float64")
    y = gt.sum(gt.broadcast_to(a, (3, b.shape[0])))
    f = graphc.function([a, b], y)
    assert "sum_of_broadcast" in {r.rule.name for r in f.rewrites}
    assert float(f(np.ones(4), np.ones(4))) == 12
    with pytest.raises(graphc.GraphError, match="cannot broadcast"):
        f(np.ones(4), np.ones(5))


def test_squared_differences_do_not_cancel():
    """Numbers far from zero but close together: naive expansion gets no digit right."""
    a, b = 1e6 + made((300,), seed=1), 1e6 + made((200,), seed=2)
    single = [a.astype("float32"), b.astype("float32")]
    x, y = variables(VECTORS, "float32")
    f = graphc.function([x, y], gt.sum((x[:, None] - y) ** 2), rewrites=REDUCTION)
    assert "sum_of_power" in {r.rule.name for r in f.rewrites}
    exact = ((single[0].astype("float64")[:, None] - single[1]) ** 2).sum()
    np.testing.assert_allclose(f(*single), exact, rtol=1e-5)


EXTREMES = {
    f"{name} of {sign}": (
        lambda a, b, name=name, s=s: getattr(gt, name)(
            a[:, None] + b if s > 0 else a[:, None] - b
        )
    )
    for name in ("max", "min")
    for sign, s in (("sums", 1), ("differences", -1))
}
EXTREMES["log-sum-exp"] = lambda a, b: gt.nn.logsumexp(a[:, None] + b)
EXTREMES["log-sum-exp, kept"] = lambda a, b: gt.nn.logsumexp(
    a[:, None] + b, keepdims=True
)
EXTREMES["log-sum-exp as written"] = lambda a, b: gt.log(gt.sum(gt.exp(a[:, None] + b)))


@pytest.mark.parametrize("case", EXTREMES)
def test_extremes_of_pairs_keep_nan_and_infinities(case):
    build = EXTREMES[case]
    used = rules_used(build, VECTORS, "float64")
    assert any("_of_add" in r or "_of_subtract" in r or "of_sum" in r for r in used)
    special = [np.inf, -np.inf, np.nan, 0.5, -2.0]
    pairs = itertools.combinations_with_replacement(special, 2)
    vectors = [np.array(pair) for pair in pairs] + [np.array([1.0])]
    every = [list(pair) for pair in itertools.product(vectors, repeat=2)]
    agree(build, VECTORS, every, rtol=1e-12)


@pytest.mark.parametrize("case", ["log-sum-exp", "log-sum-exp, kept"])
def test_log_sum_exp_of_pairs_of_known_sizes(case):
    shapes = {"a": (3,), "b": (2,)}
    used = rules_used(EXTREMES[case], shapes)
    assert any(name.startswith("logsumexp_of_sum") for name in used)
    agree(EXTREMES[case], shapes, [arrays_of(shapes, {})], rtol=1e-12)


@pytest.mark.parametrize("case", ["log-sum-exp", "log-sum-exp, kept"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_log_sum_exp_of_no_pairs_knows_nothing_of_the_other_side(case, number):
    some, none = np.array([number, 1.0]), np.zeros(0)
    agree(EXTREMES[case], VECTORS, [[some, none], [none, some], [none, none]])


@pytest.mark.parametrize("case", ["max of sums", "min of differences"])
def test_extremes_of_nothing_stay_errors(case):
    agree(
        EXTREMES[case], VECTORS, [[np.zeros(0), np.ones(2)], [np.ones(2), np.zeros(0)]]
    )


def test_extremes_over_one_of_two_axes_are_left_alone():
    """There, a check for infinities would cost as much as the rule gains."""
    build = lambda a, b: gt.max(a[:, None] + b, 0)  # noqa: E731
    assert "max_of_add" not in rules_used(build, VECTORS)


@pytest.mark.parametrize(
    "function", ["exp", "expm1", "tanh", "arctan", "floor", "cbrt"]
)
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_functions_that_grow(function, name):
    def build(a):
        return getattr(gt, name)(getattr(gt, function)(a), 1)

    shapes = {"a": ("n", "m")}
    assert f"{name}_of_{function}" in rules_used(build, shapes)
    special = np.array([[np.inf, 0.5], [-np.inf, -np.inf], [np.nan, 1.0], [-0.0, 0.0]])
    agree(build, shapes, [[special], [made((3, 4))], [made((2, 0))], [made((0, 2))]])


def test_gradients_see_rules_and_keep_their_values():
    def build(a, b):
        return graphc.grad(gt.sum(gt.tanh(gt.mean(a @ b, 0))), a)

    assert "sum_of_matmul" in rules_used(build, MATRICES)
    agree(build, MATRICES, [arrays_of(MATRICES, s) for s in SIZES])
    a, b = variables(MATRICES, "float64")
    f = graphc.function([a, b], build(a, b))
    given = arrays_of(MATRICES, SIZES[0])
    slope = (1 - np.tanh((given[0] @ given[1]).mean(0)) ** 2) / len(given[0])
    want = np.broadcast_to(given[1] @ slope, given[0].shape)
    np.testing.assert_allclose(f(*given), want, rtol=1e-12)


def test_every_rule_says_what_it_does():
    assert all(rule.doc for rule in REDUCTION)
    assert not any(rule.exact for rule in REDUCTION)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("dims", ["specialize", "pad"])
def test_rows_that_are_all_alike_need_no_tiles(backend, dims):
    x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    part = x[:k]
    gradient = graphc.grad((part[:, None] * part).sum(0).sum(), x)  # of a broadcast 1
    f = graphc.function([x, k], gradient, backend=backend, dims=dims)
    for n, count in ((6, 3), (300, 200), (4, 0), (1, 1)):
        array = np.linspace(-1, 1, n, dtype="float32")
        expected = np.where(np.arange(n) < count, 2 * array[:count].sum(), 0)
        np.testing.assert_allclose(f(array, count), expected, rtol=1e-3, atol=1e-3)
