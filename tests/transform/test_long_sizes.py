"""Sizes whose formulas double, nest deeply or multiply: cost, texts and results."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.ir.sizes.dims import (
    Dim,
    axis,
    clip,
    evaluate,
    fresh_axis,
    minimum,
    substitute,
)
from graphc.ir.sizes.growth import grows
from graphc.ir.sizes.text import expression
from graphc.ir.text.printer import to_text
from graphc.ir.text.reader import parse_graph

X = gt.vector("x", "float32")


def doubled(times):
    y = X
    for _ in range(times):
        y = gt.concatenate([y, y[1:]])
    return y


def size_after(n, times):
    for _ in range(times):
        n += max(n - 1, 0)
    return n


@pytest.mark.parametrize("dims", ["specialize", "pad", "bound"])
def test_doubling(dims):
    """Each doubling adds about as much text as the one before it."""
    made = {}
    for times in (4, 8, 12):
        y = doubled(times)
        total = gt.sum(y) + gt.sum(gt.ones(y.shape[0]))
        made[times] = graphc.function([X], total, backend="numpy", dims=dims)
    short, middle, long = [len(f.source) for f in made.values()]
    assert long - middle < 1.5 * (middle - short)
    for n in (0, 1, 2, 5):
        assert made[8](np.ones(n, "float32")) == 2 * size_after(n, 8)


def test_doubling_in_jax():
    y = doubled(10)
    f = graphc.function([X], y[:: y.shape[0] // 3 + 1])
    assert f(np.ones(5, "float32")).shape == (3,)


def test_texts_name_what_is_shared():
    y = doubled(14)
    graph = Graph((X,), (gt.ones(y.shape[0]),), ("x",), ("",))
    text = to_text(graph)
    assert len(text) < 20_000
    assert "  size_1 = " in text
    again = parse_graph(text, graph.inputs)
    assert again.outputs[0] is graph.outputs[0]
    assert to_text(parse_graph(text)) == text


def test_depth_is_no_limit():
    n = axis("n")
    size = n
    for i in range(100):
        size = size - minimum(size, i + 1) + 2 * n
    assert isinstance(size, Dim)
    deep = clip(size, n) + size
    expected = 3
    for i in range(100):
        expected = expected - min(expected, i + 1) + 6
    assert evaluate(size, {n.symbols[0]: 3}) == expected
    assert substitute(deep, {n.symbols[0]: n}) is deep
    assert grows(size, n.symbols) in (True, False)
    assert str(size).endswith("terms>")


def test_products_of_long_sums():
    total = sum((fresh_axis("s") for _ in range(100)), start=0)
    square = total * total
    values = dict.fromkeys(total.symbols, 2)
    assert evaluate(square, values) == 200**2
    assert evaluate(square // 7 + minimum(square, 5), values) == 200**2 // 7 + 5
    assert square is total * total and square // total is not None
    names = {s: f"s{i}" for i, s in enumerate(total.symbols)}
    text = expression(square + 1, names.__getitem__)
    assert eval(text, {name: 2 for name in names.values()}) == 200**2 + 1
    power = axis("n") + 1
    for _ in range(20):
        power = power * power
    assert str(power).endswith("terms>")


def test_squares_of_many_sizes_compile():
    vectors = [gt.vector(f"v{i}", "float32") for i in range(100)]
    whole = gt.concatenate(vectors)
    f = graphc.function(
        vectors, gt.sum(gt.ones((whole.shape[0], whole.shape[0]))), backend="numpy"
    )
    assert f(*[np.ones(i % 3, "float32") for i in range(100)]) == 99**2
