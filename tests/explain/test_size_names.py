"""Names of sizes: no two print the same, and `dims=` accepts every printed one."""

import re
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.sizes.dims import Symbol
from graphc.ir.sizes.names import distinct_names
from tests.errors.messages import both, ones, refused

x = gt.vector("x")
second = gt.vector("x")
named = gt.tensor("named", "float32", ("k",))
k = gt.iscalar("k")
i = gt.tensor("i", "int64", ("m",))
kept = x[x > 0]
PRINTED = (  # places where messages and reports print a size's name
    r"dims=\{'(.*?)'",
    r"static argument (\S+)",
    r"size (\S+): padded",
    r"^(\w+) took \d+ sizes",
    r"(\w+) changed from \d+ to",
    r"once for each value of (.*)",
)


def names_in(text):
    found = [m for p in PRINTED for m in re.findall(p, text, re.M)]
    return {name for names in found for name in names.split(", ")}


def call(f, size):
    kinds = {"int64": np.ones(size, "int64"), "float32": ones(size)}
    inputs = f.plan.called.inputs
    return f(*[kinds[v.dtype.name] if v.type.rank else size for v in inputs])


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ([x], kept * 2),
        ([x], x[x > 0] * 2),
        ([x, k], x[:k] * 2),
        ([x, k], [x[k - 1 : k], x[0]]),
        ([i, x], x[: gt.sum(i)] + 1),
        ([i], gt.unique(i)),
        ([x, second], [x * 2, second * 3]),
        ([x, second], x + second),
        ([named, k], [named * 2, gt.arange(k)]),
        ([k], gt.while_loop(lambda c: c < k, lambda c: (2 * c, c), 1, collect=True)[1]),
        ([x, k], gt.concatenate([x, gt.zeros(k * 2 + 1)]) + 1),
    ],
    ids=str,
)
def test_names_that_are_printed_are_taken(inputs, outputs):
    f = graphc.function(inputs, outputs, dims="specialize")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in range(1, 10):
            call(f, size)
    told = [str(w.message) for w in caught]
    names = names_in("\n".join([f.explain(full=True), str(f.stats()), repr(f), *told]))
    assert names or any(s.rows for s in f.plan.segments)
    for name in names:
        for policy in ("specialize", "pad"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                graphc.function(inputs, outputs, dims={name: policy}, backend="numpy")


@both
def test_sizes_of_one_name_are_told_apart(backend):
    f = graphc.function([x, second], x + second, backend=backend)
    refused(
        lambda: f(ones(3), ones(4)),
        "add: shapes do not broadcast: needs x_0 == x_0_2; got 3 and 4",
    )
    assert "(float32[x_0], float32[x_0_2])" in repr(f)
    if backend == "jax":
        assert "  guard x_0 == x_0_2: shapes do not broadcast\n" in f.explain(full=True)


def test_one_of_two_sizes_of_a_name_can_be_padded():
    f = graphc.function([x, second], [x * 2, second * 3], dims={"x_0_2": "pad"})
    assert names_in(f.explain(full=True)) >= {"x_0", "x_0_2"}
    both_of_them = graphc.function(
        [x, second], [x * 2, second * 3], dims={"x_0": "pad"}
    )
    assert len(both_of_them.plan.padded.policies) == 2
    for g in (f, both_of_them):
        assert [np.asarray(a).tolist() for a in g(ones(2), ones(1))] == [[2, 2], [3]]


def test_names_are_made_in_the_order_of_creation_and_never_taken():
    n, m, other, late = (Symbol(name) for name in ("n", "n", "n_2", "n"))
    assert distinct_names([late, m, other, n]) == {m: "n_3", late: "n_4"}
    assert distinct_names([n, other]) == {}


def test_shapes_show_sizes_by_name():
    y = gt.tensor("y", "float32", ("n", 3))
    assert repr(y.shape) == "(n, 3)"
    assert repr((y.shape[0] * 2 + 1, y.size)) == "(2*n + 1, 3*n)"
    assert repr(k) == "<k: int64[]>"
