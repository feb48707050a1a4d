"""Axes declared as "b?" may be 1 at a call, and then stretch as NumPy's do.

Results are compared with NumPy's, with those of the same graph with numbers as sizes,
and with JAX's gradients.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.verify import verify
from graphc.ir.graph.walk import ancestors
from graphc.ir.text.printer import to_text
from graphc.ir.text.reader import parse_graph
from graphc.transform.padding.stretching import axes_maybe_one, resolve_ones
from tests.transform.alike import alike

SHAPES = (("b?", "n"), ("m", "n"), ("c?", "n"))
MEETING = (3, 3, 3), (1, 3, 1), (3, 3, 1), (1, 0, 1)
SIZES = [{"b": b, "m": m, "c": c, "n": 2} for b, m, c in MEETING]


def numbers(shape, sizes):
    return tuple(sizes[n.removesuffix("?")] if isinstance(n, str) else n for n in shape)


def arrays(shapes, sizes):
    rng = np.random.default_rng(0)
    return [rng.uniform(0.5, 1.5, numbers(s, sizes)) for s in shapes]


def declared(shapes):
    return [gt.tensor(f"x{i}", "float64", s) for i, s in enumerate(shapes)]


def results(build, inputs, given, **options):
    f = graphc.function(inputs, list(build(*inputs)), unused="ignore", **options)
    return f(*given)


def as_with_numbers(build, shapes=SHAPES, calls=SIZES, backend="numpy", **options):
    """Check that calls give, or refuse, the same as with all sizes known."""
    inputs = declared(shapes)
    f = graphc.function(
        inputs, list(build(*inputs)), backend=backend, unused="ignore", **options
    )
    compared = 0
    for sizes in calls:
        given = arrays(shapes, sizes)
        known = declared([numbers(s, sizes) for s in shapes])
        try:
            expected = results(build, known, given, backend="numpy")
        except graphc.GraphError:
            with pytest.raises(graphc.CallError):
                f(*given)
        else:
            alike(f(*given), expected)
            compared += 1
    assert 2 * compared >= len(calls)
    return f


def with_gradients(build):
    """The outputs of `build`, and the gradients in all inputs."""

    def both(*inputs):
        outputs = list(build(*inputs))
        costs = [gt.sum(gt.sin(v)) for v in outputs if v.dtype.kind == "f"]
        found = graphc.grad(sum(costs), list(inputs), disconnected="zero")
        return [*outputs, *found]

    return both


def clipped(x):
    """A product with a gradient rule of its own."""
    made = graphc.custom_vjp(lambda x, y: x * y)
    rule = made.defvjp(
        lambda x, y: (x * y, (x, y)),
        lambda kept, g: tuple(
            graphc.grad(gt.sum(kept[0] * kept[1] * gt.stop_gradient(g)), list(kept))
        ),
    )
    return rule(*x)


def after_each(c, row, x, w):
    return c * 0.5 + gt.sum(x * row * c, 0) * 0.1, gt.sum(w * row * c, 0)


CASES = {
    "arithmetic": lambda x, y, w: [x + y * w, x * w, x - y, w / 2 + x],
    "rank 0": lambda x, y, w: [x * 2, gt.sum(w) * x, x + gt.ones(())],
    "comparisons": lambda x, y, w: [gt.where(x > w, y, x), x < y, gt.maximum(x, w)],
    "matmul": lambda x, y, w: [x[:, :, None] @ y[:, None] @ w[..., None]],
    "einsum": lambda x, y, w: [
        gt.einsum("ij,ij,ij->i", x, y, w),
        gt.einsum("ij,ij->j", x, w),
    ],
    "stretched": lambda x, y, w: [
        gt.broadcast_to(x, y.shape) * w,
        *gt.broadcast_arrays(x, y, w),
    ],
    "joins": lambda x, y, w: [gt.concatenate([x, y, x * w]), gt.stack([x, x]) * w],
    "reductions": lambda x, y, w: [
        gt.sum(x * y, 0),
        gt.mean(x * 2, 1) + gt.sum(y, 1),
        gt.sum(x, 0, keepdims=True) * y,
    ],
    "cumulative": lambda x, y, w: [gt.cumsum(x * w, 0) * y, gt.flip(x, 0) * y],
    "indices": lambda x, y, w: [x[:, 0] * y[:, 1], y.at[:].set(x * w),],
    "sizes": lambda x, y, w: [x * gt.arange(x.shape[0])[:, None], x / x.shape[0] + w],
    "products of sizes": lambda x, y, w: [
        gt.ravel(x[:, None, 0] * x[None, :, 0]) * y[:, 0]
    ],
    "scan": lambda x, y, w: gt.scan(
        lambda c, row: after_each(c, row, x, w), gt.ones((2,), "float64"), y
    ),
    "scan of carries": lambda x, y, w: gt.scan(
        lambda c, row: (c * 0.5 + row * gt.sum(y * c), gt.sum(c * y + w, 0)), x * w, y
    ),
    "scan of rows": lambda x, y, w: gt.scan(
        lambda c, row: (c + gt.sum(row * y * w), c), gt.zeros((), "float64"), x
    ),
    "nested scans": lambda x, y, w: [
        gt.scan(
            lambda c, row: (
                gt.scan(lambda d, q: after_each(d, q, x, w), c * row, y)[0],
                c,
            ),
            gt.ones((2,), "float64"),
            y[:2],
        )[1]
    ],
    "branches": lambda x, y, w: [
        gt.cond(gt.sum(y) > 2, lambda: x * w * 2, lambda: x * w),
        gt.cond(gt.sum(y) > 2, lambda: gt.sum(x * y, 0), lambda: gt.sum(w * y, 0)),
    ],
    "vmap": lambda x, y, w: [
        graphc.vmap(lambda a: gt.sum(a * y * w, 0))(x),
        graphc.vmap(lambda a: a * x * w)(y),
        graphc.vmap(lambda a, b: gt.sum(a * b) + a, 1, 1)(x, y),
    ],
    "vmap of a scan": lambda x, y, w: [
        graphc.vmap(lambda a: gt.sum(gt.scan(
            lambda c, row: after_each(c, row, x, a), gt.ones((2,), "float64"), y
        )[1]))(w)
    ],
    "checkpoint": lambda x, y, w: [graphc.checkpoint(lambda a: gt.sin(a * y) * w)(x)],
    "custom rule": lambda x, y, w: [clipped((x, w)) * y],
    "gradient of a gradient": lambda x, y, w: graphc.grad(
        gt.sum(graphc.grad(gt.sum(gt.sin(x * y) * w), x) ** 2), [x, y, w]
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_as_where_sizes_are_numbers(case):
    as_with_numbers(with_gradients(CASES[case]))


def test_results_and_refusals_are_those_of_numpy():
    shapes = ("b?", 2, "c?"), ("d?", "c?"), ("a?", 2, 1)
    x, y, z = inputs = declared(shapes)
    f = graphc.function(inputs, [x + y * z, x > y], backend="numpy")
    for a, b, c, d in itertools.product((0, 1, 2, 3), repeat=4):
        u, v, w = given = arrays(shapes, {"a": a, "b": b, "c": c, "d": d})
        try:
            expected = [u + v * w, u > v]
        except ValueError:
            with pytest.raises(graphc.CallError) as caught:
                f(*given)
            assert caught.value.kind == "broadcast"
        else:
            alike(f(*given), expected)
    assert len(f.stats().compilations) == 0


def test_on_jax_with_its_gradients_and_a_program_per_set_of_axes():
    x, y, w = inputs = declared(SHAPES)
    cost = gt.sum(gt.exp(x * y) * w)
    slopes = graphc.grad(cost, inputs)
    f = graphc.function(inputs, [x * w, *slopes], dims="specialize")
    sets = [(3, 3), (1, 3), (3, 1), (1, 1)]
    for b, c in [*sets, *sets]:
        given = arrays(SHAPES, {"b": b, "m": 3, "c": c, "n": 2})
        with jax.enable_x64(True):
            expected = jax.grad(
                lambda x, y, w: jnp.sum(jnp.exp(x * y) * w), (0, 1, 2)
            )(*given)
        alike(f(*given), [given[0] * given[2], *expected])
    stats = f.stats()
    assert stats.calls == 8
    reasons = [c.reason for c in stats.compilations]
    assert reasons == [
        "first call",
        "first call, where b? is 1",
        "first call, where c? is 1",
        "first call, where b? and c? are 1",
    ]


POLICIES = {
    "specialize": "specialize",
    "pad": graphc.Pad(minimum=2),
    "one size": {"b": graphc.Pad(minimum=2)},
    "as declared": {"b?": graphc.Pad(minimum=2), "m": graphc.Pad(minimum=2)},
    "bound": "bound",
    "auto": "auto",
}


@pytest.mark.parametrize("policy", POLICIES)
def test_under_every_policy(policy):
    def build(x, y, w):
        kept = gt.sum((x + y)[gt.sum(x + y, 1) > 2.5], 0)
        return [x * y + w, kept, *graphc.grad(gt.sum(gt.sin(x * y) * w), [x, w])]

    calls = [{"b": b, "m": m, "c": c, "n": 2} for b, m, c in ((5, 5, 1), (1, 4, 4))]
    backend = "jax" if policy in ("pad", "auto") else "numpy"
    as_with_numbers(build, calls=calls, backend=backend, dims=POLICIES[policy])


def test_a_policy_may_be_for_the_size_itself():
    x, y, _ = declared(SHAPES)
    pad = graphc.Pad(minimum=4)
    f = graphc.function([x, y], x + y, dims={x.shape[0]: pad, y.shape[0]: pad})
    assert [p.capacity(3) for p in f.plan.padded.policies.values()] == [4, 4]
    assert [p.capacity(3) for p in f.program("b").plan.padded.policies.values()] == [4]
    message = "names a size that the graph does not have"
    with pytest.raises(graphc.GraphError, match=message):
        graphc.function([x, y], x + y, dims={"k": pad})


def test_what_follows_from_one_axis_being_1():
    """Sizes that agree only if some axis is 1 leave a program for that case alone."""
    x, _, w = declared(SHAPES)
    longer = gt.concatenate([x, x, gt.ones((1, 2))])
    f = graphc.function([x], x + longer, backend="numpy")
    one = np.full((1, 2), 2.0)
    alike([f(one)], [one + np.array([[2.0] * 2, [2.0] * 2, [1.0] * 2])])
    with pytest.raises(graphc.CallError):
        f(np.ones((3, 2)))
    assert f.program("b?") is f


def test_one_size_on_several_inputs():
    shapes = ("b?", "n"), ("m", "n"), ("b?",)
    build = lambda x, y, v: [x * y, x + v[:, None], gt.sum(y, 1) * v]
    as_with_numbers(with_gradients(build), shapes)


def test_borrowed_arrays_find_the_program_of_their_axes():
    x, y = gt.tensor("x", "float32", ("b?",)), gt.tensor("y", "float32", ("n",))
    f = graphc.function([x, y], x * y)
    ones = [np.ones(n, "float32") for n in (1, 3)]
    assert [f.lend(one, ones[1]).shape for one in ones] == [(3,), (3,)]
    assert f.stats().calls == 2


def test_arguments_by_name_lists_and_defaults():
    x, y, _ = declared(SHAPES)
    one = np.ones((1, 2))
    f = graphc.function([graphc.Input(x, default=one), y], x + y, backend="numpy")
    three = np.full((3, 2), 2.0)
    alike([f(x1=three), f([[1, 1]], three), f(x1=three, x0=one)], [three + 1] * 3)
    alike([f(three, three)], [three * 2])
    assert f.stats().calls == 4


def test_what_functions_show_of_their_programs():
    x, y, w = declared(SHAPES)
    f = graphc.function([x, y, w], x + y * w, backend="numpy")
    f(np.ones((1, 2)), np.ones((3, 2)), np.ones((3, 2)))
    assert repr(f) == (
        "<graphc.Function (float64[b?, n], float64[m, n], float64[c?, n]) -> "
        "(float64[m, n]) on numpy>"
    )
    assert repr(f.program("b", "c?")) == (
        "<graphc.Function (float64[1, n], float64[m, n], float64[1, n]) -> "
        "(float64[m, n]) on numpy>"
    )
    assert "x0: float64[1, n]" in f.program("b").explain(full=True)
    headings = [line for line in f.explain(full=True).splitlines() if "where" in line]
    assert headings == [
        "one program for each set of axes that are 1, of 2 that may be; f.program('b') "
        "is that where b? is",
        "where none of b?, c? is 1:",
        "where b? is 1:",
        "where b? and c? are 1:",
    ]
    told = f.program("b").plan.forecast({"c": 3, "m": [3, 4], "n": 2})
    assert told.compilations == 2


def test_plain_jax_is_chosen_by_shapes():
    x, y, _ = declared(SHAPES)
    f = graphc.function([x, y], graphc.grad(gt.sum(gt.sin(x * y)), x))
    with jax.enable_x64(True):
        for b in (1, 3):
            made = arrays(SHAPES[:2], {"b": b, "m": 3, "n": 2})
            given = [jnp.asarray(a) for a in made]
            expected = jax.grad(lambda x, y: jnp.sum(jnp.sin(x * y)))(*given)
            alike([jax.jit(f.jax_callable)(*given)], [expected])


def test_vmap_of_a_graph_with_sizes_of_others():
    x, y, _ = declared(SHAPES)
    slope = graphc.grad(gt.sum(gt.sin(x * y)), x)
    graph = Graph((x, y), (slope,), ("x", "y"), ("",))
    for shape in (("k", 1, "n"), ("k", "b?", "n"), ("k", "m", "n")):
        build = lambda u, v, w: [graphc.vmap(graph)(u, v)]
        sizes = [{"k": 2, "b": b, "m": 3, "n": 2} for b in (3, 1)]
        as_with_numbers(build, (shape, ("k", "m", "n"), ("n",)), sizes)


def test_texts_of_graphs_are_read_back():
    x, y, w = declared(SHAPES)
    slopes = graphc.grad(gt.sum(gt.sin(x * w) * y), [x, w])
    graph = Graph((x, y, w), (x * w, *slopes), ("x", "y", "w"), ("",) * 3)
    text = to_text(graph)
    assert "x of " not in text.splitlines()[0] or "float64[b?, n]" in text
    assert "float64[stretch(b?, c?), n] = multiply(x, w)" in text
    again = parse_graph(text, graph.inputs)
    assert all(a is b for a, b in zip(again.outputs, graph.outputs, strict=True))
    fresh = parse_graph(text)
    verify(fresh)
    assert to_text(fresh) == text
    given = arrays(SHAPES, {"b": 1, "m": 3, "c": 3, "n": 2})
    f, g = (
        graphc.function(one.inputs, list(one.outputs), backend="numpy")
        for one in (graph, fresh)
    )
    alike(f(*given), g(*given))


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_left_to_be_known_in_resolved_graphs(case):
    inputs = declared(SHAPES)
    outputs = tuple(with_gradients(CASES[case])(*inputs))
    names = tuple(v.name for v in inputs)
    graph = Graph(tuple(inputs), outputs, names, ("",) * len(outputs))
    axes = list(axes_maybe_one(graph))
    for ones in (axes[:1], axes):
        made = resolve_ones(graph, ones).graph
        verify(made)
        nodes = ancestors(made.outputs)
        sizes = [n for v in (v for node in nodes for v in node.outputs)
                 for n in v.type.shape if not isinstance(n, int)]
        assert not any(s.may_be_one for n in sizes for s in n.symbols)
        assert "unstretched" not in {node.primitive.name for node in nodes}
