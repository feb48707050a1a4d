"""Axes that may be 1: refusals when a function is made, and when it is called."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors import messages
from tests.errors.messages import both, ones, raised, whole

HERE = "test_stretching.py"
x = gt.tensor("x", "float32", ("b?", "n"))
y = gt.tensor("y", "float32", ("m", "n"))
w = gt.tensor("w", "float32", ("c?", "n"))
v = gt.tensor("v", "float32", ("b?",))
plain = gt.tensor("plain", "float32", ("b", "n"))
twice = gt.tensor("twice", "float32", ("2*b?",))
together = x + y
three = x + y * w
four = gt.stack([v, gt.ones(4)])


def line_of(name):
    return messages.line_of(name, line_of)


def refused(call, text):
    whole(call, text, graphc.CallError)


@both
def test_axes_that_are_neither_1_nor_equal(backend):
    f = graphc.function([x, y], together, backend=backend)
    refused(
        lambda: f(ones(3, 2), ones(4, 2)),
        "add: shapes do not broadcast: needs b == m; got 3 and 4\n"
        f"  asked for by {HERE}:{line_of('together')}\n"
        f"  where b is axis 0 of input x, declared at {HERE}:{line_of('x')}, and may "
        "be 1\n"
        f"  where m is axis 0 of input y, declared at {HERE}:{line_of('y')}\n"
        "  arguments: x: float32[3, 2], y: float32[4, 2]",
    )


def test_axes_that_do_not_meet_where_another_is_1():
    f = graphc.function([x, y, w], three, backend="numpy")
    refused(
        lambda: f(ones(1, 2), ones(4, 2), ones(3, 2)),
        "multiply: shapes do not broadcast: needs m == c; got 4 and 3\n"
        f"  asked for by {HERE}:{line_of('three')}\n"
        f"  where m is axis 0 of input y, declared at {HERE}:{line_of('y')}\n"
        f"  where c is axis 0 of input w, declared at {HERE}:{line_of('w')}, and may "
        "be 1\n"
        "  arguments: x: float32[1, 2], y: float32[4, 2], w: float32[3, 2]",
    )


def test_one_axis_with_two_sizes():
    f = graphc.function([x, v], x * v[:, None], backend="numpy")
    for sizes in ((1, 4), (4, 1)):
        refused(
            lambda: f(ones(sizes[0], 2), ones(sizes[1])),
            f"axis 0 of input v has {sizes[1]} elements, not b = {sizes[0]}\n"
            "  where b is from axis 0 of input x\n"
            f"  declared at {HERE}:{line_of('v')}\n"
            "  hint: sizes of one name must agree; name another where it may differ\n"
            f"  arguments: x: float32[{sizes[0]}, 2], v: float32[{sizes[1]}]",
        )


def test_sizes_for_which_there_is_no_program():
    f = graphc.function([v], four, backend="numpy")
    assert f(ones(4)).shape == (2, 4)
    with pytest.raises(graphc.CallError) as caught:
        f(ones(1))
    first, got, asked, where, arguments, *_ = str(caught.value).splitlines()
    assert first == "stack: sizes of axis 0: 1 and 4 differ, where b? is 1"
    assert got == "  got: float32[1], float32[4]"
    assert asked.startswith("  asked for by ")
    assert asked.endswith(f"{HERE}:{line_of('four')}: four = gt.stack([v, gt.ones(4)])")
    declared = f"declared at {HERE}:{line_of('v')}, and may be 1"
    assert where == f"  where b? is axis 0 of input v, {declared}"
    assert arguments == "  arguments: v: float32[1]"
    assert caught.value.kind == "shape"


def test_what_does_not_broadcast_is_not_stretched():
    f = graphc.function([x, y], gt.stack([x, y]), backend="numpy")
    raised(
        lambda: f(ones(1, 2), ones(3, 2)),
        "stack: sizes of axis 0: needs 1 == m; got 3",
        kind=graphc.CallError,
    )
    g = graphc.function([x, y], x.T @ y, backend="numpy")
    raised(
        lambda: g(ones(1, 2), ones(3, 2)),
        "matmul: the inner sizes must agree: needs 1 == m; got 3",
        kind=graphc.CallError,
    )


def test_arguments_that_are_no_arrays_of_this_rank():
    f = graphc.function([x, y], together, backend="numpy")
    calls = {
        "input x has 1 axes, not 2": lambda: f(ones(3), ones(4, 2)),
        "input x is no array": lambda: f([[1], [1, 2]], ones(4, 2)),
        "call: missing inputs: y": lambda: f(ones(1, 2)),
        "input x is the symbolic value <x: float32[b?, n]>": lambda: f(x, ones(3)),
    }
    for first, call in calls.items():
        raised(call, first, kind=graphc.CallError)


def test_an_axis_beside_a_size_of_its_name():
    whole(
        lambda: graphc.function([x, plain], x + plain),
        "function: both b? and b are sizes, and no two sizes of a program may be "
        "called the same\n"
        f"  got: float32[b?, n], declared at {HERE}:{line_of('x')}, and float32[b, n], "
        f"declared at {HERE}:{line_of('plain')}\n"
        '  hint: rename one of them: an axis "a?" may be 1, or else must equal the '
        "size that it meets, as b",
    )


def test_an_axis_that_no_input_tells():
    whole(
        lambda: graphc.function([twice], twice),
        "function: no axis of the inputs has just the size b?\n"
        f"  got: float32[2*b?], declared at {HERE}:{line_of('twice')}\n"
        "  hint: whether it is 1 must be known from an axis of its own",
    )


def test_too_many_axes():
    inputs = [gt.tensor(f"v{i}", "float32", (f"a{i}?",)) for i in range(7)]
    whole(
        lambda: graphc.function(inputs, sum(inputs)),
        "function: 7 axes may be 1, which would be 128 programs\n"
        "  got: a0?, a1?, a2?, a3?, a4?, a5?, a6?\n"
        "  expected: at most 6\n"
        "  hint: give axes that are 1 together one name, and axes that never are no ?",
    )
    f = graphc.function(inputs[:6], sum(inputs[:6]), backend="numpy")
    given = [np.full(i % 2 * 2 + 1, i, "float32") for i in range(6)]
    assert f(*given).tolist() == [15, 15, 15]


def test_names_of_axes():
    f = graphc.function([x, y], together, backend="numpy")
    whole(
        lambda: f.program("m"),
        "program: there is no axis 'm' that may be 1\n  expected: b?",
    )


def test_examples_of_ragged():
    whole(
        lambda: graphc.ragged([x], gt.sum(x)),
        "ragged: axes that may be 1 would stretch in only some of the examples\n"
        "  got: b?\n"
        "  hint: declare them without ?, and give all examples their full sizes",
    )
