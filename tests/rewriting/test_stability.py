"""Forms that stay accurate where the forms as written do not."""

import numpy as np
import pytest
import scipy.special

import graphc
import graphc.tensor as gt
from graphc.rewrites import none
from graphc.rewriting.rules.stability import STABILITY
from tests.rewriting.sides import agree, before_after, made, rules_used

VECTOR = {"x": ("n",)}
TABLE = {"x": ("n", "m")}


def _softmax(x):
    return gt.exp(x) / gt.sum(gt.exp(x), 1, keepdims=True)


# name: (rule, as written, accurate, points where the written form is wrong)
CASES = {
    "log(1 + x)": (
        "log_one_plus",
        lambda x: gt.log(1 + x),
        np.log1p,
        [1e-12, -1e-12, 3e-17],
    ),
    "log(1 - x)": (
        "log_one_minus",
        lambda x: gt.log(1 - x),
        lambda x: np.log1p(-x),
        [1e-12, -3e-17],
    ),
    "exp(x) - 1": (
        "exp_minus_one",
        lambda x: gt.exp(x) - 1,
        np.expm1,
        [1e-12, -3e-17],
    ),
    "log(sigmoid(x))": (
        "log_of_sigmoid",
        lambda x: gt.log(gt.nn.sigmoid(x)),
        scipy.special.log_expit,
        [-800.0, -1e5, 40.0],
    ),
    "softplus": (
        "log_one_plus_exp",
        lambda x: gt.log(1 + gt.exp(x)),
        lambda x: np.logaddexp(x, 0),
        [800.0, 1e5, -40.0],
    ),
    "1 - sigmoid(x)": (
        "one_minus_sigmoid",
        lambda x: 1 - gt.nn.sigmoid(x),
        lambda x: scipy.special.expit(-x),
        [40.0, 100.0],
    ),
}
ROWS = {
    "log(sum(exp(x)))": (
        "log_of_sum_of_exp",
        lambda x: gt.log(gt.sum(gt.exp(x), 1)),
        lambda x: scipy.special.logsumexp(x, 1),
    ),
    "softmax": ("written_softmax", _softmax, lambda x: scipy.special.softmax(x, 1)),
    "log(softmax(x))": (
        "log_of_softmax",
        lambda x: gt.log(gt.nn.softmax(x, axis=1)),
        lambda x: scipy.special.log_softmax(x, 1),
    ),
    "log of a written softmax": (
        "log_of_softmax",
        lambda x: gt.log(_softmax(x)),
        lambda x: scipy.special.log_softmax(x, 1),
    ),
}


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("case", CASES)
def test_forms_are_accurate_where_the_written_ones_are_not(case, backend):
    rule, build, accurate, points = CASES[case]
    x = gt.vector("x", dtype="float64")
    f = graphc.function([x], build(x), backend=backend)
    assert rule in {r.rule.name for r in f.rewrites}
    given = np.array(points)
    np.testing.assert_allclose(f(given), accurate(given), rtol=1e-12)
    written = graphc.function([x], build(x), backend=backend, rewrites=none)
    with np.errstate(all="ignore"):
        assert not np.allclose(written(given), accurate(given), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_forms_agree_where_the_written_ones_are_accurate(case, dtype):
    rule, build, _, _ = CASES[case]
    widened = dtype == "float16" and "sigmoid" in case  # computed in float32
    assert (rule in rules_used(build, VECTOR, dtype)) is not widened
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype)
    tame = (made((6,)) * 0.4 + 0.5).clip(0.3, 0.9).astype(dtype)
    rtol = 4e-3 if dtype == "float16" else 1e-6
    agree(build, VECTOR, [[tame], [special], [special[:0]]], rtol=rtol)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("case", ROWS)
def test_rows_do_not_overflow(case, backend):
    rule, build, accurate = ROWS[case]
    x = gt.matrix("x", dtype="float64")
    f = graphc.function([x], build(x), backend=backend)
    assert rule in {r.rule.name for r in f.rewrites}
    given = np.array([[800.0, 801, 790], [-900, -901, -1e4], [0.1, 0.2, 3e3]])
    np.testing.assert_allclose(f(given), accurate(given), rtol=1e-12)


@pytest.mark.parametrize("case", ROWS)
def test_rows_agree_where_the_written_forms_are_accurate(case):
    _, build, _ = ROWS[case]
    agree(build, TABLE, [[made((3, 4))], [made((2, 1))], [made((0, 3))]], rtol=1e-12)


def test_stable_forms_are_left_alone():
    for form in (gt.nn.softmax, gt.nn.log_softmax, gt.nn.logsumexp):
        used = rules_used(
            lambda x, form=form: (
                form(x, axis=1, keepdims=True)
                if form is gt.nn.logsumexp
                else form(x, axis=1)
            ),
            TABLE,
        )
        assert not used & {rule.name for rule in STABILITY}, used

    def by_hand(x):
        peak = gt.max(x, 1, keepdims=True)
        return gt.log(gt.sum(gt.exp(x - peak), 1, keepdims=True)) + peak

    assert not rules_used(by_hand, TABLE) & {rule.name for rule in STABILITY}


def test_what_else_is_used_is_kept():
    def build(x):
        e = gt.exp(x)
        return (e - 1) * e

    assert not rules_used(build, VECTOR)


def test_ones_that_stretch_a_number_are_left_alone():
    ones = np.ones((2, 3))
    for build in (
        lambda x: gt.log(ones + x),
        lambda x: gt.log(ones - x),
        lambda x: gt.exp(x) - ones,
        lambda x: ones - gt.nn.sigmoid(x),
    ):
        agree(build, {"x": ()}, [[np.array(0.25)]], rtol=1e-12)


def test_complex_numbers_and_integers_are_left_alone():
    build = lambda x: gt.log(1 + x)  # noqa: E731
    assert "log_one_plus" not in rules_used(build, VECTOR, "complex64")


def test_texts_before_and_after():
    before, after = before_after(lambda x: gt.log(1 + x), VECTOR)
    assert before.splitlines()[1:] == [
        "add: float32[n] = add(constant, x)",
        "log: float32[n] = log(add)",
    ]
    assert after == "log1p: float32[n] = log1p(x)"


def test_every_rule_says_what_it_does():
    assert all(rule.doc and not rule.exact for rule in STABILITY)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softplus_at_its_ends(dtype):
    x = gt.tensor("x", dtype, ("n",))
    y = gt.logaddexp(x, 0)
    outputs = [y, graphc.grad(gt.sum(y), x)]
    f = graphc.function([x], outputs, backend="numpy")
    ends = np.array([-np.inf, -1e4, -80, -1, -0.0, 0, 1e-30, 90, np.inf, np.nan], dtype)
    expected = np.logaddexp(ends, 0), scipy.special.expit(ends)
    for found, wanted in zip(f(ends), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert "log_add_exp_of_zero" in [a.rule.name for a in f.rewrites]


def test_a_softplus_that_is_written_safely_stays():
    z = gt.tensor("z", "float64", ("n",))
    y = gt.maximum(z, 0) + gt.log1p(gt.exp(-gt.absolute(z)))
    assert graphc.function([z], y, backend="numpy").rewrites == ()
