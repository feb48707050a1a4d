"""Branches that give different sizes: the result has the size of the one taken."""

from itertools import permutations

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.transform.planning.plan import Read

pytestmark = pytest.mark.usefixtures("wide")
BACKENDS = pytest.mark.parametrize("backend", ["numpy", "jax"])
X = gt.tensor("x", "float64", ("n",))
Y = gt.tensor("y", "float64", ("m",))
K = gt.tensor("k", "int64", ())
FIVE, THREE = np.array([0.5, -1.25, 2.0, 0.75, 3.0]), np.array([2.0, 4.0, 6.0])


def alike(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-12)


def with_gradient(z, wrt=(X, Y)):
    return [z, *graphc.grad(gt.sum(gt.sin(z)), list(wrt), disconnected="zero")]


def either(takes_x, x, y):
    """`cond(p, lambda: 2 * x, lambda: y * y)` and the gradient of its sum of sines."""
    if takes_x:
        return [2 * x, 2 * np.cos(2 * x), np.zeros_like(y)]
    return [y * y, np.zeros_like(x), 2 * y * np.cos(y * y)]


def reads(f):
    return sum(isinstance(step, Read) for step in f.plan.glue)


PREDICATES = {
    "argument": (K > 0, lambda x, y, k: k > 0),
    "shape": (gt.asarray(X.shape[0]) > 3, lambda x, y, k: len(x) > 3),
    "data": (gt.sum(X) > 0, lambda x, y, k: x.sum() > 0),
}


@BACKENDS
@pytest.mark.parametrize("dims", ["specialize", "pad", "bound"])
@pytest.mark.parametrize("known", PREDICATES)
@pytest.mark.filterwarnings("ignore::graphc.UnusedInputWarning")
def test_the_size_is_that_of_the_branch_taken(known, dims, backend):
    predicate, exact = PREDICATES[known]
    z = gt.cond(predicate, lambda: 2 * X, lambda: Y * Y)
    f = graphc.function([X, Y, K], with_gradient(z), backend=backend, dims=dims)
    for x, y, k in ((FIVE, THREE, 1), (-FIVE, THREE, 0), (THREE, FIVE[:0], 0)):
        alike(f(x, y, k), either(exact(x, y, k), x, y))
    assert reads(f) == (known == "data" and dims != "bound")


@BACKENDS
def test_switch_among_many_sizes(backend):
    """Numbers, functions of sizes, and sizes that depend on data."""
    branches = [
        lambda: X[1:],
        lambda: gt.concatenate([X, Y]),
        lambda: gt.zeros(2, "float64"),
        lambda: X[X > 0.6],
    ]
    outputs = with_gradient(gt.switch(K, branches))
    f = graphc.function([X, Y, K], outputs, backend=backend)
    for k in (-1, 0, 1, 2, 3, 4):
        kept = [FIVE[1:], np.append(FIVE, THREE), np.zeros(2), FIVE[FIVE > 0.6]]
        (z, of_x, of_y), i = f(FIVE, THREE, k), min(max(k, 0), 3)
        alike([z], [kept[i]])
        mask = [np.arange(5) > 0, np.full(5, True), np.full(5, False), FIVE > 0.6][i]
        alike([of_x, of_y], [mask * np.cos(FIVE), (i == 1) * np.cos(THREE)])


@BACKENDS
def test_sizes_that_depend_on_operands(backend):
    """As with closures, such sizes are computed outside, before the choice."""
    kept = lambda v, k: gt.cumsum(v[v > 0.6])[:k]
    z = gt.cond(gt.sum(X) > 0, kept, lambda v, k: v * k, X, K)
    f = graphc.function([X, K], with_gradient(z, [X]), backend=backend)
    alike(f(FIVE, 2)[:1], [np.array([2.0, 2.75])])
    alike(f(-FIVE, 2), [-2 * FIVE, 2 * np.cos(-2 * FIVE)])


@BACKENDS
def test_sizes_within_that_depend_on_data(backend):
    """A branch whose result has a fixed size may need others, which are read first."""
    top = lambda: gt.sum(gt.sort(X[X > 0.6])[-2:])
    z = gt.cond(K > 0, top, lambda: X[0])
    f = graphc.function([X, K], with_gradient(z, [X]), backend=backend)
    slope = np.cos(5.0) * np.array([0, 0, 1, 0, 1])
    alike(f(FIVE, 1), [np.float64(5), slope])
    alike(f(FIVE, 0), [np.float64(0.5), np.cos(0.5) * np.array([1, 0, 0, 0, 0])])


@BACKENDS
def test_several_results_of_several_axes(backend):
    one = lambda u, v: {"p": u[:, None] * v, "q": gt.sum(u), "r": u}
    z = gt.cond(K > 0, one, lambda u, v: one(v, u), X, Y)
    f = graphc.function([X, Y, K], z, backend=backend)
    for k, (u, v) in enumerate([(THREE, FIVE), (FIVE, THREE)]):
        found = f(FIVE, THREE, k)
        alike([found[key] for key in "pqr"], [u[:, None] * v, u.sum(), u])


@BACKENDS
def test_branches_in_branches(backend):
    inner = lambda: gt.cond(K > 1, lambda: 2 * X, lambda: Y * Y)
    z = gt.cond(K > 0, inner, lambda: X[:1])
    f = graphc.function([X, Y, K], with_gradient(z), backend=backend)
    for k in (1, 2):
        alike(f(FIVE, THREE, k), either(k > 1, FIVE, THREE))
    alike(f(FIVE, THREE, 0)[:1], [FIVE[:1]])


@BACKENDS
def test_examples_that_choose_together(backend):
    rows = graphc.vmap(lambda v: gt.cond(K > 0, lambda: X * v, lambda: Y + v))(X)
    f = graphc.function([X, Y, K], with_gradient(rows), backend=backend)
    table = FIVE[:, None] + THREE
    alike(f(FIVE, THREE, 0), [table, np.cos(table).sum(1), np.cos(table).sum(0)])
    alike(f(FIVE, THREE, 1)[:1], [FIVE[:, None] * FIVE])


@BACKENDS
def test_in_a_loop_that_chooses_anew_in_each_step(backend):
    """The loop is compiled as a whole, with room for the larger of both sizes."""
    grown = lambda c, v: gt.sum(gt.cond(c > 5, lambda: X * v, lambda: Y + v))
    start = gt.asarray(np.float64(0))
    total = gt.scan(lambda c, v: (c + grown(c, v), None), start, X)[0]
    f = graphc.function([X, Y], total, backend=backend)
    expected = 0.0
    for v in FIVE:
        expected += np.sum(FIVE * v if expected > 5 else THREE + v)
    np.testing.assert_allclose(f(FIVE, THREE), expected)
    assert backend == "numpy" or not f.plan.glue


def test_equal_sizes_are_no_choice():
    f = graphc.function([X], gt.cond(gt.sum(X) > 0, lambda: X * 2, lambda: -X))
    assert not f.plan.glue
    assert "fitted" not in f.source


def test_one_compilation_per_size():
    f = graphc.function([X, Y], gt.cond(gt.sum(X) > 0, lambda: X, lambda: Y))
    for x in (FIVE, FIVE, -FIVE, -FIVE, FIVE):
        f(x, THREE)
    assert len(f.stats().compilations) <= 3
    assert "branch_size" in f.explain(full=True)


@BACKENDS
def test_a_saved_program_runs_alone(tmp_path, backend):
    z = gt.cond(gt.sum(X) > 0, lambda: 2 * X, lambda: Y * Y)
    f = graphc.function([X, Y], z, backend=backend)
    f.save(tmp_path / "saved.py")
    names = {"__name__": "saved"}
    exec((tmp_path / "saved.py").read_text(encoding="utf-8"), names)
    alike([names["program"](-FIVE, THREE)], [THREE * THREE])


def refused(build):
    with pytest.raises(graphc.GraphError) as caught:
        build()
    return str(caught.value).rsplit("\n  at ", 1)[0]


def test_what_is_refused():
    p = gt.sum(X) > 0
    z = lambda: gt.cond(p, lambda: X, lambda: Y)
    each = lambda v: gt.sum(gt.cond(v > 0, lambda: X * v, lambda: Y + v))
    assert refused(lambda: graphc.vmap(each)(X)) == (
        "vmap: the size branch_size would differ between examples\n"
        "  got: switch of float64[branch_size]\n"
        "  hint: compute on the largest size and mask: "
        "gt.where(gt.arange(most) < n, ...)"
    )
    assert refused(lambda: graphc.function([X, Y], z(), jit=True)) == (
        "function: jit=True is impossible: cond needs the size branch_size, which "
        "depends on data\n"
        "  hint: make all branches of cond or switch return one size: pad, or mask "
        'with gt.where, or use jit="auto"'
    )
    assert refused(lambda: gt.cond(p, lambda: X, lambda: gt.sum(Y))) == (
        "cond: branches return different types in position 0\n"
        "  got: float64[n] from branch 1\n"
        "  expected: float64[]"
    )
    assert refused(lambda: gt.switch(K, [lambda: X, lambda: Y > 0])) == (
        "switch: branches return different types in position 0\n"
        "  got: bool[m] from branch 1\n"
        "  expected: float64[n]\n"
        '  hint: convert it: gt.asarray(y, "float64")'
    )


ASKING = {"zeros": gt.zeros, "arange": gt.arange, "tril": lambda m: gt.tril(gt.eye(m))}


def test_who_asks_for_a_size_first_depends_on_the_program_alone():
    """Nodes that other programs left behind, in whatever order, have no effect."""
    texts = set()
    for names in permutations(ASKING):
        x = gt.tensor("x", "float64", ("n",))
        m = gt.sum(x > 0)
        older = [ASKING[name](m) for name in names]
        outputs = [ask(m) for ask in ASKING.values()]
        texts.add(refused(lambda v=x, o=outputs: graphc.function([v], o, jit=True)))
        assert len(older) == 3
    assert len(texts) == 1


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_sizes_of_branches_are_exact(backend):
    """Like all sizes, they are 64-bit integers."""
    x = gt.tensor("x", "int8", ("n",))
    k, c = gt.tensor("k", "int64", ()), gt.tensor("c", "bool", ())
    y = gt.cond(c, lambda: gt.broadcast_to(x[0], (k,)), lambda: x)
    f = graphc.function([x, k, c], y.shape[0], backend=backend)
    x = np.ones(3, "int8")
    assert [int(f(x, 2**33 + 5, c)) for c in (True, False)] == [2**33 + 5, 3]
