"""Functions that users pass, and values where functions are meant: whole messages."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors.messages import line_of, ones, rows, whole

x = gt.tensor("x", "float32", ("n", 3))
y = gt.tensor("y", "float32", ("n",))
k = gt.iscalar("k")
s = gt.scalar("s")
second = gt.tensor("x", "float32", (3,))


def square(v):
    """A function of the user's."""
    return v * v


def values(op, call):
    return (
        f"{op}: takes values, not functions\n"
        "  got: the Python function square\n"
        f'  hint: call it first: x = gt.vector("x"); graphc.{call}'
    )


@rows(
    (lambda: graphc.grad(square, s), values("grad", "grad(square(x), x)")),
    (
        lambda: graphc.value_and_grad(square, s),
        values("value_and_grad", "value_and_grad(square(x), x)"),
    ),
    (lambda: graphc.vjp(square), values("vjp", "vjp(square(x), x, v)")),
    (lambda: graphc.jvp(square, [s]), values("jvp", "jvp(square(x), x, v)")),
    (lambda: graphc.jacobian(square, s), values("jacobian", "jacobian(square(x), x)")),
    (lambda: graphc.hessian(square, s), values("hessian", "hessian(square(x), x)")),
    (lambda: graphc.hvp(square), values("hvp", "hvp(square(x), x, v)")),
    (lambda: graphc.function(square), values("function", "function([x], square(x))")),
    (
        lambda: graphc.function([x], square),
        values("function", "function([x], square(x))"),
    ),
    (
        lambda: graphc.grad(s * s),
        "grad: an argument is missing\n  expected: graphc.grad(y, x)",
    ),
    (
        lambda: graphc.vjp(s * s, s),
        "vjp: an argument is missing\n  expected: graphc.vjp(y, x, v)",
    ),
    (
        lambda: graphc.function([x]),
        "function: an output must be a symbolic value\n"
        "  got: None\n"
        "  expected: a value, or a list, tuple or dict of values",
    ),
)
def test_functions_where_values_are_meant(row):
    whole(*row)


def body(op, what, count, problem, got):
    return f"{op}: {what} is called with {count} arguments: {problem}\n  got: {got}"


MISSING = "missing a required argument: 'v'"
TOO_MANY = "too many positional arguments"


@rows(
    (
        lambda: gt.cond(s > 0, 1, 2),
        "cond: a branch must be a function\n"
        "  got: 2\n  hint: write lambda: value, or lambda x: value",
    ),
    (
        lambda: gt.switch(k, [y, y]),
        "switch: a branch must be a function\n"
        "  got: <y: float32[n]>\n  hint: write lambda: value, or lambda x: value",
    ),
    (
        lambda: gt.cond(s > 0, square, square),
        body("cond", "a branch", 0, MISSING, "square(v)"),
    ),
    (
        lambda: gt.cond(s > 0, square, square, s, s),
        body("cond", "a branch", 2, TOO_MANY, "square(v)"),
    ),
    (
        lambda: gt.switch(k, [square], s, s),
        body("switch", "a branch", 2, TOO_MANY, "square(v)"),
    ),
    (
        lambda: gt.scan(square, s, y),
        body("scan", "the body", 2, TOO_MANY, "square(v)"),
    ),
    (
        lambda: gt.fori_loop(0, 3, square, s),
        body("fori_loop", "the body", 2, TOO_MANY, "square(v)"),
    ),
    (
        lambda: gt.while_loop(lambda: s > 0, square, s),
        body("while_loop", "the condition", 1, TOO_MANY, "<lambda>()"),
    ),
    (
        lambda: gt.while_loop(lambda c: c > 0, lambda: s, s),
        body("while_loop", "the body", 1, TOO_MANY, "<lambda>()"),
    ),
    (
        lambda: gt.map(lambda a, v: a, y),
        body("map", "the function", 1, MISSING, "<lambda>(a, v)"),
    ),
)
def test_functions_that_cannot_be_called_so(row):
    whole(*row)


def no_bool(op, got, hint="", problem="the condition must be a bool scalar"):
    text = f"{op}: {problem}\n  got: {got}"
    return f"{text}\n  hint: {hint}" if hint else text


COMPARE = "compare it: x != 0, or x > 0"
REDUCE = "reduce it: gt.all(...) or gt.any(...)"


@rows(
    (
        lambda: gt.while_loop(lambda c: c, square, s),
        no_bool("while_loop", "float32[]", COMPARE),
    ),
    (
        lambda: gt.while_loop(lambda c: c, square, 5),
        no_bool("while_loop", "int64[]", COMPARE),
    ),
    (lambda: gt.while_loop(lambda c: 1, square, s), no_bool("while_loop", "int 1")),
    (
        lambda: gt.while_loop(lambda c: None, square, s),
        no_bool("while_loop", "NoneType None"),
    ),
    (
        lambda: gt.while_loop(lambda c: np.ones(3, bool), square, s),
        no_bool("while_loop", "bool[3]", REDUCE, "the condition must be a scalar"),
    ),
    (
        lambda: gt.scan(lambda c, v: (c, v), s, y, until=lambda c, v: c),
        no_bool("scan", "float32[]", COMPARE),
    ),
)
def test_conditions_that_are_no_bool(row):
    whole(*row)


@pytest.mark.parametrize("pred", [s, k], ids=str)
def test_the_predicate_of_cond_may_be_a_number_as_in_jax(pred):
    """`jax.lax.cond` accepts numbers, `jax.lax.while_loop` does not."""
    f = graphc.function([pred], gt.cond(pred, lambda: 1, lambda: 2), backend="numpy")
    assert [int(f(0)), int(f(3))] == [2, 1]


def test_branches_of_other_types_are_told_of_cond():
    whole(
        lambda: gt.cond(s > 0, lambda: x, lambda: y),
        "cond: branches return different types in position 0\n"
        "  got: float32[n, 3] from branch 1\n  expected: float32[n]",
    )


def test_a_second_variable_of_a_name_is_told_as_that():
    here = "test_functions_given.py"
    needed = line_of("total", line_of_total)
    whole(
        lambda: graphc.function([x], total),
        "function: two variables are called 'x', and an output depends on the one that "
        "is not an input\n"
        f"  got: 'x' of type float32[3], declared at {here}:{line_at('second')}, is "
        f"needed by add at {here}:{needed}\n"
        f"  expected: the input 'x' of type float32[n, 3], declared at "
        f"{here}:{line_at('x')}\n"
        "  hint: make 'x' once and use it in both places, or rename one of them",
    )
    f = graphc.function([x, second], total, backend="numpy")
    assert f(ones(2, 3), ones(3)).tolist() == [[2, 2, 2]] * 2


def line_of_total():
    """Stand for this file, for `line_of`."""


def line_at(name):
    return line_of(name, line_of_total)


total = x + second
