"""Mistakes of newcomers for which they once got messages of Python or JAX alone."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewrites import p, v

X = gt.tensor("x", "float32", ("n", 3))


NUMBER = graphc.rewrites.none + graphc.rewrite(p.exp(v.x), exact=True, name="number")(
    lambda x: 3
)


def jitted():
    return graphc.jit(lambda a: a.sum())


MISTAKES = {
    "gt in a function of JAX": (
        lambda: jax.grad(lambda a: gt.sum(a))(np.ones(3, "float32")),
        r"JAX is tracing it[^$]*graphc\.grad\(cost, x\)",
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
        r"these are not sizes of calls[^$]*got: 3[^$]*a dict",
    ),
    "a size that a jitted function has not": (
        lambda: jitted().compile(np.ones(3, "float32"), sizes={"q": [3]}),
        r"q is not a size of the arguments[^$]*shapes=",
    ),
    "a stance that is not entered": (
        lambda: graphc.stance("nocompile"),
        "there is no such stance: 'nocompile'",
    ),
    "a class in the place of a shard": (
        lambda: graphc.function([X], X, dims={"n": graphc.Shard}),
        r"hint: graphc\.Shard\('data'\) makes one",
    ),
    "a shard by a name": (
        lambda: graphc.function([X], X, dims={"n": "shard"}),
        r"hint: dims={'n': graphc\.Shard\('data'\)}, with mesh=",
    ),
    "an axis of the mesh in the place of a shard": (
        lambda: graphc.function([X], X, dims={"n": "data"}, mesh=graphc.mesh(data=1)),
        r"'data' is an axis of the mesh[^$]*hint: dims={'n': graphc\.Shard\('data'\)}",
    ),
    "a sharding of JAX in the place of a shard": (
        lambda: graphc.function([X], X, dims={"n": jax.P("data")}),
        r"hint: dims={'n': graphc\.Shard\('data'\)}, with mesh=",
    ),
    "a mesh in the place of policies": (
        lambda: graphc.function([X], X, dims=graphc.mesh(data=1)),
        r"hint: dims={'n': graphc\.Shard\('data'\)}, with mesh=",
    ),
    "a rule that is misspelled": (
        lambda: graphc.rewrites.default - "timesone",
        "did you mean 'times_one'",
    ),
    "open as a text": (
        lambda: graphc.function([X], X).show(open="no"),
        "open must be True or False",
    ),
    "a pattern that is not called": (
        lambda: graphc.rewrite(p.exp, exact=True),
        r"hint: write @graphc\.rewrite\(p\.exp\(v\.x\)",
    ),
    "a primitive that is misspelled": (lambda: p.exq(v.x), "did you mean 'exp'"),
    "a pattern of too many inputs": (
        lambda: p.exp(v.x, v.y),
        r"a different number of inputs[^$]*got: a pattern with 2[^$]*p\.exp\(v\.x\)",
    ),
    "a replacement that is none": (
        lambda: graphc.rewrite(p.exp(v.x), exact=True)(3),
        "a replacement must be a function",
    ),
    "a rule that gives a number": (
        lambda: graphc.function([X], gt.exp(X), rewrites=NUMBER).plan,
        "the rule number does not return a symbolic value",
    ),
    "decisions that are none": (
        lambda: graphc.function([X], X).decisions.merged(3),
        "these are not decisions",
    ),
    "a field": (lambda: X["a"], r"an array has no fields[^$]*got: 'a'"),
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
    message = f"is a property, not a method; write {code[:-2]}$"
    with pytest.raises(TypeError, match=message):
        eval(code, {"f": f})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: graphc.Pad(8), "; it takes growth=, minimum="),
        (lambda: graphc.Bound(8), "; it has no options"),
        (lambda: graphc.function([X], X).compile(n=3), "^compile.*; sizes go in a"),
        (lambda: graphc.function([X], X).lower(n=3), "^lower.* as {'n': 4}$"),
        (lambda: graphc.function([X], X).export("x"), "^export.. missing 1 required"),
        (lambda: graphc.Shard(), "^Shard.. missing 1 required"),
    ],
)
def test_options_that_have_no_such_place(make, told):
    with pytest.raises(TypeError, match=told):
        make()


@pytest.mark.parametrize(
    "code",
    [
        'np.sort(x, kind="fast")',
        "np.argsort(x, kind=3)",
        'np.sort(x, order="x")',
        'np.partition(x, 1, kind="x")',
        'np.isin(x, x, kind="x")',
        'x.copy(order="Z")',
        'np.array(x, order="Z")',
        'np.zeros_like(x, order="Z")',
        'np.add(x, x, casting="x")',
        "np.pad(x, (1, -1))",
        "np.atleast_1d(x, x, x=1)",
    ],
)
def test_options_that_numpy_refuses(code):
    x = np.ones(3, "float32")
    with pytest.raises((TypeError, ValueError)):
        eval(code)
    traced = eval(f"lambda x: {code}", {"np": np})
    with pytest.raises((TypeError, graphc.GraphError)):
        graphc.jit(traced, frontend="numpy")(x)


def test_static_arguments_that_a_function_of_numpy_has_not():
    with pytest.raises(ValueError, match="'y'"):
        graphc.jit(lambda x: np.sum(x), frontend="numpy", static_argnames="y")
