"""Random integers: the discrete distributions of `gt.random`."""

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike, ShapeLike
from graphc.ir.graph.build import Shape, as_value, cast, literal_of
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op
from graphc.ir.namespace import F, public
from graphc.ir.params.exactness import has_room
from graphc.ir.types import (
    BOOL,
    FLOAT32,
    INT32,
    DType,
    TensorType,
    dtype_of,
    is_float,
    is_integer,
)
from graphc.ops.random import numpy_discrete as helpers
from graphc.ops.random.batching import declare_mapped
from graphc.ops.random.sampler import (
    as_key,
    draw,
    drawn_shape,
    drawn_type,
    emit_draw,
    float_dtype,
    floating,
    int_dtype,
    real,
    require_key,
    require_shape,
    sampler,
)


@op()
def _random_randint(
    key: Array, minval: Array, maxval: Array, *, shape: Shape, dtype: DType
) -> TensorType:
    """Integers in [minval, maxval)."""
    require_key(key)
    require_shape(shape, minval.type.shape, maxval.type.shape)
    return drawn_type(dtype, shape)


def _print_randint(p: Printing, function: str) -> str:
    key, low, high = p.inputs
    params = p.node.params
    shape, dtype = p.code(params["shape"]), p.code(params["dtype"])
    return f"{function}({key}, {shape}, {low}, {high}, {dtype})"


emit_draw(_random_randint, helpers.randint_numpy, printed=_print_randint)
_random_randint.no_gradient("its results are integers")
declare_mapped(_random_randint)


def _bound(x: ArrayLike, dtype: DType) -> Value:
    """Convert a bound of `randint`: numbers to the drawn dtype, arrays not at all.

    Raises GraphError where it is no integer, or a number that does not fit.
    """
    value = as_value(x)
    if not is_integer(value.dtype):
        got = str(value.type)
        raise graph_error("bounds must be integers", op="random.randint", got=got)
    drawn = dtype if dtype.itemsize >= 4 else INT32
    number = literal_of(value)
    if value.type.weak and number is not None and not has_room(drawn, int(number)):
        raise graph_error(
            f"the bound {int(number)} does not fit {drawn.name}",
            op="random.randint",
            hint='draw wider integers, with dtype="int64", or bits',
        )
    return cast(value, drawn) if value.type.weak else value


@public(name="random.randint")
def randint(
    key: ArrayLike,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
) -> Value:
    """Integers in [minval, maxval), or `minval` where that range is empty.

    The bounds broadcast to `shape`.
    """
    name = "random.randint"
    to = int_dtype(name, dtype, [as_value(minval), as_value(maxval)])
    sizes = drawn_shape(name, shape)
    bounds = _bound(minval, to), _bound(maxval, to)
    return _random_randint(as_key(key, name), *bounds, shape=sizes, dtype=to)


sampler("bernoulli", helpers.bernoulli_numpy, dtype=False)
sampler("poisson", helpers.poisson_numpy)
sampler("geometric", helpers.geometric_numpy)
sampler("binomial", helpers.binomial_numpy)


@public(name="random.bernoulli")
def bernoulli(
    key: ArrayLike, p: ArrayLike = 0.5, shape: ShapeLike | None = None
) -> Value:
    """True with probability `p`, which must be a float."""
    name = "random.bernoulli"
    if not is_float(real(name, p).dtype):
        raise graph_error("p must be a float", op=name, got=str(as_value(p).type))
    return draw("bernoulli", key, shape, BOOL, floating(name, p))


@public(name="random.rademacher")
def rademacher(
    key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None
) -> Value:
    """-1 or 1, each with probability 1/2."""
    name = "random.rademacher"
    to = int_dtype(name, None, []) if dtype is None else dtype_of(dtype)
    half = floating(name, 0.5, to)
    return 2 * F.astype(bernoulli(key, half, shape), to) - 1


@public(name="random.poisson")
def poisson(
    key: ArrayLike,
    lam: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Value:
    """Poisson with mean `lam`, which is rounded to float32 as in JAX."""
    name = "random.poisson"
    value = real(name, lam)
    to = int_dtype(name, dtype, [value])
    mean = cast(value, FLOAT32) if value.type.weak else value
    return draw("poisson", key, shape, to, mean)


@public(name="random.geometric")
def geometric(
    key: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Value:
    """Trials up to the first success, each with probability `p`."""
    name = "random.geometric"
    to = int_dtype(name, dtype, [real(name, p)])
    return draw("geometric", key, shape, to, floating(name, p, to))


@public(name="random.binomial")
def binomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Value:
    """Successes in `n` trials with probability `p`, as floats (as in JAX)."""
    name = "random.binomial"
    to = float_dtype(name, dtype, [real(name, n), real(name, p)])
    chance = floating(name, p, to)
    trials = cast(real(name, n), chance.dtype)
    return draw("binomial", key, shape, to, trials, chance)


@public(name="random.negative_binomial")
def negative_binomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Value:
    """Failures before success number `n`, each with probability `p`.

    A Poisson variate whose mean is `(1 - p) / p` times a gamma variate of shape `n`.
    """
    name = "random.negative_binomial"
    values = [real(name, n), real(name, p)]
    to = int_dtype(name, dtype, values)
    work = float_dtype(name, None, values)
    trials, chance = (cast(v, work) for v in values)
    sizes = drawn_shape(name, shape, trials.type.shape, chance.type.shape)
    keys = F.random.split(key)
    mean = F.random.gamma(keys[0], trials, sizes, work) * ((1 - chance) / chance)
    return poisson(keys[1], mean, sizes, to)
