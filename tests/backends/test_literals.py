"""The extreme numbers of every dtype, by every way a constant gets into a program.

These are constants of rank 0 and arrays, printed by items and by bytes, next to values
and alone, as NumPy's and as Python's numbers, in bodies of loops, and as padding.
"""

import warnings

import ml_dtypes
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.types import DTYPES
from tests.transform.dirty import dirty_function

INTEGERS = [name for name, dtype in DTYPES.items() if dtype.kind in "iu"]
BACKENDS = ("numpy", "jax")


def extremes(dtype):
    """The numbers of a dtype that text might lose: limits, zeros, non-finite ones."""
    dtype = DTYPES[dtype]
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        ends = [limits.min, limits.min + 1, 0, 1, limits.max // 2 + 1, limits.max]
        return np.array([dtype.type(n) for n in ends])
    if dtype.kind == "c":
        parts = extremes({8: "float32", 16: "float64"}[dtype.itemsize])
        pairs = zip(parts, np.roll(parts, 4), strict=True)
        return np.array([complex_of(a, b, dtype) for a, b in pairs])
    limits = ml_dtypes.finfo(dtype)
    least = np.nextafter(dtype.type(0), dtype.type(1))
    ends = [limits.max, limits.tiny, least, limits.eps, 0, np.inf, 1]
    ends = np.array([dtype.type(n) for n in ends])
    third = np.array([1], dtype) / np.array([3], dtype)
    return np.concatenate([ends, -ends, third, np.array([np.nan], dtype)])


def complex_of(real, imag, dtype):
    """Join two parts; arithmetic would turn infinite ones into NaN."""
    found = np.zeros((), dtype)
    found.real, found.imag = real, imag
    return found[()]


def subnormal(numbers):
    """Tell which numbers are so small that XLA may treat them as zero."""
    if numbers.dtype.kind == "c":
        return subnormal(numbers.real) | subnormal(numbers.imag)
    if numbers.dtype.kind in "biu":
        return np.zeros(numbers.shape, bool)
    least = ml_dtypes.finfo(numbers.dtype).tiny
    return (numbers != 0) & (np.abs(numbers) < least)


def same(got, wanted):
    """Whether arrays are equal bit for bit, except for payload and sign of NaN."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind == "c":
        return same(got.real, wanted.real) and same(got.imag, wanted.imag)
    nan = wanted != wanted
    return ((got != got) == nan).all() and (
        np.where(nan, 0, got).astype(got.dtype).tobytes()
        == np.where(nan, 0, wanted).astype(got.dtype).tobytes()
    )


def checked(inputs, made, wanted, arguments, backend, compiled=graphc.function):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = compiled(inputs, made, backend=backend)(*arguments)
    wrong = {
        name: (np.asarray(found[name]), wanted[name])
        for name in made
        if not same(found[name], wanted[name])
    }
    assert not wrong, wrong


NANS = {  # one with a sign, and one with a payload
    "float16": ("00fe", "017e"),
    "bfloat16": ("c0ff", "c0ff"),  # XLA drops the payload of this dtype in `where`
    "float32": ("0000c0ff", "2a00c07f"),
    "float64": ("000000000000f8ff", "2a0000000000f87f"),
    "complex64": ("0000c0ff0000803f", "0000803f2a00c07f"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", NANS)
def test_the_bits_of_nan_stay(dtype, backend):
    raw = [np.frombuffer(bytes.fromhex(text), dtype)[0] for text in NANS[dtype]]
    m = gt.tensor("m", "bool", ())
    made = [*map(gt.asarray, raw), gt.asarray(np.array(raw))]
    made += [gt.where(m, gt.asarray(number), 0) for number in raw]
    results = graphc.function([m], made, backend=backend)(True)
    wanted = [*raw, np.array(raw), *raw]
    for result, expected in zip(results, wanted, strict=True):
        assert np.asarray(result).tobytes().hex() == expected.tobytes().hex()


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_are_exact(dtype, backend):
    numbers = extremes(dtype)
    if backend == "jax":
        numbers = numbers[~subnormal(numbers)]
    x, m = gt.tensor("x", dtype, (1,)), gt.tensor("m", "bool", (1,))
    ways = {
        "beside": lambda n: gt.where(m, n, x),
        "set": lambda n: x.at[0].set(n),
        "full": lambda n: gt.full((1,), n, dtype),
        "cast": lambda n: gt.asarray([n], dtype),
        "padded": lambda n: gt.pad(x, (0, 1), constant_values=n)[1:],
    }
    forms = {"": list(numbers)}
    if dtype != "bfloat16":  # its item is a Python float, hence of another dtype
        forms["Python's "] = [n.item() for n in numbers]
    made = {
        f"{form}{way}": gt.concatenate([function(n) for n in given])
        for way, function in ways.items()
        for form, given in forms.items()
    }
    wanted = dict.fromkeys(made, numbers)
    made |= {f"alone {i}": gt.asarray(n) for i, n in enumerate(numbers)}
    wanted |= {f"alone {i}": np.asarray(n) for i, n in enumerate(numbers)}
    for rows in (1, 9):
        made[f"{rows} rows"] = gt.asarray(np.tile(numbers, (rows, 1)))
        wanted[f"{rows} rows"] = np.tile(numbers, (rows, 1))
    made["short"], wanted["short"] = gt.asarray(numbers[:8]), numbers[:8]
    checked([x, m], made, wanted, [np.zeros(1, dtype), np.array([True])], backend)


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(
    ("backend", "dtype"),
    [*(("numpy", d) for d in INTEGERS), *(("jax", d) for d in ("uint32", "uint64"))],
)
def test_ends_of_integers_beside_values(dtype, backend):
    low, high = (int(n) for n in extremes(dtype)[[0, -1]])
    numbers = extremes(dtype)
    x = gt.tensor("x", dtype, ("n",))
    functions = {
        "add": (lambda v, n: v + n, lambda v, n: v + n),
        "and": (lambda v, n: v & n, lambda v, n: v & n),
        "equal": (lambda v, n: v == n, lambda v, n: v == n),
        "less": (lambda v, n: n > v, lambda v, n: n > v),
        "least": (lambda v, n: gt.min(v, initial=n), lambda v, n: v.min(initial=n)),
        "clip": (lambda v, n: gt.clip(v, n, n), lambda v, n: np.clip(v, n, n)),
    }
    made, wanted = {}, {}
    with np.errstate(all="ignore"):
        for name, (ours, theirs) in functions.items():
            for n in (low, high):
                made[f"{name} {n}"] = ours(x, n)
                wanted[f"{name} {n}"] = theirs(numbers, n)
    checked([x], made, wanted, [numbers], backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["uint32", "uint64", "int64", "float32", "bfloat16"])
def test_extremes_in_bodies_and_branches(dtype, backend):
    numbers = extremes(dtype)
    numbers = numbers[(numbers == numbers) & ~subnormal(numbers)]
    x = gt.tensor("x", dtype, ("n",))
    made, wanted = {}, {}
    for i, number in enumerate(numbers):

        def body(carry, row, number=number):
            return gt.where(carry == row, carry, number), row == number

        last, found = gt.scan(body, x[0], x)
        made |= {f"last {i}": last, f"found {i}": found}
        start = numbers[0]
        for row in numbers:
            start = start if start == row else number
        wanted |= {f"last {i}": np.asarray(start), f"found {i}": numbers == number}
    checked([x], made, wanted, [numbers], backend)


def orderings(x, xp):
    """Reductions and sorts, whose rules fill padding with a neutral element."""
    some = x != x[0]
    rows = {
        "sort": xp.sort(x),
        "argsort": xp.argsort(x, stable=True),
        "min": xp.min(x),
        "max": xp.max(x),
        "argmin": xp.argmin(x),
        "argmax": xp.argmax(x),
        "unique": xp.unique(x),
        "partition": xp.partition(x, 1)[1],
        "searchsorted": xp.searchsorted(xp.sort(x), x),
        "any": xp.any(x),
        "all": xp.all(x),
        "nonzero": xp.count_nonzero(x),
    }
    if x.dtype.kind != "b":
        rows["cumulative"] = xp.cumsum(x - x)
        rows["median"] = xp.median(x)
        rows["masked"] = xp.max(x, where=some, initial=x[0])
    if x.dtype.kind in "iu":
        rows |= {"sum": xp.sum(x), "prod": xp.prod(x)}
    return rows


FILLED = [("numpy", dtype) for dtype in ("bool", *INTEGERS, "float16", "float64")]
FILLED += [("jax", "uint64")]


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(("backend", "dtype"), FILLED)
def test_fills_of_padding_are_neutral_at_the_ends(dtype, backend):
    ends = extremes(dtype)
    ends = ends[(ends == ends) & ~subnormal(ends)]
    x = gt.tensor("x", dtype, ("n",))
    made = orderings(x, gt)
    labels = gt.arange(x.shape[0]) % 2
    made["least"] = gt.segment_min(x, labels, 2)
    made["most"] = gt.segment_max(x, labels, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = dirty_function([x], made, backend=backend)
    for given in (ends, ends[::-1], np.tile(ends[-1], len(ends))):
        with np.errstate(all="ignore"):
            wanted = orderings(given, np)
            wanted |= {"least": [given[::2].min(), given[1::2].min()]}
            wanted |= {"most": [given[::2].max(), given[1::2].max()]}
            found = run(given)
        for name, value in wanted.items():
            got = np.asarray(found[name])
            np.testing.assert_array_equal(got, value, err_msg=f"{name} of {given}")


@pytest.mark.parametrize("backend", BACKENDS)
def test_python_integers_that_only_uint64_holds(backend):
    x, f = gt.tensor("x", "uint64", ("n",)), gt.tensor("f", "float32", ("n",))
    given, floats = extremes("uint64"), np.arange(6, dtype="float32")
    big = 2**63 + 2048
    made = {
        "alone": gt.asarray(big),
        "full": gt.full((2,), big),
        "float": f + big,
        "power": f * 2**63,
        "beside": big - x,
        "range": gt.arange(big, big + 3, dtype="uint64"),
    }
    wanted = {
        "alone": np.asarray(big),
        "full": np.full(2, big),
        "float": floats + big,
        "power": floats * 2**63,
        "beside": big - given,
        "range": np.arange(big, big + 3, dtype="uint64"),
    }
    checked([x, f], made, wanted, [given, floats], backend)
