"""`gt.nn`: both backends against `jax.nn` and SciPy, including extreme values."""

import jax
import numpy as np
import pytest
import scipy.special as sp

import graphc
import graphc.tensor as gt
from tests.ops.comparing import BACKENDS, OfJax, agree
from tests.ops.refusing import refused

inf, nan = np.inf, np.nan
RNG = np.random.default_rng(5)
EXTREME = [0, -0.0, 1, -1, 3, -3, 6, -6, 20, -20, 90, -90, 1000, -1000, 1e30, inf, nan]
ROUNDING = {"float16": 5e-3, "float32": 2e-6, "float64": 1e-12, "bfloat16": 3e-2}


def same(name, **options):
    """Our function and JAX's of the same name, with the same options."""
    return (
        lambda *args: getattr(gt.nn, name)(*args, **options),
        OfJax(lambda *args: getattr(jax.nn, name)(*args, **options)),
    )


def words(text):
    return text.split()


ACTIVATIONS = words("""relu relu6 leaky_relu elu selu celu gelu silu swish mish softplus
soft_sign sigmoid log_sigmoid hard_sigmoid hard_silu hard_swish hard_tanh
sparse_plus sparse_sigmoid tanh identity""")
WITH_OPTIONS = {
    "gelu exact": same("gelu", approximate=False),
    "leaky_relu 0.2": same("leaky_relu", negative_slope=0.2),
    "elu 2": same("elu", alpha=2.0),
    "celu 0.5": same("celu", alpha=0.5),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_activations(dtype):
    x = np.concatenate([EXTREME, RNG.normal(0, 3, 100)])
    if dtype == "float16":
        x = x[~(np.abs(x) > 20)]  # beyond that range, ours is the more accurate
    cases = {n: same(n) for n in ACTIVATIONS} | WITH_OPTIONS
    with np.errstate(all="ignore"):
        agree(cases, x.astype(dtype), rounding=ROUNDING, symbolic=(False,))


def test_squareplus():
    x = np.concatenate([[0, 1e4, -1e4, inf, nan], RNG.normal(0, 3, 100)])
    agree({"4": same("squareplus"), "1": same("squareplus", b=1.0)}, x)


def test_tails_are_accurate():
    x = np.array([-800.0, -50, -20, 20, 50, 800])
    cases = {
        "sigmoid": (gt.nn.sigmoid, sp.expit),
        "log_sigmoid": (gt.nn.log_sigmoid, sp.log_expit),
        "softplus": (gt.nn.softplus, lambda x: -sp.log_expit(-x)),
        "gelu": (lambda x: gt.nn.gelu(x, False), lambda x: x * sp.ndtr(x)),
    }
    built = {n: ours(gt.vector("x", "float64")) for n, (ours, _) in cases.items()}
    for name, value in built.items():
        inputs = [v for v in inputs_of(value)]
        for backend in BACKENDS:
            got = graphc.function(inputs, value, backend=backend)(x)
            exact = cases[name][1](x)
            np.testing.assert_allclose(got, exact, rtol=1e-12, atol=1e-300)


def inputs_of(value):
    """The input variables from which a value is computed."""
    found, todo = [], [value]
    while todo:
        node = todo.pop().node
        if node.primitive.name == "input":
            found.append(node.outputs[0])
        todo += node.inputs
    return list(dict.fromkeys(found))


def test_log1mexp_and_glu():
    x = np.abs(RNG.normal(0, 2, (4, 6))) + 1e-3
    cases = {
        "log1mexp": same("log1mexp"),
        "glu": same("glu"),
        "glu 0": same("glu", axis=0),
    }
    agree(cases, x)


def test_gradients_are_those_of_jax():
    """The points include kinks, large numbers, and overflow in a branch not taken."""
    data = np.array([0, 1, -1, 3, -3, 6, -6, 0.5, 2, 100, -100, 1e3, -1e3, 1e30, -1e30])

    def slopes(name):
        ours, theirs = getattr(gt.nn, name), getattr(jax.nn, name)
        return (
            lambda x: graphc.grad(ours(x).sum(), x),
            OfJax(jax.grad(lambda x: theirs(x).sum())),
        )

    cases = {name: slopes(name) for name in (*ACTIVATIONS, "squareplus")}
    agree(cases, data, symbolic=(True,), rounding={"float64": 1e-9})


def test_gradient_of_dropout_of_all():
    x, rate = gt.vector("x", "float64"), gt.scalar("rate", "float32")
    words = np.array([1, 2], "uint32")
    slopes = [graphc.grad(gt.nn.dropout(x, r, words).sum(), x) for r in (1.0, rate)]
    for slope in graphc.function([x, rate], slopes)(np.ones(3), np.float32(1)):
        np.testing.assert_array_equal(slope, np.zeros(3))


@pytest.mark.parametrize("dtype", ["int32", "bool", "uint8"])
def test_integers(dtype):
    x = np.array([0, 1, 7, 3]).astype(dtype)
    cases = {
        "relu": (gt.nn.relu, lambda x: np.maximum(x, 0)),
        "relu6": (gt.nn.relu6, lambda x: np.minimum(x, 6.0).astype("float64")),
        "hard_tanh": (gt.nn.hard_tanh, lambda x: np.minimum(x, 1)),
        "silu": (gt.nn.silu, lambda x: x * sp.expit(x.astype("float64"))),
        "softmax": (gt.nn.softmax, lambda x: sp.softmax(x.astype("float64"))),
    }
    agree(cases, x)


# softmax and its kin

ROWS = RNG.normal(0, 3, (3, 4, 5))
ROWS[0, 0] = [1000, 1000, -1000, 0, 1]
ROWS[0, 1] = [-inf, 0, 1, -inf, 2]
ROWS[0, 2] = -inf
ROWS[0, 3] = [inf, 0, 1, 2, 3]
ROWS[1, 0] = [nan, 0, 1, 2, 3]
ROWS[1, 1] = [-1e30, -1e30, -2e30, -1e30, -1e30]
AXES = [-1, 0, (0, 2), (-1, 1), None, ()]


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "logmeanexp"])
def test_along_axes(name):
    cases = {str(a): same(name, axis=a) for a in AXES}
    with np.errstate(all="ignore"):
        agree(cases, ROWS, symbolic=(True,))
        agree(cases, RNG.normal(size=(2, 3, 2)), symbolic=(False,))


def test_halves_are_computed_in_single_precision():
    x = RNG.normal(0, 3, (3, 400)).astype("float16")
    cases = {
        "softmax": (gt.nn.softmax, lambda x: sp.softmax(x.astype("float32"), axis=-1)),
        "logsumexp": (gt.nn.logsumexp, lambda x: sp.logsumexp(x.astype("float32"))),
        "layer_norm": (gt.nn.layer_norm, lambda x: layer_norm(x.astype("float32"))),
    }
    cases = {
        k: (f, lambda x, g=g: np.asarray(g(x)).astype("float16"))
        for k, (f, g) in cases.items()
    }
    agree(cases, x, rounding={"float16": 1e-3})


def test_masks():
    mask = RNG.random((4, 5)) < 0.6
    mask[0], mask[1] = False, True
    x = RNG.normal(0, 3, (3, 4, 5))

    def masked(space, name, axis):
        return lambda x, mask: getattr(space, name)(x, axis=axis, where=mask)

    cases = {
        f"{name} {axis}": (masked(gt.nn, name, axis),
                           OfJax(masked(jax.nn, name, axis)))
        for name in ("softmax", "log_softmax", "logsumexp", "logmeanexp")
        for axis in (-1, (0, 2))
    }
    agree(cases, x, mask)


def test_logsumexp_with_weights_and_sign():
    b = RNG.normal(size=(4, 5))
    b[1], b[2] = 0, 1

    def weighted(function, **named):
        def call(x, b):
            made = function(x, b=b, **named)
            return list(made) if isinstance(made, tuple) else made

        return call

    options = [{"axis": 2}, {"axis": (0, 2), "keepdims": True}, {"axis": None}]
    options += [{**named, "return_sign": True} for named in options]
    cases = {
        f"{named}": [weighted(f, **named) for f in (gt.nn.logsumexp, sp.logsumexp)]
        for named in options
    }
    x = RNG.normal(0, 3, (3, 4, 5))
    agree(cases, x, b, symbolic=(True,))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (1,), ()])
def test_empty_and_single(shape):
    x = RNG.normal(size=shape)
    axes = [None] if shape == () else [None, -1]
    cases = {f"logsumexp {a}": same("logsumexp", axis=a) for a in axes}
    cases |= {f"softmax {a}": same("softmax", axis=a) for a in axes}
    cases |= {f"log_softmax {a}": same("log_softmax", axis=a) for a in axes}
    agree(cases, x)


# normalisation


def layer_norm(x, weight=1, bias=0, axis=-1, epsilon=1e-5):
    centred = x - x.mean(axis, keepdims=True)
    root = np.sqrt((centred**2).mean(axis, keepdims=True) + x.dtype.type(epsilon))
    return centred / root * weight + bias


def test_layer_and_rms_norm():
    x, w, b = RNG.normal(2, 3, (4, 5, 6)), RNG.normal(size=6), RNG.normal(size=6)
    full = RNG.normal(size=(4, 6))
    cases = {
        "plain": (
            lambda x, w, b, f: gt.nn.layer_norm(x),
            lambda x, w, b, f: layer_norm(x),
        ),
        "scaled": (
            lambda x, w, b, f: gt.nn.layer_norm(x, w, b),
            lambda x, w, b, f: layer_norm(x, w, b),
        ),
        "two axes": (
            lambda x, w, b, f: gt.nn.layer_norm(x, f, axis=(0, -1), epsilon=0.1),
            lambda x, w, b, f: layer_norm(x, f[:, None], axis=(0, 2), epsilon=0.1),
        ),
        "rms": (
            lambda x, w, b, f: gt.nn.rms_norm(x, w),
            lambda x, w, b, f: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w,
        ),
        "standardize": (
            lambda x, w, b, f: gt.nn.standardize(x, 1),
            OfJax(lambda x, w, b, f: jax.nn.standardize(x, 1)),
        ),
        "standardize where": (
            lambda x, w, b, f: gt.nn.standardize(x, (0, 1), where=x > 0),
            OfJax(lambda x, w, b, f: jax.nn.standardize(x, (0, 1), where=x > 0)),
        ),
    }
    agree(cases, x, w, b, full)
    single = [v.astype("float32") for v in (x, w, b, full)]
    agree({"scaled": cases["scaled"], "rms": cases["rms"]}, *single, rounding=ROUNDING)


def test_batch_and_group_norm():
    x, w, b = RNG.normal(2, 3, (3, 6, 4, 5)), RNG.normal(size=6), RNG.normal(size=6)
    m, v = RNG.normal(size=6), RNG.random(6) + 0.5

    def over(vector):
        return vector[:, None, None]

    def grouped(x, groups):
        split = x.reshape(3, groups, -1)
        return layer_norm(split).reshape(x.shape)

    cases = {
        "training": (
            lambda x, w, b, m, v: gt.nn.batch_norm(x, weight=w, bias=b),
            lambda x, w, b, m, v: layer_norm(x, over(w), over(b), axis=(0, 2, 3)),
        ),
        "inference": (
            lambda x, w, b, m, v: gt.nn.batch_norm(x, m, v, w, b),
            lambda x, w, b, m, v: (
                (x - over(m)) / np.sqrt(over(v) + 1e-5) * over(w) + over(b)
            ),
        ),
        "last axis": (
            lambda x, w, b, m, v: gt.nn.batch_norm(x, axis=-1),
            lambda x, w, b, m, v: layer_norm(x, axis=(0, 1, 2)),
        ),
        "groups": (
            lambda x, w, b, m, v: gt.nn.group_norm(x, 3, w, b),
            lambda x, w, b, m, v: grouped(x, 3) * over(w) + over(b),
        ),
        "instance": (
            lambda x, w, b, m, v: gt.nn.group_norm(x, x.shape[1]),
            lambda x, w, b, m, v: layer_norm(x, axis=(2, 3)),
        ),
    }
    agree(cases, x, w, b, m, v)


# one-hot codes, dropout


def test_one_hot():
    x = np.array([[0, 2, 5], [-1, 3, 7]])
    cases = {
        f"{n} {axis}": (
            lambda x, n=n, axis=axis: gt.nn.one_hot(x, n, axis=axis),
            lambda x, n=n, axis=axis: np.asarray(jax.nn.one_hot(x, n, axis=axis)),
        )
        for n in (0, 1, 6)
        for axis in (-1, 0, 1)
    }
    agree(cases, x)
    wide = (
        lambda x: gt.nn.one_hot(x, 300, "int8"),
        lambda x: (x[..., None] == np.arange(300)).astype("int8"),
    )
    agree({"more classes than int8": wide}, x.astype("int8"))


def test_one_hot_of_symbolic_classes():
    labels, n = gt.ivector("labels"), gt.iscalar("n")
    for backend in BACKENDS:
        f = graphc.function([labels, n], gt.nn.one_hot(labels, n), backend=backend)
        for classes in (3, 5):
            got = f(np.array([0, 2, 1]), classes)
            np.testing.assert_array_equal(got, np.eye(3, classes)[[0, 2, 1]])


def test_dropout():
    x, key = gt.tensor("x", "float32", ("n", 8)), gt.tensor("key", "uint32", (2,))
    words = np.array([3, 9], "uint32")
    data = RNG.normal(size=(500, 8)).astype("float32")
    outputs = [gt.nn.dropout(x, r, key) for r in (0.25, 0.0, 1.0)]
    kept = np.asarray(jax.random.bernoulli(words, 0.75, data.shape))
    for backend in BACKENDS:
        quarter, none, all_ = graphc.function([x, key], outputs, backend=backend)(
            data, words
        )
        expected = np.where(kept, data / np.float32(0.75), 0)
        np.testing.assert_allclose(quarter, expected, rtol=1e-6)
        np.testing.assert_array_equal(none, data)
        np.testing.assert_array_equal(all_, np.zeros_like(data))


# attention


def attention(**named):
    """Our attention and `jax.nn`'s, as functions of q, k, v, bias, mask and lengths."""

    def call(function, q, k, v, bias, mask, lengths):
        options = dict(named)
        for what, given in (("bias", bias), ("mask", mask)):
            if options.pop(what, False):
                options[what] = given
        for what in ("query_seq_lengths", "key_value_seq_lengths"):
            if options.pop(what, False):
                options[what] = lengths
        return function(q, k, v, **options)

    return (
        lambda *args: call(gt.nn.dot_product_attention, *args),
        OfJax(lambda *args: call(jax.nn.dot_product_attention, *args)),
    )


ATTENTION = {
    "plain": attention(),
    "scale": attention(scale=0.3),
    "causal": attention(is_causal=True),
    "bias and mask": attention(bias=True, mask=True),
    "window": attention(local_window_size=(1, 2)),
    "causal window": attention(local_window_size=1, is_causal=True),
    "lengths": attention(query_seq_lengths=True, key_value_seq_lengths=True),
}


@pytest.mark.parametrize("heads", [(4, 4), (4, 2)])
def test_attention(heads):
    q = RNG.normal(size=(2, 5, heads[0], 8)).astype("float32")
    k, v = RNG.normal(size=(2, 2, 6, heads[1], 8)).astype("float32")
    bias = RNG.normal(size=(1, 4, 5, 6)).astype("float32")
    mask = RNG.random((2, 1, 5, 6)) < 0.6
    mask[0, 0, 0] = False  # a row that attends to nothing
    lengths = np.array([3, 5], "int32")
    named = heads == (4, 2)  # one kind each, since XLA compiles each for long
    arrays = q, k, v, bias, mask, lengths
    agree(ATTENTION, *arrays, symbolic=(named,), rounding={"float32": 1e-5})


def test_attention_without_batch_and_in_double_precision():
    q, k, v = RNG.normal(size=(3, 4, 2, 8))
    unused = np.zeros(1)
    agree(
        {"plain": attention()},
        q,
        k,
        v,
        unused,
        unused,
        unused,
        rounding={"float64": 1e-6},
    )  # `jax.nn` computes its softmax in float32
    weights = sp.softmax(np.einsum("tnh,snh->nts", q, k) / np.sqrt(8), axis=-1)
    exact = {
        "exact": (
            gt.nn.dot_product_attention,
            lambda q, k, v: np.einsum("nts,snh->tnh", weights, v),
        )
    }
    agree(exact, q, k, v)


# errors

x = gt.tensor("x", "float32", (2, 6, 3))
z = gt.tensor("z", "complex64", (3,))
n = gt.tensor("n", "float32", ("n", 4))
ERRORS = [
    (lambda: gt.nn.softmax(z), "nn.softmax: needs real numbers"),
    (lambda: gt.nn.silu(z), "nn.silu: needs real numbers"),
    (lambda: gt.nn.softmax(x, 3), "nn.softmax: axis 3 is out of range"),
    (lambda: gt.nn.softmax(x, (0, 0)), "nn.softmax: an axis is named twice"),
    (lambda: gt.nn.softmax(x, where=gt.ones(4, "bool")), "shapes do not broadcast"),
    (lambda: gt.nn.glu(x), "nn.glu: the size 3 of axis -1 is not even"),
    (lambda: gt.nn.one_hot(x, 3), "nn.one_hot: needs integer classes"),
    (lambda: gt.nn.one_hot([1], -3), "nn.one_hot"),
    (lambda: gt.nn.layer_norm(x, x), "nn.layer_norm: needs an array over the axes"),
    (lambda: gt.nn.layer_norm(x, gt.ones(4)), "that is, of shape .3."),
    (lambda: gt.nn.batch_norm(x, axis=5), "nn.batch_norm: axis 5 is out of range"),
    (lambda: gt.nn.group_norm(x, 4), "6 channels cannot be split into 4 groups"),
    (lambda: gt.nn.group_norm(x, 2, axis=0), "axis 0 is the batch"),
    (lambda: gt.nn.dropout(x, 1.5, np.zeros(2, "uint32")), "the rate must be from 0"),
    (lambda: gt.nn.dropout(x, "a", np.zeros(2, "uint32")), "dropout: neither an array"),
    (lambda: gt.nn.elu("a"), "elu: neither an array nor a number"),
    (lambda: gt.nn.standardize(x, mean=z), "nn.standardize: needs real numbers"),
    (
        lambda: gt.nn.dot_product_attention(x, x[:, :4], x[:, :4]),
        "the heads of key, 4, must divide those of query, 6",
    ),
    (
        lambda: gt.nn.dot_product_attention(x, x, x, local_window_size=(1, 2, 3)),
        "needs a window, or a pair .left, right.",
    ),
    (lambda: gt.nn.dot_product_attention(x, x, n), "needs query, key and value of"),
    (
        lambda: gt.nn.dot_product_attention(x, x, x, mask=x),
        "the mask must broadcast to .batch, heads, T, S.; a mask must be bool",
    ),
    (
        lambda: gt.nn.dot_product_attention(x, x, x, query_seq_lengths=3),
        "sequence lengths must be an integer vector",
    ),
]


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row[1][:40])
def test_errors(row):
    build, message = row
    with refused(message):
        build()


def test_an_odd_symbolic_size_is_found_when_glu_is_called():
    v = gt.tensor("v", "float32", ("n",))
    f = graphc.function([v], gt.nn.glu(v))
    np.testing.assert_allclose(f(np.zeros(4, "float32")), 0)
    with refused(r"needs 2\*\(n//2\) == n; got 2 and 3", graphc.CallError):
        f(np.zeros(3, "float32"))
