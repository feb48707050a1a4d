"""Products that sum over axes: both backends against NumPy."""

import math
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests import newest_numpy as newest
from tests.ops.comparing import BACKENDS, agree
from tests.ops.refusing import refused

DTYPES = ("complex128", "uint16")  # samples cover the other dtypes


def array(*shape, dtype="float64", seed=0):
    """Random numbers; small ones for integer dtypes."""
    rng = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind in "biu":
        return rng.integers(0, 5, shape).astype(dtype)
    parts = rng.normal(size=(2, *shape))
    return (parts[0] + 1j * parts[1] if dtype[0] == "c" else parts[0]).astype(dtype)


def same(function):
    """The same expression for graphc and for NumPy."""
    return (lambda *x: function(gt, *x)), (lambda *x: function(newest.numpy, *x))


PRODUCTS = {
    "matmul": same(lambda g, m, n, v, t: [g.matmul(m, n), g.linalg.matmul(t, n)]),
    "operator": same(lambda g, m, n, v, t: [m @ n, t @ n, m @ v, v @ n, v @ v]),
    "matvec": same(lambda g, m, n, v, t: [g.matvec(m, v), g.matvec(t, v)]),
    "vecmat": same(lambda g, m, n, v, t: [g.vecmat(v, n), g.vecmat(m, n)]),
    "dot": same(lambda g, m, n, v, t: [g.dot(m, n), g.dot(v, v), g.dot(t, v)]),
    "dot of high rank": same(
        lambda g, m, n, v, t: [g.dot(t, n), g.dot(m, t.transpose(0, 2, 1))]
    ),
    "dot of a scalar": same(lambda g, m, n, v, t: [g.dot(m, v[0]), g.dot(v[0], v[1])]),
    "dot method": same(lambda g, m, n, v, t: [m.dot(n), v.dot(v)]),
    "vdot": same(
        lambda g, m, n, v, t: [g.vdot(m, m), g.vdot(v, v), g.vdot(v[0], v[1])]
    ),
    "vecdot": same(
        lambda g, m, n, v, t: [g.vecdot(m, v), g.linalg.vecdot(t, m[:2, None])]
    ),
    "vecdot axis": same(lambda g, m, n, v, t: [g.vecdot(m, m, axis=0)]),
    "inner": same(lambda g, m, n, v, t: [g.inner(m, v), g.inner(v, t), g.inner(m, t)]),
    "inner of a scalar": same(lambda g, m, n, v, t: [g.inner(m, v[0])]),
    "outer": same(lambda g, m, n, v, t: [g.outer(m, v), g.linalg.outer(v, v)]),
    "tensordot": same(lambda g, m, n, v, t: [g.tensordot(m, n, axes=1)]),
    "tensordot 0": same(lambda g, m, n, v, t: [g.tensordot(m, v, axes=0)]),
    "tensordot 2": same(
        lambda g, m, n, v, t: [g.tensordot(t, t[0].T, ([2, 1], (0, 1)))]
    ),
    "tensordot pair": same(lambda g, m, n, v, t: [g.tensordot(m, t, (-1, 2))]),
    "linalg.tensordot": same(lambda g, m, n, v, t: [g.linalg.tensordot(m, n, axes=1)]),
    "kron": same(lambda g, m, n, v, t: [g.kron(m, n), g.kron(v, m), g.kron(t, v)]),
    "kron of a scalar": same(lambda g, m, n, v, t: [g.kron(v, v[0])]),
    "trace": same(lambda g, m, n, v, t: [g.trace(m), m.trace(), g.trace(m, -9)]),
    "trace offset": same(lambda g, m, n, v, t: [g.trace(m, 1), g.trace(m, offset=-1)]),
    "trace axes": same(lambda g, m, n, v, t: [g.trace(t, axis1=2, axis2=0)]),
    "linalg.trace": same(
        lambda g, m, n, v, t: [g.linalg.trace(t), g.linalg.trace(t, offset=1)]
    ),
    "multi_dot": same(lambda g, m, n, v, t: [g.linalg.multi_dot([m, n, n.T, m.T])]),
    "multi_dot vectors": same(
        lambda g, m, n, v, t: [
            g.linalg.multi_dot([v[:3], m, n]),
            g.linalg.multi_dot([m, n, v[:2]]),
            g.linalg.multi_dot([v[:3], m, v]),
            g.linalg.multi_dot([v, v]),
        ]
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_those_of_numpy(dtype):
    arrays = [array(*s, dtype=dtype) for s in ((3, 4), (4, 2), (4,), (2, 3, 4))]
    agree(PRODUCTS, *arrays)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 0, 3), (0, 3, 2)])
def test_products_of_nothing_and_of_one(sizes):
    m, k, n = sizes
    cases = {
        "matmul": same(lambda g, a, b: [a @ b, g.vecdot(a, a), g.tensordot(a, b, 1)]),
        "einsum": same(lambda g, a, b: [g.einsum("ij,jk", a, b), g.einsum("ij->", a)]),
        "kron": same(lambda g, a, b: [g.kron(a, b), g.outer(a, b), g.trace(a)]),
        "dot": same(lambda g, a, b: [g.dot(a, b), g.inner(a, a), g.vdot(b, b)]),
    }
    agree(cases, array(m, k), array(k, n))


def test_dtypes_promote():
    cases = {
        "numbers": same(lambda g, i, f: [g.dot(i, f), g.vdot(i, f), g.outer(i, f)]),
        "more": same(
            lambda g, i, f: [g.kron(i, f), g.einsum("i,i", i, f), g.inner(i, f)]
        ),
        "chain": same(
            lambda g, i, f: [g.linalg.multi_dot([i, f]), g.tensordot(i, f, 1)]
        ),
    }
    agree(cases, array(3, dtype="int8"), array(3, dtype="float32"))


def test_cross_products():
    cases = {
        "three": same(
            lambda g, a, b: [g.cross(a, b), g.linalg.cross(a, b), g.cross(a, b[0])]
        ),
        "axes": same(lambda g, a, b: [g.cross(a, b.T, axisa=1, axisb=0, axisc=0)]),
        "axis": same(
            lambda g, a, b: [g.cross(a.T, b.T, axis=0), g.cross(a[:, None], b)]
        ),
    }
    for dtype in ("float64", "int32", "complex64", "uint8"):
        agree(cases, array(4, 3, dtype=dtype), array(4, 3, dtype=dtype, seed=1))


def lifted(x):
    """Append a third component of 0: NumPy takes no vectors in the plane since 2.5."""
    return np.pad(x, ((0, 0), (0, 3 - x.shape[1])))


def test_vectors_in_the_plane_have_cross_products():
    def ours(a, b):
        flat, other = a[:, :2], b[:, :2]
        return [gt.cross(flat, other), gt.cross(flat, b), gt.cross(a, other)]

    def theirs(a, b):
        flat, other = lifted(a[:, :2]), lifted(b[:, :2])
        return [np.cross(flat, other)[:, 2], np.cross(flat, b), np.cross(a, other)]

    agree(
        {"plane": (ours, theirs)}, array(4, 3), array(4, 3, seed=1), symbolic=(False,)
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_bfloat16_keeps_its_dtype(backend):
    x = array(3, 4).astype(ml_dtypes.bfloat16)
    v = gt.tensor("x", "bfloat16", ("m", "n"))
    outputs = {
        "matmul": v @ v.T,
        "einsum": gt.einsum("ij,kj->ik", v, v),
        "tensordot": gt.tensordot(v, v, ((1,), (1,))),
        "inner": gt.inner(v, v),
    }
    wide = x.astype("float32")
    expected = wide @ wide.T
    for name, got in graphc.function([v], outputs, backend=backend)(x).items():
        assert got.dtype == x.dtype, name
        np.testing.assert_allclose(
            got.astype("float32"), expected, rtol=0.02, atol=0.02
        )


SUBSCRIPTS = {
    "ij,jk": ((3, 4), (4, 2)),
    "ij,jk->ki": ((3, 4), (4, 2)),
    "ij": ((3, 4),),
    "ji": ((3, 4),),
    "ij->": ((3, 4),),
    "ij->j": ((3, 4),),
    "i,i": ((4,), (4,)),
    "i,j": ((4,), (3,)),
    "i,i->i": ((4,), (4,)),
    "ii": ((3, 3),),
    "ii->i": ((3, 3),),
    "iij->j": ((3, 3, 2),),
    "aab,bcc->ac": ((2, 2, 3), (3, 4, 4)),
    "...ij,...jk->...ik": ((2, 1, 3, 4), (5, 4, 2)),
    "...j,j": ((2, 3, 4), (4,)),
    "b...a": ((2, 3, 4),),
    "i...i": ((3, 2, 3),),
    "...,...": ((3, 1), (2, 1, 4)),
    "ij->...ij": ((3, 4),),
    " i j , j -> i ": ((3, 4), (4,)),
    "Ab,bc": ((3, 4), (4, 2)),
    ",ij": ((), (3, 4)),
    "": ((),),
    "ij,jk,kl->il": ((3, 4), (4, 2), (2, 5)),
    "ijk,kl,l->ji": ((2, 3, 4), (4, 2), (2,)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 3)),
    "ij,jk ": ((2, 1), (3, 4)),
    "ij,ij->ij": ((2, 1), (2, 4)),
    "ij,jk  ": ((2, 0), (0, 3)),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_einsum_is_that_of_numpy(dtype):
    arrays, cases, at = [], {}, 0
    for text, shapes in SUBSCRIPTS.items():
        arrays += [array(*s, dtype=dtype, seed=at) for s in shapes]
        chosen = slice(at, at := at + len(shapes))
        cases[text] = same(lambda g, *x, t=text, c=chosen: [g.einsum(t, *x[c])])
    agree(cases, *arrays)


LISTS = {
    "implicit": same(lambda g, a, b: g.einsum(a, [0, 1], b, [1, 2])),
    "explicit": same(lambda g, a, b: g.einsum(a, [5, 1], b, [1, 2], [2, 5])),
    "ellipsis": same(lambda g, a, b: g.einsum(a, [..., 1], b, [1, 2])),
    "output ellipsis": same(
        lambda g, a, b: g.einsum(a, [..., 30], b, [30, 2], [2, ...])
    ),
    "sorted": same(lambda g, a, b: g.einsum(a, [9, 3])),
    "dtype": same(lambda g, a, b: g.einsum("ij->j", a, dtype="complex128")),
}


def test_einsum_takes_lists_of_labels():
    agree(LISTS, array(3, 4), array(4, 2))


ORDERS = (
    True,
    False,
    "greedy",
    "optimal",
    ("greedy", 10),
    ["einsum_path", (1, 2), (0, 1)],
)


def test_einsum_takes_orders():
    text = "ij,jk,kl->il"
    cases = {
        repr(o): same(lambda g, a, b, o=o: g.einsum(text, a, b, a, optimize=o))
        for o in ORDERS
    }
    cases["auto"] = cases["False"]
    cases["pairs"] = (
        lambda a, b: gt.einsum(text, a, b, a, optimize=[(0, 1), (0, 1)]),
        lambda a, b: np.einsum(text, a, b, a),
    )
    agree(cases, array(3, 4), array(4, 3))


def test_a_path_is_that_of_numpy_where_sizes_are_static():
    arrays = [array(2, 50), array(50, 3), array(3, 40)]
    text = "ij,jk,kl->il"
    path, table = gt.einsum_path(text, *arrays)
    assert path == np.einsum_path(text, *arrays)[0]
    assert "Complete contraction" in table
    symbolic = [gt.tensor(f"x{i}", "float32", ("n", "n")) for i in range(3)]
    path, _ = gt.einsum_path(text, *symbolic)
    assert path[0] == "einsum_path" and len(path) == 3
    assert gt.einsum(text, *symbolic, optimize=path).type.rank == 2


def emitted(value, backend, *inputs):
    return graphc.function(list(inputs), value, backend=backend).source


def test_numpy_multiplies_matrices_by_blas_and_sums_vectors_by_a_loop():
    x = gt.tensor("x", "float32", ("m", "n"))
    y = gt.tensor("y", "float32", ("n", "k"))
    product = emitted(gt.einsum("ij,jk", x, y), "numpy", x, y)
    assert 'np.einsum("ij,jk->ik", x, y, optimize=True)' in product
    trace = emitted(gt.einsum("ij,ij", x, x), "numpy", x)
    assert 'np.einsum("ij,ij->", x, x)' in trace
    assert 'jnp.einsum("ij,jk->ik", x, y)' in emitted(
        gt.einsum("ij,jk", x, y), "jax", x, y
    )


def test_labels_of_an_ellipsis_do_not_collide_with_letters():
    x = gt.tensor("x", "float32", (2, 3, 4))
    assert gt.einsum("a...->...a", x).node.params["subscripts"] == "abc->bca"
    assert gt.einsum("...b,b->...", x, x[0, 0]).node.params["subscripts"] == "acb,b->ac"


def shapes_of_products(value):
    found, stack = [], [value]
    while stack:
        node = stack.pop().node
        if node.primitive.name == "matmul":
            found.append(tuple(node.outputs[0].type.shape))
            stack += node.inputs
    return found


def test_a_chain_is_multiplied_in_the_cheapest_order():
    sizes = (10, 100, 5, 50, 1)
    chain = [gt.tensor("x", "float32", shape) for shape in pairwise(sizes)]
    assert shapes_of_products(gt.linalg.multi_dot(chain)) == [(10, 1), (100, 1), (5, 1)]


def test_a_chain_of_symbolic_sizes_is_multiplied_from_the_left():
    x = gt.tensor("x", "float32", ("n", "n"))
    y = gt.tensor("y", "float32", ("n", 1))
    product = gt.linalg.multi_dot([x, x, y])
    assert product.node.inputs[0].node.inputs == (x, x)


NEEDS = r"needs (n == k|k == n); got (3 and 4|4 and 3)"


def test_sizes_that_may_differ_are_compared_at_the_call():
    x = gt.tensor("x", "float64", ("m", "n"))
    y = gt.tensor("y", "float64", ("k",))
    for value in (x @ y, gt.einsum("ij,j", x, y), gt.vecdot(x, y), gt.inner(x, y)):
        f = graphc.function([x, y], value, backend="numpy")
        assert f(np.ones((2, 3)), np.ones(3)).tolist() == [3, 3]
        with refused(NEEDS, graphc.CallError):
            f(np.ones((2, 3)), np.ones(4))


M = gt.tensor("m", "float32", (3, 3))
V = gt.tensor("v", "float32", (4,))
T = gt.tensor("t", "float32", (2, 3, 4))
B = gt.tensor("b", "bool", (2, 3))
WRONG = {
    "matmul: the inner sizes must agree: 3 and 4 differ": lambda: M @ V,
    "matmul: needs at least one axis": lambda: M @ gt.tensor("s", "float32", ()),
    "matvec: needs at least 2 axes": lambda: gt.matvec(V, V),
    "dot: .*: 3 and 4": lambda: gt.dot(M, V),
    "dot: axis 1 of the first, axis 1 of the second": lambda: gt.dot(M, T.mT),
    "vecdot: the vectors must have one length: 3 and 4": lambda: gt.vecdot(M, V),
    "vecdot: axis 2 is out of range": lambda: gt.vecdot(M, M, axis=2),
    "vdot: the vectors must have one length: 9 and 4": lambda: gt.vdot(M, V),
    "linalg.outer: needs two vectors": lambda: gt.linalg.outer(M, V),
    "tensordot: no such number of axes": lambda: gt.tensordot(M, M, axes=3),
    "expected: a number from 0 to 2": lambda: gt.tensordot(M, M, axes=-1),
    "tensordot: an axis is named twice": lambda: gt.tensordot(M, M, ((0, 0), (0, 1))),
    "tensordot: needs two lists": lambda: gt.tensordot(M, M, ((0,), (0, 1))),
    "tensordot: axis 5 is out of range": lambda: gt.tensordot(M, V, ((5,), (0,))),
    "cross: a vector of a cross product has 3 elements: 4": lambda: gt.cross(V, V),
    "linalg.cross: a vector": lambda: gt.linalg.cross(V[:2], V[:2]),
    "cross: bools cannot be subtracted": lambda: gt.cross(B, B),
    "trace: needs at least 2 axes": lambda: gt.trace(V),
    "trace: needs two different axes": lambda: gt.trace(M, axis1=0, axis2=-2),
    "linalg.multi_dot: needs at least two": lambda: gt.linalg.multi_dot([M]),
    "at position 1": lambda: gt.linalg.multi_dot([M, V, M]),
    "einsum: 2 subscripts for 1 arrays": lambda: gt.einsum("ij,jk", M),
    "einsum: 2 labels for 1 axes": lambda: gt.einsum("ij,jk", M, V),
    "sizes of 'i' in i,i->: 3 and 4": lambda: gt.einsum("i,i", M[0], V),
    "sizes of 'i' in ii->: 3 and 4": lambda: gt.einsum("ii", T[0]),
    "'1' is not a label": lambda: gt.einsum("i1", M),
    "einsum: the output names a label twice": lambda: gt.einsum("ij->ii", M),
    "the output names 'k', which no operand has": lambda: gt.einsum("ij->k", M),
    "the output has no ellipsis": lambda: gt.einsum("...ij->ij", T),
    "'.' is not a label": lambda: gt.einsum("......", T),
    "'-' is not a label": lambda: gt.einsum("ij->i->j", M),
    "99 is not a label": lambda: gt.einsum(M, [0, 99]),
    "each array needs a list of labels": lambda: gt.einsum(M, 5),
    "needs subscripts and arrays": lambda: gt.einsum(),
    "there is no order called 'best'": lambda: gt.einsum("ij", M, optimize="best"),
    "no such order": lambda: gt.einsum("ij", M, optimize=math.pi),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message):
    with refused(message):
        WRONG[message]()


@pytest.mark.parametrize(
    ("other", "common"),
    [
        ("int8", "bfloat16"),
        ("int16", "float32"),
        ("int32", "float64"),
        ("int64", "float64"),
        ("float16", "float32"),
        ("float64", "float64"),
        ("complex64", "complex64"),
    ],
)
def test_bfloat16_joins_others_as_it_is_added_to_them(other, common):
    x, y = gt.vector("x", "bfloat16"), gt.vector("y", other)
    joined = [gt.concatenate([x, y]), gt.where(x[:1] > 0, x[:1], y[:1]), x + y]
    assert {str(v.dtype) for v in joined} == {common}
    total = np.ones(1, ml_dtypes.bfloat16) + np.ones(1, other)
    assert str(total.dtype) == common
    f = graphc.function([x, y], joined[0], backend="numpy")
    assert f(np.ones(1, ml_dtypes.bfloat16), np.array([2], other)).tolist() == [1, 2]
