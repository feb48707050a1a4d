"""Convolution and pooling: both backends against `jax.lax`, and against plain loops."""

import itertools

import jax
import numpy as np
import pytest
from jax import lax

import graphc
import graphc.tensor as gt
from tests.ops.comparing import BACKENDS, OfJax, agree
from tests.ops.refusing import refused

RNG = np.random.default_rng(11)
ROUNDING = {"float16": 2e-2, "float32": 1e-5, "float64": 1e-12, "complex64": 1e-5}


def pair(value, count):
    return value if isinstance(value, tuple) else (value,) * count


def conv_reference(stride=1, padding="VALID", dilation=1, groups=1):
    """`jax.lax.conv_general_dilated` with the arguments of `gt.nn.conv`."""

    def theirs(x, k):
        count = x.ndim - 2
        pads = padding
        if not isinstance(pads, str):
            pads = [pair(p, 2) for p in pair(pads, count)]
        return lax.conv_general_dilated(
            x, k, pair(stride, count), pads, rhs_dilation=pair(dilation, count),
            feature_group_count=groups,
        )

    return OfJax(theirs)


def ours(**named):
    return lambda x, k: gt.nn.conv(x, k, **named)


def conv_cases(options):
    return {str(named): (ours(**named), conv_reference(**named)) for named in options}


ONE_AXIS = [
    {},
    {"stride": 2},
    {"stride": 3, "padding": "SAME"},
    {"padding": "SAME_LOWER", "stride": 2},
    {"padding": 2},
    {"padding": ((3, 1),)},
    {"padding": ((-1, 2),)},
    {"dilation": 2, "padding": "SAME"},
    {"dilation": 3},
    {"dilation": 9},
]
TWO_AXES = [
    {},
    {"stride": (2, 1), "padding": "SAME"},
    {"padding": ((1, 0), (0, 2)), "stride": 2},
    {"padding": (1, 0), "dilation": (1, 2)},
]


def test_one_axis():
    x, k = RNG.normal(size=(2, 3, 11)), RNG.normal(size=(4, 3, 3))
    agree(conv_cases(ONE_AXIS), x, k)


def test_two_and_three_axes():
    x, k = RNG.normal(size=(2, 3, 7, 9)), RNG.normal(size=(4, 3, 3, 2))
    agree(conv_cases(TWO_AXES), x, k)
    x, k = RNG.normal(size=(2, 2, 4, 5, 6)), RNG.normal(size=(3, 2, 2, 3, 2))
    agree(conv_cases([{}, {"stride": 2, "padding": "SAME"}]), x, k)


def test_groups():
    x, k = RNG.normal(size=(2, 6, 7, 5)), RNG.normal(size=(4, 3, 3, 3))
    more = {"groups": 2, "padding": "SAME", "stride": 2}
    agree(conv_cases([{"groups": 2}, more]), x, k)
    depthwise = RNG.normal(size=(12, 1, 3, 3))
    agree(conv_cases([{"groups": 6, "padding": 1}]), x, depthwise)


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "int32", "int8", "complex64", "complex128"]
)
def test_dtypes(dtype):
    x, k = RNG.integers(-4, 5, (2, 3, 8)), RNG.integers(-4, 5, (4, 3, 3))
    x, k = x.astype(dtype), k.astype(dtype)
    if x.dtype.kind in "fc":
        x = x + x.dtype.type(0.25 if x.dtype.kind == "f" else 0.25j)
    agree(conv_cases([{}, {"padding": "SAME", "stride": 2}]), x, k, rounding=ROUNDING)


def test_dtypes_are_promoted():
    x, k = RNG.normal(size=(1, 1, 5)).astype("float32"), np.ones((1, 1, 2), "int64")
    expected = conv_reference()(x.astype(float), k.astype(float))
    agree({"mixed": (gt.nn.conv, lambda x, k: expected)}, x, k)


@pytest.mark.parametrize(
    "shape", [(0, 2, 5), (2, 2, 0), (2, 2, 1), (2, 2, 2), (1, 2, 3)]
)
def test_small_and_empty(shape):
    x, k = RNG.normal(size=shape), RNG.normal(size=(3, 2, 3))
    options = [{"padding": "SAME"}, {"padding": "SAME", "stride": 2}, {"padding": 1}]
    agree(conv_cases([{}, *options]), x, k)
    agree(conv_cases([{}]), x, RNG.normal(size=(0, 2, 3)))


def test_the_definition():
    """Convolution is cross-correlation, written out here as loops."""
    x, k = RNG.normal(size=(2, 4, 8, 7)), RNG.normal(size=(6, 2, 3, 2))
    b = RNG.normal(size=6)

    def theirs(x, k, b):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (2, 1)))
        out = np.zeros((2, 6, 4, 4))
        for o, i, j in itertools.product(range(6), range(4), range(4)):
            channels = slice(0, 2) if o < 3 else slice(2, 4)
            window = padded[:, channels, 2 * i : 2 * i + 3, 2 * j : 2 * j + 4 : 3]
            out[:, o, i, j] = (window * k[o]).sum((1, 2, 3)) + b[o]
        return out

    def given(x, k, b):
        return gt.nn.conv2d(
            x, k, stride=2, padding=((1, 0), (2, 1)), dilation=(1, 3), groups=2, bias=b
        )

    agree({"all": (given, theirs)}, x, k, b)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "symmetric"])
def test_padding_modes(mode):
    x, k = RNG.normal(size=(2, 3, 7, 9)), RNG.normal(size=(4, 3, 3, 2))

    def theirs(low, high):
        def function(x, k):
            wide = np.pad(x, ((0, 0), (0, 0), *zip(low, high, strict=True)), mode=mode)
            return conv_reference(2)(wide, k)

        return function

    cases = {
        "pairs": (
            ours(padding=((2, 1), (0, 2)), stride=2, padding_mode=mode),
            theirs((2, 0), (1, 2)),
        ),
        "same": (
            ours(padding="SAME", stride=2, padding_mode=mode),
            theirs((1, 0), (1, 1)),
        ),
        "lower": (
            ours(padding="SAME_LOWER", stride=2, padding_mode=mode),
            theirs((1, 1), (1, 0)),
        ),
    }
    agree(cases, x, k)


def test_symbolic_sizes_as_arguments():
    x = gt.tensor("x", "float64", (1, 1, "n"))
    k = gt.tensor("k", "float64", (1, 1, "m"))
    s, p = gt.iscalar("s"), gt.iscalar("p")
    y = gt.nn.conv(x, k, stride=s, padding=p)
    data, kernel = RNG.normal(size=(1, 1, 9)), RNG.normal(size=(1, 1, 3))
    for backend in BACKENDS:
        f = graphc.function([x, k, s, p], {"y": y, "n": y.shape[2]}, backend=backend)
        for stride, padding in ((1, 0), (2, 1), (3, 4)):
            got = f(data, kernel, stride, padding)
            expected = conv_reference(stride, padding)(data, kernel)
            np.testing.assert_allclose(got["y"], expected, rtol=1e-12, atol=1e-12)
            assert int(got["n"]) == expected.shape[2]


def test_one_program_for_all_sizes():
    x = gt.tensor("x", "float32", ("b", 2, "h", "w"))
    kernel = RNG.normal(size=(3, 2, 3, 3)).astype("float32")
    y = gt.nn.max_pool(gt.nn.conv(x, kernel, padding="SAME", stride=2), 2)
    f = graphc.function([x], y)
    for shape in ((1, 2, 8, 8), (2, 2, 13, 9), (3, 2, 4, 21)):
        data = RNG.normal(size=shape).astype("float32")
        conv = conv_reference(2, "SAME")(data, kernel)
        sizes = [n // 2 for n in conv.shape[2:]]
        conv = conv[..., : 2 * sizes[0], : 2 * sizes[1]]
        expected = conv.reshape(*conv.shape[:2], sizes[0], 2, sizes[1], 2).max((3, 5))
        np.testing.assert_allclose(f(data), expected, rtol=1e-4, atol=1e-5)


# transposed convolution


def vjp_reference(shape, **named):
    """The transpose of `conv` of an array of this shape: its gradient in the array."""
    forward = conv_reference(**named)

    def theirs(y, k):
        count = len(shape) - 2
        pads = named.get("padding", "VALID")
        if not isinstance(pads, str):
            pads = [pair(p, 2) for p in pair(pads, count)]
        conv = lambda x: lax.conv_general_dilated(  # noqa: E731
            x, k, pair(named.get("stride", 1), count), pads,
            rhs_dilation=pair(named.get("dilation", 1), count),
            feature_group_count=named.get("groups", 1),
        )
        (out,) = jax.linear_transpose(conv, np.zeros(shape))(y)
        assert forward.function(np.zeros(shape), k).shape == y.shape
        return out

    return OfJax(theirs)


TRANSPOSED = [
    ((2, 4, 9), (3, 4, 3), 1, {}),
    ((2, 4, 9), (3, 4, 3), 1, {"stride": 2}),
    ((2, 4, 10), (3, 4, 3), 1, {"stride": 2, "output_padding": 1}),
    (
        (2, 4, 10),
        (3, 4, 2),
        1,
        {"stride": 4, "padding": ((1, 1),), "output_padding": 2},
    ),
    ((2, 4, 9), (3, 4, 3), 1, {"dilation": 2, "padding": 1}),
    ((2, 4, 9), (3, 4, 4), 1, {"padding": ((3, 2),)}),
    ((2, 4, 9), (6, 2, 3), 2, {"stride": 2, "padding": 1}),
    ((2, 4, 7, 9), (3, 4, 3, 2), 1, {"stride": (2, 1), "padding": ((1, 1), (0, 1))}),
]


@pytest.mark.parametrize("row", TRANSPOSED, ids=lambda row: str(row[3]))
def test_conv_transpose_is_the_transpose_of_conv(row):
    shape, kernel, groups, named = row
    forward = {k: v for k, v in named.items() if k != "output_padding"}
    forward["groups"] = groups
    k = RNG.normal(size=kernel)
    y = RNG.normal(size=conv_reference(**forward)(np.zeros(shape), k).shape)
    mine = lambda y, k: gt.nn.conv_transpose(y, k, groups=groups, **named)  # noqa: E731
    agree({"": (mine, vjp_reference(shape, **forward))}, y, k)


@pytest.mark.parametrize(("stride", "window"), [(1, 3), (2, 3), (2, 4), (3, 2), (4, 4)])
def test_conv_transpose_same(stride, window):
    x, k = RNG.normal(size=(2, 3, 5)), RNG.normal(size=(3, 4, window))
    theirs = lambda x, k: lax.conv_transpose(  # noqa: E731
        x, k, (stride,), "SAME", dimension_numbers=("NCH", "OIH", "NCH"),
        transpose_kernel=True,
    )
    mine = lambda x, k: gt.nn.conv_transpose(  # noqa: E731
        x, k, stride=stride, padding="SAME"
    )
    agree({"same": (mine, OfJax(theirs))}, x, k)


# pooling


def windows(x, how, window, stride, padding="VALID", dilation=1):
    """`jax.lax.reduce_window` over the last axes."""
    count = len(window)
    start, step = {
        "max": (-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min, lax.max),
        "min": (np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).max, lax.min),
        "sum": (0, lax.add),
    }[how]
    batch = (1,) * (x.ndim - count)
    if not isinstance(padding, str):
        padding = [(0, 0)] * len(batch) + [pair(p, 2) for p in pair(padding, count)]
    return lax.reduce_window(
        x, x.dtype.type(start), step, batch + window, batch + pair(stride, count),
        padding, window_dilation=batch + pair(dilation, count),
    )


POOLS = [
    {"window": (3,), "stride": (3,)},
    {"window": (3,), "stride": 1, "padding": "SAME"},
    {"window": (2,), "stride": 3, "padding": ((1, 0),)},
    {"window": (3,), "stride": 2, "dilation": 2, "padding": "SAME"},
    {"window": (2, 3), "stride": (2, 3)},
    {"window": (3, 3), "stride": 2, "padding": "SAME_LOWER"},
    {"window": (1, 2), "stride": (1, 2), "padding": ((0, 0), (1, 1))},
    {"window": (99,), "stride": (1,)},
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8", "float16"])
def test_max_min_and_sum(dtype):
    x = RNG.integers(0, 9, (2, 3, 7, 8)).astype(dtype)
    if dtype == "float64":
        x[0, 0, 0, :4] = [np.nan, np.inf, -np.inf, -0.0]
    cases = {}
    for how, named in itertools.product(("max", "min", "sum"), POOLS):
        cases[f"{how} {named}"] = (
            lambda x, how=how, named=named: getattr(gt.nn, f"{how}_pool")(x, **named),
            OfJax(lambda x, how=how, named=named: windows(x, how, **named)),
        )
    agree(cases, x, symbolic=(dtype == "float64",))


def test_average_and_lp():
    x = RNG.normal(size=(2, 3, 6, 7))
    ones = np.ones_like(x)
    padded = {"window": (3, 2), "stride": 2, "padding": "SAME"}

    def average(x, count):
        return windows(x, "sum", **padded) / count

    cases = {
        "plain": (
            lambda x: gt.nn.avg_pool(x, 2),
            OfJax(lambda x: windows(x, "sum", (2, 2), 2) / 4),
        ),
        "padding counts": (
            lambda x: gt.nn.avg_pool(x, **padded),
            OfJax(lambda x: average(x, 6)),
        ),
        "padding does not count": (
            lambda x: gt.nn.avg_pool(x, count_include_pad=False, **padded),
            OfJax(lambda x: average(x, windows(ones, "sum", **padded))),
        ),
        "lp 3": (
            lambda x: gt.nn.lp_pool(x, 3, (2,), stride=1),
            OfJax(lambda x: windows(abs(x) ** 3, "sum", (2,), 1) ** (1 / 3)),
        ),
    }
    agree(cases, x)
    integers = {"int": (lambda x: gt.nn.avg_pool(x, 2),
                        OfJax(lambda x: windows(x * 1.0, "sum", (2, 2), 2) / 4))}
    agree(integers, RNG.integers(0, 9, (2, 3, 4, 6)))


@pytest.mark.parametrize("shape", [(0, 1, 4), (1, 0, 4), (1, 1, 0), (1, 1, 1), (4,)])
def test_pools_of_small_and_empty(shape):
    x = RNG.normal(size=shape)
    cases = {
        f"{how} {padding}": (
            lambda x, how=how, padding=padding: getattr(gt.nn, f"{how}_pool")(
                x, (3,), 2, padding
            ),
            OfJax(lambda x, how=how, pad=padding: windows(x, how, (3,), 2, pad)),
        )
        for how in ("max", "sum")
        for padding in ("SAME", "VALID")
    }
    agree(cases, x)


def test_symbolic_window():
    x, w = gt.tensor("x", "float64", (1, 1, "n")), gt.iscalar("w")
    data = RNG.normal(size=(1, 1, 9))
    for backend in BACKENDS:
        f = graphc.function([x, w], gt.nn.avg_pool(x, w), backend=backend)
        for window in (1, 2, 4):
            expected = OfJax(lambda x, w=window: windows(x, "sum", (w,), w) / w)(data)
            np.testing.assert_allclose(f(data, window), expected, rtol=1e-12)


# errors

x = gt.tensor("x", "float32", (2, 4, 9))
image = gt.tensor("image", "float32", (2, 4, 9, 9))
kernel = gt.tensor("kernel", "float32", (6, 4, 3))
bools = gt.ones((2, 4, 9), "bool")
ERRORS = [
    (lambda: gt.nn.conv(image, kernel), r"nn.conv: needs .batch, channels, \.\.\.."),
    (lambda: gt.nn.conv2d(x, kernel), "nn.conv2d: .* with 2 spatial axes"),
    (lambda: gt.nn.conv(x, kernel, groups=2), "the channels must fit the kernel"),
    (lambda: gt.nn.conv(x, kernel[:5, :2], groups=2), "the groups must divide"),
    (lambda: gt.nn.conv(x, kernel, padding="same"), "nn.conv: unknown padding"),
    (lambda: gt.nn.conv(x, kernel, padding=(1, 2)), "needs a padding per spatial axis"),
    (lambda: gt.nn.conv(x, kernel, padding=((1, 2, 3),)), "needs pairs .low, high."),
    (lambda: gt.nn.conv(x, kernel, stride=(1, 2)), "needs a stride per spatial axis"),
    (lambda: gt.nn.conv(x, kernel, stride=0), "the stride must be positive"),
    (lambda: gt.nn.conv(x, kernel, stride=1.5), "the stride must be an integer"),
    (lambda: gt.nn.conv(x, kernel, bias=x), "the bias must be a vector"),
    (lambda: gt.nn.conv(x, kernel, bias=gt.ones(5)), "over the 6 output channels"),
    (lambda: gt.nn.conv(bools, bools), "needs numbers of one dtype"),
    (lambda: gt.nn.max_pool(x[0], 2), "or a window size per last axis"),
    (lambda: gt.nn.max_pool(x, (2,) * 4), "or a window size per last axis"),
    (lambda: gt.nn.max_pool(x, 0), "the window must be positive"),
    (lambda: gt.nn.max_pool(x.astype("complex64"), 2), "nn.max_pool: needs real"),
    (lambda: gt.nn.avg_pool(x, 2, stride=(1, 1)), "needs a stride per spatial axis"),
]


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row[1][:40])
def test_errors(row):
    build, message = row
    with refused(message):
        build()


def test_channels_that_are_known_at_the_call():
    y = gt.tensor("y", "float32", (1, "c", "n"))
    f = graphc.function([y], gt.nn.conv(y, np.ones((2, 3, 1), "float32")))
    assert f(np.ones((1, 3, 5), "float32")).shape == (1, 2, 5)
    with refused("the channels must fit the kernel", graphc.CallError):
        f(np.ones((1, 4, 5), "float32"))


def test_the_printed_call():
    f = graphc.function([x, kernel], gt.nn.conv(x, kernel, 2, "SAME"), backend="jax")
    assert 'jax.lax.conv_general_dilated(x, kernel, (2,), \'SAME\')' in f.source
    f = graphc.function([x], gt.nn.max_pool(x, 3), backend="jax")
    call = "jax.lax.reduce_window(x, np.float32(-np.inf), jax.lax.max, (1, 1, 3), "
    assert call in f.source
