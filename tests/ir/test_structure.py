"""Forms of graphs are equal if and only if the graphs do the same."""

import itertools

import pytest

import graphc.tensor as gt
from graphc.ir.graph.structure import EXACT, GraphReading, Structure, params_form


def formed(build, *sizes):
    """The form of the graph that `build` makes from variables of these sizes."""
    sizes = sizes or ("n", "n")
    inputs = [gt.tensor(f"x{i}", "float64", (n,)) for i, n in enumerate(sizes)]
    results = build(*inputs)
    return EXACT.of(inputs, results if isinstance(results, tuple) else (results,))


def first_left(x, y):
    a, b = gt.sin(x), gt.cos(y)
    return a - b


def first_right(x, y):
    b, a = gt.cos(y), gt.sin(x)
    return a - b


def joined(x, y):
    return gt.concatenate([x, y])


def selected(which):
    """Two counts; `which` of them is the length of a slice."""

    def build(x, y):
        counts = gt.sum(x > 0), gt.sum(y > 0)
        return (*counts, gt.sum(x[: counts[which]]))

    return build


def looped(factor, captured):
    def build(x, y):
        weight = gt.sum(y) if captured else gt.sum(x)
        step = lambda carry, row: (carry * factor + row * weight, carry)
        return gt.scan(step, gt.zeros((), "float64"), x)[0]

    return build


DIFFERENT = {
    "operands": lambda x, y: gt.cos(x) - gt.sin(y),
    "order": lambda x, y: gt.cos(y) - gt.sin(x),
    "one value twice": lambda x, y: gt.sin(x) - gt.cos(x),
    "more results": lambda x, y: (first_left(x, y), x),
    "first count": selected(0),
    "second count": selected(1),
    "zero": lambda x, y: x * 0.0,
    "negative zero": lambda x, y: x * -0.0,
    "a loop": looped(0.5, captured=True),
    "another step": looped(0.25, captured=True),
    "another capture": looped(0.5, captured=False),
    "an axis": lambda x, y: gt.sum(gt.expand_dims(x, 0), axis=0),
    "another axis": lambda x, y: gt.sum(gt.expand_dims(x, 0), axis=1),
    "a length": lambda x, y: x[: x.shape[0] // 2],
    "another length": lambda x, y: x[: x.shape[0] // 3],
}


def test_the_order_in_which_nodes_are_made_does_not_matter():
    assert formed(first_left) == formed(first_right)


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_graph_of_other_symbols_has_the_same_form(name):
    assert formed(DIFFERENT[name]) == formed(DIFFERENT[name], "k", "k")


@pytest.mark.parametrize(
    "pair", list(itertools.combinations(DIFFERENT, 2)), ids="-".join
)
def test_graphs_that_differ_have_other_forms(pair):
    first, second = (formed(DIFFERENT[name]) for name in pair)
    assert first != second


def test_types_of_inputs_count():
    assert formed(first_left, "n", "n") != formed(first_left, 3, 3)
    assert formed(first_left, "n", 1) != formed(first_left, 1, "n")
    assert formed(joined, "n", "n") != formed(joined, "n", "m")


def test_bodies_are_compared_and_not_held():
    def loop(factor):
        x = gt.tensor("x", "float64", ("n",))
        step = lambda carry, row: (carry * factor + row, carry)
        return gt.scan(step, gt.zeros((), "float64"), x)[0].node

    assert params_form(loop(0.5)) == params_form(loop(0.5))
    assert params_form(loop(0.5)) != params_form(loop(0.25))


class Everything(Structure):
    """A structure that caches nothing it reads."""


def nested(depth):
    """Nested loops with three carries each, which the loop inside computes."""

    def step(level, carry):
        if not level:
            a, b, c = carry
            return [a + b, b * c, c - a]
        return gt.scan(lambda c, _: (step(level - 1, c), None), carry, length=2)[0]

    x = gt.vector("x")
    return [x], step(depth, [x, x + 1, x * 2])


def test_what_is_inside_of_a_node_is_read_once(monkeypatch):
    """Reading it for each output would take 3 ** depth steps in nested loops."""
    reads = []
    computation = GraphReading._computation

    def counted(self, node):
        reads.append(node)
        return computation(self, node)

    monkeypatch.setattr(GraphReading, "_computation", counted)
    counts = []
    for depth in (2, 4, 8):
        reads.clear()
        Everything().of(*nested(depth))
        counts.append(len(reads))
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])
