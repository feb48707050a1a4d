"""Rules whose pattern is an ordinary function."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewrites import check, default, none, p, v

FLOATS = ("float64", "float32")


@graphc.rewrite(lambda a: gt.log(gt.sum(gt.exp(a))), exact=False)
def stable(a):
    """log(sum(exp(a))), also where exp(a) overflows."""
    return gt.nn.logsumexp(a) if a.dtype.kind == "f" else None


@graphc.rewrite(
    lambda x, mask: gt.median(x[mask]),
    shapes={"x": ("n",), "mask": ("n",)},
    dtypes={"x": FLOATS, "mask": "bool"},
    exact=False,
    finite=True,
)
def median_of_selected(x, mask):
    """The median of the selected numbers, computed without asking for their count."""
    return gt.nanmedian(gt.where(mask, x, float("nan")))


def fires(rule, build, *variables, rewrites=none):
    """The number of times the rule applies to what `build` makes of variables."""
    inputs = [gt.tensor(*variable) for variable in variables]
    y, rules = build(*inputs), rewrites + rule
    f = graphc.function(inputs, y, backend="numpy", rewrites=rules)
    return [a.rule.name for a in f.rewrites].count(rule.name)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), ("n",), ("n", 0), (2, "n", 3, "m")])
def test_a_function_fits_all_ranks_sizes_and_dtypes(shape, dtype):
    x = ("x", dtype, shape)
    assert fires(stable, lambda x: gt.log(gt.sum(gt.exp(x))), x) == 1
    assert fires(stable, lambda x: gt.log(gt.sum(gt.sin(x))), x) == 0


def test_what_is_behind_a_placeholder_does_not_matter():
    def build(x, y):
        return gt.log(gt.sum(gt.exp(gt.sin(x @ y)[:, 0] * 2)))

    matrix = ("float32", ("n", "n"))
    assert fires(stable, build, ("x", *matrix), ("y", *matrix)) == 1


def test_params_are_those_that_the_function_gives():
    @graphc.rewrite(lambda a: gt.sum(gt.exp(a), axis=-1), exact=True)
    def rule(a):
        return gt.sum(gt.sin(a), axis=-1)

    cube = ("x", "float32", (2, 3, 4))
    for axis, expected in ((-1, 1), (2, 1), (1, 0), (None, 0), ((1, 2), 0)):
        assert fires(rule, lambda x, a=axis: gt.sum(gt.exp(x), a), cube) == expected


def test_bodies_are_those_that_the_function_gives():
    def running(factor):
        def totals(a):
            step = lambda carry, row: (carry * factor + row, carry)
            return gt.scan(step, gt.zeros((), "float64"), a)[0]

        return totals

    @graphc.rewrite(
        running(0.5), shapes={"a": ("n",)}, dtypes={"a": "float64"}, exact=False
    )
    def rule(a):
        return gt.sum(a)

    row = ("x", "float64", ("m",))
    assert fires(rule, running(0.5), row) == 1
    assert fires(rule, running(0.25), row) == 0


def test_constants_are_those_that_the_function_gives():
    @graphc.rewrite(lambda a: gt.mean(gt.square(a)), exact=False)
    def rule(a):
        return gt.mean(gt.abs(a))

    for shape in ((3,), ("n", 2)):
        square = ("x", "float32", shape)
        assert fires(rule, lambda x: gt.mean(gt.square(x)), square) == 1
        assert fires(rule, lambda x: gt.sum(gt.square(x)) / x.size, square) == 1
        assert fires(rule, lambda x: gt.sum(gt.square(x)) / 17, square) == 0


def test_a_placeholder_stands_for_one_value():
    @graphc.rewrite(lambda a, b: (a - b) / (a + b), exact=False)
    def rule(a, b):
        return 1 - 2 * b / (a + b)

    x, y, z = (("xyz"[i], "float64", ("n",)) for i in range(3))
    assert fires(rule, lambda x, y: (x - y) / (x + y), x, y) == 1
    assert fires(rule, lambda x, y: (x - y) / (y + x), x, y) == 1
    assert fires(rule, lambda x, y: (y - x) / (x + y), x, y) == 1
    assert fires(rule, lambda x, y, z: (x - y) / (x + z), x, y, z) == 0


def test_constants_are_matched_by_value():
    @graphc.rewrite(lambda a: gt.exp(a) + 0.5, exact=True)
    def rule(a):
        return gt.sin(a)

    x = ("x", "float64", (3,))
    assert fires(rule, lambda x: gt.exp(x) + 0.5, x) == 1
    assert fires(rule, lambda x: np.full(3, 0.5) + gt.exp(x), x) == 1
    assert fires(rule, lambda x: gt.exp(x) + 0.25, x) == 0
    assert fires(rule, lambda x: gt.exp(x) + np.array([0.5, 0.5, 1]), x) == 0
    assert fires(rule, lambda x: gt.exp(x[0]) + np.full(3, 0.5), x) == 0

    @graphc.rewrite(lambda a: a + -0.0, exact=True)
    def zero(a):
        return a

    assert fires(zero, lambda x: x + -0.0, x) == 1
    assert fires(zero, lambda x: x + 0.0, x) == 0


def test_mixed_dtypes_and_ranks_are_found():
    @graphc.rewrite(lambda c, a: gt.where(c, gt.exp(a), 0), exact=True)
    def rule(c, a):
        return gt.sin(a) if a.ndim == c.ndim else None

    mask, x = ("c", "bool", ("n",)), ("x", "float32", ("n",))
    assert fires(rule, lambda c, x: gt.where(c, gt.exp(x), 0), mask, x) == 1
    matrix = ("x", "float32", (4, "n"))
    assert fires(rule, lambda c, x: gt.where(c, gt.exp(x), 0), mask, matrix) == 0

    @graphc.rewrite(lambda m, b: gt.exp(m @ b), exact=True)
    def product(m, b):
        return gt.sin(m @ b)

    for shape in (("n",), ("n", 2)):
        pair = ("m", "float32", (3, "n")), ("b", "float32", shape)
        assert fires(product, lambda m, b: gt.exp(m @ b), *pair) == 1


def test_what_is_stated_must_hold():
    @graphc.rewrite(
        lambda a, b: gt.exp(a @ b),
        shapes={"a": ("n", 3), "b": (3, None)},
        dtypes={"a": FLOATS},
        exact=True,
    )
    def rule(a, b):
        return gt.sin(a @ b)

    def tried(a, b, dtype="float32"):
        pair = ("a", dtype, a), ("b", "float32", b)
        return fires(rule, lambda a, b: gt.exp(a @ b), *pair)

    assert tried(("n", 3), (3, 5)) == tried((1, 3), (3, "m"), "float64") == 1
    assert tried(("n", "k"), ("k", 2)) == tried(("n", 3), (3,)) == 0
    assert tried((2, 3), (3, 5), "complex64") == 0


def test_names_of_sizes_agree():
    @graphc.rewrite(lambda a: gt.exp(a.T), shapes={"a": ("n", "n")}, exact=True)
    def rule(a):
        return gt.sin(a)

    def tried(*shape):
        return fires(rule, lambda a: gt.exp(a.T), ("a", "float32", shape))

    assert tried(3, 3) == tried("k", "k") == 1
    assert tried(2, 3) == tried("k", "l") == 0


def test_the_replacement_may_refuse():
    @graphc.rewrite(lambda a: gt.exp(a), exact=True)
    def rule(a):
        assert a.dtype == "float32"

    assert fires(rule, gt.exp, ("x", "float32", ())) == 0


def test_once_asks_that_nothing_else_uses_what_is_inside():
    def rule(once):
        pattern = graphc.rewrite(lambda a: gt.log(gt.exp(a)), exact=False, once=once)
        return pattern(lambda a: a)

    def shared(x):
        return gt.log(gt.exp(x)) + gt.exp(x)

    x = ("x", "float32", ())
    assert fires(rule(False), shared, x) == 1
    assert fires(rule(True), shared, x) == 0
    assert fires(rule(True), lambda x: gt.log(gt.exp(x)) + x, x) == 1

    @graphc.rewrite(lambda a: gt.exp(a) / (1 + gt.exp(a)), exact=False, once=True)
    def inner_uses_are_no_others(a):
        return gt.special.expit(a)

    used = inner_uses_are_no_others
    assert fires(used, lambda x: gt.exp(x) / (gt.exp(x) + 1), x) == 1


def test_compositions_are_found_before_other_rules_change_them():
    def build(x, mask):
        return gt.median(x[mask])

    inputs = ("x", "float32", ("n",)), ("mask", "bool", ("n",))
    for rewrites in (none, default):
        assert fires(median_of_selected, build, *inputs, rewrites=rewrites) == 1


def test_a_rule_changes_values_plan_and_explanation():
    x = gt.tensor("x", "float32", ("n",))
    mask = gt.tensor("mask", "bool", ("n",))
    middle = gt.median(x[mask])
    before = graphc.function([x, mask], middle)
    after = graphc.function([x, mask], middle, rewrites=default + median_of_selected)
    assert len(before.plan.segments) == 2 and len(before.plan.glue) == 1
    assert len(after.plan.segments) == 1 and not after.plan.glue
    assert "test_traced.py" in after.explain(full=True).split("rewritten before:")[1]
    assert ": median_of_selected" in after.explain(full=True)
    for keep in ([1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]):
        arguments = np.array([3, 1, 9, -4], "float32"), np.array(keep, bool)
        np.testing.assert_array_equal(after(*arguments), before(*arguments))


def test_sets_take_it_as_any_other():
    rules = default + stable - "log_of_sum_of_exp"
    assert "stable" in rules and "stable" not in rules - stable
    assert stable.ops == ("log",)


def test_gradients_see_it():
    x = gt.tensor("x", "float64", (3,))
    slope = graphc.grad(gt.log(gt.sum(gt.exp(x))), x)
    outputs = [gt.log(gt.sum(gt.exp(x))), slope]
    f = graphc.function([x], outputs, backend="numpy", rewrites=none + stable)
    assert f(np.full(3, 1000.0))[0] == 1000 + np.log(3)


@pytest.mark.parametrize("rule", [stable, median_of_selected], ids=lambda r: r.name)
def test_check_tries_it(rule):
    report = check(rule, examples=6)
    assert report.values >= 6 and report.gradients


def test_check_finds_a_wrong_one():
    @graphc.rewrite(lambda a: gt.square(a * 0), exact=True)
    def zero(a):
        return 0 * a

    with pytest.raises(graphc.GraphError, match="changes the value, bit for bit"):
        check(zero, dtypes=["float64"])


def test_check_tries_what_is_stated():
    @graphc.rewrite(lambda a, b: gt.sum(a @ b), shapes={"a": (2, 3)}, exact=True)
    def wrong(a, b):
        return gt.sum(a) * gt.sum(b)

    with pytest.raises(graphc.GraphError) as caught:
        check(wrong, dtypes=["float64"])
    assert "the rule wrong changes the value" in str(caught.value)
    assert " float64[2, 3], x1 = " in str(caught.value)


def test_another_type_is_an_error():
    @graphc.rewrite(lambda a: gt.exp(a), exact=True)
    def first(a):
        return a[0]

    with pytest.raises(graphc.GraphError, match="the rule first returns another type"):
        fires(first, gt.exp, ("x", "float32", (3,)))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (lambda a: a.missing, "no attribute 'missing'"),
        (lambda a: gt.lgo(a), "AttributeError"),
        (lambda a: a, "must compute something of its placeholders"),
        (lambda a: gt.zeros(3), "must compute something of its placeholders"),
        (lambda a, b: gt.exp(a), "the value of the placeholder b is not used"),
        (lambda a: (a + 1, a + 2), "must return one value\n"),
        (lambda a: 3, "must return one value"),
        (lambda *a: gt.exp(a[0]), "a function that takes its placeholders"),
        (lambda: gt.zeros(3), "a function that takes its placeholders"),
    ],
)
def test_patterns_that_are_none(pattern, message):
    with pytest.raises(graphc.GraphError) as caught:
        graphc.rewrite(pattern, exact=True)(lambda a: a)
    text = str(caught.value)
    assert text.startswith("rewrite: ") and message.strip() in text, text
    assert "test_traced.py:" in text


def test_names_that_are_unknown():
    with pytest.raises(graphc.GraphError, match="the pattern of rule has no b"):

        @graphc.rewrite(lambda a: gt.exp(a), exact=True)
        def rule(a, b):
            return b

    with pytest.raises(graphc.GraphError, match="there is no placeholder 'b'"):
        graphc.rewrite(lambda a: gt.exp(a), exact=True, shapes={"b": (3,)})


def test_a_pattern_of_ops_states_no_types():
    with pytest.raises(graphc.GraphError, match="for patterns that are functions"):
        graphc.rewrite(p.exp(v.x), exact=True, once=True)
