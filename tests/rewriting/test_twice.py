"""Programs built again while an equal one lives, so that both share some nodes."""

import sys
import threading
from collections import Counter

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.build import size_value
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import fresh_axis
from graphc.rewrites import Rules, p, v
from graphc.rewriting.engine import fixpoint
from tests.fuzz.generator import generate, tolerance
from tests.fuzz.more_steps import MORE

PAD = graphc.Pad(minimum=3, growth=1.6)
OPTIONS = {"backend": "numpy", "unused": "ignore"}
pytestmark = pytest.mark.filterwarnings("ignore")  # not by threads: they share filters


def built(seed, dims, programs):
    """Build a program and its function, check its values, and keep both alive."""
    with np.errstate(all="ignore"):
        program = generate(seed, MORE)
        outputs = [known.symbolic for known in program.made]
        f = graphc.function(program.inputs, outputs, **OPTIONS, dims=dims)
        results = f(*program.arguments)
    for step, known, found in zip(program.steps, program.made, results, strict=True):
        if not step.startswith("signbit"):
            limits = tolerance(known)
            np.testing.assert_allclose(found, known.array, **limits, err_msg=step)
    programs.append((program, f))


def ops(f):
    return Counter(node.primitive.name for node in f.plan.graph.nodes)


@pytest.mark.parametrize("dims", ["auto", PAD, "bound"], ids=str)
def test_programs_that_are_built_twice(dims):
    """The second program is as simple as the first."""
    for seed in range(6):
        programs = []
        for _ in range(2):
            built(seed, dims, programs)
        first, second = (ops(f) for _, f in programs)
        assert first == second, seed


def test_programs_that_are_built_in_two_threads():
    """Whatever they share is made once, by whichever thread comes first."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for seed in range(8):
            programs = []
            threads = [
                threading.Thread(target=built, args=(seed, PAD, programs))
                for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(programs) == 2, seed
    finally:
        sys.setswitchinterval(interval)


@graphc.rewrite(p.sin(v.x), exact=False)
def sin_beside_numbers(x):
    return x + gt.sum(gt.cos(gt.arange(3.0)))


@graphc.rewrite(p.cos(v.x), exact=False)
def cos_to_exp(x):
    return gt.exp(x)


def test_rules_see_what_another_graph_holds_already():
    """The walk looks at nodes that a rule brings in, and counts their uses."""
    x = gt.vector("x")
    older = gt.cos(gt.arange(3.0))
    graph = Graph((x,), (gt.sin(x),), ("x",), ("",))
    walk = fixpoint._RewritePass(Rules((sin_beside_numbers, cos_to_exp)), graph, {})
    made = walk.run()
    assert walk._uses[older] == 1
    names = {node.primitive.name for node in ancestors(made.outputs)}
    assert older.node.primitive.name == "cos" and "cos" not in names
    assert "exp" in names


def test_threads_make_one_node_and_one_symbol():
    """Two threads never see two nodes for one size, nor two sizes for one value."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            size, found, start = fresh_axis("n"), [], threading.Barrier(2)

            def make(size=size, found=found, start=start):
                start.wait()
                value = size_value(size)
                found.append((value, gt.cos(value).astype("int64").symbol))

            threads = [threading.Thread(target=make) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            (a, s), (b, t) = found
            assert a is b and s is t and a.sizes[()] is size
    finally:
        sys.setswitchinterval(interval)
