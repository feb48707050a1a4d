"""Mistakes of newcomers that ended in words of Python or JAX alone."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

X = gt.tensor("x", "float32", ("n", 3))


def jitted():
    return graphc.jit(lambda a: a.sum())


MISTAKES = {
    "gt in a function of JAX": (
        lambda: jax.grad(lambda a: gt.sum(a))(np.ones(3, "float32")),
        r"JAX traces this one[^$]*graphc\.grad\(cost, x\)",
    ),
    "no types of arguments": (
        lambda: graphc.from_jax(lambda x, y: x + y, jax.ShapeDtypeStruct((3,), "f4")),
        r"needs the type of each argument[^$]*got: 1 of \(x, y\)",
    ),
    "a segment by its name": (
        lambda: graphc.function([X], gt.sum(X)).segment_source("0"),
        r"there is no segment '0'[^$]*got: 1 segment on jax",
    ),
    "sizes of a jitted function that are no dict": (
        lambda: jitted().compile(np.ones(3, "float32"), sizes=3),
        r"these are no sizes of calls[^$]*got: 3[^$]*a dict",
    ),
    "a size that a jitted function has not": (
        lambda: jitted().compile(np.ones(3, "float32"), sizes={"q": [3]}),
        r"q is no size of the arguments[^$]*shapes=",
    ),
    "no rule": (lambda: graphc.rewrites.check(3), r"takes a rule[^$]*got: 3"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told(mistake):
    make, message = MISTAKES[mistake]
    with pytest.raises(graphc.GraphError, match=message):
        make()


@pytest.mark.parametrize(
    ("owner", "name", "way"),
    [(graphc, "Tensor", "graphc.Value"), (X, "backward", "graphc.grad")],
)
def test_names_from_elsewhere(owner, name, way):
    with pytest.raises(AttributeError, match=way):
        getattr(owner, name)


@pytest.mark.parametrize(
    "code",
    ["f.plan()", "f.decisions()"],
)
def test_properties_are_not_called(code):
    f = graphc.function([X], gt.sum(X))
    with pytest.raises(TypeError, match=f"is not called; write {code[:-2]}$"):
        eval(code, {"f": f})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: graphc.Pad(8), "; it takes growth=, minimum="),
        (lambda: graphc.Bound(8), "; it has no options"),
        (lambda: graphc.function([X], X).compile(n=3), "; it takes sizes, "),
    ],
)
def test_options_that_have_no_such_place(make, told):
    with pytest.raises(TypeError, match=told):
        make()
