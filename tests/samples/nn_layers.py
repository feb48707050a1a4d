"""Neural networks: normalisation, one-hot codes, dropout, attention."""

import jax
import numpy as np

import graphc.tensor as gt
from tests.samples.nn import MASK, TRUE, exact, samples, softmax
from tests.samples.spec import INTEGERS, a, call, i, sample

WORDS = np.array([7, 11], "uint32")


# Normalisation


def standardize(x, mean=None, variance=None, axis=-1, epsilon=1e-5, where=True):
    if mean is None:
        mean = np.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        variance = np.mean((x - mean) ** 2, axis, keepdims=True, where=where)
    return (x - mean) / np.sqrt(variance + epsilon)


def over(vector, axes, shape):
    """A vector or matrix over some axes, with the other axes added for broadcasting."""
    if vector.shape != tuple(shape[k] for k in axes):
        raise ValueError("another shape")
    rank = len(shape)
    return np.expand_dims(vector, tuple(k for k in range(rank) if k not in axes))


def normal(axis, rank):
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(range(rank)[k] for k in axes))


def affine(x, axes, weight, bias):
    if weight is not None:
        x = x * over(weight, axes, x.shape)
    return x if bias is None else x + over(bias, axes, x.shape)


def layer_norm(x, weight=None, bias=None, axis=-1, epsilon=1e-5):
    axes = normal(axis, x.ndim)
    return affine(standardize(x, axis=axes, epsilon=epsilon), axes, weight, bias)


def rms_norm(x, weight=None, axis=-1, epsilon=1e-6):
    axes = normal(axis, x.ndim)
    square = np.mean(x * x, axes, keepdims=True)
    return affine(x / np.sqrt(square + epsilon), axes, weight, None)


def batch_norm(x, mean=None, variance=None, weight=None, bias=None, axis=1, **more):
    channel = normal(axis, x.ndim)
    rest = tuple(k for k in range(x.ndim) if k not in channel)
    given = [None if v is None else over(v, channel, x.shape) for v in (mean, variance)]
    return affine(standardize(x, *given, axis=rest, **more), channel, weight, bias)


def group_norm(x, groups, weight=None, bias=None, axis=1, **more):
    (channel,) = normal(axis, x.ndim)
    if channel == 0 or groups < 1 or x.shape[channel] % groups:
        raise ValueError("no groups")
    last = np.moveaxis(x, channel, 1)
    row = int(np.prod(last.shape[1:])) // groups
    split = standardize(last.reshape(len(x), groups, row), **more)
    made = np.moveaxis(split.reshape(last.shape), 1, channel)
    return affine(made, (channel,), weight, bias)


def ours_standardize(x, mean=None, variance=None, **options):
    return gt.nn.standardize(x, mean=mean, variance=variance, **options)


PLAIN = (call(a(3, 4)),)
NORMS = (
    call(a(3, 5, values="holes")),
    call(a(2, 3, 4), axis=(0, -1)),
    call(a(2, 3, 4), axis=1, epsilon=0.1),
    call(a(5)),
    call(a(3, 1)),
    call(a(0, 3)),
    call(a(3, 0)),
    call(a()),
    call(a(3), axis=1),
)
SCALED = (
    call(a(3, 4), a(4)),
    call(a(3, 4), a(3), axis=0),
    call(a(2, 3, 4), a(3, 4), axis=(-2, -1)),
    call(a(3, 4), i(4)),
    call(a(3, 4), a(3)),
    call(a(3, 4), a(3, 4)),
    call(a(3, 4), a(4, dtype="float64")),
    call(a(3, 4), a(1)),
    call(a(3, 1), a(4)),
)
CHANNELS = (
    call(a(3, 4)),
    call(a(2, 3, 4)),
    call(a(2, 3, 2, 2), axis=-1),
    call(a(0, 3)),
    call(a(2, 0, 3)),
    call(a(3)),
)
GROUPS = (
    call(a(2, 6), 2),
    call(a(2, 4), 2),  # groups of two become 1 and -1: gradients all but cancel
    call(a(3, 4, 2), 4),
    call(a(2, 6, 3), 2, epsilon=0.1),
    call(a(2, 3, 6), 3, axis=-1),
    call(a(2, 4, 3), 2, a(4), a(4)),
    call(a(2, 4, 3), 2, axis=0),
    call(a(2, 4), 3),
    call(a(2, 4), 0),
    call(a(4), 2),
    call(a(0, 4), 2),
)
ROOMY = 64  # statistics are sums of squares


def norms():
    share = a(3, 1, values="positive")
    more = (
        *NORMS,
        call(a(2, 3), axis=None),
        call(a(3, 4), axis=-1, where=MASK),
        call(a(3, 4), a(3, 1), share),
        call(a(3, 4), None, share),
        call(a(3, 4), a(dtype="float64"), share, axis=0, epsilon=0),
    )
    options = {"ours": ours_standardize, "numpy": exact(standardize), "ulps": ROOMY}
    yield from samples("standardize", PLAIN, more, **options)
    for name, function in {"layer_norm": layer_norm, "rms_norm": rms_norm}.items():
        options = {"numpy": exact(function), "ulps": ROOMY}
        yield from samples(name, (*PLAIN, SCALED[0]), (*NORMS, *SCALED), **options)
    calls = call(a(3, 4), a(4), a(4)), call(a(3, 4), None, a(3), axis=0)
    yield sample("nn.layer_norm", *calls, numpy=exact(layer_norm), ulps=ROOMY)
    vector, spread = a(4), a(4, values="positive")
    given = (
        call(a(2, 4, 3), vector, spread, vector, vector, epsilon=0.5),
        call(a(2, 4, 3), vector, spread),
        call(a(2, 4), None, None, vector, vector),
        call(a(4, 2), a(4, dtype="float64"), spread, axis=0),
        call(a(2, 4, 3), a(3)),
    )
    options = {"numpy": exact(batch_norm), "ulps": ROOMY}
    yield from samples("batch_norm", given[:1], [*CHANNELS, *given], **options)
    options = {"numpy": exact(group_norm), "ulps": ROOMY}
    yield from samples("group_norm", GROUPS[:1], GROUPS, **options)


# One-hot codes, dropout, attention


def one_hot(x, n, dtype="float32", axis=-1):
    if x.dtype.kind not in "iu" or n < 0:
        raise TypeError("not an integer")
    range(-x.ndim - 1, x.ndim + 1).index(axis)
    rows = x[..., None].astype("int64") == np.arange(n)
    return np.moveaxis(rows, -1, axis).astype(dtype)


def dropout(x, rate):
    if not 0 <= rate <= 1:
        raise ValueError("rate")
    share = np.float32(1.0 - rate)
    with jax.enable_x64(True):
        keep = np.asarray(jax.random.bernoulli(WORDS, share, x.shape))
    return np.where(keep, x / (1.0 - rate), 0)


def attention(q, k, v, bias=0.0, mask=TRUE, scale=None, is_causal=False, window=None):
    if q.ndim == 3:
        more = (bias, mask, scale, is_causal, window)
        return attention(q[None], k[None], v[None], *more)[0]
    each = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, each, 2), np.repeat(v, each, 2)
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    logits = np.einsum("btnh,bsnh->bnts", q, k) * scale + bias
    row, column = np.ogrid[: q.shape[1], : k.shape[1]]
    mask = mask & (column <= row) if is_causal else mask
    if window is not None:
        mask = mask & (column >= row - window[0]) & (column <= row + window[1])
    logits = np.where(mask, logits, -0.7 * np.finfo("float32").max)
    return np.einsum("bnts,bsnh->btnh", softmax(logits), v)


def ours_attention(q, k, v, bias=None, mask=None, window=None, **options):
    more = options | {"local_window_size": window}
    return gt.nn.dot_product_attention(q, k, v, bias, mask, **more)


QUERY, KEY = a(2, 3, 4, 2), a(2, 5, 2, 2)
THREE = QUERY, KEY, a(2, 5, 2, 2, values="unit")
ATTENTION = (
    call(*THREE),
    call(*THREE, scale=0.3),
    call(*THREE, is_causal=True),
    call(*THREE, window=(1, 0)),
    call(*THREE, a(1, 4, 3, 5)),
    call(*THREE, a(3, 5), a(2, 1, 3, 5, dtype="bool"), is_causal=True),
    call(a(2, 3, 2, 4), a(2, 3, 2, 4), a(2, 3, 2, 4)),
    call(a(3, 2, 4), a(1, 2, 4), a(1, 2, 4)),
    call(a(0, 3, 2, 4), a(0, 5, 2, 4), a(0, 5, 2, 4)),
    call(a(2, 0, 2, 4), KEY, KEY),
    call(a(2, 3, 3, 2), KEY, KEY),
    call(a(2, 3), a(2, 3), a(2, 3)),
)


def layers():
    classes = (
        call(a(2, 3), 4),
        call(a(10, values="special"), 3),
        call(a(3), 300, dtype="int8"),
        call(a(2, 3), 2, axis=0, dtype="float16"),
        call(a(2, 3), 2, axis=-2, dtype="bool"),
        call(a(3), 0),
        call(a(), 3),
        call(a(0), 3),
        call(a(3), -1),
        call(a(3), 3, axis=2),
    )
    yield sample("nn.one_hot", *classes, numpy=one_hot, dtypes=[*INTEGERS, "float32"])
    rates = [call(a(4, 5), rate) for rate in (0.25, 0.0, 1.0, 1, 0.5, 1.5, -0.1)]
    rates += [call(a(16, values="large"), 0.5), call(a(), 0.25), call(a(0, 3), 0.25)]
    ours = lambda x, rate: gt.nn.dropout(x, rate, WORDS)  # noqa: E731
    yield from samples("dropout", rates[:1], rates, ours=ours, numpy=exact(dropout))
    options = {"ours": ours_attention, "numpy": exact(attention), "ulps": 32}
    yield from samples("dot_product_attention", ATTENTION[:1], ATTENTION, **options)


SAMPLES = [*norms(), *layers()]
