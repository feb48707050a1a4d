"""The engine: order, repetition, limits and the log; patterns, and sets of rules."""

import pickle
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.verify import verify
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import F
from graphc.rewrites import Rules, default, none, once, p, rewritten, v
from graphc.rewriting.engine import fixpoint
from graphc.rewriting.match.pattern import matches


def graph_of(inputs, *outputs):
    names = tuple(x.name for x in inputs)
    return Graph(tuple(inputs), outputs, names, ("",) * len(outputs))


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    """Check that each result of a rule is a valid graph."""
    check = fixpoint._require_same_type

    def checked(rule, old, new):
        check(rule, old, new)
        inputs = [n.outputs[0] for n in ancestors([new]) if not n.inputs]
        inputs = [x for x in inputs if x.node.primitive.name == "input"]
        verify(graph_of(inputs, new))

    monkeypatch.setattr(fixpoint, "_require_same_type", checked)


@graphc.rewrite(p.exp(p.log(v.x)), exact=False)
def exp_of_log(x):
    """exp(log(x)) is x."""
    return x


@graphc.rewrite(p.sin(v.x), exact=False)
def sin_to_tan(x):
    return F.tan(x)


@graphc.rewrite(p.tan(v.x), exact=False)
def tan_to_sin(x):
    return F.sin(x)


@graphc.rewrite(p.tan(v.x), exact=False)
def tan_to_tanh(x):
    return F.tanh(x)


def names(value):
    return [n.primitive.name for n in ancestors([value])]


def simplified(value, rules, *inputs):
    made = rewritten(graph_of(inputs, value), rules)
    verify(made.graph)
    return made.graph.outputs[0], made.log


def rules_of(*rules):
    return Rules(tuple(rules))


def test_inputs_are_rewritten_first():
    """The outer rule sees the result of the inner one."""
    x = gt.vector("x")
    seen = []

    @graphc.rewrite(p.exp(v.y), exact=True)
    def look(y):
        seen.append(y.node.primitive.name)

    simplified(gt.exp(gt.sin(x)), rules_of(look, sin_to_tan), x)
    assert seen == ["tan"]  # a second pass skips it, too


def test_chains_go_on_until_nothing_applies():
    x = gt.vector("x")
    y, log = simplified(gt.sin(x), rules_of(sin_to_tan, tan_to_tanh), x)
    assert names(y) == ["input", "tanh"]
    assert [a.rule for a in log] == [sin_to_tan, tan_to_tanh]


def test_what_a_rule_brings_is_rewritten_too():
    @graphc.rewrite(p.square(v.x), exact=False)
    def long_way(x):
        return F.multiply(F.exp(F.log(x)), F.sin(x))

    x = gt.vector("x")
    rules = rules_of(long_way, exp_of_log, sin_to_tan)
    y, _ = simplified(gt.square(x), rules, x)
    assert names(y) == ["input", "tan", "multiply"]


def test_the_first_rule_of_a_set_wins():
    x = gt.vector("x")
    y, log = simplified(gt.tan(x), rules_of(tan_to_tanh, tan_to_sin), x)
    assert names(y)[-1] == "tanh" and len(log) == 1


def test_rules_that_undo_each_other_are_named():
    x = gt.vector("x")
    with pytest.raises(graphc.GraphError) as caught:
        simplified(gt.sin(x), rules_of(sin_to_tan, tan_to_sin), x)
    text = str(caught.value)
    assert "rewrite: rules undo each other: sin_to_tan and tan_to_sin" in text
    assert "got: sin float32[" in text
    assert "hint: leave one out: rewrites=" in text
    assert 'graphc.rewrites.default - "tan_to_sin"' in text
    assert "test_engine.py:" in text.splitlines()[-2]


def test_a_rule_that_makes_ever_more(monkeypatch):
    monkeypatch.undo()  # `verified` looks at whole graphs, which grow here
    @graphc.rewrite(p.sin(v.x), exact=False)
    def grow(x):
        return F.sin(F.sin(F.cos(x)))

    x = gt.vector("x")
    with pytest.raises(graphc.GraphError) as caught:
        simplified(gt.sin(x), rules_of(grow), x)
    text = str(caught.value)
    assert "grow" in text and "rewrite: rules" in text
    assert "test_engine.py:" in text.splitlines()[-2]


def test_another_type_is_refused():
    @graphc.rewrite(p.sin(v.x), exact=True)
    def wider(x):
        return F.astype(x, "float64")

    @graphc.rewrite(p.sin(v.x), exact=True)
    def thinner(x):
        return F.sum(x, axis=0)

    x = gt.tensor("x", "float32", (3,))
    for rule, got in ((wider, "float64[3]"), (thinner, "float32[]")):
        with pytest.raises(graphc.GraphError) as caught:
            simplified(gt.sin(x), rules_of(rule), x)
        text = str(caught.value)
        assert f"rewrite: the rule {rule.name} returns another type" in text
        assert f"got: {got}" in text and "expected: float32[3], of sin" in text
        assert f":{rule.place.line}: @graphc.rewrite" in text


def test_a_size_written_otherwise_is_the_same_type():
    """The engine accepts sizes that may be equal; the rule must know that they are."""

    @graphc.rewrite(v.y(p.sin(v.x)), exact=True)
    def kept(x, y):
        return F.broadcast_to(F.sum(x), (x.type.shape[0],))

    x = gt.tensor("x", "float32", ("n",))
    y, log = simplified(gt.sin(x), rules_of(kept), x)
    assert len(log) == 1 and y.type.same(x.type)


def test_sets_add_and_subtract():
    some = rules_of(sin_to_tan) + tan_to_sin + exp_of_log
    assert [rule.name for rule in some] == ["sin_to_tan", "tan_to_sin", "exp_of_log"]
    assert repr(some) == "<3 rules>" and repr(sin_to_tan) == "<rule sin_to_tan>"
    assert len(some - "sin_to_tan") == len(some - sin_to_tan) == 2
    assert len(some - rules_of(sin_to_tan, tan_to_sin)) == 1
    assert len(some + some) == len(some + sin_to_tan) == 3
    assert [r.name for r in sin_to_tan + tan_to_sin] == ["sin_to_tan", "tan_to_sin"]
    assert "sin_to_tan" in some and sin_to_tan in some and "tan_to_tanh" not in some
    assert some["exp_of_log"] is exp_of_log
    assert len(none) == 0 and len(default) > 30


def test_unknown_names_and_duplicates_are_refused():
    with pytest.raises(graphc.GraphError, match="no rule 'sine' in the set"):
        rules_of(sin_to_tan)["sine"]
    with pytest.raises(graphc.GraphError, match="no rule 'sine' in the set"):
        rules_of(sin_to_tan) - "sine"
    twin = graphc.rewrite(p.cos(v.x), exact=True, name="sin_to_tan")(lambda x: None)
    with pytest.raises(graphc.GraphError, match="two rules are called sin_to_tan"):
        rules_of(sin_to_tan) + twin


def test_the_exact_ones():
    exact = default.exact()
    assert 0 < len(exact) < len(default + sin_to_tan)
    assert all(rule.exact for rule in exact)
    assert "times_one" in exact and len((default + sin_to_tan).exact()) == len(exact)


def test_what_cannot_be_declared():
    with pytest.raises(graphc.GraphError, match="the pattern of f has no b"):

        @graphc.rewrite(p.sin(v.a), exact=True)
        def f(a, b):
            return a

    with pytest.raises(graphc.GraphError, match="there is no primitive 'sine'"):
        p.sine(v.a)


def found(pattern, value, uses=lambda value: 1):
    return list(matches(pattern, value, uses))


def test_commutative_ops_match_in_both_orders():
    x, y = map(gt.vector, "xy")
    pattern = p.add(p.exp(v.a), v.b)
    for value in (gt.exp(x) + y, y + gt.exp(x)):
        assert found(pattern, value) == [{"a": x, "b": y}]
    assert found(p.subtract(p.exp(v.a), v.b), y - gt.exp(x)) == []
    assert len(found(p.add(v.a, v.b), x + y)) == 2


def test_repeated_variables_are_one_value_or_param():
    x, y = map(gt.vector, "xy")
    assert found(p.add(v.a, v.a), x + x) != [] and found(p.add(v.a, v.a), x + y) == []
    twice = p.sum(p.sum(v.a, axes=v.axes), axes=v.axes)
    m = gt.tensor("m", "float32", (2, 3, 4))
    assert found(twice, gt.sum(gt.sum(m, axis=0), axis=0)) == [{"a": m, "axes": (0,)}]
    assert found(twice, gt.sum(gt.sum(m, axis=1), axis=0)) == []


def test_params_that_a_pattern_tells():
    m = gt.tensor("m", "float32", (2, 3))
    assert found(p.sum(v.a, axes=(0,)), gt.sum(m, axis=0)) == [{"a": m}]
    assert found(p.sum(v.a, axes=(0,)), gt.sum(m, axis=1)) == []
    assert found(p.sum(v.a), gt.sum(m, axis=1)) == [{"a": m}]


def test_numbers_match_what_holds_them_everywhere():
    x = gt.tensor("x", "float32", (2,))
    assert found(p.multiply(v.a, 2), x * 2) == [{"a": x}]
    assert found(p.multiply(v.a, 2), x * np.float32([2, 2])) == [{"a": x}]
    assert found(p.multiply(v.a, 2), x * np.float32([2, 3])) == []
    empty = gt.tensor("x", "float32", (0,))
    assert found(p.multiply(v.a, 2), empty * np.zeros(0, "float32")) == []


def test_named_values_and_single_uses():
    x = gt.vector("x")
    inner = gt.exp(x)
    assert found(v.y(p.exp(v.x)), inner) == [{"x": x, "y": inner}]
    pattern = p.sin(once(p.exp(v.x)))
    assert found(pattern, gt.sin(inner), lambda value: 1) == [{"x": x}]
    assert found(pattern, gt.sin(inner), lambda value: 2) == []


def test_once_counts_uses_in_the_whole_graph():
    @graphc.rewrite(p.sin(once(p.exp(v.x))), exact=False)
    def alone(x):
        return F.cos(x)

    x = gt.vector("x")
    inner = gt.exp(x)
    for others, fired in (((), 1), ((inner,), 0), ((gt.tan(inner),), 0)):
        made = rewritten(graph_of([x], gt.sin(inner), *others), rules_of(alone))
        assert len(made.log) == fired


def test_a_use_that_a_rule_takes_away_is_seen_in_the_next_pass():
    @graphc.rewrite(p.sin(once(p.exp(v.x))), exact=False)
    def alone(x):
        return F.cos(x)

    @graphc.rewrite(p.subtract(v.x, v.x), exact=False)
    def nothing(x):
        return F.zeros_like(x)

    x = gt.vector("x")
    inner = gt.exp(x)
    y, log = simplified(gt.sin(inner) + (inner - inner), rules_of(alone, nothing), x)
    assert "exp" not in names(y)
    assert {a.rule for a in log} == {alone, nothing}


def test_several_outputs_of_a_node():
    """A rule for one output leaves the others alone."""

    @graphc.rewrite(p.exp(v.x), exact=False)
    def exp_to_cos(x):
        return F.cos(x)

    x = gt.tensor("x", "float32", (4,))
    fraction, exponent = gt.frexp(gt.exp(x))
    made = rewritten(graph_of([x], fraction, exponent), rules_of(exp_to_cos))
    verify(made.graph)
    one, two = made.graph.outputs
    assert one.node is two.node and (one.index, two.index) == (0, 1)
    assert one.node.inputs[0].node.primitive.name == "cos"


def test_one_of_several_outputs_is_replaced():
    @graphc.rewrite(p.frexp(v.x), exact=False)
    def no_fraction(x):
        return F.multiply(x, np.float32(0.5))

    x = gt.tensor("x", "float32", (4,))
    fraction, exponent = gt.frexp(x)
    made = rewritten(graph_of([x], fraction, exponent), rules_of(no_fraction))
    verify(made.graph)
    assert [o.node.primitive.name for o in made.graph.outputs] == ["multiply", "frexp"]


def test_outputs_that_repeat_and_outputs_that_are_inputs():
    x = gt.vector("x")
    y = gt.exp(gt.log(x))
    made = rewritten(graph_of([x], x, y, y, gt.sin(y)), rules_of(exp_of_log))
    assert all(o is x for o in made.graph.outputs[:3])
    f = graphc.function([x], [x, y, y], rewrites=rules_of(exp_of_log), backend="numpy")
    for result in f(np.array([1, 2], "float32")):
        np.testing.assert_array_equal(result, [1, 2])


def test_values_used_as_sizes_stay_sizes():
    """A rule applies upstream of a count, and of a scalar that is a size."""

    @graphc.rewrite(p.negative(p.negative(v.x)), exact=True)
    def double_negative(x):
        return x

    x, k = gt.tensor("x", "int64", ("n",)), gt.scalar("k", "int64")

    def same(x):
        return gt.negative(gt.negative(x))

    kept = x[same(x) > 0]
    count = gt.count_nonzero(same(x + 1) > 1)
    most = gt.max(same(x * 2))
    shapes = (count, same(k) * 2, (most, most - 3))
    outputs = [kept * 2, *map(gt.ones, shapes)]
    plain = graphc.function([x, k], outputs, rewrites=none, backend="numpy")
    rules = rules_of(double_negative)
    for backend in ("numpy", "jax"):
        f = graphc.function([x, k], outputs, rewrites=rules, backend=backend)
        assert len(f.rewrites) == 3
        verify(f.plan.graph)
        a = np.array([3, -1, 0, 1])
        for got, wanted in zip(f(a, 2), plain(a, 2), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_the_log_tells_rules_and_lines():
    x = gt.vector("x")
    y = gt.exp(gt.log(x))
    f = graphc.function([x], y, rewrites=rules_of(exp_of_log), backend="numpy")
    (one,) = f.rewrites
    assert one.rule is exp_of_log and one.after is x
    line = f"test_engine.py:{one.place.line}"
    assert str(one).startswith(f"{line}: exp_of_log: exp float32[")
    assert str(one).endswith(" -> input")
    assert one.place.code == "y = gt.exp(gt.log(x))"
    text = f.explain(full=True)
    assert text.splitlines()[-2:] == ["rewritten before:", f"  {line}: exp_of_log"]


def test_the_log_counts_what_repeats_in_a_line():
    x = gt.vector("x")
    y = [gt.exp(gt.log(x * k)) for k in range(2, 5)]
    f = graphc.function([x], y, rewrites=rules_of(exp_of_log), backend="numpy")
    assert f.explain(full=True).splitlines()[-1].endswith(": exp_of_log (3 times)")


def test_where_nothing_applies_nothing_is_said():
    x = gt.vector("x")
    f = graphc.function([x], gt.cos(x), rewrites=rules_of(exp_of_log))
    assert f.rewrites == () and "rewritten" not in f.explain(full=True)


def test_a_rule_alone_is_a_set_too():
    x = gt.vector("x")
    f = graphc.function([x], gt.exp(gt.log(x)), rewrites=exp_of_log, backend="numpy")
    assert len(f.rewrites) == 1
    with pytest.raises(graphc.GraphError, match="`rewrites` must be a set of rules"):
        graphc.function([x], x, rewrites="all")


def test_names_of_the_program_are_kept():
    """A replacement keeps the value's name; so does a value on replaced inputs."""
    x = gt.vector("x")
    angle = gt.sin(x)
    shifted = angle + 1
    f = graphc.function(
        [x], shifted * angle, rewrites=rules_of(sin_to_tan), backend="numpy"
    )
    assert "angle = np.tan(x)" in f.source
    assert "shifted = angle + " in f.source


def test_errors_of_a_program_name_the_line_of_what_was_replaced():
    x = gt.vector("x")
    y = gt.sin(x)
    value, _ = simplified(y, rules_of(sin_to_tan), x)
    assert value.node.place == y.node.place


def chain(length):
    x = gt.tensor("x", "float64", (3,))
    y = x
    for _ in range(length // 2):
        y = gt.sin(y) * 2
    return x, y


def tries_in(length):
    """The number of tries of rules in a chain of which half the nodes are replaced."""
    tried = []

    @graphc.rewrite(p.tan(v.x), exact=False)
    def looked_at(x):
        tried.append(1)

    x, y = chain(length)
    made = rewritten(graph_of([x], y), rules_of(sin_to_tan, looked_at))
    assert len(made.log) == length // 2
    return len(tried)


def test_tries_grow_as_the_graph_does(monkeypatch):
    monkeypatch.undo()
    assert tries_in(2000) == 10 * tries_in(200)


def test_a_deep_graph_is_no_recursion(monkeypatch):
    monkeypatch.undo()
    x, y = chain(5_000)
    made = rewritten(graph_of([x], y), rules_of(sin_to_tan))
    assert len(made.log) == 2_500
    assert len(ancestors(made.graph.outputs)) == len(ancestors([y]))


def test_gradients_are_rewritten_as_other_graphs_are():
    x = gt.vector("x")
    cost = gt.sum(gt.exp(gt.log(x)) ** 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = graphc.function(
            [x], graphc.grad(cost, x), rewrites=default + exp_of_log, backend="numpy"
        )
    a = np.array([1, 2, 3], "float32")
    np.testing.assert_allclose(f(a), 2 * a, rtol=1e-6)
    assert exp_of_log in [a.rule for a in f.rewrites]


# Rules apply inside loops and branches.


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_rules_apply_inside_of_loops_and_branches(backend):
    x = gt.tensor("x", "float32", ("n", 3))

    def body(carry, row):
        inner = gt.scan(lambda c, v: (c + v * 1, gt.log(1 + gt.exp(v))), carry, row)
        large = gt.cond(carry > 0, lambda: gt.log(gt.sum(gt.exp(row))), lambda: carry)
        return inner[0], gt.sum(inner[1]) + large

    outputs = list(gt.scan(body, np.float32(0), x))
    given = np.linspace(-50, 200, 12).astype("float32").reshape(4, 3)
    plain = graphc.function([x], outputs, rewrites=none, backend=backend)
    f = graphc.function([x], outputs, backend=backend)
    names = [a.rule.name for a in f.rewrites]
    assert {"times_one", "log_of_sum_of_exp", "log_one_plus"} <= set(names)
    assert np.isinf(plain(given)[1]).any()  # the rule mends these
    ends, stacked = f(given)
    shifted = given - given.max(1, keepdims=True)
    total = np.cumsum(given.sum(1, dtype="float32"))
    large = given.max(1) + np.log(np.exp(shifted).sum(1))
    before = np.concatenate([[0], total[:-1]])
    expected = np.logaddexp(given, 0).sum(1) + np.where(before > 0, large, before)
    np.testing.assert_allclose(ends, total[-1], rtol=1e-5)
    np.testing.assert_allclose(stacked, expected, rtol=1e-5)


def test_a_decorated_function_of_a_module_is_pickled_by_name():
    x = gt.vector("x", "float64")
    f = graphc.function([x], gt.exp(gt.log(x)), rewrites=exp_of_log, backend="numpy")
    again = pickle.loads(pickle.dumps(f))
    assert again.rewrites[0].rule is exp_of_log
    assert again([-1.0]) == [-1]
