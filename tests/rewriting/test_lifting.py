"""Changes of shape that meet, and copies that are not made: plans before and after."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.walk import ancestors
from graphc.rewrites import default, none
from graphc.rewriting.rules.lifting import LIFTING
from graphc.transform.planning.plan import Check, Read, Segment

x = gt.tensor("x", "float64", ("n",))
table = gt.tensor("table", "float64", ("n", "d"))
keep = gt.tensor("keep", "bool", ("n",))
k = gt.iscalar("k")
INPUTS = [x, table, keep, k]
n, d = table.shape


def heads():
    return table.reshape(n, k, -1)


def blocks():
    return gt.exp(table).reshape(k, -1, d)


def rejoined(y):
    return y.reshape(-1, y.shape[2])


def centred():
    """A difference that reshapes, and sums over other axes, leave where it was."""
    cube = gt.exp(table).reshape(k, -1, d)
    return (cube - gt.mean(cube, axis=2, keepdims=True)).reshape(-1, d)


PROGRAMS = {  # programs that ask for an integer argument
    "sum of blocks": lambda: gt.sum(gt.exp(x.reshape(k, -1))),
    "sum of the reshaped alone": lambda: gt.sum(x.reshape(k, -1), keepdims=True),
    "variance": lambda: gt.var(x.reshape(k, -1)),
    "mean of chains": lambda: gt.mean(table.reshape(k, -1, d), axis=(0, 1)),
    "mean of heads": lambda: gt.mean(gt.tanh(heads()), axis=(1, 2)),
    "largest of blocks": lambda: gt.max(gt.abs(table.reshape(k, -1, d)), axis=(0, 1)),
    "any": lambda: gt.any(x.reshape(k, -1) > 1),
    "from a start": lambda: gt.min(x.reshape(-1, k), initial=0.5),
    "two at once": lambda: gt.sum(x.reshape(k, -1) * gt.sin(x).reshape(k, -1)),
    "gradient": lambda: graphc.grad(gt.sum(gt.exp(x.reshape(k, -1))), x),
    "there and back": lambda: gt.tanh(x.reshape(k, -1)).reshape(-1),
    "heads there and back": lambda: gt.tanh(heads() * 2).reshape(n, -1),
    "to another shape": lambda: gt.tanh(x.reshape(k, -1)).reshape(2, -1),
    "beside a row": lambda: (table.reshape(k, -1, d) * table[0]).reshape(-1, d),
    "behind sums": lambda: gt.sum(table.reshape(k, -1, d), axis=2).reshape(-1),
    "sums within": centred,
    "behind a slice": lambda: rejoined(gt.tanh(blocks()[:, :, 1:])),
    "behind an index": lambda: gt.tanh(blocks()[:, :, 0]).reshape(-1),
    "behind order": lambda: gt.sort(blocks(), 2)[:, :, 0].reshape(n),
    "transposed": lambda: gt.tanh(blocks().transpose(2, 0, 1)).reshape(d, n),
    "side by side": lambda: gt.concatenate([blocks(), -blocks()], 2).reshape(-1, 2 * d),
    "copies, summed": lambda: gt.sum(gt.exp(gt.broadcast_to(x, (k, n))), axis=0),
    "copies, mean": lambda: gt.mean(gt.exp(gt.broadcast_to(x, (k, n))) * 2),
    "copies, largest": lambda: gt.max(gt.exp(gt.broadcast_to(x, (k, n))), axis=0),
    "copies, one of them": lambda: gt.exp(gt.broadcast_to(x, (k, n)))[1, 2:],
    "ones": lambda: gt.sum(x[:, None] * gt.ones(k), axis=1),
}
READING = {  # programs that read an integer they compute
    "blocks": lambda: gt.sum(x.reshape(gt.count_nonzero(keep), -1) ** 2),
    "rows": lambda: gt.tanh(table.reshape(gt.sum(keep), -1, d)).reshape(n, d),
    "copies": lambda: gt.max(gt.broadcast_to(x, (gt.sum(keep), n)), axis=0),
}


def compiled(output, **options):
    """A function of the inputs that an output needs, and the names of those inputs."""
    nodes = ancestors([output])
    used = [v for v in INPUTS if v.node in nodes]
    return graphc.function(used, output, **options), [v.name for v in used]


def called(made, **arguments):
    """The result of a call; None if it raises."""
    f, names = made
    return run(f, [arguments[name] for name in names])


def run(f, arguments):
    try:
        return np.asarray(f(*arguments))
    except graphc.CallError:
        return None


def arrays(rows=12, columns=6, size=3):
    rng = np.random.default_rng(rows)
    return {
        "x": rng.normal(size=rows),
        "table": rng.normal(size=(rows, columns)),
        "keep": np.arange(rows) < size,
        "k": size,
    }


def kinds(f, kind):
    return [step for step in f.plan.steps if isinstance(step, kind)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_static_argument_is_left(name):
    output = PROGRAMS[name]()
    before, _ = compiled(output, rewrites=none)
    after, _ = compiled(output)
    assert len(before.plan.static_inputs) == 1
    assert after.plan.static_inputs == () and len(after.plan.segments) == 1
    assert not any(s.origin for s in after.plan.segments[0].keys)
    assert not kinds(after, Read)


@pytest.mark.parametrize("name", READING)
def test_no_integer_is_read(name):
    output = READING[name]()
    before, _ = compiled(output, rewrites=none)
    after, _ = compiled(output)
    assert len(before.plan.segments) == 2 and len(kinds(before, Read)) == 1
    assert len(after.plan.segments) == 1 and not kinds(after, Read)


ARGUMENTS = [
    arrays(),
    arrays(size=1),
    arrays(rows=24, columns=4, size=4),
    arrays(size=5),  # divides no size
    arrays(size=0),
    arrays(rows=0),
    arrays(rows=0, size=0),
    arrays(columns=0),
    arrays(rows=1, columns=1, size=1),
    arrays() | {"k": -2},
]


NAMES = [*PROGRAMS, *READING]


# JAX has the same rules, but compiles each program: half of them are enough.
@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, "numpy") for name in NAMES), *((name, "jax") for name in NAMES[::2])],
)
def test_values_are_the_same_and_so_is_what_raises(name, backend):
    output = (PROGRAMS | READING)[name]()
    plain = compiled(output, backend="numpy", rewrites=none)
    lifted = compiled(output, backend=backend)
    fine = 0
    for given in ARGUMENTS:
        expected, found = called(plain, **given), called(lifted, **given)
        assert (expected is None) == (found is None), given
        if expected is not None:
            fine += 1
            assert found.shape == expected.shape and found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert fine >= 2


def test_another_value_compiles_nothing():
    f, _ = compiled(PROGRAMS["sum of blocks"]())
    values = arrays()["x"]
    for size in (1, 2, 3, 4, 6, 12):
        np.testing.assert_allclose(f(values, size), np.exp(values).sum())
    assert len(f.stats().compilations) == 1


def test_the_test_says_what_the_reshape_would_have_said():
    f, _ = compiled(PROGRAMS["sum of blocks"]())
    for size, message in (
        (5, r"reshape: cannot reshape \(n,\) into \(k, n//k\): needs n % k == 0"),
        (-3, "reshape: the sizes beside -1 must be positive: needs 1 <= k"),
        (0, "a size is divided by zero"),
    ):
        with pytest.raises(graphc.CallError, match=f"^{message}\n.*test_lifting.py"):
            f(arrays()["x"], size)


def test_users_who_jit_themselves_get_the_program_as_written():
    f, _ = compiled(PROGRAMS["sum of blocks"]())
    assert f.plan.static_inputs == () and kinds(f, Check)
    assert f.static_argnums == (1,)
    values = arrays()["x"]
    with jax.enable_x64(True):
        own = jax.jit(f.jax_callable, static_argnums=f.static_argnums)
        np.testing.assert_allclose(own(values, 3), np.exp(values).sum())
    unjitted, _ = compiled(PROGRAMS["sum of blocks"](), jit=False)
    assert not unjitted.rewrites and unjitted.static_argnums == (1,)


def test_the_plan_before_and_after():
    """The steps in the text of `explain`, without the lines that quote this file."""
    rows = gt.tensor("rows", "float32", ("n",))
    count = gt.iscalar("count")
    energy = gt.sum(gt.square(rows.reshape(count, -1)))

    def told(rewrites):
        f = graphc.function([rows, count], energy, rewrites=rewrites)
        text = f.explain(full=True)
        return [line for line in text.splitlines() if line and line[0] != " "]

    assert told(none) == [
        "JAX program of (rows: float32[n], count: int64[])",
        "1 compiled segment, 0 glue steps",
        "static arguments, used as sizes: count",
        "segment 0: 3 nodes, jitted",
    ]
    assert told(default) == [
        "JAX program of (rows: float32[n], count: int64[])",
        "1 compiled segment, 4 glue steps",
        "static arguments: none",
        "glue: host arithmetic (2 times)",
        *["glue: a check"] * 2,
        "segment 0: 2 nodes, jitted",
        "rewritten before:",
    ]


def test_a_heavy_part_is_not_compiled_for_each_number_of_copies():
    y = x
    for _ in range(30):
        y = gt.tanh(gt.broadcast_to(y, (1, n)))[0] if y is x else gt.tanh(y)
    for _ in range(30):
        y = gt.sin(y)
    output = gt.sin(gt.broadcast_to(y, (k, n)))
    f, _ = compiled(output)
    assert not any(s.origin for s in f.plan.segments[0].keys)
    assert f.plan.segments[-1].nodes[-1].primitive.name == "broadcast_to"


STAYING = {
    "another use": lambda: [gt.exp(x.reshape(3, -1)), gt.exp(x.reshape(3, -1)).ravel()],
    "an input of that shape": lambda: (table.reshape(-1) * x).reshape(n, d),
    "a sum over part of it": lambda: gt.sum(x.reshape(k, -1), axis=1),
    "sums over what was reshaped": lambda: gt.sum(heads(), axis=2).reshape(-1, 2),
    "a sort": lambda: gt.sort(x.reshape(k, -1)).reshape(-1),
    "a size that would be new": lambda: gt.exp(x.reshape(2, -1)).reshape(k, -1),
    "no reshape": lambda: gt.exp(gt.sin(x)).reshape(k, -1),
}


@pytest.mark.parametrize("name", STAYING)
def test_others_stay(name):
    made = STAYING[name]()
    outputs = made if isinstance(made, list) else [made]
    used = [v for v in INPUTS if v.node in ancestors(outputs)]
    f = graphc.function(used, outputs, rewrites=LIFTING, backend="numpy")
    assert not f.rewrites


def test_long_chains_stay():
    y = x.reshape(k, -1)
    for _ in range(100):
        y = gt.sin(y)
    f, _ = compiled(gt.sum(y), rewrites=LIFTING)
    assert not f.rewrites and f.plan.static_inputs


def test_all_rules_together_come_to_an_end():
    """Changes of shape are mixed with other ops, back and forth."""
    y = table
    for i in range(12):
        y = gt.exp(y.reshape(k, -1, d)).T.T.reshape(-1, d)
        y = gt.broadcast_to(y[None], (3, *y.shape))[i % 3] * gt.ones(d)
        y = gt.squeeze(gt.expand_dims(y, 1), 1) - gt.mean(y, axis=1, keepdims=True)
    f, _ = compiled(gt.sum(y))
    assert len(f.plan.segments) == 1 and len(kinds(f, Segment)) == 1
    assert f.plan.static_inputs == ()


@pytest.mark.parametrize("reduce", [gt.sum, gt.max, gt.prod])
def test_a_reduction_of_a_reshape_to_a_size_that_is_data_comes_to_an_end(reduce):
    rows = 2 * gt.count_nonzero(keep)
    rows = gt.where(rows == k, n, rows)
    size = gt.where(rows == k, n, 2 * rows)
    copies = gt.broadcast_to(x[:2][None], (rows, 2))
    y = reduce(gt.reshape(gt.tanh(copies), (size,)))
    for backend in ("jax", "numpy"):
        f = graphc.function([x, keep, k], y, backend=backend)
        for count in (2, 1, 2):
            mask = np.arange(3) < count
            copied = np.tile(np.tanh([0.5, 0.2]), 2 * count)
            expected = getattr(np, reduce.__name__)(copied)
            result = f(np.array([0.5, 0.2, 3.0]), mask, -1)
            np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_an_axis_that_is_put_in_meets_the_reshape_that_takes_it_out():
    f, _ = compiled(gt.exp(gt.expand_dims(table, 0)).reshape(n, d), backend="numpy")
    names = {node.primitive.name for node in ancestors(f.plan.graph.outputs)}
    assert names == {"input", "exp"}


@pytest.mark.parametrize(
    "cost",
    [
        lambda x: gt.sum(gt.ravel(x) * 2),
        lambda x: gt.linalg.vector_norm(x, ord=np.inf),
        lambda x: gt.sum(gt.exp(gt.reshape(x, (0, 1, 5)))),
    ],
)
def test_nothing_is_lifted_between_shapes_without_elements(cost):
    x = gt.tensor("x", "float64", (0, 3))
    outputs = [cost(x), graphc.grad(cost(x), x)]
    f = graphc.function([x], outputs, backend="numpy")
    value, slope = f(np.zeros((0, 3)))
    assert value == 0 and slope.shape == (0, 3)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_reshape_beside_no_elements_asks_for_nothing(count):
    y = gt.tensor("y", "float64", ("n", 3))
    flat = gt.ravel(gt.reshape(gt.arange(y.size), y.shape)[:, :count])
    f = graphc.function([y], flat, backend="numpy")
    for n in (0, 1, 4):
        expected = np.arange(3 * n).reshape(n, 3)[:, :count].ravel()
        np.testing.assert_array_equal(f(np.zeros((n, 3))), expected)


@pytest.mark.parametrize("width", [0, 1, 2])
def test_a_reshape_beside_an_axis_that_may_be_empty(width):
    """The reshape then asks nothing of the other axes, and their sizes stay."""
    flat, other = gt.vector("flat"), gt.vector("other")
    p, options = other.shape[0], {"backend": "numpy", "unused": "ignore"}
    cube = gt.exp(table.reshape(p, 2, d))
    outputs = [
        cube.reshape(2 * p, d),
        gt.sum(gt.sin(cube).reshape(-1, d), 1),
        gt.exp(gt.concatenate([cube, cube], 2)).reshape(-1, 2 * d),
        gt.sum(cube * gt.exp(flat.reshape(p, 2, 1)), (0, 1)),
    ]
    for output in outputs:
        before, after = (
            graphc.function([flat, table, other], output, rewrites=rules, **options)
            for rules in (none, default)
        )
        for rows, half in ((6, 3), (6, 5), (0, 4)):
            vectors = np.ones(2 * half, "float32"), np.ones(half, "float32")
            given = vectors[0], np.ones((rows, width)), vectors[1]
            expected, found = run(before, given), run(after, given)
            fits = width == 0 or rows == 2 * half
            assert fits == (expected is not None) == (found is not None)
            assert expected is None or expected.shape == found.shape


def test_what_is_left_for_one_size_divides_also_beside_an_axis_of_no_elements():
    """NumPy refuses -1 in such a case: two rows cannot share the 5 of (5, 0)."""
    f = graphc.function([table, k], table.reshape(k, -1, d), backend="numpy")
    assert f(np.ones((6, 0)), 2).shape == (2, 3, 0)
    with pytest.raises(graphc.CallError, match="needs n % k == 0"):
        f(np.ones((5, 0)), 2)
