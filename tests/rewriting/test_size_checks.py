"""Sizes that do not fit are refused even if rules replace the nodes that check them."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewrites import everything, none

u, v = gt.vector("u", "float64"), gt.tensor("v", "float64", ("m",))
x, w = gt.tensor("x", "float64", ("n", 3)), gt.tensor("w", "float64", (3,))
k = gt.iscalar("k")
INPUTS = [u, v, x, w, k]
SIZES = {"u": 5, "v": 4, "x": 6, "w": 3}

PROGRAMS = {
    "an element": lambda: (u + v)[0],
    "elements at places": lambda: (u * v)[gt.asarray([0, 1])],
    "a row by a matrix": lambda: (u[:, None] * x)[-1] @ w,
    "a broadcast beside another size": lambda: gt.broadcast_to(w[0], u.shape) / v,
    "two broadcasts": lambda: (
        gt.broadcast_to(w[0], u.shape) - gt.broadcast_to(w[1], v.shape)
    ),
    "an element, beside an argument": lambda: (gt.arange(k) + v)[0],
    "places, beside an argument": lambda: (gt.arange(k) + v)[gt.asarray([0, 1])],
    "a broadcast, beside an argument": lambda: gt.broadcast_to(w[0], (k,)) * v,
    "the branch beside some elements": lambda: gt.where(True, u, v[v > 0]),
    "the branch beside so many elements": lambda: gt.where(
        False, u[: gt.count_nonzero(v)], u
    ),
    "one part beside a longer one": lambda: gt.concatenate(
        [x, w[w > 3][None], w[None]]
    )[-1],
    "two broadcasts, one to an argument": lambda: (
        gt.broadcast_to(w[0], (k,)) * gt.broadcast_to(w[1], v.shape)
    ),
}


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_does_not_fit_is_refused(name, backend):
    options = {"backend": backend, "unused": "ignore"}
    arrays = [np.ones((SIZES[i.name], *i.type.shape[1:])) for i in INPUTS[:-1]]
    texts = []
    for rules in (none, everything):
        f = graphc.function(INPUTS, PROGRAMS[name](), rewrites=rules, **options)
        with pytest.raises(graphc.CallError) as info:
            f(*arrays, 2)
        texts.append(str(info.value))
    plain, rewritten = (text.partition(" needs ")[0] for text in texts)
    assert rewritten == plain


tall = gt.broadcast_to(w[0], (k, 1))
TOO_MANY = {
    **{f"sum of {op}": (lambda op=op: gt.sum(getattr(gt, op)(tall, v)))
       for op in ("add", "subtract", "multiply", "true_divide")},
    "sum of squares": lambda: gt.sum(gt.square(tall - v)),
    "sum of powers": lambda: gt.sum((v - tall) ** 2),
    "sum of equal elements": lambda: gt.sum(gt.broadcast_to(w[0], (k, k))),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_MANY)
def test_too_many_elements_are_refused(name):
    """Rules would leave few elements; the arguments here take no memory."""
    many, others = np.broadcast_to(np.float64(1), 2**30), np.ones((2, 3))
    for rules in (none, everything):
        options = {"backend": "numpy", "unused": "ignore", "rewrites": rules}
        f = graphc.function(INPUTS, TOO_MANY[name](), **options)
        with pytest.raises(graphc.CallError, match="array is too large"):
            f(many, many, others, others[0], 2**30)


@pytest.mark.parametrize("k", range(6))
def test_the_largest_of_no_pairs_is_refused(k):
    """log-sum-exp of pairs, written so that it asks for the largest pair."""
    from_none = gt.max(u[:, None] + v, axis=(0, 1), keepdims=True)
    peak = gt.where(gt.isfinite(from_none), from_none, 0.0)
    terms = gt.exp(u[:, None] + v - peak)
    total = gt.log(gt.sum(terms)) + gt.squeeze(peak, (0, 1))
    f = graphc.function([u, v], total, backend="numpy", rewrites=everything)
    assert any("logsumexp" in a.rule.name for a in f.rewrites)
    sizes = divmod(k, 3)
    if 0 not in sizes:
        assert f(*map(np.ones, sizes)).shape == ()
        return
    with pytest.raises(graphc.CallError, match="max: axis [01] has no element"):
        f(*map(np.ones, sizes))
