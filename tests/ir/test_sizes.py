"""Integers that are followed as sizes: how far, and that their names do not matter."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir.graph.build import as_size, as_value, size_value
from graphc.ir.graph.nodes import origins
from graphc.ir.sizes.dims import bounds


def weighted(names):
    """Combine sizes of these names; return the result and the sizes."""
    sizes = [gt.tensor(name, "int64", ()) for name in names]
    total = gt.maximum(sizes[0], sizes[1])
    for i, n in enumerate(sizes):
        total = gt.maximum(total + (i + 1) * n, n)
    return total, sizes


def test_long_names_do_not_change_what_is_followed():
    long = [f"a_rather_long_name_of_a_size_{c}" for c in "abcdef"]
    for names in (long, "abcdef"):
        total, sizes = weighted(names)
        assert set(origins(as_size(total))) == set(sizes)
        f = graphc.function(sizes, gt.zeros(total), backend="numpy")
        assert f(1, 2, 3, 4, 5, 6).shape == (2 + 1 + 4 + 9 + 16 + 25 + 36,)


def test_formulas_that_grow_without_end_are_cut():
    """Past a limit the result becomes a symbol of its own, read when it is known."""
    total, sizes = weighted([f"n{i}" for i in range(40)])
    assert not set(origins(as_size(total))) & set(sizes[:20])
    f = graphc.function(sizes, gt.zeros(total), backend="numpy")
    assert f(*[1] * 40).shape == (1 + sum(range(1, 41)),)


# Questions about sizes.

x = gt.tensor("x", "float32", ("n", 3))
k = gt.iscalar("k")
n = x.shape[0]
kept = x[x[:, 0] > 0].shape[0]


def in_loop(question):
    """The answer to a question about the index of a loop while its body is built."""
    answers = []

    def step(i, total):
        answers.append(question(i))
        return total

    gt.fori_loop(0, k, step, 0.0)
    return answers[-1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, "3"),
        (np.int8(3), "3"),
        (gt.asarray(3), "3"),
        (x.shape[1], "3"),
        (n, "Dim(n)"),
        (as_size(n), "Dim(n)"),
        (2 * n + k, "Dim(k + 2*n)"),
        (gt.minimum(n, 4), "Dim(min(4, n))"),
        (kept, "None"),
        (as_size(kept), "None"),
        (n + kept, "None"),
        (n - n + kept - kept, "0"),
        (gt.argmax(x), "None"),
        (True, "None"),
        (2.0, "None"),
        (n / 2, "None"),
        (gt.stack(x.shape), "(Dim(n), 3)"),
        ([[1, k], [2, 3]], "((1, Dim(k)), (2, 3))"),
        (gt.stack([n, kept]), "None"),
        (np.zeros(0, "int64"), "()"),
        (np.arange(20), str(tuple(range(20)))),
        (gt.ivector("v"), "None"),
        (gt.ivector("v", (2,)), "None"),
    ],
)
def test_what_is_known_while_the_graph_is_built(value, expected):
    assert repr(graphc.known(value)) == expected


def test_a_step_of_a_loop_is_not_known():
    assert in_loop(graphc.known) is None
    assert in_loop(lambda i: graphc.same_size(i, i)) is True
    assert in_loop(lambda i: graphc.same_size(i, n)) is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (3, np.int32(3), True),
        (3, 4, False),
        (n, as_size(n), True),
        (n * n - 1, (n + 1) * (n - 1), True),
        (n, n + 1, False),
        (2 * n, 2 * k + 1, False),
        (n, -1, False),
        (n, k, None),
        (n, 3, None),
        (kept, n + 1, False),
        (kept, n, None),
    ],
)
def test_sizes_are_equal_different_or_neither_is_proved(a, b, expected):
    assert graphc.same_size(a, b) is expected
    assert graphc.same_size(b, a) is expected


def test_only_sizes_are_compared():
    with pytest.raises(graphc.GraphError, match="same_size: a size must be an integer"):
        graphc.same_size(n, 2.0)


# An integer has the same value as a number and as a size.

DTYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
EDGES = st.sampled_from([0, 1, 3, 10, 100, 2**7, 2**15, 2**31, 2**32, 2**40, 2**63])
NUMBERS = st.builds(
    lambda a, b, sign: sign * a + b, EDGES, st.integers(-2, 2), st.sampled_from([1, -1])
)
OPERATIONS = [
    *(gt.add, gt.subtract, gt.multiply, gt.minimum, gt.maximum),
    lambda a, b: gt.negative(a),
    lambda a, b: gt.floor_divide(a, 7),
    lambda a, b: gt.remainder(a, 7),
    lambda a, b: gt.astype(a, "int32"),
    lambda a, b: gt.astype(a, "int64"),
    lambda a, b: gt.astype(a, "int8"),
    lambda a, b: gt.invert(a),
    lambda a, b: gt.absolute(a),
    lambda a, b: gt.sign(a),
    lambda a, b: gt.square(a),
    lambda a, b: gt.left_shift(a, 3),
    lambda a, b: gt.right_shift(a, 3),
    lambda a, b: gt.where(gt.less(a, b), a, b),
    lambda a, b: gt.where(gt.invert(gt.equal(a, b)), 7, a),
    lambda a, b: gt.astype(gt.logical_xor(a, gt.greater_equal(a, b)), "int64"),
    lambda a, b: gt.sum(gt.stack([gt.astype(a, "int64"), gt.astype(b, "int64")])),
]


@st.composite
def programs(draw):
    """Draw an expression of integer scalars, its inputs, and numbers for them."""
    dtypes = draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=2))
    inputs = [gt.tensor(f"k{i}", dtype, ()) for i, dtype in enumerate(dtypes)]
    numbers = [draw(NUMBERS) % 2**64 for _ in dtypes]
    parts = [*inputs, x.shape[0], 2, 100]
    for _ in range(draw(st.integers(1, 4))):
        operation = draw(st.sampled_from(OPERATIONS))
        operands = [draw(st.sampled_from(parts)) for _ in "ab"]
        try:
            made = operation(*operands)
        except graphc.GraphError:  # no integer dtype can hold both
            continue
        if made.dtype.kind in "iu":
            parts.append(made)
    arrays = [np.uint64(n).astype(d) for n, d in zip(numbers, dtypes, strict=True)]
    return as_value(parts[-1]), inputs, arrays


def check_that_they_agree(program, backend):
    """Require that number and size are equal, unless the call is refused."""
    number, inputs, arrays = program
    size = size_value(as_size(number))
    f = graphc.function([*inputs, x], [number, size], backend=backend, unused="ignore")
    try:
        found = f(*arrays, np.zeros((5, 3), "float32"))
    except graphc.CallError:
        return
    apart = int(found[0]) - int(found[1])
    assert (apart % 2**64 if backend == "jax" else apart) == 0  # see README


@pytest.mark.parametrize("dtype", DTYPES[:-1])  # no dtype can hold those of uint64
def test_sizes_of_narrow_integers_and_of_those_without_a_sign(dtype):
    """No uint8 is negative, and 200 is no int8, but sizes are computed exactly."""
    i = gt.tensor("i", dtype, ())
    wide = gt.astype(i, "int64")
    numbers = [gt.absolute(i), -wide, wide - 200, gt.minimum(wide * 300, 1000)]
    sizes = [size_value(as_size(number)) for number in numbers]
    f = graphc.function([i], numbers + sizes)
    for given_one in (0, 1, 100, np.iinfo(dtype).max % 2**40):
        found = [int(v) for v in f(np.array(given_one, dtype))]
        assert found[:4] == found[4:]


@settings(max_examples=150, deadline=None)
@given(programs())
def test_numbers_and_sizes_agree(program):
    check_that_they_agree(program, "numpy")


@settings(max_examples=8, deadline=None)
@given(programs())
def test_numbers_and_sizes_agree_in_programs_of_jax(program):
    check_that_they_agree(program, "jax")


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize(
    ("dtype", "number", "formula"),
    [
        ("int64", 2**40, lambda k: gt.minimum(k * k, 5)),
        ("int32", 2**20, lambda k: gt.minimum(k * k, 5)),
        ("int32", 2**31 - 1, lambda k: gt.maximum(k + 1, 3)),
        ("uint32", 2, lambda k: gt.minimum(k - 3, 4)),
        ("int64", 2**32 + 1, lambda k: gt.astype(k, "int32") * 2),
    ],
)
def test_a_size_wraps_around_as_the_number_does(dtype, number, formula, backend):
    k = gt.tensor("k", dtype, ())
    size = formula(k)
    f = graphc.function([k], [size, gt.zeros(size)], backend=backend)
    with np.errstate(all="ignore"):
        found, array = f(np.dtype(dtype).type(number))
    assert array.shape == (int(found),)


def test_what_cannot_wrap_around_is_followed():
    """Sums, multiples, quotients and remainders stay formulas of their inputs."""
    i, k = gt.tensor("i", "int64", ()), gt.tensor("k", "int64", ())
    for size in (i + 5, i - k, 3 * i + n, n // k, i % n + 1, gt.maximum(i, 0) - 1):
        assert set(origins(as_size(size))) <= {i, k}
    j = gt.iscalar("j")
    for size in (j // 2, j % 7, gt.minimum(j, n), gt.astype(j, "int64") * 4 + 1):
        assert set(origins(as_size(size))) == {j}


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        (2 * kept == -1, False),
        (kept < 0, False),
        (kept <= n, True),
        (kept != n + 1, True),
        (gt.logical_not(kept > n), True),
    ],
)
def test_conditions_of_counts_are_proved(condition, truth):
    chosen = gt.where(condition, kept + 3, n)
    assert graphc.same_size(chosen, kept + 3 if truth else n) is True


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ((3, 5), (3, 5)),
        ((n, 7), (0, None)),
        ((kept, -2), (-2, None)),
        ((k, 1), (None, None)),
    ],
)
def test_a_size_that_is_one_of_two_is_within_the_bounds_of_both(pair, expected):
    assert bounds(as_size(gt.where(x[0, 0] > 0, *pair))) == expected
    assert bounds(as_size(gt.where(x[0, 0] > 0, *reversed(pair)))) == expected


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_conditions_that_depend_on_data_are_computed_there(backend):
    """Those of a count use its number; those of an argument may wrap around."""
    i = gt.tensor("i", "int64", ())
    conditions = [kept == n, kept > 1, i + 5 > i, i - 5 < i]
    f = graphc.function(
        [x, i], [gt.where(c, 1, 2) for c in conditions], backend=backend
    )
    array = np.array([[1, -1, 1], [2, -2, -2], [-1, 0, 0]], "float32")
    assert list(map(int, f(array, 2**63 - 1))) == [2, 1, 2, 1]
    assert list(map(int, f(-array, -(2**63)))) == [2, 2, 1, 2]
    assert list(map(int, f(np.ones((3, 3), "float32"), 7))) == [1, 1, 1, 1]


@pytest.mark.parametrize("number", [2**48 + 1, -(2**48) - 1])
def test_a_size_that_is_too_large_is_refused(number):
    i = gt.tensor("i", "int64", ())
    f = graphc.function([i], gt.zeros(gt.maximum(i, 1 - i)), backend="numpy")
    refused(f, number)


def refused(f, *numbers):
    with pytest.raises(graphc.CallError) as info:
        f(*numbers)
    said = f"i is used as a size, which is at most 2**48, got {numbers[0]}"
    assert str(info.value).split("\n")[0] == said
    assert info.value.kind == "range"


HUGE = [sys.maxsize, -sys.maxsize - 1, 2**60, -(2**48) - 1]
V = gt.tensor("v", "float64", ("n",))
I, J = (gt.tensor(name, "int64", ()) for name in "ij")
SLICED = (
    lambda x, i: x[:i],
    lambda x, i: x[i:],
    lambda x, i: x[i::-1],
    lambda x, i: x[:i:2],
    lambda x, i: x[-i:],
    lambda x, i: x[2 * i :][i:],
    lambda x, i: x[: i + 1].sum(),
    lambda x, i: x[i - 1 :].cumsum().sum(),
)


@pytest.mark.parametrize(
    ("backend", "dims"),
    [("numpy", "specialize"), ("numpy", "pad"), ("jax", "pad"), ("jax", "auto")],
)
def test_bounds_of_slices_are_cut_off(backend, dims):
    """They are cut off as in Python, and nothing wraps around on the way."""
    outputs = [of(V, I) for of in SLICED]
    f = graphc.function([V, I], outputs, backend=backend, dims=dims)
    a = np.arange(5.0)
    for number in (2, *HUGE):
        for of, found in zip(SLICED, f(a, number), strict=True):
            np.testing.assert_array_equal(found, of(a, number))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_bounds_that_are_numbers_too_are_not_cut_off(backend):
    """Neither are bounds whose difference matters."""
    for outputs in ([V[:I], I * 2], [V[: I - J]], [gt.sum(V[: I - J])]):
        options = {"backend": backend, "unused": "ignore"}
        f = graphc.function([V, I, J], outputs, **options)
        refused(lambda i, f=f: f(np.ones(3), i, 2**48), sys.maxsize)
