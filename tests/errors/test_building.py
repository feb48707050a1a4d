"""Bad input while a graph is built: the error raised, and that it says how to act."""

import functools
import runpy
import traceback

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import errors
from tests.errors.messages import raised, rows

x = gt.tensor("x", "float32", ("n", 3))
y = gt.tensor("y", "float32", ("n",))
w = gt.tensor("w", "float32", (4, 2))
i = gt.tensor("i", "int32", (3,))
byte = gt.tensor("byte", "uint8", (3,))
k = gt.iscalar("k")
four = gt.tensor("four", "bool", (4,))
s = gt.scalar("s")
OBJECTS = np.array([1, None, 2], dtype=object)
MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])


@rows(
    (
        lambda: x @ w,
        "matmul: the inner sizes must agree: 3 and 4 differ",
        "got: float32[n, 3], float32[4, 2]",
        "hint: the last axis on the left must match",
    ),
    (
        lambda: w + np.ones(3, "float32"),
        "add: shapes do not broadcast: 2 and 3 differ",
        "got: float32[4, 2], float32[3]",
        "hint: sizes must be equal, or one of them 1",
    ),
    (
        lambda: gt.where(w > 0, i, 0),
        "where: shapes do not broadcast: 2 and 3 differ",
        "got: bool[4, 2], ",
    ),
    (
        lambda: gt.concatenate([x, w]),
        "concatenate: sizes of axis 1: 3 and 2 differ",
        "got: float32[n, 3], float32[4, 2]",
    ),
    (
        lambda: gt.broadcast_to(w, (3, 2)),
        "broadcast_to: cannot broadcast to (3, 2): 4 and 3 differ",
        "got: float32[4, 2]",
    ),
    (
        lambda: w.reshape((3, 3)),
        "reshape: cannot reshape (4, 2) into (3, 3): 9 and 8 differ",
        "got: float32[4, 2]",
    ),
    (
        lambda: w.at[0].set(np.zeros(3)),
        "set: the update does not fit: 3 and 2 differ",
        "got: float32[4, 2], float32[3]",
    ),
    (
        lambda: gt.squeeze(x, axis=1),
        "squeeze: cannot squeeze axis 1: 3 and 1 differ",
        "got: float32[n, 3]",
    ),
    (
        lambda: w[np.array([True, False])],
        "index: axis 0 of the mask has size 2 where axis 0 of the array has 4",
        "got: array float32[4, 2], the symbolic value w; mask bool[2]",
        "hint: a mask has the sizes of the axes that it stands for",
    ),
    (
        lambda: w[:, four],
        "index: axis 0 of the mask has size 4 where axis 1 of the array has 2",
        "got: array float32[4, 2], the symbolic value w; mask bool[4], the symbolic "
        "value four",
    ),
    (
        lambda: gt.clip(w, np.zeros(3, "float32"), 1),
        "clip: shapes do not broadcast: 2 and 3 differ",
        "got: float32[4, 2], float32[3]",
    ),
    (
        lambda: gt.full((3,), w),
        "full: cannot broadcast to (3,): it has fewer axes",
        "got: float32[4, 2]",
    ),
    (
        lambda: gt.cov(x, aweights=np.zeros(4)),
        "cov: axis 0 of float32[4] must have 3 elements: 4 and 3 differ",
    ),
    (
        lambda: y[gt.tensor("m", "bool", ()), [0, 1]],
        "index: a mask of rank 0 whose value is not known cannot stand beside index "
        "arrays: their shapes fit for only one of its values",
        "got: float32[n] with mask bool[]",
        "hint: choose the elements first, x[i][mask], or use gt.where",
    ),
    (lambda: y[::0], "index: a slice step cannot be 0"),
    (
        lambda: gt.pad(w, (-3, -2)),
        "pad: negative widths crop more than axis 0 has: "
        "0 is more than -1",
        "got: float32[4, 2]",
    ),
    (
        lambda: gt.pad(w, -1, "edge"),
        "pad: negative pad width -1 in mode 'edge'",
        "hint: only mode 'constant' crops; slice first, x[1:-1]",
    ),
    (lambda: gt.stack(()), "stack: needs at least one array"),
    (lambda: gt.hstack([]), "concatenate: needs at least one array"),
    (lambda: gt.choose(0, ()), "choose: needs 1 to 63 choices, not 0"),
)
def test_shapes_that_cannot_agree(row):
    raised(*row)


@rows(
    (
        lambda: gt.zeros(-2),
        "zeros: negative size -2",
        "got: shape (-2,)",
        "hint: sizes are 0 or more",
    ),
    (lambda: gt.zeros((2, -3)), "zeros: negative size -3", "got: shape (2, -3)"),
    (lambda: w.reshape(-2), "reshape: negative size -2", "got: shape (-2,)"),
    (
        lambda: gt.tensor("a", "float32", (-3,)),
        "tensor: negative size -3",
        "got: shape (-3,)",
    ),
    (lambda: gt.linspace(0, 1, -1), "linspace: negative size -1"),
    (
        lambda: gt.zeros(2.5),
        "zeros: a size must be an integer scalar",
        "got: float 2.5",
        "hint: convert it",
    ),
    (
        lambda: gt.zeros(s),
        "zeros: a size must be an integer scalar",
        "got: float32[]",
        'hint: convert it: int(n), or n.astype("int64")',
    ),
    (
        lambda: gt.zeros(k / 2),
        "zeros: a size must be an integer scalar",
        "got: float64[]",
        "hint: write a // b, which gives an integer",
    ),
    (
        lambda: y[: y.shape[0] / 2],
        "index: a slice bound must be an integer scalar",
        "got: weak float64[]",
        "hint: write a // b, which gives an integer",
    ),
    (
        lambda: gt.zeros(True),
        "zeros: a size must be an integer scalar",
        "got: bool True",
    ),
    (
        lambda: gt.zeros(s > 0),
        "zeros: a size must be an integer scalar",
        "got: bool[]",
    ),
    (
        lambda: gt.zeros("n"),
        "zeros: a size must be an integer scalar",
        "got: str 'n'",
    ),
    (
        lambda: gt.zeros((y, 2)),
        "zeros: a size must be an integer scalar",
        "got: float32[n]",
    ),
    (
        lambda: x[:2.0],
        "index: a slice bound must be an integer scalar",
        "got: float 2.0",
    ),
    (
        lambda: x[:s],
        "index: a slice bound must be an integer scalar",
        "got: float32[]",
    ),
    (
        lambda: x.reshape((True, -1)),
        "reshape: a size must be an integer scalar",
        "got: bool True",
    ),
)
def test_sizes_that_are_none(row):
    raised(*row)


@rows(
    (
        lambda: w.reshape((3, -1)),
        "reshape: -1 cannot stand for 8 elements in rows of 3",
        "got: float32[4, 2] into (3, -1)",
        "hint: the other sizes must multiply to a divisor of 8",
    ),
    (
        lambda: w.reshape((0, -1)),
        "reshape: -1 cannot stand for 8 elements in rows of 0",
        "got: float32[4, 2] into (0, -1)",
    ),
    (
        lambda: w.reshape((-1, -1)),
        "reshape: only one size may be -1",
        "got: (-1, -1)",
    ),
)
def test_minus_one_that_cannot_be_worked_out(row):
    raised(*row)


AXIS = "got: a value of rank 2", "expected: an axis from -2 to 1"


@rows(
    (lambda: gt.sum(x, axis=2), "sum: axis 2 is out of range", *AXIS),
    (lambda: gt.sum(x, axis=-3), "sum: axis -3 is out of range", *AXIS),
    (lambda: gt.cumsum(x, axis=2), "cumsum: axis 2 is out of range", *AXIS),
    (lambda: gt.argmax(x, axis=2), "argmax: axis 2 is out of range", *AXIS),
    (lambda: gt.concatenate([x, x], 2), "concatenate: axis 2 is out of range", *AXIS),
    (lambda: gt.split(x, 3, axis=2), "split: axis 2 is out of range", *AXIS),
    (lambda: gt.transpose(x, (0, 2)), "transpose: axis 2 is out of range", *AXIS),
    (lambda: gt.expand_dims(x, 5), "expand_dims: axis 5 is out of range"),
    (lambda: gt.stack([x, x], 4), "stack: axis 4 is out of range"),
    (
        lambda: gt.sum(s, axis=0),
        "sum: axis 0 is out of range",
        "got: a value of rank 0",
        "expected: no axis",
    ),
    (
        lambda: gt.sum(x, axis=(0, -2)),
        "sum: an axis is named twice",
        "got: axis (0, -2)",
    ),
    (lambda: gt.sum(x, axis=1.0), "sum: an axis must be an integer", "got: axis 1.0"),
    (lambda: gt.sum(x, axis=True), "sum: an axis must be an integer", "got: axis True"),
    (lambda: gt.sum(x, axis=k), "sum: an axis must be an integer", "got: axis <k: "),
    (
        lambda: gt.transpose(x, (0, 0)),
        "transpose: axes must name every axis once",
        "got: (0, 0)",
    ),
)
def test_axes_that_are_not_there(row):
    raised(*row)


@rows(
    (lambda: w[4], "index: index 4 is out of bounds for an axis of size 4"),
    (lambda: w[-5], "index: index -5 is out of bounds for an axis of size 4"),
    (lambda: w[[0, 4]], "index: index 4 is out of bounds for an axis of size 4"),
    (lambda: w[[0, -5]], "index: index -5 is out of bounds for an axis of size 4"),
    (lambda: w[np.array([9])], "index: index 9 is out of bounds for an axis of size 4"),
    (lambda: w[np.int64(4)], "index: index 4 is out of bounds for an axis of size 4"),
    (lambda: w[0, 2], "index: index 2 is out of bounds for an axis of size 2"),
    (lambda: w.at[4].set(0), "index: index 4 is out of bounds for an axis of size 4"),
    (lambda: w.at[[4]].add(0), "index: index 4 is out of bounds for an axis of size 4"),
    (
        lambda: gt.take(w, [4], axis=0),
        "index: index 4 is out of bounds for an axis of size 4",
    ),
)
def test_constant_indices_out_of_bounds(row):
    *_, n = row[1].split()
    hint = f"hint: indices go from -{n} to {int(n) - 1}; a slice may go beyond"
    raised(*row, "got: float32[4, 2]", hint)


@rows(
    (lambda: x[[0], [3]], "index: index 3 is out of bounds for an axis of size 3"),
    (lambda: x[x.shape[0]], "index: index n is out of bounds for an axis of size n"),
)
def test_constant_indices_out_of_bounds_of_symbolic_shapes(row):
    raised(*row, "got: float32[n, 3]", "hint: indices go from -")


def test_constant_indices_into_nothing():
    raised(
        lambda: w[:0][0],
        "index: index 0 is out of bounds for an axis of size 0",
        "hint: the axis has no element; a slice of it is allowed, and is empty",
    )


@rows(
    (lambda: w[0, 0, 0], "index: too many indices", "got: 3 for float32[4, 2]"),
    (lambda: w[..., ...], "index: an index can have only one ellipsis"),
    (
        lambda: w[1.0],
        "index: indices must be integers, slices, None, ... or bool arrays",
        "got: float32[]",
    ),
    (lambda: w[::0], "index: a slice step cannot be 0"),
)
def test_indices_that_are_none(row):
    raised(*row)


@rows(
    (
        lambda: gt.asarray(OBJECTS),
        "asarray: arrays of dtype object are not supported",
        "got: ndarray of shape (3,)",
        "hint: give numbers alone: these are objects of Python",
    ),
    (lambda: x + OBJECTS, "add: arrays of dtype object are not supported"),
    (lambda: OBJECTS - x, "arrays of dtype object are not supported"),
    (lambda: x * None, "mul: neither an array nor a number", "got: None"),
    (lambda: x + "a", "add: neither an array nor a number", "got: 'a'"),
    (
        lambda: x + np.array(["a"]),
        "add: arrays of dtype <U1 are not supported",
        'hint: x.astype("float64") converts text that holds numbers',
    ),
    (
        lambda: x * raised,
        "mul: neither an array nor a number",
        "got: <function raised",
        "hint: call it first: a function is not a value",
    ),
    (lambda: x[OBJECTS], "index: arrays of dtype object are not supported"),
    (
        lambda: x + np.array(["2020-01-01"], "M8[D]"),
        "add: arrays of dtype datetime64[D] are not supported",
    ),
    (
        lambda: x + MASKED,
        "add: a masked array would lose its mask",
        "got: MaskedArray of shape (3,)",
        "hint: fill it with numpy.ma.filled(x, value), or give x.data and x.mask",
    ),
    (
        lambda: gt.asarray([MASKED, MASKED]),
        "asarray: a masked array would lose its mask",
        "got: list of shape (2, 3)",
    ),
)
def test_arrays_of_no_number(row):
    raised(*row)


def test_masked_arrays_that_mask_nothing_are_arrays():
    assert gt.asarray(np.ma.array([1.0, 2.0])).type.shape == (2,)


def test_ragged_lists():
    hint = "hint: make rows equally long"
    raised(lambda: gt.asarray([[1], [1, 2]]), "asarray: not an array", hint)


DTYPES = "hint: use one of bool, int8, int16, int32"


@rows(
    (
        lambda: gt.tensor("a", "float128", (3,)),
        "tensor: dtype float128 is not supported",
        DTYPES,
    ),
    (lambda: gt.tensor("a", "real", (3,)), "tensor: unknown dtype 'real'", DTYPES),
    (lambda: gt.tensor("a", None, (3,)), "tensor: unknown dtype None", DTYPES),
    (lambda: gt.tensor("a", [1], (3,)), "tensor: unknown dtype [1]", DTYPES),
    (lambda: gt.zeros(3, object), "zeros: dtype object is not supported", DTYPES),
    (lambda: x.astype("U3"), "astype: dtype U3 is not supported", DTYPES),
)
def test_dtypes_that_are_not_supported(row):
    if "float128" in row[1] and not hasattr(np, "float128"):
        row = row[0], "tensor: unknown dtype 'float128'", DTYPES
    raised(*row)


@rows(
    (
        lambda: gt.tensor("a", "float32", ("n+",)),
        "tensor: cannot read the size 'n+': invalid syntax",
        'hint: give a name or a formula in names, such as "n" or "2*n + 1"',
    ),
    (
        lambda: gt.tensor("a", "float32", ("__import__('os')",)),
        "tensor: cannot read the size \"__import__('os')\": only numbers, names, "
        "+ - * // %, min, max and clip may be used",
    ),
    (
        lambda: gt.tensor("a", "float32", (k,)),
        "tensor: axis 0 of a variable cannot have the size k, which is a value",
        "hint: name the size",
    ),
    (
        lambda: gt.tensor(3, "float32", (2,)),
        "tensor: the name of a variable must be text",
        "got: 3",
    ),
)
def test_variables_that_cannot_be_made(row):
    raised(*row)


@rows(
    (
        lambda: x + 2**64,
        "add: the integer 18446744073709551616 fits neither int64 nor uint64",
        "hint: beside floats, write 1.8446744073709552e+19",
    ),
    (
        lambda: x + 10**400,
        "add: an integer of 1329 bits fits neither int64 nor uint64",
    ),
    (
        lambda: gt.add(2**70, 1),
        f"add: the integer {2**70} fits neither int64 nor uint64",
    ),
    (
        lambda: gt.sin(2**70),
        f"sin: the integer {2**70} fits neither int64 nor uint64",
    ),
    (
        lambda: i + 2**63,
        "add: the integer 9223372036854775808 does not fit int32",
        'hint: widen the other operand first: x.astype("uint64")',
    ),
    (
        lambda: gt.where(x > 0, 2**63, 1),
        "where: the integer 9223372036854775808 does not fit int64",
        'hint: widen the other operand first: x.astype("uint64")',
    ),
    (
        lambda: i + 2**31,
        "add: the integer 2147483648 does not fit int32",
        'hint: widen the other operand first: x.astype("int64")',
    ),
    (lambda: byte + 256, "add: the integer 256 does not fit uint8"),
    (lambda: -1 - byte, "sub: the integer -1 does not fit uint8"),
    (lambda: gt.full((2,), 300, "uint8"), "full: the integer 300 does not fit uint8"),
)
def test_integers_that_overflow(row):
    raised(*row)


@rows(
    (
        lambda: len(x),
        "len: the length n is symbolic",
        "got: float32[n, 3]",
        "hint: use x.shape[0]",
    ),
    (
        lambda: [row for row in x],
        "iter: cannot iterate over an axis of symbolic size n",
        "got: float32[n, 3]",
        "hint: compute on the whole array",
    ),
    (lambda: [*x], "iter: cannot iterate over an axis of symbolic size n"),
    (
        lambda: len(s),
        "len: a value of rank 0 has no length and no elements",
        "got: float32[]",
        "hint: use the value itself, or gt.atleast_1d(x)",
    ),
    (
        lambda: [row for row in s],
        "iter: a value of rank 0 has no length and no elements",
        "got: float32[]",
    ),
    (lambda: 3 in s, "iter: a value of rank 0 has no length and no elements"),
    (lambda: 3 in x, "iter: cannot iterate over an axis of symbolic size n"),
    (
        lambda: x.__setitem__(0, 1),
        "index: values are never changed",
        "got: float32[n, 3]",
        "hint: write y = x.at[index].set(value)",
    ),
    (
        lambda: x.__delitem__(0),
        "index: values are never changed",
        "got: float32[n, 3]",
        "hint: write y = gt.delete(x, index), which gives a new value",
    ),
)
def test_uses_that_need_the_numbers(row):
    raised(*row)


ARRAY = np.ones(3, "float32")
NO_NUMBER = "a symbolic value has no number before the function is called"
VECTORIZED = f"numpy.vectorize: {NO_NUMBER}"
IN_ARRAYS = "hint: write it for whole arrays, with gt.where(condition, a, b) in place"


@rows(
    (
        lambda: np.subtract.reduce(y),
        "numpy.subtract.reduce: takes no symbolic values",
        "hint: use the functions of graphc.tensor",
    ),
    (lambda: np.vectorize(abs)(y), VECTORIZED, IN_ARRAYS),
    (lambda: np.vectorize(sum, signature="(n)->()")(y), VECTORIZED, IN_ARRAYS),
    (lambda: np.frompyfunc(abs, 1, 1)(y), f"numpy.frompyfunc: {NO_NUMBER}", IN_ARRAYS),
    (lambda: np.array_repr(y), "numpy.array_repr: takes no symbolic values"),
    (
        lambda: np.sum(y, out=ARRAY),
        "numpy.sum: got an unexpected keyword argument 'out'",
        "hint: values are never written to: take the result",
    ),
    (
        lambda: np.add(y, 1, dtype="int32"),
        "numpy.add: got an unexpected keyword argument 'dtype'",
    ),
    (
        lambda: ARRAY.__iadd__(y),
        "numpy.add: cannot write a symbolic value into an array",
        "hint: write a = a + x, which gives a new value",
    ),
    (lambda: np.sum(y, 7), "sum: axis 7 is out of range"),
)
def test_functions_of_numpy_that_take_no_values(row):
    raised(*row)


def test_axes_of_static_size_can_be_iterated_over():
    assert [row.type.shape for row in w] == [(2,)] * 4
    assert len(w) == 4


def test_long_lines_of_code_are_cut():
    with pytest.raises(graphc.GraphError) as caught:
        gt.sum(x, axis=2) + gt.sum(x, axis=2) + gt.sum(x, axis=2) + gt.sum(x, axis=2) + x + x + x  # noqa: E501
    code = caught.value.args[0].splitlines()[-1].split(": ", 1)[1]
    assert code.endswith("...") and len(code) == 100


def test_lines_with_odd_characters_do_no_harm(tmp_path):
    """The user's file has a tab, a form feed, quotes and no UTF-8 in its lines."""
    path = tmp_path / "odd\x0cname.py"
    code = (
        b"# -*- coding: latin-1 -*-\n"
        b"import graphc, graphc.tensor as gt\n"
        b"x = gt.vector('\xe9\"\"\"'); f = graphc.function([x],\tx + 1)  # \xff '''\n"
        b"assert 'odd?name.py:3' in f.source\n"
        b"f = graphc.function([x], x + 1, backend='numpy')\n"
        b"assert 'odd?name.py:3' in f.source\n"
        b'\x0cgt.sum(x, axis=7)  # """ \xe9\n'
    )
    path.write_bytes(code)
    with pytest.raises(graphc.GraphError) as caught:
        runpy.run_path(path)
    printed = "".join(traceback.format_exception(caught.value)).rstrip()
    shown = str(path).replace("\x0c", "?")
    last = printed.splitlines()[-2]
    assert last.startswith(f"  at {shown}:7: gt.sum(x, axis=7)"), printed


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (
            lambda: gt.inv,
            "graphc.tensor has no function 'inv'; there is graphc.tensor.linalg.inv",
        ),
        (
            lambda: gt.special.sum,
            "graphc.tensor.special has no function 'sum'; there is graphc.tensor.sum",
        ),
        (lambda: gt.summ, "graphc.tensor has no function 'summ'; did you mean 'sum'?"),
        (
            lambda: gt.tensr,
            "graphc.tensor has no function 'tensr'; did you mean 'tensor'?",
        ),
        (
            lambda: graphc.functoin,
            "graphc has no attribute 'functoin'; did you mean 'function'?",
        ),
        (
            lambda: gt.linalg.sovle,
            "graphc.tensor.linalg has no function 'sovle'; did you mean 'solve'?",
        ),
        (lambda: gt.nothing_at_all, "graphc.tensor has no function 'nothing_at_all'"),
        (
            lambda: x.summ,
            "a symbolic value has no attribute 'summ'; did you mean 'sum'?",
        ),
        (
            lambda: x.shap,
            "a symbolic value has no attribute 'shap'; did you mean 'shape'?",
        ),
        (
            lambda: x.isin,
            "a symbolic value has no attribute 'isin'; write gt.isin(x, test_elements)",
        ),
        (
            lambda: x.set(0),
            "a symbolic value has no attribute 'set'; write x.at[index].set(value)",
        ),
        (
            lambda: x.at[0].sett,
            "x.at[index] has no attribute 'sett'; it has set, add, multiply, min, max",
        ),
        (
            lambda: x.nothing_at_all,
            "a symbolic value has no attribute 'nothing_at_all'",
        ),
    ],
    ids=lambda row: row[:60] if isinstance(row, str) else "",
)
def test_names_that_are_not_there(look, text):
    with pytest.raises(AttributeError) as caught:
        look()
    assert str(caught.value) == text


ABSURD = 10**30


@pytest.mark.parametrize(
    "build",
    [
        lambda: gt.zeros(ABSURD),
        lambda: gt.tensor("x", "float32", (ABSURD,)),
        lambda: gt.broadcast_to(1.0, (2, ABSURD)),
        lambda: gt.tile(gt.ones(2), ABSURD),
        lambda: gt.reshape(gt.vector("x"), (ABSURD,)),
        lambda: gt.linspace(0, 1, ABSURD),
        lambda: gt.scan(lambda c, _: (c, c), 0.0, None, length=ABSURD),
        lambda: gt.fori_loop(0, ABSURD, lambda i, c: c, 0.0),
    ],
)
def test_sizes_beyond_int64(build):
    with pytest.raises(graphc.GraphError, match=r"must fit int64\n  got: 1000000000"):
        build()


def test_slices_go_beyond_any_axis():
    x = gt.vector("x")
    f = graphc.function([x], x[-ABSURD:ABSURD], backend="numpy")
    assert f(np.ones(3, "float32")).tolist() == [1, 1, 1]


def test_constant_sizes_beyond_any_memory():
    with pytest.raises(graphc.GraphError) as caught:
        gt.zeros(10**12)
    first = str(caught.value).splitlines()[0]
    assert first == (
        "zeros: the float32 array is too large for graphc.config.max_bytes = "
        "274877906944: 1000000000000 is more than 68719476736"
    )
    assert "gt.zeros(10**12)" in str(caught.value)
    with pytest.raises(graphc.GraphError, match="float32 array is too large for"):
        gt.broadcast_to(1.0, (2**62, 2))
    long = gt.tensor("long", "float32", (2**40,))
    with pytest.raises(graphc.GraphError, match="more bytes than int64 holds"):
        long[:, None] * long


def test_the_limit_can_be_changed(monkeypatch):
    monkeypatch.setattr(graphc.config, "_max_bytes", 2**38)
    graphc.config.max_bytes = 2**45
    assert gt.zeros(10**12).shape == (10**12,)
    for wrong in (0, 1.5, True):
        with pytest.raises(graphc.GraphError, match="max_bytes is an integer"):
            graphc.config.max_bytes = wrong
    with pytest.raises(AttributeError, match="has no setting 'unused'; there are"):
        graphc.config.unused = "ignore"
    with pytest.raises(AttributeError, match="did you mean 'float'"):
        graphc.config.flaot = "float64"
    with pytest.raises(AttributeError, match="did you mean 'max_bytes'"):
        _ = graphc.config.maxbytes


def test_the_line_is_that_of_the_user_where_functools_stands_between():
    text = "@functools.cached_property\ndef asks(self): return user_place()"
    parts = {"functools": functools, "user_place": errors.user_place}
    exec(compile(text, errors.__file__, "exec"), parts)
    lazy = type("Lazy", (), {"asks": parts["asks"]})
    parts["asks"].__set_name__(lazy, "asks")
    place = lazy().asks
    assert place.code.strip() == "place = lazy().asks"
