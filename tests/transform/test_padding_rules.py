"""Every op gives the same on padded axes as on true sizes, with its gradients.

Sizes are symbols in all samples, and all are padded; the content of the padding must
not matter. Calls that no rule covers fall back to true sizes, which is tested as well.
"""

import os
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.op import PADDING, PRIMITIVES
from graphc.rewrites import none
from tests.ops.differentiating import checked, listed, subjects
from tests.ops.points import points
from tests.ops.sampling import close, problems
from tests.ops.test_gradients import telling as largest
from tests.ops.test_samples import CASES, FAMILIES, share, telling
from tests.transform.dirty import clean_function, dirty_function
from tests.transform.hostile import hostile_function
from tests.transform.uncovered import NAME, REASON, uncovered

AT_LENGTH = int(os.environ.get("GRAPHC_EXAMPLES", "0"))
TRIED = [
    (family, dtype)
    for family, dtype in CASES
    if family != "random" and (AT_LENGTH or dtype in ("float64", "int64"))
]


@pytest.mark.parametrize(("family", "dtype"), TRIED)
def test_anything_in_the_padding(family, dtype):
    """For float64, garbage follows each op; for others, it is in the arguments.

    In the latter, odd sizes are known, so that padded axes stand beside others.
    """
    samples, function, fixed = FAMILIES[family], hostile_function, ()
    if dtype == "float64" and not AT_LENGTH:
        samples = share(samples, turn=0)
    if dtype != "float64":
        function, fixed = dirty_function, (1, 3, 5, 7)
        tried = [s for s in samples if "float64" in s.dtypes]
        alone = [s for s in samples if "float64" not in s.dtypes]
        samples = alone + share(tried, turn=1)
    found = problems(samples, dtype, "numpy", True, function, fixed)
    assert not found, "\n".join(found)


def few_calls(samples):
    """The samples with one call each, the one with the most special values."""
    return samples if AT_LENGTH else [telling(s) for s in samples]


@pytest.mark.parametrize(("family", "dtype"), TRIED)
def test_anything_in_the_padding_of_arguments(family, dtype):
    """All sizes are padded, and samples are those that the test above leaves out.

    These are floats not tried with garbage after each op, and integers not tried with
    known odd sizes.
    """
    samples = FAMILIES[family]
    if dtype == "float64":
        samples = share(samples, turn=1)
    if dtype == "int64":
        samples = few_calls(share(samples, turn=0))
    found = problems(samples, dtype, "numpy", True, dirty_function)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("family", [f for f, dtype in TRIED if dtype == "float64"])
def test_zeros_in_the_padding_of_arguments(family):
    samples = few_calls(share(share(FAMILIES[family], turn=0), turn=1))
    found = problems(samples, "float64", "numpy", True, clean_function)
    assert not found, "\n".join(found)


# Families whose rules need other things in their JAX forms than in NumPy's.
ON_JAX = FAMILIES if AT_LENGTH else ("index", "pad")


@pytest.mark.parametrize("family", [f for f in ON_JAX if f != "random"])
def test_jax(family):
    samples = [telling(s) for s in FAMILIES[family]]
    found = problems(samples, "float32", "jax", True, dirty_function)
    assert not found, "\n".join(found)


def draws(key, n, x):
    """Draws along the first axis by functions of the random bits."""
    size, share = gt.abs(x) + 0.5, gt.abs(x) / 9 + 0.1
    r = gt.random
    return [
        *(r.split(key, n), r.bits(key, (n, 3)), r.bits(key, (1, n, 2), "uint8")),
        *(r.bits(key, (n,), "uint64"), r.uniform(key, (n, 3))),
        *(r.uniform(key, (n,), "float64"), r.uniform(key, (n,), "float16")),
        *(r.uniform(key, (n,), minval=-size, maxval=size), r.normal(key, (n, 2))),
        *(r.normal(key, (n,), "float64"), r.normal(key, (n,), "complex64")),
        *(r.truncated_normal(key, -size, size), r.lognormal(key, size)),
        *(r.exponential(key, (n,)), r.pareto(key, size), r.rayleigh(key, size)),
        *(r.weibull_min(key, size, size), r.maxwell(key, (n, 2)), r.wald(key, size)),
        *(r.laplace(key, (n,)), r.cauchy(key, (n,)), r.logistic(key, (n,))),
        *(r.gumbel(key, (n,)), r.triangular(key, -size, 0 * size, size)),
        *(r.randint(key, (n, 3), -5, 2**40, "int64"), r.bernoulli(key, share)),
        *(r.geometric(key, share), r.choice(key, 10, (n,))),
        r.choice(key, 3, (n,), p=np.array([0.2, 0.5, 0.3], "float32")),
        r.categorical(key, np.zeros((3, 4), "float32"), shape=(n, 3)),
        r.multivariate_normal(key, np.zeros(2, "float32"), np.eye(2, 2), (n,)),
    ]


def drawn_each(key, x):
    r = gt.random
    return r.normal(key, (3,)), r.gamma(key, gt.abs(x) + 0.1), r.permutation(key, 5)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_the_first_draws_are_those_of_fewer(backend):
    x = gt.tensor("x", "float32", ("n",))
    keys = gt.random.split(gt.random.key(3), x.shape[0])
    outputs = draws(gt.random.key(5), x.shape[0], x)
    outputs += graphc.vmap(drawn_each)(keys, x)
    outputs = share(outputs, turn=backend == "numpy")
    padded = clean_function([x], outputs, backend=backend)
    assert not padded.plan.padded.cuts
    exact = exact_function([x], outputs, backend=backend)
    for n in (0, 1, 5, 9) if AT_LENGTH else (0, 9)[backend == "jax" :]:
        given = np.linspace(-1, 2, n, dtype="float32")
        pairs = zip(padded(given), exact(given), strict=True)
        for i, (got, wanted) in enumerate(pairs):
            assert close(np.asarray(got), np.asarray(wanted), 8), i


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_draws_that_depend_on_each_other_are_made_at_true_sizes(backend):
    x, key, r = gt.tensor("x", "float32", ("n",)), gt.random.key(3), gt.random
    rates = 12 * x + 1
    outputs = [r.poisson(key, rates), r.binomial(key, 100 * x + 9, 0.3 * x / x)]
    outputs += [r.negative_binomial(key, rates, 0.3)]
    padded = clean_function([x], outputs, backend=backend)
    assert len(padded.plan.padded.cuts) == 3
    exact = exact_function([x], outputs, backend=backend)
    for n in (5,) if backend == "jax" else (1, 2, 5):  # each is compiled
        given = np.linspace(0.3, 2, n, dtype="float32")
        for got, expected in zip(padded(given), exact(given), strict=True):
            np.testing.assert_array_equal(got, expected)


# Gradients are graphs: padded like any other, they must equal those of true sizes.


class Gradients:
    """The gradients of many calls in one function, made in a given way."""

    def __init__(self, made):
        self.made = made
        self.inputs = [v for s in made for v in s.variables]
        self.outputs = {
            f"{s.key} {i}": g for s in made for i, g in enumerate(s.gradient)
        }

    def by(self, function):
        arrays = [x for s in self.made for x in s.point.arrays]
        with np.errstate(all="ignore"):
            return function(self.inputs, self.outputs, backend="numpy")(*arrays)


def exact_function(inputs, outputs, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options |= {"dims": "specialize", "rewrites": none}
        return graphc.function(inputs, outputs, **options)


def unlike(made):
    """List the calls whose padded gradients differ from those of true sizes."""
    both = Gradients(made)
    padded, exact = both.by(dirty_function), both.by(exact_function)
    return [
        f"{s}: the gradient is {x}, not {y}"
        for s in made
        for x, y in zip(listed(s.key, padded), listed(s.key, exact), strict=True)
        if np.shape(x) != np.shape(y) or not close(np.asarray(x), np.asarray(y), 2**16)
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients(family):
    given = [p for p in points(FAMILIES[family], "float64") if not p.sample.static]
    given = given if AT_LENGTH else share(share(largest(given, most=1), 0), turn=1)
    made = subjects(given, symbolic=True)
    found = made.problems + checked(made.subjects, unlike)
    assert not found, "\n".join(found)


# Completeness.


WITHOUT = {"input", "constant", "size"}  # parts of the graph itself


def without_a_rule():
    return {
        p.name
        for p in PRIMITIVES.values()
        if not (p.elementwise or p in PADDING or PADDING.reason(p))
    }


def test_every_primitive_has_a_rule_or_says_why_not():
    missing = sorted(without_a_rule() - WITHOUT)
    ways = "give a mask rule by .padding, or a reason by .no_padding(why), to"
    assert not missing, f"{ways} {', '.join(missing)}"


X = gt.vector("x", "float64")


def cuts(output, inputs=(X,)):
    return graphc.function(inputs, output, backend="numpy", dims="pad").plan.padded.cuts


def test_a_product_of_sizes_is_stored_as_the_array_that_it_must_fit():
    """The integer may also be computed after an array of the equal size."""
    x, k = gt.tensor("x", "float64", ("n",)), gt.iscalar("k")
    f = graphc.function(
        [x, k], gt.repeat(x, k) + gt.arange(x.shape[0] * k), dims="pad", backend="numpy"
    )
    assert len(f.plan.segments) == 1 and not f.plan.padded.cuts
    for n, times in ((3, 2), (0, 4), (9, 0), (20, 3)):
        a = np.linspace(-1, 1, n)
        np.testing.assert_array_equal(
            f(a, times), np.repeat(a, times) + np.arange(n * times)
        )


def test_sizes_that_must_be_equal_share_a_capacity():
    """Their formulas may give different ones, or they may be axes of two arguments."""
    assert not cuts(gt.concatenate([X, X, X]) * gt.concatenate([X, X]))
    y = gt.tensor("y", "float64", ("m",))
    assert not cuts(X + y, (X, y))
    twice = gt.concatenate([X, X])
    assert not cuts(twice + y, (X, y)) and not cuts(y + twice, (X, y))


def test_zeros_up_to_a_length_that_is_given_need_no_true_sizes():
    """At each capacity, the axis has that length, and elements move within it."""
    assert not cuts(gt.pad(X, (0, 8 - X.shape[0])))


@pytest.mark.parametrize("function", [clean_function, dirty_function])
def test_rows_of_padding_are_in_no_segment(function):
    """They get a number of no segment, whatever their numbers and the rows hold."""
    ids = gt.tensor("ids", "int32", ("n",))
    of = (gt.segment_sum, gt.segment_prod, gt.segment_min, gt.segment_max)
    f = function([X, ids], [way(X, ids, 8) for way in of], backend="numpy")
    exact = exact_function([X, ids], [way(X, ids, 8) for way in of], backend="numpy")
    for n in (0, 1, 5):
        given = np.linspace(1, 2, n), np.arange(n, dtype="int32") % 2
        for got, wanted in zip(f(*given), exact(*given), strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("function", [clean_function, dirty_function])
def test_row_exchanges_that_are_arguments(function):
    """The rows of the padding stay in place, whatever their pivots say."""
    lu, b = gt.tensor("lu", "float64", ("n", "n")), gt.tensor("b", "float64", ("n",))
    pivots = gt.tensor("pivots", "int32", ("n",))
    outputs = [gt.linalg.lu_solve((lu, pivots), b, trans=way) for way in (0, 1)]
    f = function([lu, pivots, b], outputs, backend="numpy")
    exact = exact_function([lu, pivots, b], outputs, backend="numpy")
    for n in (1, 3, 5):
        given = np.eye(n) + 0.5, np.full(n, n - 1, "int32"), np.arange(1.0, n + 1)
        for got, wanted in zip(f(*given), exact(*given), strict=True):
            np.testing.assert_allclose(got, wanted)


def test_a_rule_says_that_it_needs_true_sizes():
    (cut,) = cuts(uncovered(X[:, None]))
    assert cut.node.primitive.name == NAME and cut.reason == REASON


def test_a_fault_of_a_rule_is_no_reason_to_fall_back(monkeypatch):
    """If the op fits its capacities, an error is the rule's own, and it surfaces."""

    def faulty(pad, x, **params):
        return gt.reshape(x.value, (3, 3, 5, "rows"))

    monkeypatch.setitem(PADDING.rules, PRIMITIVES["cumsum"], faulty)
    with pytest.raises(graphc.GraphError, match="reshape: "):
        cuts(gt.cumsum(X))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_numbers_of_nothing_are_counted_nowhere(backend):
    """They stand beside padding of another length."""
    numbers = gt.tensor("numbers", "int64", ("n",))
    pad = {"n": graphc.Pad(minimum=4)}
    f = graphc.function([numbers], gt.bincount(numbers), backend=backend, dims=pad)
    for given in ([], [0], [3, 1], [2] * 5):
        found = f(np.array(given, "int64"))
        np.testing.assert_array_equal(found, np.bincount(np.array(given, "int64")))


def test_places_before_and_behind_an_axis():
    """The arrays are shorter than their capacity, or exactly as long."""
    places = gt.tensor("places", "int64", ("m",))
    rows = gt.stack([X, 2 * X], axis=1)
    outputs = [getattr(X.at[places], how)(7.0) for how in ("set", "add", "max")]
    outputs += [rows.at[places].add(1.0), rows.at[places, 1].set(0.0)]
    outputs += [rows[places], X[places]]
    outputs += [graphc.grad(gt.sum(X.at[places].multiply(3.0) ** 2), X)]
    f = hostile_function([X, places], outputs, backend="numpy")
    exact = exact_function([X, places], outputs, backend="numpy")
    for n in (3, 4):  # of 4
        given = np.arange(1.0, n + 1), np.arange(-2 * n - 1, 2 * n + 1)
        for got, wanted in zip(f(*given), exact(*given), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_steps_that_are_numbers_of_the_call():
    k = gt.iscalar("k")
    outputs = [X.at[::k].set(7.0), X.at[1::k].add(X[1::k]), gt.sum(X[::k] ** 2)]
    outputs.append(graphc.grad(outputs[-1], X))
    f = hostile_function([X, k], outputs, backend="numpy")
    exact = exact_function([X, k], outputs, backend="numpy")
    for n, step in ((5, 2), (5, 3), (4, 1), (7, 9), (6, -2)):
        given = np.arange(1.0, n + 1), step
        for got, wanted in zip(f(*given), exact(*given), strict=True):
            np.testing.assert_allclose(got, wanted)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_indices_of_an_axis_that_is_not_padded(backend):
    """They count from its true end, though it may be empty at another call."""
    x, i = gt.tensor("x", "float32", ("n", 2)), gt.tensor("i", "int64", ("m",))
    f = graphc.function(
        *([x, i], [x[i], x[i, 1], gt.take(x, -i, axis=0)]),
        **{"dims": {"m": "pad", "n": "specialize"}, "backend": backend},
    )
    for n, given in ((3, [0, -1, -3, 9, -9, 2]), (0, []), (1, [0, -1, 1])):
        rows, at = np.arange(2.0 * n, dtype="float32").reshape(n, 2), np.array(given)
        places = [np.clip(k, -n, n - 1).astype(int) for k in (at, -at)]
        first, last, other = f(rows, at.astype(int))
        np.testing.assert_array_equal(first, rows[places[0]])
        np.testing.assert_array_equal(last, rows[places[0], 1])
        np.testing.assert_array_equal(other, rows[places[1]])
    with pytest.raises(graphc.CallError, match="axis 0 has no element to read"):
        f(np.zeros((0, 2), "float32"), np.zeros(2, "int64"))


@pytest.mark.parametrize("dtype", ["int64", "uint32"])
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_indices_of_an_empty_axis(backend, dtype):
    """They are errors at capacities as at true sizes, unless they read nothing."""
    rows = gt.tensor("rows", "float32", ("n", 3))
    i, k = gt.tensor("i", dtype, ("m",)), gt.tensor("k", dtype, ())
    programs = [rows[i], rows[i, 1], rows[k], gt.take(rows.T, i, axis=1)]
    programs += [gt.take_along_axis(rows.T, i[None]), gt.sum(rows, 1)[i[:, None]]]
    programs.append(graphc.grad(gt.sum(rows[i] ** 2), rows))
    empty = np.ones((0, 3), "float32")
    for read in programs:
        inputs, given = ([rows, k], [0]) if read is rows[k] else ([rows, i], [[0, 2]])
        f, g = [
            graphc.function(inputs, [read, read.shape[0]], dims=dims, backend=backend)
            for dims in ("pad", "specialize")
        ]
        for function in (f, g):
            with pytest.raises(graphc.CallError):
                function(empty, np.array(given[0], dtype))
        with pytest.raises(graphc.CallError, match="axis . has no element to read"):
            f(empty, np.array(given[0], dtype))
        if inputs[1] is i:
            none = empty, np.array([], dtype)
            assert np.shape(f(*none)[0]) == np.shape(g(*none)[0])
