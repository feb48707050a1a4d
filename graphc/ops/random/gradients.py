"""Derivatives of random draws in their parameters, with the randomness held fixed.

They equal those of JAX, except where JAX gives NaN for a finite derivative. Discrete
draws, and draws by rejection (gamma variates and those made from them), have none.
"""

from collections.abc import Callable

from graphc.errors import graph_error
from graphc.ir.graph.build import Shape
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import GRADIENTS, PRIMITIVES, Cotangents, Primitive
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param
from graphc.ir.types import DType
from graphc.ops.common.broadcasting import summed_to
from graphc.ops.random.batching import Levels, from_keys, missing_axes

Slopes = Callable[..., tuple[Value, ...]]
DISCRETE = "draws are discrete"
REJECTION = (
    "gamma variates are drawn by rejection, which has no derivative in the parameters"
)


class Noise:
    """Draws by other samplers from the keys of a draw, lined up with its result."""

    def __init__(self, key: Value, each: Levels, shape: Shape, dtype: DType) -> None:
        self._key = key
        self._missing = missing_axes(0, each)
        self._shape = shape
        self._dtype = dtype

    def __call__(self, name: str, number: int | None = None) -> Value:
        """Draw by the sampler `name`, without parameters.

        Where `number` is given, each key is split in two, and that one of them is used.
        """
        key = self._key
        if number is not None:
            key = from_keys(PRIMITIVES["random_split"], key, shape=(2,))[..., number, :]
        primitive = PRIMITIVES[f"random_{name}"]
        return self._align(
            from_keys(primitive, key, shape=self._shape, dtype=self._dtype)
        )

    def _align(self, drawn: Value) -> Value:
        """Insert into the draws the new axes that the keys do not have."""
        return F.expand_dims(drawn, self._missing)


class Parameter:
    """An input of a draw, with axes inserted so that it broadcasts to the result."""

    def __init__(self, x: Value, i: int, each: Levels, rank: int) -> None:
        depth, missing = len(each), missing_axes(i, each)
        example_rank = x.type.rank - (depth - len(missing))
        self._axes = (*missing, *range(depth, depth + rank - example_rank))
        self.value: Value = F.expand_dims(x, self._axes)

    def summed(self, g: Value) -> Value:
        """Sum the cotangents of the elements of the result to that of the input."""
        return F.squeeze(summed_to(g, self.value.type.shape), self._axes)


def pathwise(primitive: Primitive, slopes: Slopes) -> None:
    """Define the gradient of a draw that is a function of noise and parameters.

    `slopes(noise, x, *parameters)` gives the derivatives of the draw x in the
    parameters.
    """

    @primitive.vjp
    def _(
        g: Value,
        key: Value,
        *params: Value,
        shape: Shape,
        dtype: DType,
        each: Levels = (),
        **more: Param,
    ) -> Cotangents:
        draw_params = {"shape": shape, "dtype": dtype}
        draw_params |= {"each": each, **more} if each else {}
        parts = [
            Parameter(p, i, each, len(shape)) for i, p in enumerate(params, start=1)
        ]
        x = primitive(key, *params, **draw_params)
        noise = Noise(key, each, shape, dtype)
        derivatives = slopes(noise, x, *(p.value for p in parts))
        return None, *(p.summed(g * s) for p, s in zip(parts, derivatives, strict=True))


def no_slopes(noise: Noise, x: Value) -> tuple[Value, ...]:
    """The derivatives of a draw without parameters: none."""
    return ()


def uniform_slopes(noise: Noise, x: Value, *bounds: Value) -> tuple[Value, ...]:
    """The derivatives of low + u (high - low)."""
    u = noise("uniform")
    return (1 - u, u) if bounds else ()


def _truncated_normal(
    noise: Noise, x: Value, lower: Value, upper: Value
) -> tuple[Value, ...]:
    """The derivatives of the quantile at P(lower) + u (P(upper) - P(lower))."""
    u = noise("uniform")
    low, high = (F.exp(0.5 * (x * x - end * end)) for end in (lower, upper))
    return (1 - u) * low, u * high


def _lognormal(noise: Noise, x: Value, sigma: Value) -> tuple[Value, ...]:
    return (x * noise("normal"),)


def _pareto(noise: Noise, x: Value, b: Value) -> tuple[Value, ...]:
    return (-x * noise("exponential") / (b * b),)


def _rayleigh(noise: Noise, x: Value, scale: Value) -> tuple[Value, ...]:
    return (F.sqrt(-2 * F.log(noise("uniform"))),)


def _weibull_min(
    noise: Noise, x: Value, scale: Value, concentration: Value
) -> tuple[Value, ...]:
    """The derivatives of scale e**(1 / concentration); the exponential e may be 0."""
    e, power = noise("exponential"), 1 / concentration
    log = F.log(F.where(F.equal(e, 0), 1.0, e))
    return F.power(e, power), -x * log * power * power


def _triangular(
    noise: Noise, x: Value, left: Value, mode: Value, right: Value
) -> tuple[Value, ...]:
    """The derivatives of left + root below the mode, and of right - root above it."""
    u, width = noise("uniform"), right - left
    rising = u < (mode - left) / width
    near = F.where(rising, mode - left, right - mode)
    share = F.where(rising, u, 1 - u)
    scale = 0.5 * share / F.sqrt(share * width * near)
    toward, both = scale * near, scale * (near + width)
    return (
        F.where(rising, 1 - both, toward),
        scale * width,
        F.where(rising, toward, 1 - both),
    )


def _wald(noise: Noise, x: Value, mean: Value) -> tuple[Value, ...]:
    """The derivative of that root of a quadratic equation which was drawn."""
    y = F.square(noise("normal", 0))
    root = F.sqrt(4 * mean * y + F.square(mean * y))
    smaller = mean + mean * mean * y / 2 - mean / 2 * root
    larger = mean * mean / smaller
    of_root = (2 * y + mean * y * y) / F.where(F.equal(root, 0), 1.0, root)
    slope = 1 + mean * y - root / 2 - mean / 2 * of_root
    other = 2 * mean / smaller - F.square(mean / smaller) * slope
    first = F.absolute(x - smaller) <= F.absolute(x - larger)
    return (F.where(first, slope, other),)


SLOPES: dict[str, Slopes] = {
    "truncated_normal": _truncated_normal,
    "lognormal": _lognormal,
    "pareto": _pareto,
    "rayleigh": _rayleigh,
    "weibull_min": _weibull_min,
    "triangular": _triangular,
    "wald": _wald,
    **dict.fromkeys(("normal", "exponential", "maxwell", "laplace"), no_slopes),
    **dict.fromkeys(("cauchy", "logistic", "gumbel"), no_slopes),
}
REFUSED = {
    **dict.fromkeys(("gamma", "loggamma", "beta", "chisquare", "t", "f"), REJECTION),
    **dict.fromkeys(("bernoulli", "poisson", "geometric", "binomial"), DISCRETE),
}


def permutation_rule(
    g: Value,
    key: Value,
    x: Value,
    *,
    axis: int,
    independent: bool,
    each: Levels = (),
    result: Shape = (),
) -> Cotangents:
    """Put the cotangents back in the order before the permutation."""
    missing = missing_axes(1, each)
    example_shape = x.type.shape[len(each) - len(missing) :]
    count = F.arange(F.size_value(example_shape[axis]))
    behind = tuple(range(1, len(example_shape) - axis))
    places = F.broadcast_to(F.expand_dims(count, behind), example_shape)
    params = {"axis": axis, "independent": independent}
    drawn = from_keys(PRIMITIVES["random_permutation"], key, places, **params)
    drawn = F.expand_dims(drawn, missing_axes(0, each))
    at = len(each) + axis
    order = F.broadcast_to(F.argsort(drawn, axis=at), g.type.shape)
    before = F.take_along_axis(g, order, axis=at)
    return None, F.sum(before, axis=missing) if missing else before


def normal_vectors_rule(
    g: Value,
    key: Value,
    mean: Value,
    cov: Value,
    *,
    shape: Shape,
    dtype: DType,
    method: str,
    each: Levels = (),
    result: Shape = (),
) -> Cotangents:
    """The cotangents of mean + L z for the Cholesky factor L of (cov + cov') / 2."""
    if method != "cholesky":
        raise graph_error(
            "there is no gradient through this way of factoring the covariance",
            op="random.multivariate_normal",
            got=f"method={method!r}",
            hint='draw with method="cholesky"',
        )
    centre = Parameter(mean, 1, each, len(shape) + 1)
    spread = Parameter(cov, 2, each, len(shape) + 2)
    z = Noise(key, each, (*shape, mean.type.shape[-1]), dtype)("normal")
    of_factor = spread.summed(F.expand_dims(g, -1) * F.expand_dims(z, -2))
    rule = GRADIENTS.find(PRIMITIVES["cholesky"])
    assert rule is not None
    even = 0.5 * (cov + cov.mT)
    (of_cov,) = rule(F.tril(of_factor), even)
    assert of_cov is not None
    return None, centre.summed(g), 0.5 * (of_cov + of_cov.mT)
