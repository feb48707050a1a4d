"""Every rule keeps values, types and gradients, and the check finds wrong rules."""

import os

import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import GPU
from graphc.checking import check as checking
from graphc.checking.graphs import FUNCTIONS
from graphc.ir.graph.build import cast
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Dim
from graphc.ir.types import dtype_of
from graphc.rewrites import check, p, v
from graphc.rewriting.default import ALL
from graphc.rewriting.rules.accelerators import ACCELERATORS
from tests.rewriting.builds import BUILDS

EXAMPLES = int(os.environ.get("GRAPHC_EXAMPLES", "1"))
# On a CPU the rules for accelerators would never apply.
RULES = [*(ALL - ACCELERATORS), *ACCELERATORS.on(GPU)]


def stages_of(rule):
    """The stages of the check that a rule goes through.

    By default only every twelfth rule runs on JAX, since JAX compiles each op; those
    rules take turns between values and gradients. With GRAPHC_EXAMPLES every stage
    runs.
    """
    if "GRAPHC_EXAMPLES" in os.environ:
        return checking.STAGES
    turn, left_out = divmod(RULES.index(rule), 12)
    return [
        stage
        for stage in checking.STAGES
        if stage.backend == "numpy" or not (left_out or stage.gradient ^ bool(turn % 2))
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_changes_nothing_that_it_must_not(rule, monkeypatch):
    monkeypatch.setattr(checking, "STAGES", stages_of(rule))
    report = check(rule, examples=EXAMPLES, **BUILDS.get(rule.name, {}))
    assert report.values >= EXAMPLES


def test_the_table_of_builds_is_of_rules():
    assert [name for name in BUILDS if name not in ALL] == []


def refused(rule, examples=50, **options):
    """Require that a check fails, and return its message."""
    with pytest.raises(graphc.GraphError) as caught:
        check(rule, examples=examples, **options)
    text = str(caught.value)
    assert text.startswith("rewrites.check: "), text
    assert f"the rule {rule.name} " in text.splitlines()[0], text
    assert "test_check.py:" in text.splitlines()[-2], text
    return text


def test_zero_times_nan_is_no_zero():
    @graphc.rewrite(v.y(p.multiply(v.x, 0)), exact=True)
    def times_zero(x, y):
        return None if y.type.weak else F.zeros(y.type.shape, y.dtype)

    text = refused(times_zero, dtypes=["float64"])
    assert "the rule times_zero changes the value, bit for bit" in text
    assert "got: full(0. float64[], shape=()): 0. float64[] on numpy" in text
    assert "expected: multiply(x0, 0. float64[]): -0. float64[]" in text
    assert "arguments: x0 = -0.12573022 float64[]" in text


def test_zero_times_infinity_is_no_zero_up_to_rounding():
    @graphc.rewrite(v.y(p.multiply(v.x, 0)), exact=False)
    def times_zero(x, y):
        return None if y.type.weak else F.zeros(y.type.shape, y.dtype)

    text = refused(times_zero, dtypes=["float64"])
    assert "expected: multiply(x0, 0. float64[]): nan float64[]" in text
    assert "arguments: x0 = nan float64[]" in text

    @graphc.rewrite(times_zero.pattern, exact=False, finite=True)
    def times_zero_if_finite(x, y):
        return times_zero.replace(x, y)

    assert check(times_zero_if_finite).values


def test_another_dtype():
    @graphc.rewrite(p.negative(p.negative(v.x)), exact=True)
    def narrowed(x):
        return cast(x, dtype_of("float32"))

    text = refused(narrowed, dtypes=["float64"])
    assert "the rule narrowed changes the dtype" in text
    assert "got: convert(x0, dtype=float32, weak=False): float32[]" in text
    assert "expected: negative(negative(x0)): float64[]" in text


def test_a_maximum_of_nothing_beside_something():
    @graphc.rewrite(
        p.max(p.concatenate(v.a, v.b, axis=0), axes=(0,), keepdims=False), exact=True
    )
    def maximum_of_parts(a, b):
        return F.maximum(F.max(a, axis=0), F.max(b, axis=0))

    text = refused(maximum_of_parts, dtypes=["float64"])
    assert "the rule maximum_of_parts raises GraphError\n  got: max: " in text
    assert "expected: max(concatenate(x0, x1, axis=0), axes=(0)" in text


def test_broadcasting():
    @graphc.rewrite(p.multiply(v.x, 1), exact=True)
    def times_wide_one(x):
        return x

    text = refused(times_wide_one, 10, dtypes=["float64"])
    assert "the rule times_wide_one changes the shape" in text
    assert "got: x0: float64[]" in text
    assert "expected: multiply(x0, [1., 1.] float64[2]): float64[2]" in text


def test_operands_that_stretch_each_other():
    @graphc.rewrite(p.sum(p.add(v.x, v.y), axes=(0,), keepdims=False), exact=False)
    def apart(x, y):
        return F.sum(x, 0) + F.sum(y, 0) if x.ndim == y.ndim == 2 else None

    text = refused(apart, dtypes=["float64"])
    assert "the rule apart changes the value" in text
    assert "float64[1, " in text


def test_a_named_size_that_must_be_another():
    @graphc.rewrite(v.y(p.add(v.x, v.z)), exact=True)
    def unguarded(x, z, y):
        zero = z.node.primitive.name == "full"
        return x if zero and isinstance(x.type.shape[0], Dim) else None

    text = refused(
        unguarded,
        examples=12,
        build=lambda a: a + gt.full(2, -0.0, dtype=a.dtype),
        shapes={"a": ("n",)},
        dtypes=["float64"],
    )
    assert "the rule unguarded changes the gradient in a" in text  # that is, its size
    assert "shapes do not broadcast" in text


def test_signed_zeros():
    @graphc.rewrite(v.y(p.add(v.x, 0)), exact=True)
    def plus_any_zero(x, y):
        return x if x.type.same(y.type) else None

    text = refused(plus_any_zero, dtypes=["float64"])
    assert "got: x0: -0. float64[] on numpy" in text
    assert "expected: add(x0, 0. float64[]): 0. float64[]" in text
    assert "arguments: x0 = -0. float64[]" in text


def test_rounding_is_not_exact():
    @graphc.rewrite(p.true_divide(v.x, v.c), exact=True)
    def by_the_reciprocal(x, c):
        return None if c.type.weak else x * F.reciprocal(c)

    assert "changes the value, bit for bit" in refused(
        by_the_reciprocal, dtypes=["float64"]
    )


def test_a_size_that_is_one_by_chance():
    @graphc.rewrite(v.y(p.sum(v.x, axes=(0,), keepdims=False)), exact=False)
    def first_only(x, y):
        return x[0]

    assert "the rule first_only" in refused(first_only)


def test_a_gradient():
    @graphc.rewrite(p.square(v.x), exact=True)
    def stopped(x):
        return None if x.type.weak else F.multiply(x, graphc.stop_gradient(x))

    text = refused(stopped, dtypes=["float64"])
    assert "the rule stopped changes the gradient in x0" in text
    assert "got: multiply(x0, stop_gradient(x0)): " in text
    assert "expected: square(x0): " in text


def test_a_rule_with_a_mistake_in_its_code():
    @graphc.rewrite(p.exp(v.x), exact=True)
    def broken(x):
        return {}["missing"]

    text = refused(broken)
    assert "the rule broken raises KeyError\n  got: 'missing'" in text


def test_a_pattern_that_leads_nowhere_asks_for_help(monkeypatch):
    monkeypatch.setattr(checking, "MOST_GRAPHS", 60)

    @graphc.rewrite(v.y(p.multiply(v.x, 12345)), exact=True)
    def never(x, y):
        return None

    text = refused(never, 5)
    assert "fires in none of the graphs made for it" in text
    assert "hint: give build=, a function that makes a value" in text


def test_a_function_builds_what_the_pattern_does_not_tell():
    @graphc.rewrite(v.y(p.tensordot(v.a, v.b)), exact=False, finite=True)
    def as_matmul(a, b, y):
        fits = y.node.params["axes"] == ((1,), (0,))
        return F.matmul(a, b) if fits and a.ndim == b.ndim == 2 else None

    report = check(
        as_matmul,
        build=lambda a, b: gt.tensordot(a, b, axes=1),
        shapes={"a": ("n", "k"), "b": ("k", 3)},
    )
    assert report.fired == report.graphs and report.gradients
    assert str(report).startswith("as_matmul: fired in ")


def test_what_is_built_is_compared_too():
    @graphc.rewrite(p.sin(v.x), exact=False)
    def small_angle(x):
        return x

    text = refused(
        small_angle,
        build=lambda angle: gt.sin(angle),
        shapes={"angle": (2,)},
        dtypes=["float64"],
    )
    assert "got: angle: [" in text and "expected: sin(angle): [" in text


def test_constants_are_made_too():
    seen = set()

    @graphc.rewrite(p.add(v.x, v.c), exact=True)
    def looks(x, c):
        seen.add(c.node.primitive.name)

    assert "fires in none of the graphs" in refused(looks, 10)
    made = {"constant", "input", "broadcast_to", "full", "convert"}
    assert made <= seen <= {*made, *FUNCTIONS, "logical_not"}
