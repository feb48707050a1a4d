"""Rewritten programs do no more than those as written: loops, products, elements.

Values are right even if a layer is computed several times over, so other tests do not
notice. Here, a program's work is counted in its trace, with steps of loops as often as
they run. Nothing is compiled or run, and sizes are large enough for many tiles and
chunks.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from benchmarks.families import FAMILIES
from benchmarks.gradients import CASES, variables
from graphc.ir.sizes.dims import Dim, substitute
from graphc.rewrites import default, none
from tests.fuzz.generator import generate
from tests.fuzz.loop_steps import LOOPS, REDUCTIONS
from tests.fuzz.rewritable_steps import REWRITABLE

LONG = 1500  # a matrix with so many rows and columns has several tiles
# Rules that make loops; each value that they replace may have a loop of its own.
MAKING = ("large_in_blocks", "repeated_blocks", "scan_in_chunks", "scan_of_chunks")
# To save memory, a tile of columns takes up to 1.25 times the products. A checkpoint in
# a gradient takes each step once more, beside the forward and the backward one.
MOST_PRODUCTS = 4 / 3
# Accurate forms take up to three times the operations: softmax finds the largest
# element first, and online softmax rescales for each tile. Whole programs take less.
MOST_ELEMENTS = 2.0
SLACK = 100 * LONG  # elements: counts, masks and positions of rows


@dataclass
class Work:
    """A program's work: loops in its text, and what all of their steps take."""

    loops: int = 0
    products: float = 0.0
    elements: float = 0.0


def work_of(jaxpr, times=1.0, found=None):
    """The work of a trace that runs `times` times."""
    found = Work() if found is None else found
    for eqn in jaxpr.eqns:
        name, inner = eqn.primitive.name, list(bodies(eqn))
        if name in ("scan", "while"):
            found.loops += 1
        for body in inner:
            work_of(body, times * eqn.params.get("length", 1), found)
        if name in ("dot_general", "conv_general_dilated"):
            found.products += times * operations(eqn)
        elif not inner:
            values = (*eqn.invars, *eqn.outvars)
            found.elements += times * max([prod(v.aval.shape) for v in values])
    return found


def bodies(eqn) -> Iterator:
    """Yield the traces inside an equation."""
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else [value]:
            each = getattr(each, "jaxpr", each)
            if hasattr(each, "eqns"):
                yield each


def operations(eqn):
    """The number of multiplications of a product."""
    (x, y), (out,) = eqn.invars[:2], eqn.outvars
    if eqn.primitive.name == "dot_general":
        (axes, _), _ = eqn.params["dimension_numbers"]
        return prod(out.aval.shape) * prod(x.aval.shape[a] for a in axes)
    return prod(out.aval.shape) * prod(y.aval.shape[1:])


def at_length(size):
    """The size as a number, with all symbols long; None if it still has symbols."""
    if not isinstance(size, Dim):
        return size
    found = substitute(size, dict.fromkeys(size.symbols, LONG))
    return found if isinstance(found, int) else None


def traced(inputs, outputs, rules):
    """The work of a program and the rules applied; None if it is not one trace."""
    how = {"dims": "specialize", "jit": "fewest", "unused": "ignore"}
    f = graphc.function(inputs, outputs, rewrites=rules, **how)
    if f.plan.glue or len(f.plan.segments) > 1 or f.static_argnums:
        return None
    shapes = [tuple(map(at_length, x.type.shape)) for x in inputs]
    pairs = zip(shapes, inputs, strict=True)
    given = [jax.ShapeDtypeStruct(shape, x.dtype) for shape, x in pairs]
    with jax.enable_x64(True):
        try:
            made = jax.make_jaxpr(f.jax_callable)(*given)
        except graphc.CallError:  # some size depends on data
            return None
    return work_of(made.jaxpr), f.rewrites


def check(inputs, outputs):
    """Check that a program does no more than as written; False if not compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before, after = (traced(inputs, outputs, r) for r in (none, default))
    if before is None or after is None:
        return False
    (old, _), (new, log) = before, after
    names = [a.rule.name for a in log]
    made = sum(name in MAKING for name in names)
    assert new.loops <= old.loops + made, (old, new, names)
    assert new.products <= MOST_PRODUCTS * old.products + SLACK, (old, new, names)
    allowed = old.elements + old.products  # sums may replace it, as in one_hot
    assert new.elements <= MOST_ELEMENTS * allowed + SLACK, (old, new, names)
    return bool(names)


def with_gradients(inputs, outputs):
    """The outputs, and the gradients of their sum if there are any."""
    floats = [y for y in outputs if y.dtype.kind == "f"]
    own = [x for x in inputs if x.dtype.kind == "f"]
    if not floats or not own:
        return outputs
    total = sum(gt.sum(gt.sin(y)) for y in floats)
    try:
        return [*outputs, *graphc.grad(total, own)]
    except graphc.GraphError:  # some op has no gradient
        return outputs


def attention(x, w):
    q, k, v = (x @ w[i] for i in range(3))
    return gt.nn.softmax(q @ k.T / 4, -1) @ v


def layers(depth, gradient):
    x = gt.tensor("x", "float32", ("n", 16))
    weights = [gt.tensor(f"w{i}", "float32", (3, 16, 16)) for i in range(depth)]
    y = x
    for w in weights:
        y = y + attention(y, w)
    outputs = graphc.grad(gt.sum(y**2), weights) if gradient else [y]
    return [x, *weights], outputs


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("depth", [2, 4])
def test_layers_of_attention(depth, gradient):
    assert check(*layers(depth, gradient))


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_models(name):
    case = CASES[name]()
    xs = variables(case.arrays)
    check(xs, list(graphc.grad(case.cost(gt, *xs), xs[case.fixed :])))


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family):
    x = gt.tensor("x", "float32", ("n",))
    m = gt.tensor("m", "float32", ("r", "r"))
    calls = FAMILIES[family].items()
    found = [call(gt, x, m) for name, call in calls if name != "reshape"]
    check([x, m], with_gradients([x, m], found))


STEPS = {
    "forms": {"more": REWRITABLE * 4, "length": 8},
    "loops": {"more": LOOPS * 20, "length": 3},
    "reduced": {"more": REDUCTIONS * 20, "length": 3},
}


@pytest.mark.parametrize("kind", STEPS)
def test_random_programs(kind):
    compared = 0
    for seed in range(6):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = generate(seed, dtypes=("float32", "int32"), **STEPS[kind])
        outputs = [k.symbolic for k in program.made]
        if seed % 2:
            outputs = with_gradients(program.inputs, outputs)
        compared += check(program.inputs, outputs)
    assert compared
