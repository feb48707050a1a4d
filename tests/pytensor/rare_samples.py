"""Samples of Ops that PyTensor's rewrites and gradients make, and users seldom do.

The module of an Op depends on the version of PyTensor; some versions lack some Ops.
"""

from importlib import import_module
from inspect import signature

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor import gradient
from pytensor import scalar as ps
from pytensor.compile.ops import deep_copy_op, view_op
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.type_other import NoneConst

from tests.pytensor.samples import (
    COUNTS,
    CUBE,
    INTEGER,
    LONG,
    OTHER,
    POSITIVE,
    REAL,
    ROWS,
    SQUARE,
    VECTOR,
    sample,
)


def found(name, *modules):
    """The attribute from the first PyTensor module that has it; None if none does."""
    for path in modules:
        try:
            module = import_module(f"pytensor.{path}")
        except ImportError:
            continue
        if hasattr(module, name):
            return getattr(module, name)
    return None


def rare(family, op, build, *given, smooth=False):
    """Add a sample of an Op, or of a function that makes one, unless it is None."""
    if op is not None:
        name = getattr(op, "__name__", None) or type(op).__name__
        sample(family, name, lambda *x: build(op, *x), *given, smooth=smooth)


def applied(op, *inputs):
    return op(*inputs)


# --- arrays ---------------------------------------------------------------------------

BASIC, EXTRA = "tensor.basic", "tensor.extra_ops"
rare("arrays", pt.empty, lambda f, x: f((4, 2))[:].set(x[:, None]), VECTOR)
rare("arrays", found("cpu_contiguous", EXTRA), lambda f, x: f(x.T), REAL)
rare("arrays", deep_copy_op, applied, REAL)
rare("arrays", view_op, applied, REAL)
rare(
    "arrays",
    found("assume", "assumptions.specify"),
    lambda f, x: f(x, symmetric=True),
    SQUARE,
)
for _name in ("zero_grad", "disconnected_grad"):
    rare("arrays", getattr(gradient, _name), lambda f, x: f(x) * x, REAL, smooth=True)
rare("arrays", gradient.undefined_grad, applied, REAL)
rare("arrays", gradient.grad_clip, lambda f, x: f(x, -0.1, 0.1), REAL, smooth=True)
rare("arrays", gradient.grad_scale, lambda f, x: f(x, 3.0), REAL, smooth=True)
rare(
    "arrays",
    found("join_dims", "tensor.reshape"),
    lambda f, x: f(x, start_axis=1, n_axes=2),
    CUBE,
    smooth=True,
)
rare(
    "arrays",
    found("split_dims", "tensor.reshape"),
    lambda f, x: f(x, axis=1, shape=(3, 2)),
    LONG.reshape(2, 10)[:, :6],
    smooth=True,
)
rare("arrays", found("Shape_i", "tensor.shape"), lambda op, x: op(1)(x), REAL)
rare(
    "parts",
    found("AdvancedSubtensor1", "tensor.subtensor"),
    lambda op, x, i: op()(x, i),
    LONG,
    ROWS,
)
PERMUTE = found("PermuteRowElements", BASIC)
ORDER = np.array([2, 0, 1])
rare("arrays", PERMUTE, lambda op, x, i: op(False)(x, i), REAL[0], ORDER)
rare("arrays", PERMUTE, lambda op, x, i: op(True)(x, i), REAL[0], ORDER)
rare("arrays", PERMUTE, lambda op, x, i: op(False)(x, i), REAL, ORDER)
rare("arrays", PERMUTE, lambda op, x, i: op(True)(x, i), REAL, ORDER)
rare("arrays", PERMUTE, lambda op, x, i: op(False)(x, i), REAL, [ORDER, ORDER[::-1]])
rare("arrays", PERMUTE, lambda op, x, i: op(False)(x, i), REAL[0], [ORDER, ORDER[::-1]])
rare(
    "arrays",
    pt.scalar_from_tensor,
    lambda f, x: pt.tensor_from_scalar(ps.exp(f(x)) * 2),
    0.5,
    smooth=True,
)
rare("arrays", pt.inverse_permutation, applied, ORDER)
rare(
    "arrays",
    found("fill_diagonal_offset", EXTRA),
    lambda f, x, k: [f(x, 9.0, k), f(x, 9.0, -k), f(x.T, 8.0, 2)],
    LONG,
    1,
)
rare(
    "arrays",
    found("ravel_multi_index", EXTRA),
    lambda f, i, j: [f((i, j), (6, 5)), f((i, j), (6, 5), order="F")],
    COUNTS[0],
    COUNTS[1] % 5,
)
rare(
    "arrays",
    pt.unravel_index,
    lambda f, i: list(f(i, (2, 3), order="F")),
    COUNTS[0],
)
rare(
    "arrays",
    pt.choose,
    lambda f, i, x: [f(i, x, mode="wrap"), f(i, x, mode="clip")],
    np.array([0, 5, -3]),
    REAL,
)

# --- elementwise ----------------------------------------------------------------------

rare(
    "elementwise",
    found("complex_from_polar", "scalar.basic"),
    lambda op, r, t: Elemwise(op)(r, t),
    POSITIVE,
    REAL,
)
rare(
    "elementwise",
    found("identity", "scalar.basic"),
    lambda op, x: Elemwise(op)(x),
    REAL,
)
rare(
    "elementwise",
    found("ndtri_exp", "scalar.math"),
    lambda op, x: Elemwise(op)(x),
    -POSITIVE,
)
LOOP = found("ScalarLoop", "scalar.loop")


def halved(op, n, x, c):
    a, b = ps.float64(), ps.float64()
    plain = op(init=[a], update=[a * 0.5 + b], constant=[b])
    stops = op(init=[a], update=[a * 0.5 + b], constant=[b], until=a < b)
    return [Elemwise(plain)(n, x, c), *Elemwise(stops)(n, x, c)]


rare("elementwise", LOOP, halved, COUNTS, POSITIVE, OTHER)

# --- reductions and products ----------------------------------------------------------

BLAS = ("tensor.blas", "tensor.blas.gemm", "tensor.blas.gemv", "tensor.blas.ger")
rare("reductions", found("_dot22", *BLAS), lambda f, x, y: f(x, y.T), REAL, OTHER)
rare(
    "reductions",
    found("_dot22scalar", *BLAS),
    lambda f, x, y, a: f(x, y.T, a),
    REAL,
    OTHER,
    0.5,
)
rare(
    "reductions",
    found("gemm_no_inplace", *BLAS),
    lambda f, z, x, y, a: f(z[:2, :2], a, x, y.T, a + 1),
    SQUARE,
    REAL,
    OTHER,
    0.5,
)
rare(
    "reductions",
    found("gemv_no_inplace", *BLAS),
    lambda f, y, x, a: f(y[:2], a, x, y[:3], a + 1),
    VECTOR,
    REAL,
    0.5,
)
rare(
    "reductions",
    found("Ger", *BLAS),
    lambda op, z, y, a: op(False)(z, a, y[:2], y[:3]),
    REAL,
    VECTOR,
    0.5,
)
rare(
    "reductions",
    found("BatchedDot", "tensor.blas", "tensor.blas.batched"),
    lambda op, x: op()(x, x.transpose(0, 2, 1)),
    CUBE,
)
rare(
    "reductions",
    found("SoftmaxGrad", "tensor.special"),
    lambda op, x, y: [op(axis=1)(x, y), op(axis=None)(x, y)],
    REAL,
    OTHER,
)
rare(
    "reductions",
    ps.and_,
    lambda op, x: [CAReduce(op, axis=a)(x) for a in (0, (0, 1))],
    INTEGER,
)
rare("reductions", ps.xor, lambda op, x: CAReduce(op, axis=(1,))(x), INTEGER)
rare(
    "reductions",
    ps.mul,
    lambda op, x: pt.prod(x, axis=0, no_zeros_in_input=True),
    POSITIVE,
    smooth=True,
)

OLD = int(pytensor.__version__.split(".")[0]) < 3  # there, None is a constant

# --- linear algebra -------------------------------------------------------------------

rare(
    "algebra",
    found("eigvalsh", "tensor.linalg", "tensor.slinalg"),
    lambda f, a: [f(a, NoneConst if OLD else None), f(a, a @ a.T + pt.eye(3))],
    SQUARE,
)
rare(
    "algebra",
    None if OLD else found("eigh", "tensor.linalg"),
    lambda f, a: [abs(v) for v in f(a, a @ a.T + pt.eye(3), lower=False)],
    SQUARE,
)
rare(
    "algebra",
    found("pivot_to_permutation", "tensor.linalg.decomposition.lu", "tensor.slinalg"),
    lambda f, p: [f(p), f(p, inverse=True)],
    np.array([1, 2, 2], "int32"),
)
rare(
    "algebra",
    found("tensorinv", "tensor.linalg.inverse", "tensor.nlinalg"),
    lambda f, x: f(x + 30 * pt.eye(24).reshape((4, 6, 8, 3)), ind=2),
    np.sin(np.arange(576.0)).reshape(4, 6, 8, 3),
)
rare(
    "algebra",
    found("tensorsolve", "tensor.linalg.solvers.lstsq", "tensor.nlinalg"),
    lambda f, a, b: f(a, b),
    np.sin(np.arange(36.0)).reshape(2, 3, 2, 3) + np.eye(6).reshape(2, 3, 2, 3) * 9,
    REAL,
)

rare(
    "algebra",
    found("SLogDet", "tensor.linalg.summary", "tensor.nlinalg", "tensor.linalg"),
    lambda op, a: list(op()(a)),
    SQUARE,
)

# --- branches ---------- -------------------------------------------------------------

LAZY, SUBGRAPH = (
    found("LazyIfElse", "conditional.op"),
    found("OpFromGraph", "compile.builders"),
)


def lazy(op, c, x):
    a = pt.dvector()
    branches = [SUBGRAPH([a], [pt.exp(a)]), SUBGRAPH([a], [a - 1])]
    return op(*branches, [x.type])(c > 0, x)


rare("control", LAZY, lazy, 1.0, VECTOR)
rare("control", LAZY, lazy, -1.0, VECTOR)


def overridden(op, x):
    """A subgraph whose gradient is overridden: three times the cotangent."""
    a, told = pt.dvector(), signature(op.__init__).parameters
    name = "pullback" if "pullback" in told else "lop_overrides"
    rule = {name: lambda inputs, outputs, slopes: [3 * slopes[0]]}
    return op([a], [pt.exp(a)], **rule)(x)


rare("control", SUBGRAPH, overridden, VECTOR, smooth=True)
