"""Neural networks: activations, softmax and its kin.

The references are plain formulas in float64, cast to the dtype of the arguments.
"""

import numpy as np
import scipy.special as sp

import graphc.tensor as gt
from tests.samples.spec import FLOATS, REAL, a, call, sample

inf = np.inf
TRUE = np.array(True)
ANY = (call(a(12, values="special")), call(a(2, 3)))
SHAPES = (
    *ANY,
    call(a(16, values="large")),
    call(a()),
    call(a(1)),
    call(a(0, 2)),
)


def real_dtype(arrays):
    """The dtype that floats promote to, with integers taken as float64."""
    if any(x.dtype.kind == "c" for x in arrays):
        raise TypeError("complex numbers")
    kinds = [x.dtype if x.dtype.kind == "f" else np.dtype("float64") for x in arrays]
    return np.result_type(*kinds)


def exact(function):
    """A reference that is computed in float64, whatever the dtype of the arrays.

    Bools after the first argument are masks, and stay as they are.
    """

    def reference(x, *args, **options):
        arrays = [x, *(y for y in args if is_number(y))]
        dtype = real_dtype(arrays)
        wide = [y.astype("float64") if is_number(y) else y for y in args]
        made = function(x.astype("float64"), *wide, **options)
        if isinstance(made, tuple):
            return tuple(np.asarray(part).astype(dtype) for part in made)
        return np.asarray(made).astype(dtype)

    return reference


def is_number(x):
    return isinstance(x, np.ndarray) and x.dtype != bool


def samples(name, few, calls, **options):
    """Samples for `gt.nn`: `few` calls with all dtypes, the others with floats only."""
    more = [c for c in calls if all(c is not other for other in few)]
    yield sample(f"nn.{name}", *few, **options)
    yield sample(f"nn.{name}", *more, dtypes=FLOATS, **options)


# Activations


def softplus(x):
    return np.logaddexp(x, 0)


def gelu(x, approximate=True):
    if approximate:
        return x * sp.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * sp.erfc(-x / np.sqrt(2))


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def celu(x, alpha=1.0):
    return np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0) / alpha)


def squareplus(x, b=4.0):
    """Accurate on the left too, where x and the root nearly cancel in their sum."""
    low = b / 2 / np.maximum(np.abs(x) + np.hypot(x, np.sqrt(b)), 1e-300)
    return np.maximum(x, 0) + low


def sparse_plus(x):
    return np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4))


def hard_sigmoid(x):
    return np.clip(x / 6 + 0.5, 0, 1)


def log1mexp(x):
    return np.where(x < 0.7, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


def glu(x, axis=-1):
    if x.shape[axis] % 2:
        raise ValueError("not even")
    first, second = np.split(x, 2, axis)
    return first * sp.expit(second)


def relu(x):
    return np.maximum(x, 0)


def hard_tanh(x):
    """Integers stay integers, and bools become int64."""
    if x.dtype.kind == "c":
        raise TypeError("complex numbers")
    low = 0 if x.dtype.kind == "u" else -1  # NumPy 2.0 refuses -1 there
    return np.clip(x.astype("int64") if x.dtype == bool else x, low, 1)


def silu(x):
    return x * sp.expit(x)


FORMULAS = {
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x, slope=0.01: np.where(x >= 0, x, slope * x),
    "elu": elu,
    "selu": lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
    "celu": celu,
    "gelu": gelu,
    "sigmoid": sp.expit,
    "silu": silu,
    "swish": silu,
    "softplus": softplus,
    "log_sigmoid": lambda x: -softplus(-x),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "soft_sign": lambda x: x / (np.abs(x) + 1),
    "hard_sigmoid": hard_sigmoid,
    "hard_silu": lambda x: x * hard_sigmoid(x),
    "hard_swish": lambda x: x * hard_sigmoid(x),
    "squareplus": squareplus,
    "sparse_plus": sparse_plus,
    "sparse_sigmoid": lambda x: np.clip(x / 2 + 0.5, 0, 1),
    "tanh": np.tanh,
}
OPTIONS = {
    "leaky_relu": [(0,), (0.2,), (-1.5,)],
    "elu": [(2.0,), (0,)],
    "celu": [(0.5,), (3,)],
    "gelu": [(False,), (True,)],
    "squareplus": [(1.0,), (0,)],
}


HALVES = call(a(3, 4)), call(a(4, 3), axis=0), call(a(3)), call(a(12, values="special"))
UNEVEN = (
    call(a(2, 4, 3), axis=-2),
    call(a()),
    call(a(4), axis=1),
    call(a(2, 0)),
    call(a(16, values="large")),
)


def activations():
    for name, formula in FORMULAS.items():
        more = [call(a(16, values="large"), *o) for o in OPTIONS.get(name, ())]
        yield from samples(name, ANY, [*SHAPES, *more], numpy=exact(formula))
    positive = call(a(2, 6, values="positive")), call(a(2, 3, values="unit"))
    yield from samples("log1mexp", positive, SHAPES, numpy=exact(log1mexp))
    yield from samples("glu", HALVES, UNEVEN, numpy=exact(glu))
    yield sample("nn.hard_tanh", *SHAPES, numpy=hard_tanh)
    yield sample("nn.relu", *SHAPES, numpy=relu, dtypes=REAL)
    yield sample("nn.identity", *SHAPES, numpy=lambda x: x)


# Softmax and its kin. Here, masks are the second argument.


def check_axis(x, axis):
    """Refuse an axis of a scalar: NumPy takes -1 there, JAX and graphc do not."""
    if x.ndim == 0 and axis is not None:
        raise ValueError("no axis")


def chosen(x, where):
    return x if where is None else np.where(where, x, -inf)


def peak(x, axis):
    return np.max(x, axis, keepdims=True, initial=-inf)


def softmax(x, where=None, axis=-1):
    check_axis(x, axis)
    x = chosen(x, where)
    powers = np.exp(x - peak(x, axis))
    made = powers / np.sum(powers, axis, keepdims=True)
    return made if where is None else np.where(where, made, 0)


def log_softmax(x, where=None, axis=-1):
    check_axis(x, axis)
    x = chosen(x, where)
    shifted = x - peak(x, axis)
    made = shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True))
    return made if where is None else np.where(where, made, -inf)


def logsumexp(x, where=None, b=1.0, axis=None, keepdims=False, return_sign=False):
    weights = np.asarray(b, "float64")
    x = chosen(x, where)
    x = np.where(weights == 0, -inf, x)
    shift = peak(x, axis)
    shift = np.where(np.isfinite(shift), shift, 0)
    total = np.sum(weights * np.exp(x - shift), axis, keepdims=True)
    if not keepdims:
        shift, total = (np.squeeze(s, axis) for s in (shift, total))
    if return_sign:
        return np.log(np.abs(total)) + shift, np.sign(total)
    return np.log(total) + shift


def logmeanexp(x, where=None, axis=None, keepdims=False):
    mask = np.broadcast_to(TRUE if where is None else where, x.shape)
    count = np.sum(mask, axis, keepdims=keepdims)
    return logsumexp(x, where, axis=axis, keepdims=keepdims) - np.log(count)


def masked(name):
    """The function of `gt.nn` with the mask as the second argument."""
    function = getattr(gt.nn, name)
    return lambda x, where=None, **options: function(x, where=where, **options)


MASK = np.array([[True, False, True, True], [False] * 4, [True] * 4])
ROWS = (
    call(a(2, 12, values="special"), axis=-1),
    call(a(2, 3, 2), axis=(0, -1)),
    call(a(3, 4), MASK, axis=-1),
)
ALONG = (
    call(a(3, 4)),
    call(a(2, 16, values="large"), axis=-1),
    call(a(3, 5, values="holes"), axis=0),
    call(a(2, 3), axis=None),
    call(a(2, 3), axis=()),
    call(a(2, 3), axis=2),
    call(a(2, 3), axis=(0, -2)),
    call(a(), axis=None),
    call(a()),
    call(a(1)),
    call(a(1, 3), axis=0),
    call(a(0, 3), axis=0),
    call(a(0, 3), axis=-1),
    call(np.full((2, 3), -inf), axis=1),
    call(np.array([[-1e30, -1e30], [1e30, 1.0], [1000, 999], [-inf, 0]]), axis=1),
    call(a(3, 4), MASK, axis=0),
    call(a(3, 4, values="special"), MASK[:, :1], axis=(0, 1)),
    call(a(2, 3, 4), a(3, 4, dtype="bool"), axis=-1),
    call(a(3, 4), np.array([True, False]), axis=-1),
)
KEPT = (
    call(a(3, 4), axis=-1, keepdims=True),
    call(a(2, 3, 2), axis=(0, -1), keepdims=True),
    call(a(3, 4), MASK, axis=-1, keepdims=True),
)
WEIGHTS = np.array([0.5, 0, -2, 1])
WEIGHTED = (
    call(a(3, 4), b=WEIGHTS, axis=0),
    call(a(3, 4), b=WEIGHTS, axis=-1, return_sign=True),
    call(a(3, 4), MASK, b=WEIGHTS, axis=-1, keepdims=True, return_sign=True),
    call(a(12, values="special"), b=np.arange(12.0), return_sign=True),
)
TOTALS = {"softmax": softmax, "log_softmax": log_softmax, "logsumexp": logsumexp}
TOTALS |= {"logmeanexp": logmeanexp}


def totals():
    for name, formula in TOTALS.items():
        calls = ALONG if "soft" in name else ALONG + KEPT
        options = {"ours": masked(name), "numpy": exact(formula), "ulps": 16}
        yield from samples(name, ROWS, calls, **options)
    options = {"ours": masked("logsumexp"), "numpy": exact(logsumexp), "ulps": 16}
    yield sample("nn.logsumexp", *WEIGHTED, **options, dtypes=["int64", "float64"])
    yield sample("nn.logsumexp", call(a(3, 4), b=2), call(a(3, 4), b=-1.5), **options)


SAMPLES = [*activations(), *totals()]
