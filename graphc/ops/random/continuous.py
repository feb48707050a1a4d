"""Random numbers with explicit keys, as in `jax.random`: `gt.random`.

A key is an ordinary array of two words, uint32[2], as `jax.random.PRNGKey` gives it
(of a typed key, `jax.random.key_data`). The same key gives the same draws; new keys
come from `split` and `fold_in`. A vector of keys is indexed, `keys[i]`.

On JAX a draw is what the function of the same name in `jax.random` gives, bit for
bit, with the same dtype, whether or not the program has 64-bit arrays elsewhere.
(XLA may round a function of the bits differently where it fuses it with other ops, as
it may under `jax.jit`; generalized_normal and ball are composed here, so they may
differ too.)

The default dtype is that of JAX in the mode which the arguments need: floats of
`graphc.config.float` and integers of that width, or 64 bits where an argument has
64 bits. Sizes may be symbolic, even data-dependent.

On NumPy, with the same key:

- the same bits: `key`, `split`, `fold_in`, `bits`, `uniform` in [0, 1), `randint`,
  `bernoulli`, `permutation`, `shuffle`, and `choice` where no `p` is given;
- the same up to rounding, since they are functions of such bits: all else that is
  not named below (a draw on the edge between two integers may become the other one);
- the same distribution from another stream, NumPy's Philox seeded by the key: gamma,
  poisson and binomial variates, and those made from them (beta, dirichlet, chisquare,
  t, f, generalized_normal, ball, wishart, multinomial, negative_binomial).

The first two hold for JAX's default generator, threefry2x32, with its default
settings. A seed that is negative or needs more than 32 bits fills both words of its
key, as it does in JAX's 64-bit mode.
"""

import inspect
from collections.abc import Callable

from graphc.errors import graph_error
from graphc.ir.config import config
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike, ShapeLike
from graphc.ir.graph.build import Shape, as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op
from graphc.ir.namespace import F, enroll, public
from graphc.ir.types import DType, TensorType, dtype_of
from graphc.ops.random import numpy_samplers as helpers
from graphc.ops.random.batching import declare_mapped
from graphc.ops.random.gradients import pathwise, uniform_slopes
from graphc.ops.random.keys import split
from graphc.ops.random.sampler import (
    as_key,
    draw,
    drawn_shape,
    drawn_type,
    emit_draw,
    float_dtype,
    real,
    require_key,
    require_shape,
    sampler,
)


@op()
def _random_bits(key: Array, *, shape: Shape, dtype: DType) -> TensorType:
    """Unsigned integers of random bits."""
    require_key(key)
    require_shape(shape)
    return drawn_type(dtype, shape)


emit_draw(_random_bits, helpers.random_bits_numpy, ["shape", "dtype"])
_random_bits.no_gradient("its results are integers")
declare_mapped(_random_bits)


@public(name="random.bits")
def bits(
    key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None
) -> Value:
    """Unsigned integers of random bits; uint32 by default (uint64 beside float64)."""
    name, wide = "random.bits", config.float.itemsize == 8
    to = dtype_of(dtype or ("uint64" if wide else "uint32"))
    if to.kind != "u":
        raise graph_error("draws unsigned integers", op=name, got=f"dtype {to}")
    sizes = drawn_shape(name, shape)
    return _random_bits(as_key(key, name), shape=sizes, dtype=to)


# The functions of `jax.random` that refuse to round their parameters.
_EXACT = {"beta", "chisquare", "f", "lognormal", "pareto", "rayleigh", "t"}
_EXACT |= {"triangular", "wald"}


def _continuous(
    name: str,
    key: ArrayLike,
    shape: ShapeLike | None,
    dtype: DTypeLike | None,
    *params: ArrayLike,
) -> Value:
    """Draw with parameters in the dtype of the draw, which broadcast to its shape."""
    shown = f"random.{name}"
    values = [real(shown, x) for x in params]
    to = float_dtype(shown, dtype, values)
    for v in values:
        wider = v.dtype.kind == "f" and v.dtype.itemsize > to.itemsize
        if wider and not v.type.weak and name in _EXACT:
            raise graph_error(
                f"a parameter would be rounded to {to.name}",
                op=shown,
                got=str(v.type),
                hint=f'convert it with astype("{to.name}"), or draw {v.dtype.name}',
            )
    return draw(name, key, shape, to, *(cast(v, to) for v in values))


@op()
def _random_uniform(
    key: Array, *bounds: Array, shape: Shape, dtype: DType
) -> TensorType:
    """Uniform in [0, 1), or between bounds."""
    require_key(key)
    require_shape(shape, *(b.type.shape for b in bounds))
    return drawn_type(dtype, shape)


def _print_uniform(p: Printing, function: str) -> str:
    shape, dtype = (p.code(p.node.params[name]) for name in ("shape", "dtype"))
    return f"{function}({', '.join([p.inputs[0], shape, dtype, *p.inputs[1:]])})"


_random_uniform.on_host = False
emit_draw(_random_uniform, helpers.uniform_numpy, printed=_print_uniform)
pathwise(_random_uniform, uniform_slopes)
declare_mapped(_random_uniform)


@public(name="random.uniform")
def uniform(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Value:
    """Uniform in [minval, maxval), which broadcast to `shape`."""
    name = "random.uniform"
    values = [real(name, x) for x in (minval, maxval)]
    to = float_dtype(name, dtype, values)
    unit = not any(isinstance(x, Value) for x in (minval, maxval))
    unit = unit and not any(v.type.rank for v in values)
    unit = unit and (minval, maxval) == (0, 1)
    arguments = [] if unit else [cast(v, to) for v in values]
    sizes = drawn_shape(name, shape)
    return _random_uniform(as_key(key, name), *arguments, shape=sizes, dtype=to)


sampler("normal", helpers.normal_numpy)


@public(name="random.normal")
def normal(
    key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None
) -> Value:
    """Standard normal; for a complex dtype, with a total variance of 1."""
    if dtype is not None and dtype_of(dtype).kind == "c":
        return draw("normal", key, shape, dtype_of(dtype))
    return _continuous("normal", key, shape, dtype)


@public(name="random.half_normal")
def half_normal(
    key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None
) -> Value:
    """The absolute value of a standard normal."""
    return F.absolute(_continuous("normal", key, shape, dtype))


def distribution(declared: Callable[..., None]) -> Callable[..., Value]:
    """Declare the primitive and the public function of a distribution (a decorator).

    The decorated function gives the name, parameters and text. The public function
    takes these parameters between the key and the shape, which is by default the one
    that the parameters broadcast to.
    """
    name = declared.__name__
    sampler(name, getattr(helpers, f"{name}_numpy"))
    parameters = [*inspect.signature(declared).parameters.values()]
    plain = inspect.signature(normal)
    key, shape, dtype = plain.parameters.values()
    if parameters:
        shape = shape.replace(default=None, annotation=ShapeLike | None)
    signature = plain.replace(parameters=[key, *parameters, shape, dtype])

    @public(name=f"random.{name}", doc=declared.__doc__ or "")
    def function(*args: object, **named: object) -> Value:
        try:
            bound = signature.bind(*args, **named)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        bound.apply_defaults()
        key, *params, shape, dtype = bound.arguments.values()
        return _continuous(name, key, shape, dtype, *params)

    function.__dict__["__signature__"] = signature
    return function


@distribution
def truncated_normal(lower: ArrayLike, upper: ArrayLike) -> None:
    """Standard normal, given that it lies between `lower` and `upper`."""


@distribution
def lognormal(sigma: ArrayLike = 1.0) -> None:
    """exp(sigma * z) for a standard normal z."""


@distribution
def exponential() -> None:
    """Exponential with rate 1."""


@distribution
def pareto(b: ArrayLike) -> None:
    """Pareto with exponent `b` and minimum 1."""


@distribution
def weibull_min(scale: ArrayLike, concentration: ArrayLike) -> None:
    """Weibull of minima.

    Without a shape, there is one draw per parameter (in `jax.random`, one in all).
    """


enroll(weibull_min, "random.weibull")


@distribution
def rayleigh(scale: ArrayLike) -> None:
    """Rayleigh: the length of a normal vector in the plane."""


@distribution
def maxwell() -> None:
    """Maxwell: the length of a standard normal vector in space."""


@distribution
def laplace() -> None:
    """Laplace with scale 1."""


@distribution
def cauchy() -> None:
    """Cauchy with scale 1."""


@distribution
def logistic() -> None:
    """Logistic with scale 1."""


@distribution
def gumbel() -> None:
    """Gumbel with scale 1."""


@distribution
def triangular(left: ArrayLike, mode: ArrayLike, right: ArrayLike) -> None:
    """A density that rises linearly from `left` to `mode` and falls to `right`."""


@distribution
def wald(mean: ArrayLike) -> None:
    """Wald (inverse Gaussian) with mean `mean` and scale 1."""


@distribution
def gamma(a: ArrayLike) -> None:
    """Gamma with shape parameter `a` and scale 1."""


@distribution
def loggamma(a: ArrayLike) -> None:
    """The logarithm of a gamma variate, exact even where the variate is close to 0."""


@distribution
def beta(a: ArrayLike, b: ArrayLike) -> None:
    """Beta with parameters `a` and `b`."""


@distribution
def chisquare(df: ArrayLike) -> None:
    """Chi-square with `df` degrees of freedom."""


@distribution
def t(df: ArrayLike) -> None:
    """Student's t with `df` degrees of freedom."""


sampler("f", helpers.f_numpy)


@public(name="random.f")
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Value:
    """Fisher's F with `dfnum` and `dfden` degrees of freedom."""
    values = [real("random.f", x) for x in (dfnum, dfden)]
    sizes = drawn_shape("random.f", shape, *(v.type.shape for v in values))
    full = [F.broadcast_to(v, sizes) if sizes else v for v in values]  # JAX insists
    return _continuous("f", key, sizes, dtype, *full)


@public(name="random.generalized_normal")
def generalized_normal(
    key: ArrayLike, p: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None
) -> Value:
    """The density proportional to exp(-abs(x)**p), for a scalar `p`."""
    name = "random.generalized_normal"
    to = float_dtype(name, dtype, [real(name, p)])
    keys = split(as_key(key, name))
    power = 1 / cast(as_value(p), to)
    size = F.power(gamma(keys[0], power, shape, to), power)
    return F.random.rademacher(keys[1], shape, to) * size
