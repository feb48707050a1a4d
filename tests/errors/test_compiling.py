"""Bad input to `graphc.function`: what cannot be compiled, and why."""

import re
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors import messages
from tests.errors.messages import raised, rows

x = gt.tensor("x", "float32", ("n", 3))
y = gt.tensor("y", "float32", ("n",))
half = gt.tensor("half", "float32", ("n//2",))
numbers = gt.tensor("numbers", "int64", ("n",))
wide = gt.tensor("wide", "float64", (2,))
k = gt.iscalar("k")
kept = x[x[:, 0] > 0]
sized = gt.zeros(gt.max(numbers))
HERE = "test_compiling.py"


def line_of(name):
    return messages.line_of(name, line_of)


def test_an_output_needs_a_variable_that_is_not_an_input():
    raised(
        lambda: graphc.function([x], x[:, 0] + y),
        "function: an output depends on 'y', which is not an input",
        f"got: inputs x; 'y' of type float32[n], declared at {HERE}:{line_of('y')}, "
        f"is needed by add at {HERE}:",
        "hint: add 'y' to the inputs",
    )
    raised(
        lambda: graphc.function([], y),
        "function: an output depends on 'y', which is not an input",
        "got: inputs none; 'y' of type float32[n], declared at "
        f"{HERE}:{line_of('y')}, is an output itself",
    )


def test_an_integer_used_as_a_size_must_be_an_input_too():
    raised(
        lambda: graphc.function([y], y[:k]),
        "function: an output depends on 'k', which is not an input",
        f"got: inputs y; 'k' of type int64[], declared at {HERE}:{line_of('k')}, "
        "is needed by basic_index at",
    )


def test_a_size_must_be_that_of_an_axis_of_the_inputs():
    raised(
        # int16, since equal nodes of other tests may be alive, with their places
        lambda: graphc.function([k], gt.zeros(x.shape[0], "int16") + k),
        "function: the size n is not that of any axis of the inputs",
        "got: inputs int64[]",
        f"expected: n, for zeros at {HERE}:",
        "hint: add a variable with an axis n to the inputs",
    )
    raised(
        lambda: graphc.function([], x.shape[0]),
        "function: the size n is not that of any axis of the inputs",
        "got: inputs none",
        "expected: n\n",
    )


def test_a_size_may_come_from_another_variable_that_has_it():
    f = graphc.function([y], gt.zeros(x.shape[0]) + y)
    assert f(np.ones(2, "float32")).shape == (2,)


def test_a_size_must_follow_from_the_inputs():
    raised(
        lambda: graphc.function([half], gt.zeros(y.shape[0], "int16")),
        "function: the size n cannot be worked out from the inputs",
        "got: axis 0 of half is n//2",
        f"expected: n, for zeros at {HERE}:",
        "hint: add a variable with an axis n to the inputs",
    )
    f = graphc.function([half, y], [half + 1, y])  # y's axis tells n
    assert f(np.ones(2, "float32"), np.ones(5, "float32"))[0].shape == (2,)
    with pytest.raises(graphc.CallError, match=r"has 3 elements, not n//2 = 2"):
        f(np.ones(3, "float32"), np.ones(5, "float32"))


@rows(
    (
        lambda: graphc.function([x, y, x], x[:, 0] + y),
        "function: input 'x' is given twice",
        f"got: float32[n, 3], declared at {HERE}:{line_of('x')}",
        "hint: give each variable once",
    ),
    (
        lambda: graphc.function({"a": x, "b": x}, x + 1),
        "function: input 'x' is given twice",
    ),
    (
        lambda: graphc.function([x + 1], x),
        "function: inputs must be variables",
        "got: <add: float32[n, 3]>",
        "hint: make one with gt.tensor(name, dtype, shape)",
    ),
    (
        lambda: graphc.function([graphc.Input(x + 1, default=2)], x),
        "function: inputs must be variables",
    ),
    (
        lambda: graphc.function([np.ones(3)], x),
        "function: inputs must be variables",
        "got: array([1., 1., 1.])",
    ),
    (
        lambda: graphc.function(x, x),
        "function: inputs must be in a list or a dict",
        "got: <x: float32[n, 3]>",
        "expected: a list of variables, or a dict of them by name",
    ),
    (
        lambda: graphc.function(None, x),
        "function: inputs must be in a list or a dict",
        "got: None",
    ),
    (
        lambda: graphc.function("x", x),
        "function: inputs must be in a list or a dict",
        "got: 'x'",
    ),
    (
        lambda: graphc.function({x, y}, x[:, 0] + y),  # a set has no order
        "function: inputs must be in a list or a dict",
    ),
    (
        lambda: graphc.function({1: x}, x),
        "function: the keys of the inputs must be text",
        "got: 1",
    ),
)
def test_inputs_that_are_none(row):
    raised(*row)


@rows(
    (
        lambda: graphc.function([x], None),
        "function: an output must be a symbolic value",
        "got: None",
        "expected: a value, or a list, tuple or dict of values",
    ),
    (
        lambda: graphc.function([x], "x"),
        "function: an output must be a symbolic value",
        "got: 'x'",
    ),
    (
        lambda: graphc.function([x], [x, {"a": [x, print]}]),
        "function: an output must be a symbolic value",
        "got: <built-in function print>",
    ),
    (
        lambda: graphc.function([x], {1: x}),
        "function: the keys of the outputs must be text",
        "got: 1",
    ),
    (
        lambda: graphc.function([x], np.array([None])),
        "function: arrays of dtype object are not supported",
    ),
)
def test_outputs_that_are_none(row):
    raised(*row)


@rows(
    (
        lambda: graphc.function([x], x, backend="torch"),
        "function: backend cannot be 'torch'",
        "expected: one of 'jax', 'numpy'",
    ),
    (
        lambda: graphc.function([x], x, jit="yes"),
        "function: jit cannot be 'yes'",
        "expected: one of 'auto', 'fewest', True, False",
    ),
    (lambda: graphc.function([x], x, jit=1), "function: jit cannot be 1"),
    (lambda: graphc.function([x], x, check="no"), "function: check cannot be 'no'"),
)
def test_options_that_are_none(row):
    raised(*row)


@rows(
    (
        lambda: graphc.Input(k, default="3"),
        "function: the default of input k is no array",
        "got: str",
        f"expected: int64[], declared at {HERE}:{line_of('k')}",
    ),
    (
        lambda: graphc.Input(k, default=2.5),
        "function: the default of input k has another dtype",
        "got: float[]",
        'hint: numpy.asarray(value, "int64") converts it',
    ),
    (
        lambda: graphc.Input(k, default=np.float32(2)),
        "function: the default of input k has another dtype",
        "got: float32[]",
    ),
    (
        lambda: graphc.Input(k, default=2**63),
        "function: the default of input k is out of range: "
        "9223372036854775808 does not fit int64",
    ),
    (
        lambda: graphc.Input(y, default=np.ones(3)),
        "function: the default of input y has another dtype",
        "got: float64[3]",
        f"expected: float32[n], declared at {HERE}:{line_of('y')}",
    ),
    (
        lambda: graphc.Input(y, default=[1.0]),
        "function: the default of input y is no array",
    ),
    (
        lambda: graphc.Input(y, default=x),
        "function: the default of 'y' is symbolic",
        "hint: a default is a number or an array",
    ),
)
def test_defaults_must_fit(row):
    make, *expected = row
    given = make()

    def build():
        return graphc.function([given], given.value + 1)

    with pytest.raises(graphc.GraphError) as caught:
        build()
    text = str(caught.value)
    assert text.splitlines()[0] == expected[0]
    for part in (*expected[1:], f"at {__file__}:"):
        assert f"\n  {part}" in text, text


@pytest.mark.parametrize(
    ("build", "node", "line"),
    [
        (lambda: graphc.function([x], gt.sort(kept), jit=True), "nonzero", "kept"),
        (lambda: graphc.function([numbers], sized, jit=True), "zeros", "sized"),
    ],
    ids=["mask", "maximum"],
)
def test_one_jit_is_impossible_where_a_size_depends_on_data(build, node, line):
    with pytest.raises(graphc.GraphError) as caught:
        build()
    problem, hint, place, pointer = str(caught.value).splitlines()
    assert pointer == "  help: graphc help one-program"
    assert re.fullmatch(
        rf"function: jit=True is impossible: {node} needs the size \w+, "
        r"which depends on data",
        problem,
    )
    assert hint.startswith("  hint: reduce over the selected elements with gt.where")
    assert hint.endswith('or pass the size as an argument, or use jit="auto"')
    assert place.startswith(f"  at {__file__}:{line_of(line)}: {line} = ")


def test_one_jit_is_possible_where_a_size_is_an_argument():
    f = graphc.function([x, k], x[:k] * 2, jit=True)
    assert f(np.ones((4, 3), "float32"), 2).shape == (2, 3)
    assert len(f.plan.segments) == 1


def test_a_strict_policy_that_an_op_cannot_keep():
    how, key = {"dims": graphc.Pad(strict=True)}, gt.random.key(1)
    messages.whole(
        lambda: graphc.function([x], gt.random.permutation(key, x, 0, True), **how),
        "random.permutation: the size n cannot be padded here: draws differ in a "
        "longer array\n"
        "  got: uint32[2], float32[n, 3]\n"
        "  hint: leave strict out: the op is then compiled for each size",
    )


def test_a_check_needs_a_driver():
    raised(
        lambda: graphc.function([y, numbers], y[numbers], jit=False, check=True),
        "function: a check needs the host, and an un-jitted program may be traced",
        'hint: compile with jit="auto"',
    )


def test_inputs_that_do_nothing_are_reported():
    with pytest.warns(graphc.UnusedInputWarning) as caught:
        graphc.function([x, k, wide], x + 1)
    place = f"{HERE}:{line_of('k')}"
    assert [w.message.args[0] for w in caught] == [
        f"input 'k' ({place}) does not affect the outputs",
        f"input 'wide' ({HERE}:{line_of('wide')}) does not affect the outputs",
    ]
    assert {w.filename for w in caught} == {__file__}


def test_inputs_that_do_nothing_can_be_ignored_or_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = graphc.function([x, k, wide], x + 1, backend="numpy", unused="ignore")
    assert f(np.ones((1, 3), "float32"), 2, np.ones(2)).tolist() == [[2, 2, 2]]
    raised(
        lambda: graphc.function([x, k], x + 1, unused="error"),
        "function: input 'k' does not affect the outputs",
        f"got: int64[], declared at {HERE}:{line_of('k')}",
        'hint: leave it out, or compile with unused="ignore"',
    )
    raised(
        lambda: graphc.function({"a": k, "b": wide}, x.shape[1], unused="error"),
        "function: inputs 'a', 'b' do not affect the outputs",
        f"got: int64[], declared at {HERE}:{line_of('k')}; "
        f"{wide.type}, declared at {HERE}:{line_of('wide')}",
        'hint: leave them out, or compile with unused="ignore"',
    )
    raised(
        lambda: graphc.function([x], x, unused="raise"),
        "function: unused cannot be 'raise'",
        "expected: one of 'ignore', 'warn', 'error'",
    )
    assert graphc.function([x], x + 1, unused="error")(np.ones((1, 3), "f4")).size == 3


@pytest.mark.parametrize("outputs", [lambda: y.shape[0], lambda: gt.zeros(x.shape[0])])
def test_inputs_of_which_only_the_size_matters_are_not(outputs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = graphc.function([y], outputs())
    f(np.ones(2, "float32"))


def test_nothing_is_left_behind_by_a_failed_compilation():
    with pytest.raises(graphc.GraphError):
        graphc.function([x], kept + 0.5, jit=True)
    f = graphc.function([x], kept + 0.5)
    assert f(np.ones((2, 3), "float32")).shape == (2, 3)
    assert f.stats().calls == 1
