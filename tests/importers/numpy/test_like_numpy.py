"""Views, copies, numbers and writes in NumPy functions, as with the installed NumPy.

NumPy itself is probed: nothing here states what it gives.
"""

import os
import re
import warnings

import numpy as np
import pytest

import graphc
from graphc.importers.numpy.names import _functions_of_numpy
from tests.importers.numpy.test_function import same, some
from tests.newest_numpy import IS_OLD

AS_NUMPY = (np.asarray,)  # stays NumPy's own, in a trace too
TABLE = np.array([3.0, 1.0, 2.0])
_LINE = re.compile(r"\n  at .*test_like_numpy\.py:\d+|\n  at <string>:1")


def outcome(function, *args):
    """The results of a call, or its exception."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)
    except Exception as error:
        return error


def like_numpy(function, *args):
    """Require NumPy's results, or an error of graphc that names the line.

    Returns whether there were results.
    """
    expected = outcome(function, *(a.copy() for a in args))
    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    results = outcome(ours, *(a.copy() for a in args))
    if isinstance(results, Exception):
        told = isinstance(results, graphc.GraphError) and _LINE.search(str(results))
        assert told or isinstance(expected, Exception), repr(results)
        return False
    assert not isinstance(expected, Exception), repr(expected)
    same(results, expected)
    return True


def flat_elements(x):
    y, z, w = np.outer(x, x), np.zeros((2, 3)), x * 2
    part = y.flat[1:3]
    y.flat[0], y.flat[2:] = 7, x[:2]
    part[0] = 5
    z.flat, w.flat = [x[0], 2], x[x > 9]
    return y, part, z, w, [e * 2 for e in z.flat]


def repeated_numbers(x):
    y, z, w, v = x * 1, np.array([1.0, 2, 3]), x * 2, np.arange(4.0)
    np.place(y, y > 0, [1, 2])
    np.place(z, z > 1, x[:1])
    np.putmask(w, w > 0, [7, 8])
    np.put(v, [0, 9], x[:2], mode="clip")
    v.put([-1], x[0], mode="wrap")
    np.put(y, [0, -1], [3])
    np.place(np.arange(3), TABLE > 9, [1, 2])
    return y, z, w, v


def diagonals(x):
    y, z = np.outer(x, x), np.zeros((4, 2))
    np.fill_diagonal(y, [1, 2])
    np.fill_diagonal(z, x[0], wrap=True)
    return y, z


def grids(x):
    n = x.shape[0]
    both, counted, (rows, columns) = np.mgrid[0:n, 0:3], np.mgrid[0:4], np.ogrid[:n, :2]
    both[0] += 1
    counted[0] = n
    joined = np.r_[0:4, 9]
    joined[1] = n
    return both, counted, rows, columns, joined, np.mgrid[0:1:3j, 0:n], np.ogrid[0:n:2]


def numbers_and_arrays(x):
    number, array = x.sum(), np.array(x.sum())
    same_number, same_array, copied = number, array, number.copy()
    number += 1
    array += 1
    copied += 1
    return number, same_number, array, same_array, copied, np.ascontiguousarray(number)


def layouts(x):
    y, z = np.zeros((2, 2), order="F"), np.zeros((2, x.shape[0]), order="F")
    y[0] = x[0]
    copied = np.array(z, order="F", ndmin=3)
    copied[0, 0] = x
    return y, z, copied, copied.nbytes, z.itemsize


def other_shapes(x):
    y = np.zeros(6)
    y.shape = (2, 3)
    y[0] = x[0]
    return y, y.T


def by_methods(x):
    y, z = x * 2, np.zeros(())
    y.clip(0, 1, out=y)
    x.sum(out=z)
    np.add(x, 0.5, out=np.zeros(x.shape[0], int), casting="unsafe")
    return y, z, np.arange(3).tolist(), y.conj() is y


def positions(x):
    y, z = x * 2, np.zeros((2, 2))
    for index, element in np.ndenumerate(z):
        z[index] = element + index[0] + x[0]
    return y, z


def elements_in_turn(x):
    y, z = x * 1, np.zeros((2, 2))
    for i, element in enumerate(y):
        y[(i + 1) % y.size] += element
    for element in z.flat:
        z[-1] += element + x[0]
    return y, z


def classes(x):
    number, n, y = x.sum(), x.shape[0], np.zeros(3)
    asked = [isinstance(a, np.ndarray) for a in (x, y, number, n, np.array(number))]
    asked += [isinstance(number, kind) for kind in (float, np.floating, int)]
    asked += [isinstance(x.argmax(), kind) for kind in (int, np.integer)]
    asked += [isinstance(n, int), isinstance(x, (list, float))]
    return [x[:1] * answer for answer in asked]


def by_kind(x):
    return x.argsort(kind="stable"), x[x.argsort(0)]


FUNCTIONS = [flat_elements, repeated_numbers, diagonals, grids, numbers_and_arrays]
FUNCTIONS += [
    elements_in_turn,
    layouts,
    other_shapes,
    by_methods,
    positions,
    classes,
    by_kind,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_written_and_shared_is_that_of_numpy(function):
    for n in (2, 3, 5):
        assert like_numpy(function, some(n).astype("float64"))


def windows(x):
    y = np.arange(4.0)
    parts = np.lib.stride_tricks.sliding_window_view(y, 2)
    y[0] = x[0]
    return y, parts


def open_mesh(x):
    i = np.array([0, 1])
    mesh = np.ix_(i, i)
    i[0] = 5
    return (*mesh, x)


def truncated_sums(x):
    y = np.array([3, 1])
    np.add.at(y, [0, 1, 1], x[:3] + 0.6)
    return y


@pytest.mark.parametrize("function", [windows, open_mesh, truncated_sums])
def test_views_by_other_ways_are_those_of_numpy_or_told(function):
    like_numpy(function, some(3).astype("float64"))


AT_LENGTH = "GRAPHC_EXAMPLES" in os.environ
SHAPES = [(3,), (3, 3), ()]
OTHERS = {
    "alone": lambda y: (),
    "0": lambda y: (0,),
    "1": lambda y: (1,),
    "itself": lambda y: (y,),
    "a mask": lambda y: (y > 2,),
    "shape": lambda y: (y.shape,),
    "two": lambda y: (y, y),
    "axes": lambda y: (0, -1),
    "with a number": lambda y: (y, 1.5),
}


OF_UFUNCS = {name: OTHERS[name] for name in ("alone", "1", "itself", "two")}
UNKNOWN = frozenset(["astype", "dot", "empty_like", "from_dlpack"])


def leaves(results):
    """The arrays and numbers in results that are tuples and lists."""
    if isinstance(results, (list, tuple)):
        return [leaf for item in results for leaf in leaves(item)]
    return [results]


def containers(results):
    """The lists and tuples of results, with None for each array or number."""
    if isinstance(results, (list, tuple)):
        kind = list if isinstance(results, list) else tuple
        return kind(map(containers, results))
    return None


def written_after(function, others, in_trace):
    """The results and arguments after a write to each result and each argument."""

    def written(x):
        y = x * 1 if in_trace else np.ones(np.shape(x))
        before = y
        found = function(y, *others(y))
        results = leaves(found)[:2]
        copies = results[:]
        for i in range(len(results)):
            results[i] += 1
        y += 3
        return [*results, *copies, y, before], containers(found)

    return written


@pytest.mark.parametrize("in_trace", [True, False], ids=["symbolic", "known"])
@pytest.mark.parametrize("name", sorted(name for name, _ in _functions_of_numpy()))
def test_what_each_function_shares_is_that_of_numpy_or_told(name, in_trace):
    if name in UNKNOWN or (IS_OLD and name == "fix"):
        pytest.skip("its elements are any numbers, or it takes no arrays")
    function = eval(f"lambda *args: np.{name}(*args)")
    few = OF_UFUNCS if isinstance(getattr(np, name, None), np.ufunc) else OTHERS
    for shape in SHAPES if AT_LENGTH else SHAPES[in_trace::2]:
        for others in (OTHERS if AT_LENGTH else few).values():
            written = written_after(function, others, in_trace)
            x = np.linspace(0.5, 3.5, int(np.prod(shape))).reshape(shape)
            if not isinstance(outcome(written, x.copy()), Exception):
                like_numpy(written, x)


def lent(x):
    y = np.zeros(3)
    z = AS_NUMPY[0](y)
    y[0] = 1
    return z + x[0]


def lent_and_written(x):
    y = np.zeros(3)
    AS_NUMPY[0](y)[0] = 1
    return y + x[0]


def test_arrays_of_numpy_itself_share_no_elements_in_secret():
    told = "an array of NumPy has these elements too"
    with pytest.raises(graphc.GraphError, match=told):
        graphc.jit(lent, frontend="numpy")(some(3))
    with pytest.raises(ValueError, match="read-only"):
        graphc.jit(lent_and_written, frontend="numpy")(some(3))


def outside(x):
    y = TABLE.copy()
    y[0] = x[0]
    return y


def number_from_outside(x):
    y = TABLE.argmax()
    y.flat[0] = x[0]
    return y + x


def outside_in_place(x):
    y = TABLE * 1
    y += x[0]
    return y


@pytest.mark.parametrize("function", [outside, outside_in_place, number_from_outside])
def test_arrays_that_are_made_outside_of_numpys_functions_are_told(function):
    told = "(?s)into an array from outside.*y = np.array"
    with pytest.raises(graphc.GraphError, match=told):
        graphc.jit(function, frontend="numpy")(some(3))


def caught_in_a_call(x):
    try:
        return x.view("uint8")
    except Exception:
        return x * 0


def caught_in_a_write(x):
    try:
        x[0] = 1
    except Exception:
        return x * 0
    return x


def asked(x):
    return x * hasattr(x, "tolist")


def caught_by_its_class(x):
    try:
        return x * len(x.tolist())
    except AttributeError:
        return x * 0


CATCHING = [caught_in_a_call, caught_in_a_write, asked, caught_by_its_class]


@pytest.mark.parametrize("function", CATCHING)
def test_errors_of_ours_that_are_caught_decide_nothing(function):
    with pytest.raises(graphc.GraphError, match="at .*test_like_numpy"):
        graphc.jit(function, frontend="numpy")(some(3))


def test_attributes_are_not_set():
    def changed(x):
        y = x * 1
        y.dtype = "int32"
        return y

    told = r"dtype: an attribute of a traced array cannot be set"
    with pytest.raises(graphc.GraphError, match=told):
        graphc.jit(changed, frontend="numpy")(some(3))


def strided(x):
    y, z = x * 1, x * 2
    np.ascontiguousarray(y[::2])[0] = 7
    z[::-1].ravel("F")[0] = 7
    return y, z


def by_masks(x):
    y, z = np.arange(3.0) + x.sum(), np.arange(5.0)
    np.place(y, x > 0, [7, 8])
    np.putmask(z, np.insert(x, 0, [1, 1]) > 0, x)
    return y, z


def only_one(x):
    return np.squeeze(x[x > 3])


def only_one_variable(x):
    return np.cov(np.outer(x, x)[x > 3])


@pytest.mark.parametrize("function", [strided, by_masks, only_one, only_one_variable])
def test_what_depends_on_layout_or_data_is_that_of_numpy_or_told(function):
    for x in (np.arange(3.0), np.arange(5.0), np.arange(1.0)):
        like_numpy(function, x)


CALLS = """\
np.add.reduce([x, x * 2])
np.logical_and.reduce([x > 0, x < 1])
np.add([x, x], 1)
np.logical_xor.reduce(x > 0)
np.bitwise_xor.accumulate(i)
np.subtract.reduce(x)
np.divide.accumulate(x + 3)
np.hypot.reduce(np.outer(x, x), axis=(0, 1), keepdims=True)
np.logaddexp.reduce(x)
np.gcd.reduce(i)
np.add.reduce(x, where=x > 0)
np.maximum.reduce(x, dtype="float32", initial=0.5)
np.bitwise_or.reduce(i, initial=3, where=x > 0)
np.add.reduceat(x, [0, 2, 2])
np.add.reduceat(x > 0, [1])
np.add.reduceat(x, [0, 9])
np.add.reduceat(x, [1, 0])
np.multiply.reduceat(np.outer(x, TABLE), np.r_[0:2], axis=1)
np.maximum.reduceat(x, np.flatnonzero(x == x))
np.equal.reduceat(x, [0])
np.add(x, 1, dtype="float32")
np.sqrt(i, dtype="float32")
np.add(x, x, dtype=int)
np.subtract.outer(x, i, dtype="float32")
np.max(np.outer(x, TABLE), 0, np.zeros(3), False)
np.negative.at(x * 1, [0])
np.cov(x.astype("float32"), x)
np.corrcoef(x.astype("float32"))
np.squeeze(x)
np.rollaxis(np.outer(x, TABLE), 1)
np.rollaxis(np.ones((2, 3, 4)), 0, 3) * x.sum()
np.histogram2d(x, x * 2, bins=2, range=[[-1, 1], [0, 2]], weights=x)
np.histogram2d(x, x, bins=[np.arange(3.0) - 1, 4], density=True)[0]
np.histogramdd(np.outer(x, TABLE), bins=(2, 3, 2))[0]
np.packbits(np.outer(i, i), axis=0)
np.packbits(x > 0, bitorder="little")
np.unpackbits(np.outer(i, i).astype("uint8"), axis=1)
np.from_dlpack(x)
np.interp(x.astype("float32"), [0, 1], [2, 3]), np.interp(x, [0, 1, 2], TABLE * 1j)
np.setxor1d(x.astype("float32"), 1), np.tensordot(x.astype("float32"), 2, 0)
np.vander(x.astype("float32"), 2), np.vander(i.astype("int8"))
np.polyfit(np.r_[1:6].astype("float32"), np.r_[x, x, x, x, 1:6][-5:], 1)
np.add(np.exp(1j * np.sum(x)).imag, 1), np.real(np.sum(x)) + 1
[p for p in [np.exp(1j * np.sum(x)).imag] if p.ndim == 0][0] * 2
np.dot(x.astype("float32"), 2), np.inner(2.5, x.astype("float32")), i.dot(2)
np.kron((i % 3).astype("uint8"), 2), np.einsum("i,", i.astype("int8"), 2)
np.intersect1d(i.astype("uint8"), 2), np.geomspace(x.astype("float32") + 2, 9, 3)
np.arange(np.sum(i, dtype="uint8")), np.arange(0, np.sum(i, dtype="float32"), 2)
np.arange(x.size), np.arange(x.size, dtype="int8"), np.arange(1.5, x.size)
np.var(x, dtype=int)
i.std(dtype="int8")
np.nanmean(i, None, complex)
np.cumprod(x, dtype=bool)
np.var(i, dtype="float32"), np.cumprod(x, dtype=int), i.var(0)
x.device == "cpu"
np.add.reduce(x.size), np.bitwise_and.reduce(x.size), np.multiply.reduce(3 * x.size)
np.rollaxis(x, 1)
np.linalg.lstsq(np.outer(x, x) + 0.5, x)[2]
np.linalg.svd(np.outer(x, x) / 0)[1]
np.linalg.matrix_rank(np.outer(x, x) * np.nan)
np.fft.fftfreq(x.size) * x
np.matrix(np.outer(TABLE, TABLE)) * x[:4, None]
(lambda y: (np.putmask(y, x > 0, x), y)[1])(np.zeros(x.size, int))
(lambda y: (np.place(y, x > 0, [2.5]), y)[1])(i * 1)
np.bincount(i[x > 1], x[x > 1], 3)
np.bincount(i, x)
((x > 0) ** 2, (x > 0) ** 3, np.all(x > 0) ** 2)
list(np.atleast_1d(None)) and x
np.cumsum(x, out=np.zeros((1, x.size)))
np.add(x, 1, out=np.zeros((2, x.size)))
np.clip(x, 0, 1, out=np.zeros((2, x.size)))
np.clip(np.array(3.0), 0, 1, out=np.array(0.0)) * x
np.take(x, [0], out=np.zeros((1, 1)))
np.sum(x, out=np.zeros(1))
np.trim_zeros(i)
np.trim_zeros(i, "f")
np.trim_zeros(x * 0, "b")
isinstance(np.add, np.ufunc) * {np.add: 2.0}[np.add] * x
np.lib.stride_tricks.as_strided(x, (2,), (8,))
np.ldexp(2, i.astype("uint8")), np.ldexp(2.0, i.astype("uint8")), np.ldexp(2, 3)
np.ldexp(2, i > 0)
np.i0(i.astype("uint8")), np.i0(x > 0)
np.geomspace(np.sum(x, dtype="float32") + 3, np.float32(9), 3)
np.indices((np.sum(i) - 4, 2))
np.polyfit(x[x > 1], x[x > 1], 1)
np.polyfit(x, x, -1)
getattr(x, "strides", x)
hasattr(x, "flags") * x
round(x[0]), round(x.size), round(x.size / 3) * x.astype("float32")
round(x[0].astype("float32"), 1)
hasattr(x.size, "bit_length") * x, hasattr(x[0], "is_integer") * x
hasattr(x[0], "__len__") * x, hasattr(x, "node") * x, np.isscalar(x[0]) * x
[hasattr(x, name) for name in ["flags"]][0] * x
getattr(x, "symbol", 2.0) * x, getattr(x, "__setitem__", None) is None
round(x, 1)
np.insert(x, 0, [2 + 1j]), np.insert(x, 0, np.array([1j]))
(lambda y: (np.put(y, 0, 1j), y)[1])(x * 1)
(lambda y: (y.fill(1j), y)[1])(i * 1)
np.dot(x, x, out=np.zeros((), "float16"))
np.r_[x.astype("float32"), 0, 2.5], np.c_[i.astype("int8"), i > 1], np.r_[0, x.size]
np.r_[i.astype("int8"), 300]
(lambda y: (np.putmask(y, x > 0, np.zeros(0)), y)[1])(x * 1)
(lambda y: np.place(y, x > 0, np.zeros(0)))(x * 1)
np.copyto(np.corrcoef(x), 1)
np.clip(i.astype("int8"), 300, 400)
(lambda y: (np.copyto(y, 300), y)[1])(i.astype("int8"))
np.mean([x.astype("float32")[0], 0.1]), i[:2].astype("int8") * [i.astype("int8")[1], 99]
np.add(i[:2].astype("int8"), [i.astype("int8")[1], x.size])
np.clip(2.5, x.astype("float32"), 3), np.float_power(1.1, x.astype("float32"))
x.var(0, "float16")
"""


OF_NEWER = (  # calls that NumPy 2.0 refuses, or for which it gives other dtypes
    "np.linalg.matrix_rank(np.outer(x, x) * np.nan)",
    "((x > 0) ** 2",
    "(lambda y: (np.copyto(y, 300), y)[1])",
)


@pytest.mark.parametrize("call", CALLS.splitlines())
def test_calls_are_those_of_numpy_or_told(call):
    if IS_OLD and call.startswith(OF_NEWER):
        pytest.skip("NumPy does otherwise since, or fails")
    function = eval(f"lambda x, i: ({call})")
    for n in (4, 6, 2, 0):
        like_numpy(function, np.linspace(-1, 2, n), np.arange(n) * 3 % 4)


def by_position(x):
    """Axes and output arrays by position, where NumPy accepts them so."""
    pair, joined, stacked = [x, x + 1], np.zeros((2, 6)), np.zeros((2, 2, 3))
    np.concatenate(pair, 1, joined)
    np.stack(pair, 1, stacked)
    return joined, stacked, np.concatenate(pair, 1), np.concatenate(pair, None)


@pytest.mark.skipif(IS_OLD, reason="NumPy has no signature of np.concatenate")
def test_what_is_given_by_position():
    assert like_numpy(by_position, np.arange(6.0).reshape(2, 3))
