"""Random vectors and matrices: a part of `gt.random`."""

from typing import Literal, get_args

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike, ShapeLike
from graphc.ir.graph.build import Shape, as_shape, as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op, require_equal, type_error
from graphc.ir.namespace import F, public
from graphc.ir.types import DType, TensorType
from graphc.ops.random import numpy_discrete, numpy_samplers
from graphc.ops.random.batching import declare_mapped
from graphc.ops.random.gradients import DISCRETE, REJECTION, normal_vectors_rule
from graphc.ops.random.sampler import (
    as_key,
    call_text,
    drawn_shape,
    drawn_type,
    emit_draw,
    float_dtype,
    floating,
    real,
    require_key,
    require_shape,
)

CovarianceFactor = Literal["cholesky", "eigh", "svd"]


@op()
def _random_multinomial(key: Array, n: Array, p: Array, *, dtype: DType) -> TensorType:
    """Counts per category in n trials."""
    require_key(key)
    require_shape(p.type.shape[:-1], n.type.shape)
    return TensorType(dtype, p.type.shape)


def _print_multinomial(p: Printing, function: str, keyword: str) -> str:
    return f"{call_text(p, function)[:-1]}, {keyword}{p.code(p.node.params['dtype'])})"


_random_multinomial.on_host = False
_random_multinomial.emit(
    numpy=lambda p: _print_multinomial(
        p, p.helper(numpy_discrete.multinomial_numpy), ""
    ),
    jax=lambda p: _print_multinomial(p, "jax.random.multinomial", "dtype="),
)
_random_multinomial.no_gradient(DISCRETE)
declare_mapped(_random_multinomial)


@public(name="random.multinomial")
def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Value:
    """Counts per category (the last axis of `p`) in `n` trials, as floats.

    `shape` does not include that axis; `n` and the other axes of `p` broadcast to it.
    """
    name = "random.multinomial"
    to = float_dtype(name, dtype, [real(name, n), real(name, p)])
    chances = floating(name, p, to)
    trials = cast(real(name, n), chances.dtype)
    if not chances.type.rank:
        got = str(chances.type)
        raise graph_error("p needs an axis of categories", op=name, got=got)
    batch = chances.type.shape[:-1]
    sizes = drawn_shape(name, shape, trials.type.shape, batch)
    chances = F.broadcast_to(chances, (*sizes, chances.type.shape[-1]))
    trials = F.broadcast_to(trials, sizes)
    return _random_multinomial(as_key(key, name), trials, chances, dtype=to)


@op()
def _random_dirichlet(
    key: Array, alpha: Array, *, shape: Shape, dtype: DType
) -> TensorType:
    """Vectors of shares that sum to 1."""
    require_key(key)
    require_shape(shape, alpha.type.shape[:-1])
    return drawn_type(dtype, (*shape, alpha.type.shape[-1]))


_random_dirichlet.on_host = False
emit_draw(_random_dirichlet, numpy_samplers.dirichlet_numpy, ["shape", "dtype"])
_random_dirichlet.no_gradient(REJECTION)
declare_mapped(_random_dirichlet)


@public(name="random.dirichlet")
def dirichlet(
    key: ArrayLike,
    alpha: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Value:
    """Dirichlet over the last axis of `alpha`, which `shape` does not include."""
    name = "random.dirichlet"
    value = real(name, alpha)
    if not value.type.rank:
        raise graph_error("alpha needs an axis", op=name, got=str(value.type))
    to = float_dtype(name, dtype, [value])
    sizes = drawn_shape(name, shape, value.type.shape[:-1])
    return _random_dirichlet(as_key(key, name), cast(value, to), shape=sizes, dtype=to)


@op()
def _random_multivariate_normal(
    key: Array,
    mean: Array,
    cov: Array,
    *,
    shape: Shape,
    dtype: DType,
    method: CovarianceFactor,
) -> TensorType:
    """Normal vectors with this mean and covariance."""
    require_key(key)
    m, c = mean.type.shape, cov.type.shape
    if len(m) < 1 or len(c) < 2:
        raise type_error("needs a mean vector and a covariance matrix")
    require_equal(c[-1], c[-2], "the covariance must be square")
    require_equal(m[-1], c[-1], "the covariance must fit the mean")
    require_shape(shape, m[:-1], c[:-2])
    return drawn_type(dtype, (*shape, m[-1]))


_random_multivariate_normal.on_host = False
emit_draw(
    _random_multivariate_normal,
    numpy_samplers.multivariate_normal_numpy,
    ["shape", "dtype", "method"],
)
_random_multivariate_normal.vjp(normal_vectors_rule)
declare_mapped(_random_multivariate_normal)


@public(name="random.multivariate_normal")
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
) -> Value:
    """Normal vectors; `shape` does not include the axis of the vector.

    `method` is how the covariance is factored: "cholesky", "eigh" or "svd"; the first
    two take the mean of the covariance and its transpose. For a covariance that is not
    positive definite, "cholesky" gives NaN on JAX, and the call raises on NumPy.
    """
    name = "random.multivariate_normal"
    if method not in get_args(CovarianceFactor):
        expected = "one of " + ", ".join(get_args(CovarianceFactor))
        raise graph_error(f"unknown method {method!r}", op=name, expected=expected)
    values = [real(name, mean), real(name, cov)]
    to = float_dtype(name, dtype, values)
    m, c = (cast(v, to) for v in values)
    sizes = drawn_shape(name, shape, m.type.shape[:-1], c.type.shape[:-2])
    return _random_multivariate_normal(
        as_key(key, name), m, c, shape=sizes, dtype=to, method=method
    )


@public(name="random.wishart")
def wishart(
    key: ArrayLike,
    df: ArrayLike,
    scale: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Value:
    """Wishart: matrices of mean `df * scale`, for a scalar `df` > d - 1.

    By Bartlett's decomposition: `scale = L L'`, and `L A A' L'` where A has normals
    below its diagonal and roots of chi-squares on it. `scale` is one matrix.
    """
    name = "random.wishart"
    values = [real(name, df), real(name, scale)]
    to = float_dtype(name, dtype, values)
    freedom, matrix = (cast(v, to) for v in values)
    if freedom.type.rank or matrix.type.rank != 2:
        got = ", ".join(str(v.type) for v in values)
        raise graph_error("needs a scalar df and a scale matrix", op=name, got=got)
    d = matrix.shape[-1]
    sizes = drawn_shape(name, () if shape is None else shape)
    keys = F.random.split(as_key(key, name))
    remaining = freedom - F.astype(F.arange(d), to)
    roots = F.sqrt(F.random.chisquare(keys[0], remaining, (*sizes, d), to))
    below = F.tril(F.random.normal(keys[1], (*sizes, d, d), to), -1)
    factor = below + F.expand_dims(roots, -1) * F.eye(d, dtype=to)
    factor = F.matmul(F.linalg.cholesky(matrix), factor)
    return F.matmul(factor, factor.mT)


@public(name="random.ball")
def ball(
    key: ArrayLike,
    d: ArrayLike,
    p: ArrayLike = 2,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Value:
    """Uniform in the unit ball of the p-norm in `d` dimensions: (*shape, d)."""
    name = "random.ball"
    to = float_dtype(name, dtype, [real(name, p)])
    keys = F.random.split(as_key(key, name))
    sizes = drawn_shape(name, shape)
    power = cast(as_value(p), to)
    inside = F.random.generalized_normal(keys[0], power, (*sizes, *as_shape(d)), to)
    beyond = F.random.exponential(keys[1], sizes, to)
    reach = F.sum(F.power(F.absolute(inside), power), axis=-1) + beyond
    return inside / F.expand_dims(F.power(reach, 1 / power), -1)
