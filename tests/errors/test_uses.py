"""Values used where Python or a library needs a number: the whole error message."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import graphc
import graphc.tensor as gt
from tests.errors.messages import rows, whole

x = gt.tensor("x", "float32", ("n", 3))
w = gt.tensor("w", "float32", (4, 2))
k = gt.iscalar("k")
s = gt.scalar("s")
NO_NUMBER = "a symbolic value has no number before the function is called"
IF = "use gt.cond(condition, lambda: a, lambda: b), or gt.where(condition, a, b)"
LISTED = "for a list, a tuple or an array of NumPy, write gt.asarray(a)[i]"
FLOAT = 'use x.astype("float64"); for math.sqrt(x) and the like, gt.sqrt(x)'
UPDATE = (
    "at: `at` is the start of an update, not an array\n"
    "  got: float32[n, 3], the symbolic value x\n"
    "  hint: write x.at[i].set(v), .add(v), .multiply(v), .min(v) or .max(v), "
    "which gives a new value; x[i] reads"
)


def number(word, got, hint):
    return f"{word}: {NO_NUMBER}\n  got: {got}\n  hint: {hint}"


NO_NAMESAKE = "use the functions of graphc.tensor, or call it outside, on arrays"


def taken(function, hint, got="float32[n, 3], the symbolic value x"):
    problem = "takes arrays, not symbolic values"
    return f"{function}: {problem}\n  got: {got}\n  hint: {hint}"


S = "float32[], the symbolic value s"
K = "int64[], the symbolic value k"
N = "weak int64[], the size n"


@rows(
    (lambda: 1 if s > 0 else 0, number("if", "bool[]", IF)),
    (lambda: 0 < s < 1, number("a < b < c", "bool[]", "write (a < b) & (b < c)")),
    (lambda: not s, number("not", S, "write ~a, or gt.logical_not(a)")),
    (lambda: s in [1, 2], number("in", "bool[]", "use gt.isin(x, numbers)")),
    (lambda: (s > 0) and (s < 1), number("and", "bool[]", "write (a) & (b)")),
    (lambda: (s > 0) or (s < 1), number("or", "bool[]", "write (a) | (b)")),
    (lambda: max(s, 1), number("max", "bool[]", "use gt.maximum(a, b)")),
    (lambda: min(s, k), number("min", "bool[]", "use gt.minimum(a, b)")),
    (lambda: sorted([s, k]), number("sorted", "bool[]", "use gt.sort(x)")),
    (lambda: any([s > 0]), number("any", "bool[]", "use gt.any(x)")),
    (lambda: bool(s), number("bool", S, f"{IF}; for and, or, not: & | ~")),
    (lambda: int(k), number("int", K, "use the symbolic integer itself")),
    (lambda: [1, 2][k], number("index", K, LISTED)),
    (lambda: float(s), number("float", S, FLOAT)),
    (lambda: float(s) if k is not s else 0, number("float", S, FLOAT)),
    (
        lambda: range(k),
        number(
            "range",
            K,
            "use gt.arange(n), or gt.fori_loop(0, n, body, start) for a loop",
        ),
    ),
    (
        lambda: range(x.shape[0]),
        number(
            "range",
            N,
            "use gt.arange(n), or gt.fori_loop(0, n, body, start) for a loop",
        ),
    ),
    (
        lambda: f"{s:.3f}",
        number(
            "format", S, 'gt.debug_print("{:.3f}", x) prints it when it is computed'
        ),
    ),
)
def test_what_python_asks_for(row):
    whole(*row)


def statements():
    """Contain an `if`, one of the statements that need a bool."""
    if s > 0:
        pass


def repeated():
    while s > 0:
        pass


def asserted():
    assert s > 0


def both_of_them():
    if (s > 0) and (s < 1):
        pass


@pytest.mark.parametrize(
    ("function", "word", "hint"),
    [
        (statements, "if", IF),
        (repeated, "while", "use gt.while_loop(condition, body, start)"),
        (both_of_them, "and", "write (a) & (b)"),
    ],
)
def test_statements(function, word, hint):
    with pytest.raises(graphc.GraphError) as caught:
        function()
    assert str(caught.value).startswith(
        f"{number(word, 'bool[]', hint)}\n  at {__file__}:"
    )


def test_a_write_into_an_array_is_told_apart_from_a_read():
    y = np.zeros(2)
    with pytest.raises(graphc.GraphError, match=r"hint: .*y\.at\[i\]\.set\(a\)"):
        y[k] = 1


def test_without_the_source_all_is_told():
    with pytest.raises(graphc.GraphError) as caught:
        eval("1 if s > 0 else 0", {"s": s})
    text = number("bool", "bool[]", f"{IF}; for and, or, not: & | ~")
    assert caught.value.args[0] == f"{text}\n  at <string>:1"


def test_functions_of_ours_that_need_a_number_are_named():
    with pytest.raises(graphc.GraphError) as caught:
        gt.sum(x, keepdims=s)
    assert str(caught.value).startswith(
        f"sum: {NO_NUMBER}\n  got: {S}\n  at {__file__}:"
    )


@rows(
    (lambda: jnp.sin(x), taken("jnp.sin", "use gt.sin")),
    (lambda: jax.nn.relu(x), taken("jax.nn.relu", "use gt.nn.relu")),
    (lambda: jax.lax.sin(x), taken("jax.lax.sin", "use gt.sin")),
    (lambda: jax.lax.add(1.0, x), taken("jax.lax.add", "use gt.add")),
    (
        lambda: jnp.sin(w),
        taken("jnp.sin", "use gt.sin", "float32[4, 2], the symbolic value w"),
    ),
    (
        lambda: jax.numpy.linalg.norm(x),
        taken("jax.numpy.linalg.norm", "use gt.linalg.norm"),
    ),
    (lambda: jnp.asarray(x), taken("jnp.asarray", "use gt.asarray")),
    (lambda: np.asarray(x), taken("np.asarray", "use gt.asarray")),
    (lambda: np.array([x, x]), taken("np.array", "use gt.array")),
    (lambda: math.sin(s), taken("math.sin", "use gt.sin", S)),
    (
        lambda: math.comb(k, 2),
        taken("math.comb", NO_NAMESAKE, K),
    ),
    (
        lambda: scipy.special.logsumexp(x),
        taken("scipy.special.logsumexp", "use gt.special.logsumexp or gt.nn.logsumexp"),
    ),
    (
        lambda: scipy.special.airy(x),
        f"scipy.special.airy: takes no symbolic values\n  hint: {NO_NAMESAKE}",
    ),
    (lambda: jax.jit(abs)(x), taken("jax", NO_NAMESAKE)),
)
def test_functions_of_other_libraries(row):
    whole(*row)


def test_libraries_with_a_protocol_of_their_own():
    """The value is called as `torch.sin(x)` would call it."""

    def sin():
        """A function of that library."""

    whole(
        lambda: type(x).__torch_function__(sin, (), (x,)),
        taken("torch.sin", "use gt.sin"),
    )


def test_arrays_of_jax_leave_their_operators_to_values():
    ones = jnp.ones(3)
    for y in (ones + x, ones @ gt.transpose(x), ones > x):
        assert isinstance(y, graphc.Value)


@rows(
    (lambda: x.at[0] + 1, UPDATE),
    (lambda: 1 - x.at[0], UPDATE),
    (lambda: x.at.set(1), UPDATE),
    (lambda: x.at[0](1), UPDATE),
    (lambda: gt.sum(x.at[0]), UPDATE),
    (lambda: [*x.at[0]], UPDATE),
)
def test_updates_that_are_not_finished(row):
    whole(*row)


def test_format_without_a_specification_shows_the_type():
    assert f"{x}" == "<x: float32[n, 3]>"
