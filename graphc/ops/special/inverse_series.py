"""Inverses and integrals that JAX does not have: JAX programs contain their code.

`jax` is the library there. Inverses are found by Newton's method for the logarithm of
the function, in a variable in which its tails are straight, kept within a bracket that
is halved where a step would leave it.
"""

from collections.abc import Callable
from types import ModuleType

import numpy as np

from graphc.ir.types import JaxArray, NDArray
from graphc.ops.special.series import incomplete_gamma, log_beta


def bracketed_root(
    function: Callable[[JaxArray], tuple[JaxArray, JaxArray]],
    start: JaxArray,
    low: JaxArray,
    high: JaxArray,
    jax: ModuleType,
) -> JaxArray:
    """Where an increasing function is 0; `function` gives its values and slopes."""
    jnp = jax.numpy
    rounding = jnp.finfo(start.dtype).eps

    def step(
        state: JaxArray,
    ) -> tuple[JaxArray, JaxArray, JaxArray, JaxArray, JaxArray]:
        count, t, low, high, _ = state
        value, slope = function(t)
        low, high = jnp.where(value <= 0, t, low), jnp.where(value >= 0, t, high)
        closer = t - value / slope
        inside = (closer > low) & (closer < high)
        closer = jnp.where(inside, closer, 0.5 * (low + high))
        moving = jnp.abs(closer - t) > rounding * jnp.maximum(jnp.abs(closer), 1.0)
        return count + 1, closer, low, high, moving & (value != 0)

    def going(state: JaxArray) -> JaxArray:
        return jnp.any(state[-1]) & (state[0] < 100)

    low, high = jnp.full_like(start, low), jnp.full_like(start, high)
    state = 0, start, low, high, jnp.ones(start.shape, bool)
    return jax.lax.while_loop(going, step, state)[1]


def inverse_incomplete_gamma(
    a: JaxArray, p: JaxArray, upper: bool, jax: ModuleType
) -> JaxArray:
    """The x with Q(a, x) = p if `upper`, else with P(a, x) = p.

    Solved for the smaller one of P and Q, in the logarithm of x.
    """
    jnp, special = jax.numpy, jax.scipy.special
    a, p = jnp.broadcast_arrays(a, p)
    good = (a > 0) & (a < jnp.inf) & (p > 0) & (p < 1)
    shape, share = jnp.where(good, a, 1.0), jnp.where(good, p, 0.5)
    lower = (share <= 0.5) != upper
    target = jnp.log(jnp.where(share <= 0.5, share, 1.0 - share))
    scale = special.gammaln(shape)

    def function(t: JaxArray) -> tuple[JaxArray, JaxArray]:
        x = jnp.exp(t)
        below = incomplete_gamma(shape, x, False, jnp, special)
        above = incomplete_gamma(shape, x, True, jnp, special)
        side, size = jnp.where(lower, 1.0, -1.0), jnp.where(lower, below, above)
        slope = jnp.exp(shape * t - x - scale) / size
        return side * (jnp.log(size) - target), slope

    limits = jnp.finfo(a.dtype)
    low, high = jnp.log(limits.tiny), jnp.log(limits.max)
    guess = (target + special.gammaln(shape + 1.0)) / shape
    start = jnp.where(lower & (guess < jnp.log(shape)), guess, jnp.log(shape))
    start = jnp.clip(start, low, high)
    root = jnp.exp(bracketed_root(function, start, low, high, jax))
    root = jnp.where(root < 1.01 * limits.tiny, 0.0, root)  # the end of the bracket
    none, all_of_it = (1.0, 0.0) if upper else (0.0, 1.0)
    root = jnp.where(good, root, jnp.nan)
    edge = (a >= 0) & ~((a == 0) & jnp.isnan(p))
    root = jnp.where(edge & (p == none), 0.0, root)
    return jnp.where(edge & (p == all_of_it), jnp.inf, root)


def inverse_incomplete_beta(
    a: JaxArray, b: JaxArray, p: JaxArray, jax: ModuleType
) -> JaxArray:
    """The x with I_x(a, b) = p, solved in log(x / (1 - x)) for I or its complement."""
    jnp, special = jax.numpy, jax.scipy.special
    a, b, p = jnp.broadcast_arrays(a, b, p)
    fit = (a > 0) & (b > 0)
    good = fit & (a < jnp.inf) & (b < jnp.inf) & (p > 0) & (p < 1)
    first, second = jnp.where(good, a, 1.0), jnp.where(good, b, 1.0)
    share = jnp.where(good, p, 0.5)
    half = special.betainc(first, second, jnp.full_like(share, 0.5))
    lower = (share <= 0.5) | ((share < 0.95) & (share <= half))  # where x is small
    target = jnp.log(jnp.where(lower, share, 1.0 - share))
    scale = log_beta(first, second, jnp, special)

    def function(t: JaxArray) -> tuple[JaxArray, JaxArray]:
        log_x, log_y = -jnp.logaddexp(0.0, -t), -jnp.logaddexp(0.0, t)
        left = jnp.where(lower, first, second)
        right = jnp.where(lower, second, first)
        place = jnp.exp(jnp.where(lower, log_x, log_y))
        size = special.betainc(left, right, place)
        tail = left * jnp.where(lower, log_x, log_y) - jnp.log(left) - scale
        size = jnp.log(size)
        size = jnp.where(size > -jnp.inf, size, tail)  # of so little that it is 0
        slope = jnp.exp(first * log_x + second * log_y - scale - size)
        return jnp.where(lower, 1.0, -1.0) * (size - target), slope

    high = -jnp.log(jnp.finfo(a.dtype).tiny)
    low_guess = (target + jnp.log(first) + scale) / first
    high_guess = -(target + jnp.log(second) + scale) / second
    middle = jnp.log(first / second)
    start = jnp.where(lower, jnp.minimum(low_guess, middle), middle)
    start = jnp.where(lower, start, jnp.maximum(high_guess, middle))
    start = jnp.clip(start, -high, high)
    t = bracketed_root(function, start, -high, high, jax)
    root = jnp.where(good, special.expit(t), jnp.nan)
    root = jnp.where(fit & (p == 0), 0.0, root)
    return jnp.where(fit & (p == 1), 1.0, root)


def owens_integral(h: JaxArray, a: JaxArray, jax: ModuleType) -> JaxArray:
    """Owen's T for h >= 0 and 0 <= a <= 1, by Gauss-Legendre with 32 points.

    Behind 9 / h the integrand is below the rounding of the whole.
    """
    jnp = jax.numpy
    points = (
        0.048307665687738324, 0.1444719615827965, 0.23928736225213706,
        0.33186860228212767, 0.42135127613063533, 0.5068999089322294,
        0.5877157572407623, 0.6630442669302152, 0.7321821187402897, 0.7944837959679424,
        0.84936761373257, 0.8963211557660521, 0.9349060759377397, 0.9647622555875064,
        0.9856115115452684, 0.9972638618494816,
    )
    weights = (
        0.09654008851472766, 0.09563872007927471, 0.09384439908080451,
        0.09117387869576378, 0.08765209300440378, 0.08331192422694671,
        0.07819389578707023, 0.07234579410884834, 0.06582222277636168,
        0.058684093478535565, 0.05099805926237609, 0.042835898022226836,
        0.034273862913021765, 0.025392065309262024, 0.016274394730905743,
        0.007018610009470506,
    )
    width = jnp.where(a * h > 9.0, 9.0 / jnp.where(h > 0, h, 1.0), a)
    total = 0.0
    for point, weight in zip(points, weights):  # noqa: B905
        for side in (-0.5 * point, 0.5 * point):
            x = width * (0.5 + side)
            part = jnp.exp(-0.5 * jnp.square(h * x)) / (1.0 + x * x)
            total = total + weight * part
    scale = jnp.exp(-0.5 * h * h) * 0.15915494309189535  # 1 / (2 pi)
    return jnp.where(h < jnp.inf, 0.5 * width * total * scale, 0.0)


def owens_function(h: JaxArray, a: JaxArray, jax: ModuleType) -> JaxArray:
    """Owen's T function; |a| > 1 is reduced as in M. Patefield and D. Tandy (2000),
    Fast and accurate calculation of Owen's T function, J. Stat. Softw. 5."""
    jnp, special = jax.numpy, jax.scipy.special
    size, slope = jnp.abs(h), jnp.abs(a)
    large = slope > 1.0
    steep = jnp.where(large, slope, 2.0)
    product = jnp.where(steep < jnp.inf, size * steep, jnp.inf)
    product = jnp.where(size == 0, 0.0, product)
    inner = owens_integral(
        jnp.where(large, product, size), jnp.where(large, 1.0 / steep, slope), jax
    )
    root = 0.7071067811865476
    near = 0.25 - 0.25 * special.erf(size * root) * special.erf(product * root)
    one, two = (0.5 * special.erfc(x * root) for x in (size, product))
    far = 0.5 * (one + two) - one * two
    integral = jnp.where(large, jnp.where(size <= 0.67, near, far) - inner, inner)
    integral = jnp.where(jnp.isnan(h) | jnp.isnan(a), jnp.nan, integral)
    return jnp.where(a < 0, -integral, integral)


def hypergeometric(
    a: JaxArray,
    b: JaxArray,
    c: JaxArray,
    x: JaxArray,
    jax: ModuleType,
    scipy: ModuleType,
) -> JaxArray:
    """2F1 by SciPy, on the host: JAX's own is far off in many places.

    Numbers go there and back as words of 32 bits, which JAX does not cast on the way.
    """
    values = jax.numpy.broadcast_arrays(a, b, c, x)
    dtype, count = x.dtype, x.dtype.itemsize // 4

    def on_host(*words: JaxArray) -> NDArray:
        numbers = [np.asarray(w).view(dtype)[..., 0] for w in words]
        series = np.asarray(scipy.special.hyp2f1(*numbers), dtype)
        return series[..., None].view("uint32")

    def words_of(value: JaxArray) -> JaxArray:
        words = jax.lax.bitcast_convert_type(value, "uint32")
        return words.reshape(*value.shape, count)

    result = jax.ShapeDtypeStruct((*values[0].shape, count), "uint32")
    arguments = map(words_of, values)
    sums = jax.pure_callback(on_host, result, *arguments, vmap_method="broadcast_all")
    sums = sums if count > 1 else sums[..., 0]
    return jax.lax.bitcast_convert_type(sums, dtype)
