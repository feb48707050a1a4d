"""Nodes that several functions build: each program shows the lines of its own."""

import numpy as np

import graphc
import graphc.tensor as gt

x = gt.tensor("x", "float32", ("n",))


def first(v):
    scaled = gt.exp(v) * v
    return gt.sum(scaled)


def second(v):
    product = gt.exp(v) * v
    return gt.max(product)


def positions(v):
    firsts = gt.arange(v.shape[0])
    return firsts - v


def other_positions(v):
    seconds = gt.arange(v.shape[0])
    return seconds * v


def head(v):
    count = gt.sum(gt.astype(v > 0, "int64"))
    return gt.sum(v[:count])


def tail(v):
    positive = gt.sum(gt.astype(v > 0, "int64"))
    return gt.sum(v[positive:]), gt.arange(positive)


def squared(v):
    return v * v


def lines(f):
    return {node.place.code for node in f.plan.graph.nodes if node.inputs}


def test_the_second_function_has_its_own_lines():
    one = graphc.function([x], first(x))
    two = graphc.function([x], second(x))
    assert lines(one) == {"scaled = gt.exp(v) * v", "return gt.sum(scaled)"}
    assert lines(two) == {"product = gt.exp(v) * v", "return gt.max(product)"}
    assert "product = " in two.source.model and "scaled" not in str(two.source)


def test_both_are_built_before_one_is_compiled():
    totals = first(x), second(x)
    one, two = (graphc.function([x], total) for total in totals)
    assert not lines(one) & lines(two)


def test_functions_that_are_equal_as_a_whole():
    def again(v):
        repeated = gt.exp(v) * v
        return gt.sum(repeated)

    total = first(x)
    assert again(x) is total
    f = graphc.function([x], again(x))
    assert "repeated = gt.exp(v) * v" in lines(f)


def test_nodes_without_inputs():
    y = gt.tensor("y", "float32", (3,))
    z = gt.tensor("z", "float32", (3,))
    assert "seconds" not in str(graphc.function([y], positions(y)).source)
    f = graphc.function([z], other_positions(z))
    assert "seconds = " in str(f.source) and "firsts" not in str(f.source)


def test_integers_that_are_sizes():
    one = graphc.function([x], head(x))
    two = graphc.function([x], tail(x))
    assert not any("count" in line for line in lines(two))
    numbers = np.array([1, 2, -3, 4], "float32")
    assert one(numbers) == 0
    total, positions_ = two(numbers)
    assert total == 4 and positions_.tolist() == [0, 1, 2]


def test_functions_that_are_equal_and_call_one_function():
    def again(v):
        repeated = gt.exp(squared(v))
        return gt.sum(repeated)

    def once_more(v):
        renamed = gt.exp(squared(v))
        return gt.sum(renamed)

    for function, name in [(again, "repeated"), (once_more, "renamed")]:
        assert f"{name} = " in str(graphc.function([x], function(x)).source)


def test_one_function_keeps_its_first_line():
    a = gt.exp(x)
    b = a + gt.exp(x)
    f = graphc.function([x], [a, b])
    assert "a = gt.exp(x)" in lines(f) and "a = " in str(f.source)
