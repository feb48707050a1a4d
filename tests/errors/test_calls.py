"""Bad arguments: the same error on both backends."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors import messages
from tests.errors.messages import both, ones, refused, rows

HERE = "test_calls.py"
x = gt.tensor("x", "float32", ("n", 3))
y = gt.tensor("y", "float32", ("n",))
longer = gt.tensor("longer", "float32", ("n+1",))
even = gt.tensor("even", "float32", ("2*n",))
area = gt.tensor("area", "float32", ("n*m",))
other = gt.tensor("other", "float32", ("m",))
wide = gt.tensor("wide", "float64", ("n",))
k = gt.iscalar("k")
s = gt.scalar("s")


def line_of(name):
    return messages.line_of(name, line_of)


# Sizes that must agree.


@both
@rows(
    (
        lambda: (ones(2, 3), ones(4)),
        "axis 0 of input y has 4 elements, not n = 2",
        "where n is from axis 0 of input x",
        f"declared at {HERE}:{line_of('y')}",
        "hint: sizes of one name must agree; name another where it may differ",
        "arguments: x: float32[2, 3], y: float32[4]",
    ),
    (lambda: (ones(0, 3), ones(1)), "axis 0 of input y has 1 elements, not n = 0"),
    (lambda: (ones(1, 3), ones(2)), "axis 0 of input y has 2 elements, not n = 1"),
)
def test_axes_of_one_name_disagree(backend, row):
    f = graphc.function([x, y], x[:, 0] + y, backend=backend)
    args, *expected = row
    refused(lambda: f(*args()), *expected)
    assert f(ones(2, 3), ones(2)).tolist() == [2, 2]


@both
def test_axes_of_one_name_disagree_in_any_order(backend):
    f = graphc.function([y, x], x[:, 0] + y, backend=backend)
    first = "axis 0 of input x has 2 elements, not n = 4"
    refused(lambda: f(ones(4), ones(2, 3)), first)


@both
def test_axes_of_one_input_disagree(backend):
    square = gt.tensor("square", "float32", ("n", "n"))
    f = graphc.function([square], gt.sum(square), backend=backend)
    first = "axis 1 of input square has 3 elements, not n = 2"
    refused(lambda: f(ones(2, 3)), first, "where n is from axis 0 of input square")


@both
def test_axes_of_sizes_that_are_formulas(backend):
    f = graphc.function([longer, y], longer[1:] + y, backend=backend)
    assert f(ones(4), ones(3)).tolist() == [2, 2, 2]
    refused(
        lambda: f(ones(3), ones(3)),
        "axis 0 of input longer has 3 elements, not n + 1 = 4",
        "where n is from axis 0 of input y",
        f"declared at {HERE}:{line_of('longer')}",
        "arguments: longer: float32[3], y: float32[3]",
    )


@both
def test_axes_of_sizes_in_two_names(backend):
    outputs = [gt.sum(area), gt.sum(y), gt.sum(other)]
    f = graphc.function([area, y, other], outputs, backend=backend)
    assert f(ones(6), ones(2), ones(3))[0] == 6
    refused(
        lambda: f(ones(5), ones(2), ones(3)),
        "axis 0 of input area has 5 elements, not m*n = 6",
        "where m is from axis 0 of input other, n is from axis 0 of input y",
    )


@both
def test_a_size_worked_out_from_a_formula(backend):
    f = graphc.function([even], [gt.sum(even), gt.arange(y.shape[0])], backend=backend)
    assert f(ones(4))[1].tolist() == [0, 1]
    refused(
        lambda: f(ones(3)),
        "axis 0 of input even must have 2*n elements; got 3",
        f"asked for by {HERE}:{line_of('even')}",
    )
    f = graphc.function([longer], longer + 1, backend=backend)
    assert f(ones(1)).shape == (1,)
    first = "axis 0 of input longer must have n + 1 elements; got 0"
    refused(lambda: f(ones(0)), first)


@both
@pytest.mark.parametrize(
    "size, fitting, refused_size",
    [
        ("max(p, 3)", 3, 2),
        ("min(p, 3)", 3, 4),
        ("p % 3", 2, 3),
        ("2*min(p, q)", 4, 3),
        ("p*p + 1", 1, 0),
        ("max(n, p)", 2, 1),
    ],
)
def test_a_size_that_no_axis_tells(backend, size, fitting, refused_size):
    v, n = gt.tensor("v", "float32", (size,)), gt.tensor("w", "float32", ("n",))
    f = graphc.function([v, n], gt.sum(v) + gt.sum(n), backend=backend)
    assert f(ones(fitting), ones(2)) == fitting + 2
    wrong = re.escape(f"axis 0 of input v must have {v.type.shape[0]} elements")
    with pytest.raises(graphc.CallError, match=wrong):
        f(ones(refused_size), ones(2))


@both
@pytest.mark.parametrize(
    "sizes, fitting, unequal",
    [
        (("p*q", "p*q"), (2, 2), (2, 1)),
        (("min(p, 3)", "n + min(p, 3)"), (1, 3), (1, 2)),
        (("p // 2", "2*(p // 2) + 1"), (2, 5), (2, 3)),
    ],
)
def test_sizes_that_only_other_axes_tell(backend, sizes, fitting, unequal):
    inputs = [gt.tensor(f"v{i}", "float32", (n,)) for i, n in enumerate(sizes)]
    inputs.append(gt.tensor("w", "float32", ("n",)))
    f = graphc.function(inputs, sum(map(gt.sum, inputs)), backend=backend)
    assert f(*map(ones, fitting), ones(2)) == sum(fitting) + 2
    wrong = re.escape(f", as axis 0 of input v0 has {inputs[0].type.shape[0]};")
    with pytest.raises(graphc.CallError, match=wrong):
        f(*map(ones, unequal), ones(2))


@both
def test_a_size_that_a_later_axis_tells(backend):
    """A size is checked on each axis that has it, so that equal sizes agree."""
    sizes = "max(p, 3)", "n + p", "max(p, 3)", "n"
    inputs = [gt.tensor(f"v{i}", "float32", (n,)) for i, n in enumerate(sizes)]
    product = inputs[0] * inputs[2]
    total = gt.sum(inputs[1]) + gt.sum(inputs[3])
    f = graphc.function(inputs, [product, total], backend=backend)
    assert f(*map(ones, (4, 6, 4, 2)))[0].shape == (4,)
    with pytest.raises(graphc.CallError, match="axis 0 of input v0 has 1 elements, "):
        f(*map(ones, (1, 6, 4, 2)))


# Dtypes, ranks and static sizes.

DIGITS = '; graphc.config.float = "float64" before that input loses none'
CONVERT = 'hint: numpy.asarray(value, "float32") converts it, if that is meant'
SAME_KIND = 'hint: graphc.function(..., casting="same_kind") takes it; or numpy.'


@both
@rows(
    (
        lambda: np.ones((2, 3)),
        "input x has another dtype",
        "got: float64[2, 3]",
        f"expected: float32[n, 3], declared at {HERE}:{line_of('x')}",
        f'{SAME_KIND}asarray(value, "float32") converts it, if that is meant{DIGITS}',
        "arguments: x: float64[2, 3], y: float32[2]",
    ),
    (lambda: np.ones((2, 3), int), "input x has another dtype", "got: int64[2, 3]"),
    (lambda: np.ones((2, 3), "f2"), "input x has another dtype", "got: float16[2, 3]"),
    (lambda: np.ones((2, 3), ">f4"), "input x has another dtype", "got: >f4[2, 3]"),
    (lambda: np.ones((2, 3), bool), "input x has another dtype", "got: bool[2, 3]"),
    (lambda: np.ones((2, 3), "c8"), "input x has another dtype", "got: complex64[2"),
    (lambda: np.ones((2, 3), object), "input x has another dtype", "got: object[2, 3]"),
    (lambda: np.full((2, 3), "a"), "input x has another dtype", "got: <U1[2, 3]"),
    (lambda: jnp.ones((2, 3), int), "input x has another dtype", "got: int32[2, 3]"),
    (lambda: ones(2), "input x has 1 axes, not 2", "got: float32[2]"),
    (lambda: ones(2, 3, 1), "input x has 3 axes, not 2", "got: float32[2, 3, 1]"),
    (lambda: 3.0, "input x has 0 axes, not 2", "got: float[]"),
    (lambda: np.float32(3), "input x has 0 axes, not 2", "got: float32[]"),
    (lambda: ones(2, 4), "input x has another size", "got: float32[2, 4]"),
    (lambda: jnp.ones((2, 4)), "input x has another size", "got: float32[2, 4]"),
    (lambda: [[1.0, 2.0, 3.0]], "input x is no array", "got: list", CONVERT),
    (lambda: ((1.0, 2.0, 3.0),), "input x is no array", "got: tuple", CONVERT),
    (lambda: {"a": 1}, "input x is no array", "got: dict"),
    (lambda: None, "input x is no array", "got: NoneType"),
    (lambda: "x", "input x is no array", "got: str"),
    (lambda: np.float32, "input x is no array", "got: type"),
    (lambda: object(), "input x is no array", "got: object"),
    (
        lambda: x,
        "input x is the symbolic value <x: float32[n, 3]>",
        "hint: pass an array",
    ),
    (
        lambda: np.ma.ones((2, 3), "float32"),
        "input x is a masked array: its mask would be lost",
        "hint: pass x.filled(number)",
    ),
)
def test_arguments_of_another_type(backend, row):
    f = graphc.function([x, y], x[:, 0] + y, backend=backend, casting="exact")
    argument, *expected = row
    for _ in range(2):  # a failed call must not let the next one pass
        error = refused(lambda: f(argument(), ones(2)), *expected)
        assert error.__cause__ is None
    assert f.stats().calls == 0 and not f.stats().compilations
    assert f(ones(2, 3), ones(2)).tolist() == [2, 2]
    refused(lambda: f(argument(), ones(2)), *expected)
    assert f.stats().calls == 1


@both
def test_arrays_of_jax_and_subclasses_of_numpy_arrays_are_taken(backend):
    f = graphc.function([x, y], x[:, 0] + y, backend=backend)
    for a in (jnp.ones((2, 3)), ones(2, 3).view(Subclass), Arrayish()):
        out = f(a, jnp.ones(2))
        assert out.tolist() == [2, 2] and not isinstance(out, Subclass)
    first = "input x has another dtype"
    refused(lambda: f(np.ones((2, 3)).view(Subclass), ones(2)), first, "got: float64[")


class Subclass(np.ndarray):
    """An array subclass, like `numpy.memmap` or `numpy.matrix`."""


class Arrayish:
    """An object that NumPy can convert to an array."""

    def __array__(self, dtype=None, copy=None):
        return ones(2, 3)


# Calls that do not match the inputs.

INPUTS = "expected: x: float32[n, 3], y: float32[n]"


@both
def test_calls_that_do_not_match_the_inputs(backend):
    f = graphc.function([x, y], x[:, 0] + y, backend=backend)
    a, b = ones(2, 3), ones(2)
    refused(lambda: f(a), "call: missing inputs: y", INPUTS)
    refused(lambda: f(), "call: missing inputs: x, y", INPUTS)
    refused(lambda: f(y=b), "call: missing inputs: x", INPUTS)
    refused(lambda: f(a, b, b), "call: 3 arguments for 2 inputs", INPUTS)
    refused(lambda: f(a, x=a), "call: input 'x' is given twice", INPUTS)
    refused(lambda: f(a, b, y=b), "call: input 'y' is given twice", INPUTS)
    refused(lambda: f(a, z=b), "call: there is no input called 'z'", INPUTS)
    assert f(a, y=b).tolist() == f(y=b, x=a).tolist() == [2, 2]
    assert f.stats().calls == 2


@both
def test_a_misspelled_input(backend):
    f = graphc.function({"weights": y}, y + 1, backend=backend)
    first = "call: there is no input called 'weight'"
    refused(lambda: f(weight=ones(2)), first, "hint: is 'weights' meant?")
    assert f(weights=ones(2)).tolist() == [2, 2]


@both
def test_inputs_of_the_same_name_are_given_in_order(backend):
    a, b = (gt.tensor("a", "float32", (2,)) for _ in range(2))
    f = graphc.function([a, b], a - b, backend=backend)
    assert f(ones(2), 2 * ones(2)).tolist() == [-1, -1]
    first = "call: 2 inputs are called 'a'"
    refused(lambda: f(ones(2), a=ones(2)), first, "hint: give them in order")


@both
def test_messages_use_the_names_that_calls_use(backend):
    f = graphc.function({"rows": x, "bias": y}, x[:, 0] + y, backend=backend)
    first = "axis 0 of input bias has 3 elements, not n = 2"
    where = "where n is from axis 0 of input rows"
    refused(lambda: f(ones(2, 3), ones(3)), first, where)
    refused(lambda: f(rows=ones(2, 4), bias=ones(2)), "input rows has another size")


@both
def test_defaults_dicts_and_keywords(backend):
    inputs = {"of": y, "count": graphc.Input(k, default=2)}
    f = graphc.function(inputs, {"head": y[:k], "n": y.shape[0]}, backend=backend)
    for found in (f(ones(3)), f(ones(3), 2), f(count=2, of=ones(3)), f(of=ones(3))):
        assert list(found) == ["head", "n"]
        assert found["head"].tolist() == [1, 1] and np.asarray(found["n"]) == 3
    assert f(ones(3), count=1)["head"].shape == (1,)
    refused(lambda: f(count=1), "call: missing inputs: of")
    behind = graphc.function([graphc.Input(k, default=2), y], y[:k], backend=backend)
    refused(lambda: behind(ones(3)), "call: missing inputs: y")
    assert behind(y=ones(3)).shape == (2,)


@both
def test_inputs_may_be_called_like_parameters_of_ours(backend):
    f = graphc.function({"self": y, "args": k}, y[:k], backend=backend)
    assert f(self=ones(3), args=1).shape == (1,)


# Integers that are sizes.


@both
@pytest.mark.parametrize(
    ("size", "first", "got"),
    [
        (2.0, "input k has another dtype", "float[]"),
        (2.5, "input k has another dtype", "float[]"),
        (True, "input k has another dtype", "bool[]"),
        (np.True_, "input k has another dtype", "bool[]"),
        (np.float64(2), "input k has another dtype", "float64[]"),
        (np.int32(2), "input k has another dtype", "int32[]"),
        (np.array(2, "uint8"), "input k has another dtype", "uint8[]"),
        (np.array(2, object), "input k has another dtype", "object[]"),
        (np.array([2]), "input k has 1 axes, not 0", "int64[1]"),
        ("2", "input k is no array", "str"),
        ([2], "input k is no array", "list"),
        (None, "input k is no array", "NoneType"),
        (2**63, f"input k is out of range: {2**63} does not fit int64", "int[]"),
        (2**70, f"input k is out of range: {2**70} does not fit int64", "int[]"),
    ],
    ids=repr,
)
def test_sizes_that_are_no_integers(backend, size, first, got):
    f = graphc.function([k], gt.zeros(k), backend=backend, casting="exact")
    place = f"expected: int64[], declared at {HERE}:{line_of('k')}"
    refused(lambda: f(size), first, f"got: {got}", place)
    assert f(3).shape == (3,)
    refused(lambda: f(size), first, f"got: {got}", place)


@both
@pytest.mark.parametrize(
    "three", [3, np.int64(3), np.array(3), jnp.asarray(3)], ids=lambda n: str(type(n))
)
def test_sizes_that_are_integers(backend, three):
    """A weak JAX array counts as the Python number that it was made from."""
    f = graphc.function([k], gt.zeros(k), backend=backend, casting="exact")
    assert f(three).shape == (3,)
    if isinstance(three, jax.Array):
        first = "input k has another dtype"
        refused(lambda: f(three.astype("int32")), first, "got: int32[]")
        refused(lambda: f(jnp.asarray(3.0)), first)


@both
def test_negative_sizes(backend):
    f = graphc.function([k], gt.zeros(k), backend=backend)
    refused(
        lambda: f(-1),
        "zeros: a size must not be negative: needs 0 <= k; got -1",
        f"asked for by {HERE}:",
        "arguments: k: -1",
    )
    assert f(0).shape == (0,)
    f = graphc.function([y], gt.zeros(y.shape[0] - 5), backend=backend)
    first = "zeros: a size must not be negative: needs 0 <= n - 5; got -2"
    refused(lambda: f(ones(3)), first, "arguments: y: float32[3]")
    assert f(ones(6)).shape == (1,)


@both
def test_minus_one_that_does_not_divide(backend):
    f = graphc.function([x, k], x.reshape((k, -1)), backend=backend)
    first = "reshape: cannot reshape (n, 3) into (k, (3*n)//k): needs "
    refused(
        lambda: f(ones(4, 3), 5),
        f"{first}(3*n) % k == 0; got 2",
        f"asked for by {HERE}:",
        "arguments: x: float32[4, 3], k: 5",
    )
    negative = "reshape: a size must not be negative; -1 is worked out in a constant "
    negative += "or a vector: needs 0 <= k; got -"
    refused(lambda: f(ones(4, 3), -2), f"{negative}2")
    refused(lambda: f(ones(4, 3), -1), f"{negative}1")
    zero = "a size is divided by zero"
    error = refused(lambda: f(ones(4, 3), 0), zero, f"asked for by {HERE}:")
    assert error.__cause__ is None
    assert f(ones(4, 3), 6).shape == (6, 2)
    f = graphc.function([x], x.reshape((2, -1)), backend=backend)
    first = "reshape: cannot reshape (n, 3) into (2, (3*n)//2): "
    refused(lambda: f(ones(3, 3)), f"{first}needs 2*((3*n)//2) == 3*n; got 8 and 9")
    assert f(ones(2, 3)).shape == (2, 3)


@both
def test_shapes_that_turn_out_not_to_agree(backend):
    f = graphc.function([y], y[:-1] + y[1:3], backend=backend)
    with pytest.raises(graphc.CallError) as caught:
        f(ones(5))
    first = str(caught.value).splitlines()[0]
    assert first.startswith("add: shapes do not broadcast: needs ")
    assert first.endswith("; got 4 and 2")
    assert f(ones(3)).tolist() == [2, 2]
    assert f.stats().calls == 1


@both
def test_a_mask_of_another_length(backend):
    mask = gt.tensor("mask", "bool", ("m",))
    f = graphc.function([y, mask], y[mask], backend=backend)
    refused(
        lambda: f(ones(3), np.ones(4, bool)),
        "index: axis 0 of the mask bool[m] must have n elements: needs m == n; "
        "got 4 and 3",
        f"asked for by {HERE}:",
        "arguments: y: float32[3], mask: bool[4]",
    )
    assert f(ones(3), np.ones(3, bool)).shape == (3,)


@both
def test_the_function_that_the_user_called_is_named(backend):
    """The error does not name the primitives that the function is composed of."""
    low = gt.tensor("low", "float32", ("m",))
    f = graphc.function([y, low], gt.clip(y, low, 1), backend=backend)
    first = "clip: shapes do not broadcast: needs n == m; got 3 and 2"
    refused(lambda: f(ones(3), ones(2)), first, "arguments: y: float32[3], low: ")


@both
def test_a_constant_index_that_turns_out_to_be_out_of_bounds(backend):
    f = graphc.function([y], [y[5], y[-2]], backend=backend)
    first = "index: index 5 is out of bounds for an axis of size n: needs 6 <= n"
    refused(lambda: f(ones(3)), f"{first}; got 3", "arguments: y: float32[3]")
    assert f(np.arange(7, dtype="float32")) == [5, 5]


# Numbers.


@both
@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("bool", [True, np.True_], [1, 0.0, np.int64(1)]),
        ("int8", [-128, np.int8(3)], [128, -129, True, 1.0, np.int64(3)]),
        ("uint8", [255, np.uint8(3)], [256, -1, 1.0]),
        ("int32", [2**31 - 1, np.int32(3)], [2**31, 2**40, np.int64(3), 1.0]),
        ("uint32", [2**32 - 1], [2**32, -1]),
        ("int64", [2**62, -(2**63), np.int64(3)], [2**63, 1.0, np.int32(3)]),
        ("uint64", [2**64 - 1], [2**64, -1]),
        ("float16", [1, 1.5, np.float16(1)], [np.float32(1), 1j, True]),
        ("bfloat16", [1, 1.5], [np.float32(1), True]),
        (
            "float32",
            [1, 1.5, 2**40, np.float32(1), np.array(1, "float32")],
            [np.float64(1), np.array(1.0), np.int64(1), np.float16(1), True, 10**400],
        ),
        ("float64", [1, 0.1, np.float64(0.1)], [np.float32(1), np.int64(1), True]),
        ("complex64", [1, 1.5, 1j, np.complex64(1)], [np.complex128(1), True]),
        ("complex128", [1, 0.1, 1j], [np.complex64(1)]),
    ],
    ids=str,
)
def test_scalars_keep_their_dtype_or_raise(backend, dtype, good, bad):
    """Python numbers fit if their kind does; NumPy's have a dtype of their own."""
    v = gt.tensor("v", dtype, ())
    outputs = [v, gt.where(v == v, v, v)]
    f = graphc.function([v], outputs, backend=backend, casting="exact")
    for number in good:
        for out in map(np.asarray, f(number)):
            assert out.dtype.name == dtype and out == np.asarray(number).astype(dtype)
    for number in bad:
        with pytest.raises(graphc.CallError, match=r"^input v (has another|is out of)"):
            f(number)
    assert f.stats().calls == len(good)
    assert not jax.config.jax_enable_x64


def test_scalars_compile_once_per_kind():
    f = graphc.function([y, s], y * s)
    for number in (1.5, 2.5, 3, np.float32(4)):
        f(ones(2), number)
    assert len(f.stats().compilations) <= 2


@both
@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "complex128"])
def test_wide_dtypes_are_exact_without_a_global_flag(backend, dtype):
    v = gt.tensor("v", dtype, ("n",))
    c = gt.tensor("c", dtype, ())
    exact = np.array([0.1, 3.0]) if dtype[0] in "fc" else np.array([2**53 + 1, 3])
    exact = exact.astype(dtype)
    f = graphc.function([v, c], [v, v * c, c], backend=backend, casting="exact")
    for number in (3, exact[0], exact[0].item()):
        same, scaled, alone = map(np.asarray, f(exact, number))
        exactly = exact.dtype.type(number)
        assert {a.dtype.name for a in (same, scaled, alone)} == {dtype}
        assert same.tolist() == exact.tolist() and alone == exactly
        assert scaled.tolist() == (exact * exactly).tolist()
    narrow = {"float64": "float32", "complex128": "complex64"}.get(dtype, "int32")
    with pytest.raises(graphc.CallError, match="input v has another dtype"):
        f(exact.astype(narrow), 3)
    assert not jax.config.jax_enable_x64


@both
def test_wide_constants_and_inputs_that_are_outputs_stay_wide(backend):
    f = graphc.function([wide, k], [np.ones(2), 3, wide, k], backend=backend)
    out = f(np.full(2, 0.1), 2**40)
    assert [a.dtype.name for a in out] == ["float64", "int64", "float64", "int64"]
    assert [np.asarray(a).tolist() for a in out] == [[1, 1], 3, [0.1, 0.1], 2**40]
    kind = jax.Array if backend == "jax" else np.ndarray
    assert all(isinstance(a, kind) for a in out)
    f = graphc.function([wide, s], [wide, s], backend=backend)  # nothing to compute
    assert [a.dtype.name for a in f(np.ones(2), 1)] == ["float64", "float32"]
    assert all(isinstance(a, kind) for a in f(np.ones(2), 1))
    f = graphc.function([y], [y, np.ones(2), 3], backend=backend)
    assert [a.dtype.name for a in f(ones(1))] == ["float32", "float64", "int64"]


# Sizes that are far too large: XLA would end the process.


@both
@rows(
    (lambda: gt.zeros((k, k, k)), "zeros: the float32 array is too large for "),
    (lambda: gt.full((k, k, 2), s), "full: the float32 array is too large for "),
    (lambda: gt.tile(s, (k, k, k)), "tile: the float32 array is too large for "),
    (lambda: gt.broadcast_to(s, (k, 4, k)), "broadcast_to: the float32 array is too "),
)
def test_arrays_that_nothing_can_hold(backend, row):
    build, first = row
    f = graphc.function([k, s], gt.sum(build()) + s, backend=backend)
    assert f(2, 0).ndim == 0
    with pytest.raises(graphc.CallError, match=f"^{re.escape(first)}"):
        f(2**31, 0)


K64 = gt.tensor("k", "int64", ())


@rows(
    (lambda: gt.zeros(K64), "zeros: the float32 array", "k <= 68719476736"),
    (lambda: gt.arange(K64), "arange: the int64 array", "max(0, k) <= 34359738368"),
    (lambda: gt.tile(gt.ones(2), K64), "tile: the float32 array", "2*k <= 68719476736"),
    (lambda: gt.repeat(gt.ones(2), K64), "repeat: the float32 array", "2*k"),
    (lambda: gt.pad(gt.ones(2), (0, K64)), "pad: the float32 array", "k + 2 <="),
)
def test_arrays_that_no_machine_holds(row):
    build, first, needs = row
    f = graphc.function([K64], build(), backend="numpy")
    assert f(3).ndim == 1
    with pytest.raises(graphc.CallError) as caught:
        f(10**12)
    text = str(caught.value)
    limit = "is too large for graphc.config.max_bytes = 274877906944"
    assert text.startswith(f"{first} {limit}: needs {needs}")
    assert "asked for by test_calls.py" in text


@rows(
    (lambda: gt.eye(k), "eye: the float32 array is too large for "),
    (lambda: gt.arange(k)[:, None] + gt.arange(k), "add: the array is too large: "),
)
def test_stretched_arrays_that_nothing_can_hold(row):
    """JAX raises before it computes anything; NumPy would make the ranges first."""
    build, first = row
    f = graphc.function([k], gt.sum(build()), backend="jax")
    with pytest.raises(graphc.CallError, match=f"^{re.escape(first)}"):
        f(2**31)


@both
@rows(
    (lambda n: gt.eye(n), "eye: the float32 array", "k*k <= 68719476736"),
    (lambda n: gt.tri(n, 2 * n), "tri: the float32 array", "2*k*k <= 68719476736"),
    (
        lambda n: gt.nn.one_hot(gt.zeros(2**20, "int32"), n, "int8"),
        "nn.one_hot: the int8 array",
        "1048576*k <= 274877906944",
    ),
    (
        lambda n: gt.fft.fft(gt.ones((2**18, 2)), n=n),
        "fft.fft: the float32 array",
        "262144*k <= 68719476736",
    ),
)
def test_comparisons_that_no_machine_holds(backend, row):
    """Even for few numbers: XLA ends the process when memory runs out."""
    build, first, needs = row
    f = graphc.function([K64], build(K64), backend=backend)
    assert f(3).size
    limit = "is too large for graphc.config.max_bytes = 274877906944"
    with pytest.raises(graphc.CallError) as caught:
        f(10**6)
    assert str(caught.value).startswith(f"{first} {limit}: needs {needs}")
    with pytest.raises(graphc.GraphError, match=f"^{first} {limit}: "):
        build(10**6)


def test_sizes_of_arguments_need_no_such_check():
    f = graphc.function([x], gt.zeros_like(x) + gt.arange(x.shape[0])[:, None])
    assert "too large" not in f.source
