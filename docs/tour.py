"""The design of graphc, told as a program that runs: python docs/tour.py

A graph goes through four steps, each a value in and a value out:

    values and nodes  ->  binding times  ->  a plan  ->  the text of a program

The tour takes one small model through all steps and looks at the result of each.
The asserts are the claims of the design; a test runs them.
"""

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.analysis.binding_time import Time, binding_times
from graphc.backends.jax import emit_jax
from graphc.backends.program import Outputs
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.op import PRIMITIVES
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes import dims
from graphc.transform.planning.partition import partition

# 1. Values and nodes ----------------------------------------------------------------
#
# A `Value` is a symbolic array. It is an output of a `Node`: a primitive op applied to
# values, with parameters that are fixed when the graph is built. Values and nodes never
# change, and the same node built twice is one object, so the graph never has common
# subexpressions.

x = gt.tensor("x", "float32", ("n", 3))
w = gt.tensor("w", "float32", (3,))
k = gt.iscalar("k")

score = x @ w
assert (x @ w) is score
assert score.node.primitive.name == "matmul" and score.node.inputs == (x, w)

# Most functions are not primitives, but Python code that builds several nodes: the mean
# is a sum and a division.

mean = gt.mean(score)
print("1. primitives so far:", len(PRIMITIVES))
print("1. the nodes of a mean:", [n.primitive.name for n in ancestors([mean])])

# 2. Sizes ---------------------------------------------------------------------------
#
# A type is a dtype and sizes. A size is an int or a `Dim`: an integer expression over
# symbols, in a normal form. A comparison of two sizes has three answers, and "cannot
# tell" is never taken for "no".

n = x.type.shape[0]
m = gt.vector("v", shape=("m",)).type.shape[0]
assert (n + 1) * (n - 1) + 1 is n * n
assert dims.equal(n + 1, n) is False
assert dims.less_equal(n // 2, n) is True
assert dims.equal(n, m) is None

# Shapes follow from the graph. A relation of sizes that cannot be proved becomes a
# guard: a comparison of two integers at each call.

pairs = gt.concatenate([score, score]).reshape((-1, 2))
assert str(pairs.type) == "float32[n, 2]" and pairs.node.guards == ()
(guard,) = (score + gt.vector("v", shape=("m",))).node.guards
print("2. a guard:", guard.left, guard.relation, guard.right)

# A symbol comes from an axis of an input, or from an integer value of the graph used
# as a size: an argument such as k, or a count such as "how many are positive". There
# is no other kind of dynamic size: `nonzero` is a count, and an op that takes a size.

first = score[:k]
kept = score[score > 0]
print("2. sizes:", first.type, "and", kept.type)

# 3. Binding times -------------------------------------------------------------------
#
# Each value is known at one of four times, the latest among the values it is made from:
# BUILD (a constant), SHAPE (from the shapes of the arguments), STATIC (from small
# integer arguments, by arithmetic on the host) and DATA (computed on the device).

length, odd, count = x.shape[0] + 1, 2 * k + 1, gt.count_nonzero(score > 0)
times = binding_times(ancestors([length, odd, count]))
assert times[length.node] is Time.SHAPE
assert times[odd.node] is Time.STATIC
assert times[count.node] is Time.DATA

# An op says which integers it must have before it can be compiled: those in its
# parameters. `sort` demands nothing, a slice to k demands k.

best = gt.sort(kept)[::-1][:k]
assert best.node.demands == (k,)
assert score.node.demands == ()

# 4. The plan ------------------------------------------------------------------------
#
# Binding times and demands make the plan. A demanded integer that is STATIC becomes a
# static argument. One that is DATA ends a segment, is read as one Python int, and is a
# static argument of the next segment. Segments are split further by the sizes that they
# depend on, if that saves more compilation than it costs in calls.

plan = partition(Graph((x, w, k), (best,), ("x", "w", "k"), ("best",)))
print("4. the plan:")
for step in plan.steps:
    if step in plan.segments:
        ops = [node.primitive.name for node in step.nodes]
        print(f"   segment for {[s.name for s in step.keys]}: {', '.join(ops)}")
    else:
        print(f"   glue: {step.reason}")
assert len(plan.glue) == 1 and plan.static_inputs == (2,)

# The first segment depends on neither k nor the count: neither compiles it again.

assert [s.name for s in plan.segments[0].keys] == ["n"]

# 5. The text ------------------------------------------------------------------------
#
# A backend prints the plan as one Python module, and each node as one line, by a
# template that stands beside the op's type rule.

text = emit_jax(plan, Outputs("single")).text
print("5. the driver:\n" + text[text.index("def program") :].rstrip())
assert "import graphc" not in text

# 6. The function --------------------------------------------------------------------
#
# `graphc.function` does all of this, and then executes that very text; there is no
# other way to run a graph. The text itself keeps the log: a segment that is being
# compiled says so. Here, each size is compiled for. By default, sizes that vary are
# padded, and the graph is split into fewer parts.

f = graphc.function([x, w, k], best, dims="specialize")
assert f.source == text
rows = np.arange(12, dtype="float32").reshape(4, 3) - 5
weights = np.array([1, -1, 1], "float32")
expected = np.sort((rows @ weights)[rows @ weights > 0])[::-1]
for wanted in (1, 2, 1):
    assert np.array_equal(f(rows, weights, wanted), expected[:wanted])
print("6. compiled:", [f"segment {c.segment}" for c in f.stats().compilations])
assert len(f.stats().compilations) == len(plan.segments) + 1

# The same graph on NumPy is one function, and gives the same result.

g = graphc.function([x, w, k], best, backend="numpy")
assert np.array_equal(g(rows, weights, 2), expected[:2])
