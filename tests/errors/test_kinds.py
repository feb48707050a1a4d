"""The kind of the error of a call, for programs that act on it; checks by users."""

import copy
import pickle

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ERROR_KINDS
from tests.errors.messages import both, ones, refused

x = gt.tensor("x", "float32", ("n", 3))
y = gt.tensor("y", "float32", ("n",))
other = gt.tensor("other", "float32", ("m",))
index = gt.tensor("index", "int64", ("m",))
small = gt.tensor("small", "int8", ())
k = gt.iscalar("k")

# Inputs, outputs, arguments, options: a call of each kind.
CALLS = [
    ("argument", [y], y + 1, lambda: [{1.0, 2.0}], {}),
    ("argument", [y], y + 1, lambda: [y], {}),
    ("argument", [y], y + 1, lambda: [np.ma.masked_array(ones(2), [True, False])], {}),
    ("broadcast", [y, other], y + other, lambda: [ones(2), ones(3)], {}),
    ("broadcast", [y, k], gt.broadcast_to(y, (2, k)), lambda: [ones(2), 3], {}),
    ("broadcast", [y, other], y.at[:].add(other), lambda: [ones(2), ones(3)], {}),
    ("check", [y], gt.assert_(y > 0, "positive", y), lambda: [-ones(2)], {}),
    ("divisibility", [y], y.reshape((-1, 2)), lambda: [ones(3)], {}),
    ("divisibility", [y, k], y.reshape((-1, k)), lambda: [ones(3), 2], {}),
    ("dtype", [y], y + 1, lambda: [np.ones(2, "float64") + 1j], {}),
    ("dtype", [k], gt.zeros(k), lambda: [2.5], {}),
    ("index", [y], y[4], lambda: [ones(2)], {}),
    ("index", [y, index], y[index], lambda: [ones(2), np.array([2])], {"check": True}),
    ("index", [y], gt.partition(y, 4), lambda: [ones(2)], {}),
    ("index", [y, other], y[other > 0], lambda: [ones(2), ones(3)], {}),
    ("matrix", [x], gt.linalg.inv(x), lambda: [ones(2, 3)], {}),
    ("matrix", [x], gt.linalg.inv(x), lambda: [0 * ones(3, 3)], {"check": True}),
    ("missing", [y, k], y + k, lambda: [ones(2)], {}),
    ("range", [small], small + 1, lambda: [1000], {}),
    ("range", [k], gt.zeros(k), lambda: [2**63], {}),
    ("shape", [y], y + 1, lambda: [ones(2, 2)], {}),
    ("shape", [x], x + 1, lambda: [ones(2, 4)], {}),
    ("shape", [x, y], x[:, 0] + y, lambda: [ones(2, 3), ones(3)], {}),
    ("shape", [k], gt.zeros(k), lambda: [-1], {}),
    ("shape", [y], gt.max(y), lambda: [ones(0)], {}),
    ("shape", [y, k], y.reshape((2, k)), lambda: [ones(3), 2], {}),
    ("stated", [y], gt.specify_shape(y, (4,)), lambda: [ones(2)], {}),
    ("unexpected", [y], y + 1, lambda: [ones(2), 1], {}),
    ("zero", [y, k], gt.zeros(y.shape[0] // k), lambda: [ones(2), 0], {}),
]


def called(inputs, outputs, args, backend, options):
    f = graphc.function(inputs, outputs, **{"backend": backend} | options)
    with pytest.raises(graphc.CallError) as caught:
        f(*args())
    return caught.value


@both
@pytest.mark.parametrize("row", CALLS, ids=lambda row: row[0])
def test_the_kind_of_an_error(backend, row):
    kind, *program, options = row
    assert called(*program, backend, options).kind == kind


def test_the_kind_of_arguments_by_name():
    f = graphc.function([y, k], y + k, backend="numpy")
    for named, kind in [({"z": 1}, "unexpected"), ({"y": 1}, "unexpected")]:
        with pytest.raises(graphc.CallError) as caught:
            f(ones(2), **named)
        assert caught.value.kind == kind


def test_the_kind_of_what_is_traced():
    f = graphc.function([k], gt.zeros(k))
    with pytest.raises(graphc.CallError) as caught:
        jax.jit(f)(2)
    assert caught.value.kind == "traced"


def test_the_kind_of_what_a_library_raises():
    shown = gt.debug_print("{0.nothing}", y)
    assert called([y], shown, lambda: [ones(2)], "numpy", {}).kind == "other"


def test_the_kinds_of_ragged_calls():
    f = graphc.ragged([y], gt.sum(y), backend="numpy")
    calls = [([], "missing"), ([[ones(2)], 1], "unexpected"), ([1.0], "argument")]
    calls += [([[ones(2, 2)]], "shape"), ([[np.ones(2)]], "dtype")]
    for args, kind in calls:
        with pytest.raises(graphc.CallError) as caught:
            f(*args)
        assert caught.value.kind == kind


def test_each_kind_has_its_test():
    tried = {row[0] for row in CALLS} | {"traced", "other"}
    tried |= {"process"}  # covered by tests with several processes
    assert tried == set(ERROR_KINDS)


def test_a_padded_program_and_a_saved_one_say_the_same_kind(tmp_path):
    f = graphc.function([y], y.reshape((-1, 2)), dims="pad")
    with pytest.raises(graphc.CallError) as caught:
        f(ones(3))
    assert caught.value.kind == "divisibility"
    f = graphc.function([y], y.reshape((-1, 2)), backend="numpy")
    saved = {}
    exec(f.source, saved)
    with pytest.raises(saved["ProgramError"]) as caught:
        saved["program"](ones(3))
    assert caught.value.kind == "divisibility"


@pytest.mark.parametrize("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_errors_can_be_copied(again):
    error = called([y], y[4], lambda: [ones(2)], "numpy", {})
    found = again(error)
    assert type(found) is graphc.CallError
    assert (str(found), found.kind) == (str(error), "index")


# Exceptions that users choose themselves.


class ScaleError(Exception):
    """An error of a user's library."""


positive = gt.assert_(y > 0, "the scale must be positive", y, ScaleError)


@both
def test_a_check_raises_the_class_that_it_is_given(backend):
    f = graphc.function([y], gt.log(positive), backend=backend)
    np.testing.assert_array_equal(f(ones(2)), [0, 0])
    with pytest.raises(ScaleError) as caught:
        f(np.array([1, -1], "float32"))
    assert str(caught.value) == "the scale must be positive"
    cause = caught.value.__cause__
    assert type(cause) is graphc.CallError and cause.kind == "check"
    first, asked, *_ = str(cause).splitlines()
    assert first == "the scale must be positive"
    assert asked.startswith("  asked for by test_kinds.py:")
    np.testing.assert_array_equal(f(ones(1)), [0])


def in_scan(value):
    def step(total, row):
        row = gt.assert_(row > 0, "a row is not positive", row, ScaleError)
        return total + gt.log(row), None

    return gt.scan(step, gt.asarray(0.0), value)[0]


def in_while(value):
    def body(state):
        i, total = state
        row = gt.assert_(value[i] > 0, "a row is not positive", value[i], ScaleError)
        return i + 1, total + gt.log(row)

    return gt.while_loop(lambda s: s[0] < value.shape[0], body, (0, 0.0))[1]


def in_branch(value):
    def checked(v):
        return gt.sum(gt.assert_(v > 0, "a row is not positive", v, ScaleError))

    return gt.cond(gt.sum(value) > -100, checked, gt.sum, value)


def in_python(value):
    """A loop run by Python, since each step computes a size that it needs."""

    def step(total, row):
        row = gt.assert_(row > 0, "a row is not positive", row, ScaleError)
        kept = value[value > row * 0]
        return total + gt.sum(kept[: gt.astype(row, "int64")]), None

    return gt.scan(step, gt.asarray(0.0), value)[0]


PROGRAMS = [in_scan, in_while, in_branch, in_python]


@both
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_check_within_a_loop_raises_its_class(backend, program):
    f = graphc.function([y], program(y), backend=backend)
    f(ones(3))
    with pytest.raises(ScaleError) as caught:
        f(np.array([1, -1, 2], "float32"))
    assert str(caught.value) == "a row is not positive"


@both
def test_a_check_keeps_its_class_in_gradients_maps_padding_and_texts(backend):
    g = graphc.grad(gt.sum(gt.log(positive)), y)
    mapped = graphc.vmap(lambda v: gt.assert_(v > 0, "low", v, ScaleError))(y)
    for output, options in [(g, {}), (mapped, {}), (gt.log(positive), {"dims": "pad"})]:
        if backend == "numpy" and options:
            continue
        f = graphc.function([y], output, backend=backend, **options)
        f(ones(3))
        with pytest.raises(ScaleError):
            f(-ones(3))


@both
def test_two_classes_of_one_name_are_two(backend):
    classes = [type("Twin", (Exception,), {}) for _ in range(2)]
    low, high = classes
    value = gt.assert_(y > 0, "too low", y, low)
    value = gt.assert_(value < 9, "too high", value, high)
    f = graphc.function([y], value, backend=backend)
    for number, kind in [(-1, low), (10, high)]:
        with pytest.raises(kind) as caught:
            f(np.full(2, number, "float32"))
        assert type(caught.value) is kind


def test_a_builtin_class_in_a_saved_program():
    checked = gt.assert_(y > 0, "the scale must be positive", y, ArithmeticError)
    saved = {}
    exec(graphc.function([y], checked, backend="numpy").source, saved)
    with pytest.raises(saved["ProgramError"]) as caught:
        saved["program"](-ones(2))
    assert caught.value.problem == "the scale must be positive"
    assert caught.value.error == "ArithmeticError"


@both
def test_a_check_without_a_class_is_a_call_error(backend):
    checked = gt.assert_(y > 0, "the scale must be positive", y)
    f = graphc.function([y], checked, backend=backend)
    error = refused(
        lambda: f(-ones(2)),
        "the scale must be positive",
        "asked for by test_kinds.py:",
        "arguments: y: float32[2]",
    )
    assert error.kind == "check"


class NeedsMore(Exception):
    """An exception that takes two arguments."""

    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "assert_: the error to raise is not an exception class\n  got: 3\n"),
        (ValueError("x"), "assert_: the error to raise is not an exception class\n"),
        (KeyboardInterrupt, "assert_: the error to raise is not an exception class"),
        (NeedsMore, "assert_: NeedsMore cannot be made from a message alone\n"),
    ],
)
def test_what_is_no_class_of_exceptions_is_refused(given, message):
    with pytest.raises(graphc.GraphError) as caught:
        gt.assert_(y > 0, "positive", y, given)
    assert str(caught.value).startswith(message)
