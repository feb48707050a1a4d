"""Random draws in NumPy: the functions that are printed into NumPy programs.

Bits come from Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw, "Parallel
random numbers: as easy as 1, 2, 3", 2011), counted as JAX counts them, so that both
backends draw the same bits. Rejection samplers draw from NumPy's Philox instead.
"""

import math

import numpy as np

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.types import NDArray


def threefry_numpy(
    key: NDArray, high: NDArray, low: NDArray
) -> tuple[NDArray, NDArray]:
    """Threefry-2x32 with 20 rounds: two words for each pair of counters."""
    a, b = int(key[0]), int(key[1])
    words = [np.uint32(w) for w in (a, b, a ^ b ^ 0x1BD11BDA)]
    x, y = high + words[0], low + words[1]
    turned = np.empty_like(y)
    for i in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[i % 2]:
            x += y
            np.left_shift(y, turn, out=turned)
            y >>= 32 - turn
            y |= turned
            y ^= x
        x += words[(i + 1) % 3]
        y += words[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def random_words_numpy(key: NDArray, size: int) -> NDArray:
    """The words of the counters 0 to size - 1, as two rows; made in blocks."""
    words = np.empty((2, size), "uint32")
    for start in range(0, size, 8192):
        count = np.arange(start, min(start + 8192, size), dtype="uint64")
        high, low = (count >> 32).astype("uint32"), count.astype("uint32")
        words[:, start : start + 8192] = threefry_numpy(key, high, low)
    return words


def random_bits_numpy(key: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """Unsigned integers with random bits."""
    high, low = random_words_numpy(key, math.prod(shape))
    if dtype == "uint64":
        bits = high.astype(dtype) << 32 | low
    else:
        bits = (high ^ low).astype(dtype)
    return bits.reshape(shape)


def key_numpy(seed: NDArray | np.int64) -> NDArray:
    """The key of an integer seed: its upper and lower word."""
    wide = np.dtype(getattr(seed, "dtype", "int64")).itemsize == 8
    high = int(seed) >> 32 if wide else 0
    return np.array([high & 0xFFFFFFFF, int(seed) & 0xFFFFFFFF], "uint32")


def split_keys_numpy(key: NDArray, shape: tuple[int, ...]) -> NDArray:
    """Independent keys, in an array of this shape."""
    return random_words_numpy(key, math.prod(shape)).T.reshape((*shape, 2))


def fold_in_numpy(key: NDArray, data: NDArray) -> NDArray:
    """The key that follows from a key and an integer."""
    zero = np.zeros(1, "uint32")
    return np.concatenate(threefry_numpy(key, zero, zero + np.uint32(data)))


def float_format_numpy(dtype: str) -> tuple[int, int]:
    """Bits of the fraction, and exponent of the smallest normal number."""
    formats = {"float16": (10, -14), "bfloat16": (7, -126), "float64": (52, -1022)}
    return formats.get(dtype, (23, -126))


def uniform_numpy(
    key: NDArray,
    shape: tuple[int, ...],
    dtype: str,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> NDArray:
    """Uniform in [minval, maxval): random bits as the fraction of a float."""
    fraction, _ = float_format_numpy(dtype)
    width = 8 * np.dtype(dtype).itemsize
    drawn = width if fraction >= 8 else 8
    bits = random_bits_numpy(key, shape, f"uint{drawn}").astype(f"uint{width}")
    one = np.ones((), dtype)
    bits = bits >> (drawn - fraction) | one.view(bits.dtype)
    low, high = np.asarray(minval, dtype), np.asarray(maxval, dtype)
    return np.maximum(low, (bits.view(dtype) - one) * (high - low) + low)


def normal_quantile_numpy(u: NDArray, dtype: str) -> NDArray:
    """sqrt(2) * erfinv(u), computed in float64 or float32."""
    if dtype == "float64":
        return quantile_double_numpy(np.asarray(u))
    x = np.asarray(u, "float32")
    return (np.float32(2**0.5) * erfinv_single_numpy(x)).astype(dtype)


def erfinv_single_numpy(x: NDArray) -> NDArray:
    """The inverse error function in float32, by the polynomials of Giles (2010)."""
    p = np.array([2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
                  0.00021858087, -0.00125372503, -0.00417768164, 0.246640727,
                  1.50140941], "float32")  # fmt: skip
    q = np.array([-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844,
                  0.00573950773, -0.0076224613, 0.00943887047, 1.00167406,
                  2.83297682], "float32")  # fmt: skip
    w = np.atleast_1d(-np.log1p(-x * x))
    y = np.polyval(p, w - np.float32(2.5))
    far = w >= 5
    y[far] = np.polyval(q, np.sqrt(w[far]) - np.float32(3))
    y[np.isinf(w)] = np.inf
    return y.reshape(x.shape) * x


def quantile_double_numpy(u: NDArray) -> NDArray:
    """sqrt(2) * erfinv(u) in float64, by Wichura's algorithm AS 241 (1988)."""
    p = [2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
         45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
         133.14166789178437745, 3.387132872796366608]  # fmt: skip
    q = [5226.495278852854561, 28729.085735721942674, 39307.89580009271061,
         21213.794301586595867, 5394.1960214247511077, 687.1870074920579083,
         42.313330701600911252, 1.0]  # fmt: skip
    r = 0.180625 - u * u / 4
    x = np.atleast_1d(u / 2 * np.polyval(p, r) / np.polyval(q, r))
    far = np.abs(np.atleast_1d(u)) > 0.85
    x[far] = quantile_tail_numpy(np.atleast_1d(u)[far])
    return x.reshape(u.shape)


def quantile_tail_numpy(u: NDArray) -> NDArray:
    """The part of `quantile_double_numpy` for 0.85 < abs(u)."""
    r = np.sqrt(-np.log((1 - np.abs(u)) / 2))
    p = [7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
         1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
         4.6303378461565452959, 1.42343711074968357734]  # fmt: skip
    q = [1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
         0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
         2.05319162663775882187, 1.0]  # fmt: skip
    x = np.polyval(p, r - 1.6) / np.polyval(q, r - 1.6)
    p = [2.01033439929228813265e-7, 2.71155556874348757815e-5,
         0.0012426609473880784386, 0.026532189526576123093, 0.29656057182850489123,
         1.7848265399172913358, 5.463784911164114369, 6.657904643501103777]  # fmt: skip
    q = [2.04426310338993978564e-15, 1.4215117583164458887e-7,
         1.8463183175100546818e-5, 7.868691311456132591e-4, 0.0148753612908506148525,
         0.13692988092273580531, 0.59983220655588793769, 1.0]  # fmt: skip
    x = np.where(r > 5, np.polyval(p, r - 5) / np.polyval(q, r - 5), x)
    return np.copysign(np.where(np.isinf(r), r, x), u)


def normal_numpy(key: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """Standard normal; of a complex number, both parts have variance 1/2."""
    if dtype.startswith("complex"):
        part = {"complex64": "float32", "complex128": "float64"}[dtype]
        keys = split_keys_numpy(key, (2,))
        real, imag = (normal_numpy(k, shape, part) for k in keys)
        return ((real + 1j * imag) / np.sqrt(2)).astype(dtype)
    below = np.nextafter(np.ones((), dtype), np.zeros((), dtype))
    u = uniform_numpy(key, shape, dtype, -below, 1.0)
    return normal_quantile_numpy(u, dtype)


def truncated_normal_numpy(
    key: NDArray, lower: bool, upper: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """Standard normal, given that it lies between `lower` and `upper`."""
    root = np.sqrt(np.asarray(2, dtype))
    erf = np.frompyfunc(math.erf, 1, 1)
    ends = [np.asarray(erf(np.asarray(x / root, "float64")), dtype)
            for x in (lower, upper)]  # fmt: skip
    draws = normal_quantile_numpy(uniform_numpy(key, shape, dtype, *ends), dtype)
    inf = np.asarray(np.inf, dtype)
    return np.clip(draws, np.nextafter(lower, inf), np.nextafter(upper, -inf))


def lognormal_numpy(
    key: NDArray, sigma: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """exp(sigma * z) for standard normal z."""
    return np.exp(normal_numpy(key, shape, dtype) * sigma)


def exponential_numpy(key: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """Exponential with rate 1."""
    return -np.log1p(-uniform_numpy(key, shape, dtype))


def pareto_numpy(
    key: NDArray, b: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """Pareto with exponent b, from 1."""
    return np.exp(exponential_numpy(key, shape, dtype) / b)


def weibull_min_numpy(
    key: NDArray,
    scale: NDArray,
    concentration: NDArray,
    shape: tuple[int, ...],
    dtype: str,
) -> NDArray:
    """Weibull of minima."""
    return exponential_numpy(key, shape, dtype) ** (1 / concentration) * scale


def rayleigh_numpy(
    key: NDArray, scale: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """The length of a normal vector in the plane."""
    return scale * np.sqrt(-2 * np.log(uniform_numpy(key, shape, dtype)))


def maxwell_numpy(key: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """The length of a standard normal vector in space."""
    return np.sqrt(np.sum(normal_numpy(key, (*shape, 3), dtype) ** 2, axis=-1))


def laplace_numpy(key: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """Laplace with scale 1."""
    start = -1 + 0.5 ** (float_format_numpy(dtype)[0] + 1)
    u = uniform_numpy(key, shape, dtype, start, 1.0)
    return np.sign(u) * np.log1p(-np.abs(u))


def cauchy_numpy(key: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """Cauchy with scale 1."""
    u = uniform_numpy(key, shape, dtype, 0.5 ** float_format_numpy(dtype)[0], 1.0)
    return np.tan(np.asarray(np.pi, dtype) * (u - np.asarray(0.5, dtype)))


def logistic_numpy(key: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """Logistic with scale 1."""
    u = uniform_numpy(key, shape, dtype, 2.0 ** float_format_numpy(dtype)[1], 1.0)
    return np.log(u) - np.log1p(-u)


def gumbel_numpy(key: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """Gumbel with scale 1."""
    u = uniform_numpy(key, shape, dtype, 2.0 ** float_format_numpy(dtype)[1], 1.0)
    return -np.log(-np.log(u))


def triangular_numpy(
    key: NDArray,
    left: NDArray,
    mode: NDArray,
    right: NDArray,
    shape: tuple[int, ...],
    dtype: str,
) -> NDArray:
    """A density that rises from left to mode and falls to right."""
    u = uniform_numpy(key, shape, dtype)
    rising = left + np.sqrt(u * (right - left) * (mode - left))
    falling = right - np.sqrt((1 - u) * (right - left) * (right - mode))
    return np.where(u < (mode - left) / (right - left), rising, falling)


def wald_numpy(
    key: NDArray, mean: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """Inverse Gaussian with scale 1 (Michael, Schucany and Haas, 1976)."""
    keys = split_keys_numpy(key, (2,))
    y = normal_numpy(keys[0], shape, dtype) ** 2
    root = np.sqrt(4 * mean * y + mean * mean * y * y)
    x = mean + mean * mean * y / 2 - mean / 2 * root
    smaller = uniform_numpy(keys[1], shape, dtype) <= mean / (mean + x)
    return np.where(smaller, x, mean * mean / x)


def multivariate_normal_numpy(
    key: NDArray,
    mean: NDArray,
    cov: NDArray,
    shape: tuple[int, ...],
    dtype: str,
    method: str,
) -> NDArray:
    """Normal vectors; LinAlgError where cov is not positive definite.

    As in JAX, the mean of cov and its transpose is factored, except by svd.
    """
    if method != "svd":
        cov = (cov + np.swapaxes(cov, -1, -2)) / 2
    if method == "cholesky":
        factor = np.linalg.cholesky(cov)
    elif method == "eigh":
        values, vectors = np.linalg.eigh(cov)
        factor = vectors * np.sqrt(values[..., None, :])
    else:
        vectors, values, _ = np.linalg.svd(cov)
        factor = vectors * np.sqrt(values[..., None, :])
    draws = normal_numpy(key, (*shape, mean.shape[-1]), dtype)
    return mean + np.einsum("...ij,...j->...i", factor, draws)


def philox_numpy(key: NDArray) -> np.random.Generator:
    """NumPy's own generator, seeded by a key."""
    seed = int(key[0]) << 32 | int(key[1])
    return np.random.Generator(np.random.Philox(key=seed))


def loggamma_numpy(
    key: NDArray, a: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """The logarithm of a gamma variate; NaN where a is negative.

    A variate for a is one for a + 1 times u**(1/a): no underflow for small a.
    """
    first, second = map(philox_numpy, split_keys_numpy(key, (2,)))
    a = np.broadcast_to(np.asarray(a, "float64"), shape)
    raised = np.log(first.standard_gamma(np.where(a >= 0, a, 0) + 1, shape))
    shrunk = np.log1p(-second.random(shape)) / a
    return np.where(a >= 0, raised + shrunk, np.nan).astype(dtype)


def gamma_numpy(
    key: NDArray, a: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """Gamma with shape parameter a and scale 1."""
    return np.exp(loggamma_numpy(key, a, shape, "float64")).astype(dtype)


def beta_numpy(
    key: NDArray, a: NDArray, b: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """Beta, from two gamma variates."""
    keys = split_keys_numpy(key, (2,))
    x = loggamma_numpy(keys[0], a, shape, "float64")
    y = loggamma_numpy(keys[1], b, shape, "float64")
    return (1 / (1 + np.exp(y - x))).astype(dtype)


def dirichlet_numpy(
    key: NDArray, alpha: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """Dirichlet: gamma variates divided by their sum."""
    logs = loggamma_numpy(key, alpha, (*shape, alpha.shape[-1]), "float64")
    parts = np.exp(logs - np.max(logs, axis=-1, keepdims=True, initial=-np.inf))
    return (parts / np.sum(parts, axis=-1, keepdims=True)).astype(dtype)


def chisquare_numpy(
    key: NDArray, df: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """Chi-square with df degrees of freedom."""
    return 2 * gamma_numpy(key, df / 2, shape, dtype)


def t_numpy(key: NDArray, df: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """Student's t with df degrees of freedom."""
    keys = split_keys_numpy(key, (2,))
    half = df / 2
    share = half / gamma_numpy(keys[1], half, shape, dtype)
    return normal_numpy(keys[0], shape, dtype) * np.sqrt(share)


def f_numpy(
    key: NDArray, dfnum: NDArray, dfden: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """The ratio of two chi-squares, each divided by its degrees of freedom."""
    keys = split_keys_numpy(key, (2,))
    above = chisquare_numpy(keys[1], dfnum, shape, dtype) / dfnum
    return above / (chisquare_numpy(keys[0], dfden, shape, dtype) / dfden)
