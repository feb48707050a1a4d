"""Hints are typed as they say, and the result works."""

import inspect
import math
import re

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

x = gt.vector("x", "float64", ("n",))
y = gt.vector("y", "float64", ("n",))
X = gt.matrix("X", "float32")
n = x.shape[0]
name = "v"
shape = ("m", 3)


def refused(write, kinds=(graphc.GraphError, AttributeError)):
    with pytest.raises(kinds) as error:
        write()
    return str(error.value)


def doubled(variable):
    return graphc.function([variable], variable + variable, backend="numpy")


@pytest.mark.parametrize(
    ("called", "kind"),
    [
        ("dvector", ("float64", 1)),
        ("lscalar", ("int64", 0)),
        ("fmatrix", ("float32", 2)),
        ("bvector", ("int8", 1)),
        ("dtensor3", ("float64", 3)),
        ("zmatrix", ("complex128", 2)),
        ("input", ("float32", 2)),
        ("placeholder", ("float32", 2)),
    ],
)
def test_variables_of_other_libraries(called, kind):
    told = refused(lambda: getattr(gt, called))
    value = eval(told.partition("; write ")[2])
    assert (value.dtype.name, value.type.rank) == kind


@pytest.mark.parametrize(
    ("write", "typed", "wanted"),
    [
        (lambda: gt.zeros("n"), lambda: gt.zeros(x.shape[0]), "as x.shape[0]"),
        (
            lambda: gt.concatenate(x, y),
            lambda: gt.concatenate([x, y]),
            "gt.concatenate([x, y])",
        ),
        (lambda: gt.stack(x, y), lambda: gt.stack([x, y]), "gt.stack([x, y])"),
        (lambda: gt.zeros(3, 4), lambda: gt.zeros((3, 4)), "as (3, 4)"),
        (
            lambda: gt.random.normal(0, 1, 3),
            lambda: gt.random.normal(gt.random.key(0), (3,)),
            "(gt.random.key(0), (3,))",
        ),
        (
            lambda: gt.vector("x", ("n",)),
            lambda: gt.vector("x", shape=("n",)),
            "shape=('n',)",
        ),
        (lambda: gt.cat([x, y]), lambda: gt.concatenate([x, y]), "concatenate([x, y])"),
        (lambda: float(x.sum()), lambda: gt.sqrt(x.sum()), "gt.sqrt(x)"),
        (lambda: float(n), lambda: gt.sqrt(n), "gt.sqrt(x)"),
        (lambda: x.eval(), lambda: doubled(x), "graphc.function([x], y)(array)"),
        (lambda: x.item(), lambda: doubled(x), "graphc.function([x], y)(array)"),
        (lambda: x.numpy(), lambda: doubled(x), "graphc.function([x], y)(array)"),
        (lambda: x.view(-1), lambda: x.reshape((-1,)), "x.reshape(shape)"),
        (lambda: x.detach(), lambda: graphc.stop_gradient(x), "stop_gradient(x)"),
        (lambda: x.to("cpu"), lambda: x.astype("float32"), 'x.astype("float32")'),
        (lambda: x.dim(), lambda: x.ndim, "x.ndim"),
        (lambda: X.permute(1, 0), lambda: X.transpose((1, 0)), "x.transpose(axes)"),
        (lambda: x.unsqueeze(0), lambda: gt.expand_dims(x, 0), "gt.expand_dims(x"),
        (lambda: gt.jit, lambda: graphc.jit(abs), "graphc.jit(function)"),
        (lambda: graphc.compile, lambda: graphc.jit(abs), "graphc.jit(function)"),
    ],
)
def test_what_the_hint_says_to_write_works(write, typed, wanted):
    assert wanted in refused(write)
    typed()


def test_functions_of_math_name_those_of_gt():
    assert "use gt.sqrt" in refused(lambda: math.sqrt(x.sum()))
    assert "use gt.sqrt" in refused(lambda: math.sqrt(n))


F32 = doubled(gt.vector("a", "float32"))
ROWS = doubled(gt.matrix("a", "float32"))


@pytest.mark.parametrize(
    "value", [None, "abc", b"abc", {"a": 1}, object(), len, [None, 1.0]]
)
def test_what_is_no_array_is_not_told_to_be_converted(value):
    told = refused(lambda: F32(value))
    assert "numpy.asarray" not in told
    assert "hint: give an array or a number" in told or "give numbers alone" in told


def test_ragged_rows_are_told_by_their_lengths():
    told = refused(lambda: ROWS([[1.0, 2.0, 3.0], [4.0, 5.0]]))
    assert "hint: rows of lengths 3, 2 are no array: make them equally long" in told
    assert "1, 2, 3, 4, 5, 6, 7, 8, ..." in refused(
        lambda: ROWS([[0.0] * i for i in range(1, 12)])
    )


@pytest.mark.parametrize(
    "make", [lambda: (float(i) for i in range(3)), lambda: range(3), lambda: {0, 1, 2}]
)
def test_what_gives_items_is_converted_by_the_hint(make):
    told = refused(lambda: F32(make()))
    code = re.search(r"numpy\.asarray\(.*\)", told)[0]
    value = eval(code, {"numpy": np, "value": make()})
    np.testing.assert_array_equal(F32(value), [0.0, 2.0, 4.0])


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_key_of_jax_has_the_numbers_that_the_hint_tells(backend):
    floats = gt.tensor("key", "float64", (2,))
    f = graphc.function([floats], floats + floats, backend=backend)
    key = jax.random.key(7)
    told = refused(lambda: f(key))
    code = re.search(r"hint: (jax\.random\.key_data\(key\))", told)[1]
    np.testing.assert_array_equal(f(eval(code)), 2 * jax.random.key_data(key))


def test_float64_data_may_keep_its_digits():
    told = refused(lambda: ROWS(np.eye(2)))
    code = re.search(r"graphc\.config\.(\w+) = \"(\w+)\"", told)
    before = graphc.config.float
    try:
        setattr(graphc.config, code[1], code[2])
        f = doubled(gt.matrix("X"))
    finally:
        graphc.config.float = before
    np.testing.assert_array_equal(f(np.eye(2) / 3), 2 * np.eye(2) / 3)


def test_functions_that_are_no_methods_are_told_with_all_that_they_need():
    names = [n for n in dir(gt) if callable(getattr(gt, n)) and not hasattr(x, n)]
    told = {n: refused(lambda n=n: getattr(x, n)) for n in names}
    told = {n: message.partition("; write ")[2] for n, message in told.items()}
    calls = {n: code for n, code in told.items() if code.startswith(f"gt.{n}(")}
    assert calls["full"] == "gt.full(shape, fill_value)" and len(calls) > 100
    assert refused(lambda: x._part).endswith("no attribute '_part'")
    for name, code in calls.items():
        given = code.partition("(")[2].rstrip(")").split(", ")
        inspect.signature(getattr(gt, name)).bind(*given)
    binary = [code for code in calls.values() if code.endswith("(x, y)")]
    assert len(binary) > 30
    whole = {"x": gt.vector("a", "int64"), "y": gt.vector("b", "int64"), "gt": gt}
    for code in set(binary) - {"gt.vecmat(x, y)", "gt.matvec(x, y)"}:
        eval(code, whole)
