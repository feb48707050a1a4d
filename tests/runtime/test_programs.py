"""Functions of equal programs share what is compiled; a store keeps no graphs."""

import gc
import weakref

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.runtime.driver.failure import Program
from graphc.runtime.driver.programs import Programs

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def made(programs=None, **options):
    """A function of a graph that is built anew, but equal, each time."""
    x, y = gt.tensor("x", "float32", (None,)), gt.tensor("y", "float32", (None,))
    outputs = [gt.sum(gt.exp(x)), gt.mean(y * 2)]
    if programs is None:
        return graphc.function([x, y], outputs, **options)
    with programs.shared():
        return graphc.function([x, y], outputs, **options)


def counts(function, *sizes):
    """The number of programs compiled for calls of these sizes; results are checked."""
    for n, m in sizes:
        x, y = np.ones(n, "float32"), np.arange(m, dtype="float32")
        total, mean = function(x, y)
        np.testing.assert_allclose(total, np.exp(1.0) * n, 1e-5)
        np.testing.assert_allclose(mean, m - 1, 1e-5)
    return len(function.stats().compilations)


def test_functions_of_one_store_compile_an_equal_program_once():
    programs = Programs()
    first, second = made(programs), made(programs)
    assert counts(first, (3, 2)) == 1
    assert counts(second, (3, 2), (3, 2)) == 0 and second.stats().calls == 2
    assert counts(made(), (3, 2)) == 1  # a function without a store


@pytest.mark.parametrize("dims", ["specialize", "pad"])
def test_each_function_counts_what_its_calls_compile(dims):
    programs = Programs()
    first, second = made(programs, dims=dims), made(programs, dims=dims)
    assert counts(first, (3, 2)) == 1
    assert counts(second, (300, 2)) == 1
    assert counts(first, (3, 2), (300, 2)) == 1
    [told] = second.stats().compilations
    assert told.reason == "first call"


def test_a_function_goes_on_from_the_sizes_of_those_before():
    programs = Programs()
    found = [counts(made(programs), (n, m)) for n, m in sizes_of_calls()]
    assert found == [1, 0, 1, 0, 0, 0, 1, 0, 0]
    last = made(programs)
    assert [text.split(":")[0] for text in last.stats().changes] == [
        "x_0 took 2 sizes",
        "y_0 took 2 sizes",
    ]
    assert counts(last, (9, 7)) == 0


def sizes_of_calls():
    """First n varies, then m: the first sizes, a second one, and the first capacity."""
    return [(4, 2), (4, 2), (5, 2), (6, 2), (7, 2), (4, 2), (4, 3), (4, 4), (5, 6)]


def test_programs_with_other_constants_are_others():
    programs, x = Programs(), gt.tensor("x", "float32", (None,))
    with programs.shared():
        functions = [graphc.function([x], x * number) for number in (2.0, 3.0)]
    for function, number in zip(functions, (2.0, 3.0), strict=True):
        np.testing.assert_array_equal(function(np.ones(2, "float32")), number)


def test_a_store_keeps_the_programs_used_last_and_no_graphs():
    programs = Programs(most=2)
    texts = [Program(f"number = {i}", "<text>", {}) for i in range(3)]
    first, second = map(programs.load, texts[:2])
    assert programs.load(texts[0]) is first
    programs.load(texts[2])
    assert programs.load(texts[0]) is first
    assert programs.load(texts[1]) is not second

    function = made(programs)
    counts(function, (3, 2), (4, 2), (5, 2))
    nodes = [weakref.ref(v.node) for v in function.plan.called.outputs]
    del function
    gc.collect()
    assert [node() for node in nodes] == [None, None]


def test_functions_without_a_text_are_not_shared():
    programs = Programs()
    given = [Program("", "<text>", {"f": lambda i=i: i}) for i in range(2)]
    assert [programs.load(one).module.f() for one in given] == [0, 1]


def test_a_failed_call_leaves_nothing_to_the_next_function():
    programs = Programs()
    first, second = made(programs), made(programs)
    with pytest.raises(graphc.CallError):
        first(np.ones((2, 2), "float32"), np.ones(2, "float32"))
    assert counts(second, (3, 2)) == 1
    assert first.stats().compilations == []
