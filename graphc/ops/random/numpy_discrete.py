"""Discrete random draws in NumPy: functions that are printed into NumPy programs."""

import math

import numpy as np

from graphc.ir.types import NDArray
from graphc.ops.random.numpy_samplers import (
    gumbel_numpy,
    philox_numpy,
    random_bits_numpy,
    split_keys_numpy,
    uniform_numpy,
)


def fit_integers_numpy(x: NDArray, least: int, most: int, dtype: str) -> NDArray:
    """`x` moved into least..most, as `dtype`."""
    x = np.asarray(x)
    limits = np.iinfo(x.dtype)
    return np.clip(x, max(least, limits.min), min(most, limits.max)).astype(dtype)


def randint_numpy(
    key: NDArray, shape: tuple[int, ...], minval: NDArray, maxval: NDArray, dtype: str
) -> NDArray:
    """Integers in [minval, maxval); minval where that is empty.

    Twice as many bits as the dtype has are drawn and reduced modulo the span.
    """
    limits = np.iinfo(dtype)
    narrow = limits.bits < 32
    work = "int32" if narrow else dtype
    unsigned = f"uint{np.iinfo(work).bits}"
    if narrow:  # as JAX: what does not fit 32 bits wraps around
        minval, maxval = (np.asarray(x).astype(work) for x in (minval, maxval))
    low = fit_integers_numpy(minval, limits.min, limits.max, work)
    high = fit_integers_numpy(maxval, limits.min, limits.max + narrow, work)
    beyond = np.asarray(maxval) > np.iinfo(work).max
    span = np.where(high > low, high - low, 1).astype(unsigned)
    span = span + (beyond & (high > low)).astype(unsigned)
    whole = span == 0  # one more than the largest: all integers of the dtype
    span = np.where(whole, 1, span).astype(unsigned)
    keys = split_keys_numpy(key, (2,))
    upper, lower = (random_bits_numpy(k, shape, unsigned) for k in keys)
    half = np.asarray(2 ** (np.iinfo(work).bits // 2), unsigned) % span
    offset = (upper % span * (half * half % span) + lower % span) % span
    return (low + np.where(whole, lower, offset).astype(work)).astype(dtype)


def bernoulli_numpy(key: NDArray, p: NDArray, shape: tuple[int, ...]) -> NDArray:
    """True with probability p."""
    return uniform_numpy(key, shape, p.dtype.name) < p


def geometric_numpy(
    key: NDArray, p: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """Trials up to the first success."""
    u = uniform_numpy(key, shape, p.dtype.name)
    waiting = np.log(np.where(u == 0, 1, u)) / np.log1p(-p)
    return (np.floor(waiting) + 1).astype(dtype)


def poisson_numpy(
    key: NDArray, lam: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """Poisson with mean lam; -1 where lam is negative or NaN."""
    lam = np.broadcast_to(np.asarray(lam, "float32"), shape)
    valid = lam >= 0
    mean = np.where(valid, np.minimum(lam, 1e18), 0)
    return np.where(valid, philox_numpy(key).poisson(mean), -1).astype(dtype)


def binomial_numpy(
    key: NDArray, n: NDArray, p: NDArray, shape: tuple[int, ...], dtype: str
) -> NDArray:
    """Successes in floor(n) trials; NaN where n or p cannot be."""
    n, p = np.broadcast_to(np.floor(n), shape), np.broadcast_to(p, shape)
    valid = (n >= 0) & (p >= 0) & (p <= 1)
    finite = valid & np.isfinite(n)
    trials = np.where(finite, n, 0).astype("int64")
    draws = philox_numpy(key).binomial(trials, np.where(valid, p, 0))
    return np.where(finite, draws, np.where(valid, np.inf, np.nan)).astype(dtype)


def multinomial_numpy(key: NDArray, n: NDArray, p: NDArray, dtype: str) -> NDArray:
    """Counts per category in n trials; p need not sum to 1."""
    share = np.asarray(p, "float64")
    total = np.sum(share, axis=-1, keepdims=True)
    share = np.where(total > 0, share, 1) / np.where(total > 0, total, share.shape[-1])
    draws = philox_numpy(key).multinomial(np.maximum(n, 0).astype("int64"), share)
    return np.where(total > 0, draws, 0).astype(dtype)


def shuffle_numpy(key: NDArray, x: NDArray, axis: int) -> NDArray:
    """Sorted by random words, so often that equal words do not matter."""
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, drawn = split_keys_numpy(key, (2,))
        words = random_bits_numpy(drawn, x.shape, "uint32")
        order = np.argsort(words, axis=axis, kind="stable")
        x = np.take_along_axis(x, order, axis)
    return x


def permutation_numpy(
    key: NDArray, x: NDArray, axis: int, independent: bool
) -> NDArray:
    """Elements along an axis in random order, the same for all unless independent."""
    if independent or x.ndim == 1:
        return shuffle_numpy(key, x, axis)
    order = shuffle_numpy(key, np.arange(x.shape[axis]), 0)
    return np.take(x, order, axis)


def choice_numpy(
    key: NDArray, n: int, shape: tuple[int, ...], replace: bool, p: NDArray
) -> NDArray:
    """Positions below n with probabilities p."""
    if replace:
        total = np.cumsum(p)
        reach = total[-1] * (1 - uniform_numpy(key, shape, p.dtype.name))
        return np.searchsorted(total, reach)
    score = gumbel_numpy(key, (n,), p.dtype.name) + np.log(p)
    order = np.argsort(-score, kind="stable")
    return order[: math.prod(shape)].reshape(shape)


def categorical_numpy(
    key: NDArray, logits: NDArray, axis: int, shape: tuple[int, ...], replace: bool
) -> NDArray:
    """Positions along `axis`: the largest sums of a logit and a Gumbel variate."""
    ahead = shape[: len(shape) - logits.ndim + 1]
    if replace:
        drawn = (*ahead, *logits.shape)
        noise = gumbel_numpy(key, drawn, logits.dtype.name)
        return np.argmax(noise + logits, axis=axis % logits.ndim + len(ahead))
    score = logits + gumbel_numpy(key, logits.shape, logits.dtype.name)
    order = np.argsort(-np.moveaxis(score, axis, 0), axis=0, kind="stable")
    return order[: math.prod(ahead)].reshape(shape)
