"""Selections that are reduced or written back: same values, no size asked for."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.walk import ancestors
from graphc.rewriting.default import ALL

x = gt.tensor("x", "float64", ("n",))
mask = gt.tensor("mask", "bool", ("n",))
marks = gt.tensor("marks", "int32", ("n",))
k = gt.max(marks, initial=0)  # slices up to `k` have a size that must be read
table = gt.tensor("table", "float64", ("n", "n"))
INPUTS = [x, mask, marks, table]

PROGRAMS = {
    "mean": lambda: gt.mean(gt.log(gt.abs(x[mask]))),
    "variance": lambda: gt.var(x[mask]),
    "deviation": lambda: gt.std(x[~gt.isnan(x)]),
    "logsumexp": lambda: gt.nn.logsumexp(x[mask]),
    "product": lambda: gt.prod(x[mask] + 1),
    "largest from a start": lambda: gt.max(x[mask], initial=-5.0),
    "any": lambda: gt.any(x[mask] > 0),
    "all": lambda: gt.all(x[mask] > 0, keepdims=True),
    "count": lambda: gt.sum((x[mask] > 0) * 2),
    "rows": lambda: gt.sum(gt.exp(table[mask]), axis=0),
    "rows and columns": lambda: gt.sum(table[mask] * x, keepdims=True),
    "norms of rows": lambda: gt.sum(gt.sqrt(gt.sum(table[mask] ** 2, 1))),
    "two axes": lambda: gt.sum(table[table > 0]),
    "cut at the end": lambda: gt.sum(x[:k] ** 2),
    "norm of what is turned": lambda: gt.linalg.norm(gt.sin(x[:k][::-1])),
    "differences": lambda: gt.sum(gt.abs(x[:k][1:] - x[:k][:-1])),
    "cut at the start": lambda: gt.mean(x[k:]),
    "written back": lambda: x.at[mask].set(gt.exp(x[mask])),
    "added to a part": lambda: x.at[:k].add(2 * x[:k]),
    "gradient of a log": lambda: graphc.grad(gt.sum(gt.log(x[x > 0])), x),
    "gradient of a cut": lambda: graphc.grad(gt.sum(x[:k] ** 2), x),
}
CHECKED = {
    "largest": lambda: gt.max(x[mask]),
    "smallest of rows": lambda: gt.min(table[mask], axis=(0, 1)),
}


def arguments(n=6, seed=0):
    rng = np.random.default_rng(seed)
    keep = np.append(rng.random(n - 1) > 0.4, True)
    cut = np.full(n, min(4, n), "int32")
    return rng.normal(size=n), keep, cut, rng.normal(size=(n, n))


def compiled(output, backend, rewrites):
    nodes = ancestors([output])
    used = [v for v in INPUTS if v.node in nodes]
    f = graphc.function(used, output, backend=backend, rewrites=rewrites)
    names = [v.name for v in INPUTS]
    return f, lambda args: f(*(args[names.index(v.name)] for v in used))


def agrees(output, backend, args):
    _, plain = compiled(output, "numpy", graphc.rewrites.none)
    _, masked = compiled(output, backend, ALL)
    np.testing.assert_allclose(masked(args), plain(args), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_segment_without_a_read_or_a_static_argument(name):
    output = PROGRAMS[name]()
    f, _ = compiled(output, "jax", graphc.rewrites.default)
    assert len(f.plan.segments) == 1 and not f.plan.glue and not f.static_argnums
    split, _ = compiled(output, "jax", graphc.rewrites.none)
    assert split.plan.glue or split.static_argnums


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("name", [*PROGRAMS, *CHECKED])
def test_values_are_those_of_the_selection(name, backend):
    output = (PROGRAMS | CHECKED)[name]()
    for seed in range(2):
        agrees(output, backend, arguments(seed=seed))
    agrees(output, backend, arguments(n=1))


PARTS = {
    "columns too": lambda: gt.sum(table[:k, 1:3], axis=0),
    "columns to the same end": lambda: gt.sum(table[:k, :k] ** 2),
    "all columns": lambda: gt.sum(table[1:k, :], axis=0),
    "every second of a part": lambda: gt.sum(x[:k][1::2]),
    "rows and columns of a part": lambda: gt.sum(table[:k][1:, 1:]),
    "columns of rows": lambda: gt.sum(table[:k][:, 1:], axis=0),
    "the end of an end": lambda: gt.sum(x[k:][1:]),
    "more than there is": lambda: gt.sum(x[:k][9:]) + gt.sum(x[:k][:-9]),
    "backwards": lambda: gt.sum(x[:k][::-1] * gt.arange(k)),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_in_which_more_is_left_out(name):
    agrees(PARTS[name](), "numpy", arguments())


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_selected(name):
    values, _, _, square = arguments()
    none, cut = np.zeros(6, bool), np.zeros(6, "int32")
    agrees(PROGRAMS[name](), "numpy", (values, none, cut, -np.abs(square)))


@pytest.mark.parametrize("function", [gt.max, gt.min])
def test_other_axes_without_elements_are_refused_still(function):
    rows = gt.tensor("rows", "float64", ("n", "d"))
    for rules in (graphc.rewrites.none, ALL):
        f = graphc.function(
            [rows, mask], function(rows[mask]), rewrites=rules, backend="numpy"
        )
        with pytest.raises(graphc.GraphError, match="axis 1 has no element to reduce"):
            f(np.zeros((2, 0)), [True, True])
        with pytest.raises(graphc.GraphError, match="axis 0 has no element to reduce"):
            f(np.zeros((2, 3)), [False, False])
    assert [a.rule.name for a in f.rewrites][0] == f"{function.__name__}_of_selected"


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_not_selected_spoils_nothing(name):
    values, keep, cut, square = arguments()
    if "start" in name or name in ("written back", "added to a part"):
        return  # these programs use excluded elements
    keep = keep & (np.arange(6) < cut)
    values = np.where(keep, values, np.nan)
    output = PROGRAMS[name]()
    agrees(output, "numpy", (values, keep, cut, square))


def test_the_largest_of_nothing_raises():
    f, call = compiled(CHECKED["largest"](), "jax", ALL)
    values, _, _, square = arguments()
    with pytest.raises(graphc.CallError, match="^max: axis 0 has no element"):
        call((values, np.zeros(6, bool), np.zeros(6, "int32"), square))


@pytest.mark.parametrize(
    "build",
    [
        lambda: gt.sum(gt.sort(x[mask])),
        lambda: gt.sum(gt.cumsum(x[mask])[:1]),
        lambda: gt.sum(x[mask] * gt.arange(x[mask].shape[0])),
        lambda: gt.sum(table[:, mask], axis=1),
        lambda: gt.sum(x[::2]),
    ],
)
def test_other_selections_stay(build):
    output = build()
    f, _ = compiled(output, "numpy", ALL)
    assert not any("select" in a.rule.name for a in f.rewrites)
    agrees(output, "numpy", arguments())


def test_long_chains_stay():
    y = x[mask]
    for _ in range(100):
        y = gt.sin(y)
    f, _ = compiled(gt.sum(y), "jax", graphc.rewrites.default)
    assert f.plan.glue


VIEWS = {
    "as it is": lambda v: v,
    "turned": lambda v: v[::-1],
    "turned twice": lambda v: v[::-1][::-1],
    "shifted": lambda v: gt.roll(v, 1),
}


@pytest.mark.parametrize("select", [lambda v: v[:k], lambda v: v[mask]])
@pytest.mark.parametrize("first", VIEWS)
@pytest.mark.parametrize("second", VIEWS)
def test_elements_of_two_selections_meet_where_they_stand(select, first, second):
    """One mask serves both only if they are selected in the same order."""
    one, other = VIEWS[first](select(x)), VIEWS[second](select(table[0]))
    for combined in (one * other, gt.where(one > other, one, -other)):
        agrees(gt.sum(combined), "numpy", arguments())


def used(*outputs):
    f = graphc.function([x, mask], list(outputs), backend="numpy", unused="ignore")
    return [a.rule.name for a in f.rewrites]


def test_selections_that_are_outputs_are_reduced_as_they_are():
    rows = gt.exp(x[mask])
    total, largest = gt.sum(gt.log(rows)), gt.max(rows, initial=0.0)
    names = ["sum_of_selected", "max_from_of_selected"]
    assert used(total, largest) == names
    for kept in (x[mask], rows, gt.log(rows)):
        assert "sum_of_selected" not in used(total, kept)
    assert names[1] in used(largest, gt.log(rows))  # it plays no part in it
    assert "max_of_selected" not in used(gt.max(rows), rows)


@pytest.mark.parametrize("last", [lambda n: n, lambda n: -n, lambda n: n // 2 + 1])
def test_slices_up_to_an_argument_stay(last):
    """A slice takes less work than all elements under a mask, and needs no read."""
    n = gt.iscalar("n")
    for y in (gt.sum(x[: last(n)]), graphc.grad(gt.sum(x[: last(n)] ** 2), x)):
        f = graphc.function([x, n], y)
        assert not any("select" in a.rule.name for a in f.rewrites)
        assert not any("slice" in a.rule.name for a in f.rewrites)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("dims", ["auto", "pad"])
@pytest.mark.parametrize("selected", ["mask", "count", "positions"])
def test_gradients_compare_what_the_maximum_was_taken_of(backend, dims, selected):
    """Each element is computed once, although some of its users take all elements."""
    x, y = gt.tensor("x", "float64", ("n",)), gt.tensor("y", "float64", ("m",))
    mask = x > 0.2
    taken = {
        "mask": x[mask],
        "count": gt.sort(x, descending=True)[: gt.sum(mask)],
        "positions": x[gt.nonzero(mask)[0]],
    }[selected]
    sums = gt.sum(gt.where(taken > 0, taken, 0.1)[:, None] + y, axis=1)
    cost = gt.max(sums, initial=-1.0)
    f = graphc.function([x, y], graphc.grad(cost, x), backend=backend, dims=dims)
    rng = np.random.default_rng(0)
    for _ in range(12):
        array, added = rng.standard_normal(300), rng.standard_normal(200)
        expected = np.where(array == array.max(), 200.0, 0.0)
        np.testing.assert_allclose(f(array, added), expected, rtol=1e-6)
