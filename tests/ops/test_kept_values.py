"""Gradients compare only values whose elements are each computed once.

XLA recomputes an element in each loop that reads it, and may round it differently each
time. Below, r2 is rounding noise on its diagonal: an element may be larger than 0 in
one loop but not in the next, and terms that must cancel are multiplied by a million.
"""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.op import PRIMITIVES
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import FUNCTIONS
from graphc.ir.types import is_inexact
from graphc.transform.derivatives.recomputed_values import may_vary_in_rounding
from tests.ops.differentiating import REFUSAL, weighted
from tests.ops.points import points
from tests.ops.test_gradients import FAMILIES

COMPARISONS = {
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("signbit", "sign"),
}
# These need no such care: on both sides of the comparison, derivatives have one limit.
CONTINUOUS = {
    *("power", "pow", "float_power", "hypot", "logaddexp", "logaddexp2", "std"),
    *("linalg.norm", "linalg.vector_norm", "linalg.matrix_norm", "cumlogsumexp"),
    *("nn.softplus", "nn.log_sigmoid", "nn.mish", "nn.squareplus", "nn.lp_pool"),
    *("random.wald", "random.triangular", "vander", "nanvar", "nanstd"),
    "polyfit",
    *(f"special.{name}" for name in ("erfcx", "digamma", "psi", "polygamma", "i0e")),
    *(f"special.{name}" for name in ("i1", "i1e", "j1", "jn", "log_ndtr", "spence")),
    *(f"special.{name}" for name in ("entr", "owens_t", "xlogy", "xlog1py")),
}

X = gt.tensor("x", "float64", ("n", "d"))
S = gt.tensor("s", "float64", ())


def masked(r2):
    return {
        "maximum": lambda: gt.maximum(r2, 0),
        "where": lambda: gt.where(r2 > 0, r2, 0),
        "absolute": lambda: gt.abs(r2),
        "product": lambda: r2 * (r2 > 0),
    }


@pytest.mark.usefixtures("wide", "compiled_as_users")
@pytest.mark.parametrize("how", masked(S))
def test_a_mask_and_what_it_masks_are_of_one_value(how):
    z = X * gt.exp(-S)
    squares = gt.sum(z * z, axis=1, keepdims=True)
    r2 = masked(squares - 2 * (z @ z.T) + squares.T)[how]()
    root = gt.linalg.cholesky(gt.exp(-r2 / 2) + 1e-6 * gt.eye(X.shape[0]))
    slopes = graphc.grad(gt.sum(root * gt.cos(gt.cumsum(root, axis=0))), [X, S])
    ours = graphc.function([X, S], slopes, backend="jax", dims="specialize")
    exact = graphc.function([X, S], slopes, backend="numpy")
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(5, 1))
        for found, expected in zip(ours(x, 0.3), exact(x, 0.3), strict=True):
            scale = np.max(np.abs(expected))
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * scale)


def compared_anew(point):
    """The comparisons in a gradient whose operands XLA may compute more than once."""
    variables = point.variables()
    wrt = [v for v in variables if is_inexact(v.dtype)]
    given = [v * gt.exp(v) if is_inexact(v.dtype) else v for v in variables]
    cost = weighted(point.outputs(given))
    if cost is None:
        return set()
    try:
        found = graphc.grad(cost, wrt, disconnected="zero")
    except graphc.GraphError as error:
        assert REFUSAL in str(error)
        return set()
    own = set(ancestors(found)) - set(ancestors([cost]))
    return {
        node.primitive.name
        for node in own
        if node.primitive.name in COMPARISONS
        and any(is_inexact(v.dtype) and may_vary_in_rounding(v) for v in node.inputs)
    }


def test_what_gradients_compare_is_kept():
    careless = set()
    for samples in FAMILIES.values():
        for sample in samples:
            given = points([sample], "float64")[:1]
            if any(map(compared_anew, given)):
                careless.add(sample.name)
    assert careless <= CONTINUOUS
    assert len(careless) > len(CONTINUOUS) // 2  # the others need longer calls


@pytest.mark.parametrize(
    "value, differs",
    [
        (X, False),
        (X + S, False),
        (gt.maximum(X, S) * 2, False),
        (X @ gt.ones((3, 4)) + gt.ones((4,)), False),
        (gt.transpose(X * S), False),
        (X * S + 1, True),
        (gt.exp(X), True),
        (gt.sum(X, axis=0), True),
        (gt.tensor("h", "float32", (3,)).astype("float64") * 2, False),
        (gt.tensor("h", "float16", (3,)) * 2, True),
        (gt.argmax(X, axis=0), False),
        (gt.argmax(gt.exp(X), axis=0), True),
        (gt.exp(X) >= 0, False),
        (gt.sum(gt.exp(X) + 1) / 2 < 0, False),
        (gt.exp(X) * gt.exp(S) == 0, False),
        (gt.special.expit(X) <= 1, False),
        (gt.sqrt((X * S + 1) ** 2) >= 0, False),
        (gt.sqrt((X * S + 1) ** 2) > 0, True),
        (gt.exp(X) > 1, True),
        (gt.exp(X.astype("float16")) > 0, True),
        (gt.special.expit(X) == 1, True),
        (X * S - 1 >= 0, True),
        (np.inf >= X * S - 1, False),
        (gt.isinf(gt.max(X * S - gt.exp(S), axis=0)), False),
        (gt.isinf(gt.log(gt.exp(X) / gt.sum(gt.exp(X)))), False),
        (gt.log(X * S - 1) == -np.inf, True),
        (gt.log1p(gt.exp(X)) == -np.inf, False),
        (gt.log1p(X * S - 1) == -np.inf, True),
        (gt.isnan(gt.sqrt(X * S - 1)), True),
        (gt.isinf(S / (X * S - 1)), True),
        (gt.isinf(gt.where(X * S > 1 - S, X, np.inf)), True),
        (gt.isinf(gt.where(gt.exp(X) > 0, gt.exp(X), np.inf)), False),
    ],
)
def test_what_may_be_rounded_in_several_ways(value, differs):
    assert may_vary_in_rounding(value) is differs


ROUNDINGS = [
    p
    for p in PRIMITIVES.values()
    if p.elementwise and p.rounding in ("none", "once") and p.name in FUNCTIONS
    if p.name != "choose"  # takes integers
]


@pytest.mark.parametrize("primitive", ROUNDINGS, ids=repr)
def test_ops_round_as_they_declare(primitive):
    """An exact result equals that in float64; one rounded once equals it rounded."""
    assert len(ROUNDINGS) > 20
    rng = np.random.default_rng(1)
    given = [rng.normal(size=500).astype("float32") for _ in primitive.arguments]
    found = []
    for dtype in ("float32", "float64"):
        x = [gt.tensor(f"x{i}", dtype, (500,)) for i in range(len(given))]
        args = [x[0] > 0, *x[1:]] if primitive.chooses else x
        y = gt.real(FUNCTIONS[primitive.name](*args))
        run = graphc.function(x, y, backend="numpy", unused="ignore")
        found.append(run(*[array.astype(dtype) for array in given]))
    np.testing.assert_array_equal(found[0], found[1].astype("float32"))
