"""Plans: where segments are cut, what recompiles what, and that no cycle arises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir.graph.walk import ancestors
from graphc.transform.planning.plan import Check, HostNode, Read, Segment

NONE = graphc.rewrites.none  # plans of programs as they are written


def mlp(h, w, layers=20):
    for _ in range(layers):
        h = gt.tanh(h @ w) + 0.1 * h
    return h


def weights():
    return gt.tensor("w", "float32", (4, 4)), np.full((4, 4), 0.1, "float32")


def compiled_segments(f, *calls):
    """The segments that each call compiles."""
    found = []
    for args in calls:
        before = len(f.stats().compilations)
        f(*args)
        found.append([c.segment for c in f.stats().compilations[before:]])
    return found


def test_a_graph_without_glue_is_one_jitted_function():
    x = gt.tensor("x", "float32", ("n", 4))
    w, W = weights()
    f = graphc.function([x, w], mlp(x, w))
    assert len(f.plan.segments) == 1 and not f.plan.glue
    assert "program = segment_0\n" in f.source


def test_big_model_is_not_recompiled_for_a_reshape_behind_it():
    x = gt.tensor("x", "float32", (6, 4))
    n = gt.iscalar("n")
    w, W = weights()
    f = graphc.function([x, w, n], gt.reshape(mlp(x, w), (n, -1)))
    a = np.ones((6, 4), "float32")
    assert compiled_segments(f, (a, W, 2), (a, W, 3), (a, W, 2), (a, W, 4)) == [
        [0, 1],
        [1],
        [],
        [1],
    ]
    assert f.static_argnums == (2,)


def test_big_static_part_after_a_small_dynamic_one_is_not_recompiled():
    x = gt.tensor("x", "float32", (6, 4))
    v = gt.tensor("v", "float32", ("m",))
    w, W = weights()
    f = graphc.function([x, w, v], mlp(x * gt.sum(v), w))
    a = np.ones((6, 4), "float32")
    calls = [(a, W, np.ones(n, "float32")) for n in (3, 4)]
    first, second = compiled_segments(f, *calls)
    assert len(first) == 2 and len(second) == 1
    big = max(f.plan.segments, key=lambda s: len(s.nodes))
    assert big.index not in second


def test_two_independent_parts_compile_once_per_size_each():
    x = gt.tensor("x", "float32", ("n", 4))
    y = gt.tensor("y", "float32", ("m", 4))
    w, W = weights()
    outputs = [gt.sum(mlp(x, w)), gt.sum(mlp(y, w))]
    f = graphc.function([x, y, w], outputs, dims="specialize")
    ones = {n: np.ones((n, 4), "float32") for n in (2, 3, 4)}
    for n in ones:
        for m in ones:
            f(ones[n], ones[m], W)
    assert len(f.stats().compilations) == 6


def test_small_parts_share_a_segment():
    x = gt.tensor("x", "float32", ("n",))
    y = gt.tensor("y", "float32", ("m",))
    f = graphc.function([x, y], [gt.sum(x), gt.sum(y)])
    assert len(f.plan.segments) == 1


@pytest.mark.parametrize("prepare", [lambda w: w[None], lambda w: gt.tanh(w)])
def test_what_does_not_vary_stays_where_many_values_would_be_handed_over(prepare):
    """Compiling it once would save less than each call spends on the values."""
    x = gt.tensor("x", "float32", ("n", 4))
    scales = [gt.tensor(f"w{i}", "float32", (4,)) for i in range(100)]
    rows = x
    for scale in scales:
        rows = rows * prepare(scale)
    f = graphc.function([x, *scales], rows)
    assert len(f.plan.segments) == 1


def test_one_read_of_one_integer_per_count():
    x = gt.tensor("x", "float32", ("n", 4))
    w, W = weights()
    h = mlp(x, w)
    f = graphc.function([x, w], gt.sum(mlp(h[h[:, 0] > 0], w)))
    assert [type(s) for s in f.plan.steps] == [Segment, Read, Segment]
    assert "h[h[:, 0] > 0]" in f.plan.glue[0].place.code


def test_mask_used_twice_is_counted_once():
    x = gt.tensor("x", "float32", ("n",))
    y = gt.tensor("y", "float32", ("n",))
    f = graphc.function([x, y], gt.sum(x[x > 0] * y[x > 0]), rewrites=NONE)
    assert sum(isinstance(g, Read) for g in f.plan.glue) == 1


def test_a_count_used_as_a_number_only_is_not_read():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.nonzero(x > 0)[0].shape[0])
    assert not f.plan.glue
    assert np.asarray(f(np.array([1, -1, 2], "float32"))) == 2


def test_a_size_is_free_where_shapes_give_it():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sin(gt.arange(2 * x.shape[0] + 1)))
    assert len(f.plan.steps) == 1 and f.static_argnums == ()


CONSTANT_KEY = np.array([3, 4], "uint32")
MADE_ONCE = {
    "draw": lambda: gt.random.normal(CONSTANT_KEY, 3),
    "draw from a seed": lambda: gt.random.normal(gt.random.key(5), 3),
    "integers": lambda: gt.random.randint(CONSTANT_KEY, 3, 0, 9),
    "order": lambda: gt.random.permutation(CONSTANT_KEY, np.arange(3)),
    "keys": lambda: gt.random.split(CONSTANT_KEY, 3),
    "inverse": lambda: gt.linalg.inv(np.eye(3)),
    "in NumPy only": lambda: gt.special.kv(1.5, 2.0),
}


def masked_twice(made, x, backend="jax"):
    """A program that uses `made` before and after a read of a size."""
    outputs = [gt.sum(x) * made, gt.sum(x[x > 0]) * made]
    return graphc.function([x], outputs, backend=backend, rewrites=NONE)


@pytest.mark.parametrize("name", MADE_ONCE)
def test_what_is_made_of_constants_is_made_once(name):
    x, made = gt.tensor("x", "float32", ("n",)), MADE_ONCE[name]()
    f = masked_twice(made, x)
    assert sum(makes(step, made.node) for step in f.plan.steps) == 1
    a = np.array([1, -2, 4], "float32")
    expected = np.asarray(graphc.function([], made)(), "float64")
    for got, factor in zip(f(a), (3, 5), strict=True):
        np.testing.assert_allclose(got, expected * factor, rtol=1e-6)


def makes(step, node):
    if isinstance(step, Segment):
        return node in step.nodes
    return isinstance(step, HostNode) and step.node is node


def test_what_is_filled_from_numbers_is_made_where_it_is_used():
    x = gt.tensor("x", "float32", ("n",))
    made = gt.full(3, 2.0, "float32")
    f = masked_twice(made, x)
    assert [made.node in s.nodes for s in f.plan.segments] == [True, True]
    assert not any(made in set(s.inputs) for s in f.plan.segments)


def test_computed_sizes_are_host_arithmetic():
    sizes = gt.ivector("sizes", (3,))
    f = graphc.function([sizes], gt.zeros((gt.max(sizes), gt.prod(sizes))))
    assert {type(g) for g in f.plan.glue} == {HostNode}
    assert f(np.array([1, 3, 2])).shape == (3, 6)
    assert f.static_argnums == (0,)


def test_vector_elements_as_sizes_need_no_glue():
    sizes = gt.ivector("sizes", (2,))
    f = graphc.function([sizes], gt.zeros(sizes))
    assert f(np.array([2, 5])).shape == (2, 5)
    assert f.static_argnums == (0,)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_checks_are_made_as_soon_as_they_can_be(backend):
    """Those of arguments run before anything else, those of data once it is there."""
    x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    few = gt.assert_(k * 2 + 1 < 9, "too many", k)
    kept = gt.assert_(gt.sum(x) > 0, "none", x[x > 0])
    f = graphc.function([x, k], gt.tile(kept, few), backend=backend)
    if backend == "jax":
        check_plan(f.plan)
        kinds = [type(step) for step in f.plan.steps]
        first, last = (s for s in f.plan.steps if isinstance(s, Check))
        assert (first.message, last.message) == ("too many", "none")
        assert kinds.index(Check) < kinds.index(Segment)
    a = np.array([-1, 2], "float32")
    np.testing.assert_array_equal(f(a, 2), [2, 2])
    for args, said in (((a, 4), "too many"), ((-a, 2), "none"), ((-a, 4), "too many")):
        with pytest.raises(graphc.CallError, match=said):
            f(*args)


def test_an_integer_may_be_a_size_and_a_number():
    n = gt.iscalar("n")
    f = graphc.function([n], gt.arange(n) * n / 2)
    np.testing.assert_array_equal(f(4), np.arange(4) * 4 / 2)


def test_nested_counts_alternate():
    x = gt.tensor("x", "float32", ("n",))
    y = x[x > 0]
    z = y[y > 1]
    f = graphc.function([x], z[z > 2], rewrites=NONE)
    kinds = [type(s) for s in f.plan.steps]
    assert kinds == [Segment, Read, Segment, Read, Segment, Read, Segment]
    np.testing.assert_array_equal(f(np.arange(-3, 6).astype("float32")), [3, 4, 5])


def test_small_work_on_sizes_that_are_read_together_is_one_segment():
    """They change together, so a segment for each would be compiled as often."""
    x, y = gt.vector("x", shape=("n",)), gt.vector("y", shape=("m",))
    a, b = x[x > 0], y[y > 0]
    f = graphc.function([x, y], gt.sum(gt.exp(a[:, None] - b), axis=1))
    kinds = [type(s) for s in f.plan.steps if not isinstance(s, Check)]
    assert kinds == [Segment, Read, Read, Segment]
    xs, ys = np.arange(-3, 6, dtype="float32"), np.arange(-2, 4, dtype="float32")
    expected = np.sum(np.exp(np.arange(1, 6.0)[:, None] - np.arange(1, 4.0)), axis=1)
    np.testing.assert_allclose(f(xs, ys), expected, rtol=1e-5)
    for _ in range(100):
        a, b = gt.sin(a), gt.tanh(b)
    f = graphc.function([x, y], gt.sum(gt.exp(a[:, None] - b), axis=1))
    assert len(f.plan.segments) > 2  # no large work on one is redone for the other


def test_jit_true_is_one_segment_or_names_what_forbids_it():
    x = gt.tensor("x", "float32", (6, 4))
    n = gt.iscalar("n")
    w, W = weights()
    f = graphc.function([x, w, n], gt.reshape(mlp(x, w), (n, -1)), jit=True)
    assert len(f.plan.segments) == 1
    assert f(np.ones((6, 4), "float32"), W, 3).shape == (3, 8)
    with pytest.raises(graphc.GraphError) as error:
        graphc.function([x], x[x > 0], jit=True)
    message = str(error.value)
    assert "nonzero needs the size" in message and "gt.where" in message
    assert "test_partition.py" in message


def test_fewest_segments_are_not_parted_by_sizes():
    inputs = [gt.tensor(name, "float32", (name,)) for name in "abcdef"]
    outputs = [gt.sum(gt.tanh(x + k) * gt.exp(-x)) for k, x in enumerate(inputs)]
    outputs.append(sum(x[x > 0][0] for x in inputs))
    counts = [
        len(graphc.function(inputs, outputs, jit=jit).plan.segments)
        for jit in ("auto", "fewest")
    ]
    assert counts[1] == 2 < counts[0]  # between them, the counts of x > 0 are read


def test_what_shrinks_on_the_way_is_made_where_it_is_used():
    x = gt.tensor("x", "float32", ("n",))
    h = gt.tanh(x)
    wide = gt.outer(h, h)  # made from h, which crosses anyway
    f = graphc.function([x], gt.sum(wide[h > 0]), rewrites=NONE)
    crossing = {v for s in f.plan.segments for v in s.outputs}
    assert wide not in crossing and h in crossing
    check_plan(f.plan)


def test_depth_of_10_000_needs_no_recursion():
    x = gt.tensor("x", "float32", ("n",))
    y = x
    for _ in range(5_000):
        y = gt.sin(y) + x
    f = graphc.function([x], y, backend="numpy")
    assert f(np.zeros(2, "float32")).shape == (2,)


@st.composite
def dags(draw):
    """A random graph over sizes n and m, with masks, a size argument and joins."""
    x = gt.tensor("x", "float32", ("n",))
    y = gt.tensor("y", "float32", ("m",))
    k = gt.iscalar("k")
    pool = [x, y]
    for _ in range(draw(st.integers(1, 25))):
        a = draw(st.sampled_from(pool))
        b = draw(st.sampled_from(pool))
        kind = draw(st.sampled_from(["sin", "mask", "cut", "join", "scale", "add"]))
        if kind == "sin":
            made = gt.sin(a)
        elif kind == "mask":
            made = a[a > 0]
        elif kind == "cut":
            made = a[:k]
        elif kind == "join":
            made = gt.concatenate([a[:3], b[:2]])
        elif kind == "scale":
            made = a * gt.sum(b)
        else:
            made = a + gt.cos(a)
        pool.append(made)
    outputs = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))
    return [x, y, k], outputs


def planned(dag):
    """Compile a random graph and check its plan."""
    f = graphc.function(*dag, unused="ignore")
    check_plan(f.plan)
    return f


@settings(max_examples=40, deadline=None)
@given(dags())
def test_random_plans_run_in_order(dag):
    planned(dag)


@settings(max_examples=15, deadline=None)
@given(dags(), st.integers(0, 4), st.integers(0, 5))
def test_random_plans_agree_with_numpy(dag, k, n):
    jax_f = planned(dag)
    numpy_f = graphc.function(*dag, backend="numpy", unused="ignore")
    rng = np.random.default_rng(k + 10 * n)
    args = (
        rng.normal(size=n).astype("float32"),
        rng.normal(size=n + 1).astype("float32"),
        k,
    )
    for a, b in zip(jax_f(*args), numpy_f(*args), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def check_plan(plan):
    """Check that each segment has its inputs, and that every node is in some step."""
    made = set(plan.graph.inputs)
    reads = set()
    for step in plan.steps:
        if isinstance(step, Segment):
            assert made.issuperset(step.inputs)
            inside = set(made)
            for node in step.nodes:
                if not node.primitive.inline:
                    given = set(map(plan.resolve, node.inputs))
                    free = {v for v in given if v.node.primitive.inline}
                    assert inside.issuperset(given - free)
                inside.update(node.outputs)
            made.update(step.outputs)
        elif isinstance(step, HostNode):  # no constants, nothing that JAX computes
            assert not step.node.primitive.inline
            assert not any(v.type.rank for v in step.node.outputs)
            made.update(step.node.outputs)
        elif isinstance(step, Read):
            assert step.value in made and step.value not in reads
            reads.add(step.value)
    placed = {n for s in plan.segments for n in s.nodes}
    placed |= {s.node for s in plan.steps if isinstance(s, HostNode)}
    placed |= {value.node for value in plan.aliases}
    for node in ancestors(plan.graph.outputs):
        fixed = node.primitive.inline or node.primitive.name == "input"
        assert fixed or node in placed
