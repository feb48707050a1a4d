"""Memory behaves as in NumPy; C code and libraries never write into traced arrays."""

import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.special

import graphc
from graphc.importers.numpy.names import numpy_of_values
from tests.importers.numpy.test_function import same, some

GENERATOR = np.random.default_rng(0)


def along_an_axis(x):
    y = np.outer(x, x)
    np.put_along_axis(y, np.argsort(x)[:1][None], 9, 1)
    return y


def numbers_for_nan(x):
    y, z = x.copy(), np.array([np.nan, 1])
    y[0] = np.nan
    return np.nan_to_num(y, copy=False), y, np.nan_to_num(z, copy=False), z


def same_dtype(x):
    y, z = x * 2, np.zeros(3)
    y.astype(y.dtype, copy=False)[0] = 1
    z.astype("float64", copy=False)[0] = x[0]
    z.astype("float64")[1] = 5
    return y, z


def views_of_constants(x):
    flat, halves, row = np.zeros((2, 2)), np.zeros(4), np.zeros(4)
    np.ravel(flat)[0] = x[0]
    first, second = np.split(halves, 2)
    first[0], second[1] = x[0], 4
    np.atleast_2d(row)[0, 1] = x[0]
    return flat, halves, first, second, row


def diagonals(x):
    y, z = np.zeros((3, 3)), np.outer(x, x)
    np.einsum("ii->i", y)[:] = x[0]
    np.einsum("ii->i", z)[:] = x
    np.einsum("ij->ji", z)[0, 1] = 7
    return y, z, np.einsum("ii", z)


def columns(x):
    y = np.outer(x, x + 1)
    z = x * 1
    z.reshape(-1, order="F")[0] = 3
    shaped = y.reshape((1, -1), order="F"), np.reshape(y, -1, order="F")
    return shaped, y.ravel("F"), np.ravel(y, order="F"), y.flatten("F"), z


FUNCTIONS = [along_an_axis, numbers_for_nan, same_dtype, views_of_constants]
FUNCTIONS += [diagonals, columns]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_writes_and_views_are_those_of_numpy(function):
    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    for n in (3, 4, 6):
        same(ours(some(n)), function(some(n)))
    assert ours.stats().fallbacks == []


def helper():
    return GENERATOR.normal()


DRAWS = [
    lambda x: x + np.random.normal(size=x.shape),
    lambda x: x + np.random.uniform(size=x.shape[0]),
    lambda x: np.random.randn(x.shape[0]),
    lambda x: np.random.choice(x),
    lambda x: np.random.randint(0, x.shape[0], 2),
    lambda x: x + np.random.normal(size=3),
    lambda x: x + np.random.default_rng(0).normal(),
    lambda x: x + GENERATOR.normal(size=x.shape),
    lambda x: x + GENERATOR.normal(size=3),
    lambda x: x + helper(),
]


@pytest.mark.parametrize("number", range(len(DRAWS)))
def test_random_numbers_are_refused(number):
    state = GENERATOR.bit_generator.state
    ours = graphc.jit(DRAWS[number], frontend="numpy", backend="numpy")
    told = "random numbers would be drawn once, while the function is traced"
    with pytest.raises(graphc.GraphError, match=told) as error:
        ours(np.ones(3))
    assert f"at {__file__}:" in str(error.value)
    assert GENERATOR.bit_generator.state == state


def test_names_of_random_numbers_are_classes_still():
    ours = graphc.jit(
        lambda x: x * isinstance(GENERATOR, np.random.Generator), frontend="numpy"
    )
    same(ours(some(3)), some(3))


@pytest.mark.parametrize(
    "function, told",
    [
        (
            lambda x: scipy.special.diric(x, 3),
            "scipy.special.diric: takes arrays, not symbolic values",
        ),
        (lambda x: scipy.fft.dct(x), "scipy.fft.dct: takes no arrays that are traced"),
    ],
)
def test_libraries_that_take_no_values_are_told(function, told):
    with pytest.raises(graphc.GraphError, match=re.escape(told)) as error:
        graphc.jit(function, frontend="numpy", backend="numpy")(np.ones(3))
    assert "TracedArray" not in str(error.value)
    assert f"at {__file__}:" in str(error.value)


@pytest.mark.parametrize("copy", [True, False, None, *np._CopyMode], ids=str)
def test_arrays_are_copied_in_the_words_of_numpy(copy):
    """SciPy passes members of `np._CopyMode`, which are neither true nor false."""

    def written(x):
        y = x + 1
        z = np.array(y, copy=copy)
        z[0] = 7
        return y, z

    ours = graphc.jit(written, frontend="numpy", backend="numpy")
    same(ours(some(3)), written(some(3)))


def test_decompositions_of_scipy_are_told():
    ours = graphc.jit(
        lambda x: scipy.linalg.cho_factor(x), frontend="numpy", backend="numpy"
    )
    with pytest.raises(graphc.GraphError, match=re.escape("use gt.linalg.cho_factor")):
        ours(np.eye(3))


def test_a_dictionary_of_sizes_is_asked_at_each_size():
    def chosen(x):
        return x * {3: 2.0, 4: 5.0}.get(x.shape[0], 1.0)

    ours = graphc.jit(chosen, frontend="numpy", backend="numpy")
    for n in (3, 4, 5, 3):
        same(ours(some(n)), chosen(some(n)))
    assert "each new size is traced and compared" in ours.explain()


def test_arrays_are_not_hashed():
    ours = graphc.jit(lambda x: x * {x: 1}[x], frontend="numpy", backend="numpy")
    with pytest.raises(TypeError, match=r"unhashable type: 'numpy\.ndarray'"):
        ours(some(3))


def test_code_of_c_gets_arrays_of_numpy():
    with numpy_of_values():
        drawn = GENERATOR.permutation(np.arange(3).content)
        assert type(drawn) is np.ndarray
        assert type(GENERATOR.normal(size=3)) is np.ndarray


def test_an_interrupt_leaves_numpy_as_it_was():
    def interrupted(x):
        np.zeros(2)
        raise KeyboardInterrupt

    kind, zeros = type(np), np.zeros
    with pytest.raises(KeyboardInterrupt):
        graphc.jit(interrupted, frontend="numpy")(some(3))
    assert type(np) is kind and np.zeros is zeros
    assert type(np.zeros(2)) is np.ndarray


SPACES = """
import importlib, sys, warnings
import numpy as np
import graphc

warnings.simplefilter("ignore")
x = np.array([0.3, 0.5, 0.2])
for name in sys.argv[1:]:
    space = importlib.import_module(name)
    for word in sorted(set(vars(space)) - {"test", "show_config"}):
        function = getattr(space, word)
        if word.startswith("_") or not callable(function):
            continue
        for rest in (lambda x: (), lambda x: (x,)):
            def called(x):
                return function(x, *rest(x))
            try:
                graphc.jit(called, frontend="numpy", backend="numpy")(x)
            except Exception as error:
                assert "TracedArray" not in str(error), (name, word, error)
print("done")
"""


def test_no_function_of_libraries_kills_the_interpreter():
    names = ["numpy.linalg", "numpy.fft", "numpy.random", "scipy.fft", "scipy.linalg"]
    command = [sys.executable, "-X", "faulthandler", "-c", SPACES, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("done\n"), done.stderr[-2000:]


GIVEN = {
    "array": lambda y: np.array(y, copy=False),
    "asarray": lambda y: np.asarray(y, "float64"),
    "asfortranarray": lambda y: np.asfortranarray(y),
    "astype": lambda y: np.astype(y, "float64", copy=False),
    "atleast_1d": lambda y: np.atleast_1d(y, 1)[0],
    "broadcast_arrays": lambda y: np.broadcast_arrays(y, np.zeros((3, 3)))[0],
    "diag": lambda y: np.diag(y),
    "matrix_transpose": lambda y: np.matrix_transpose(y),
    "permute_dims": lambda y: np.permute_dims(y, (1, 0)),
    "real_if_close": lambda y: np.real_if_close(y),
}
if hasattr(np, "unstack"):  # since NumPy 2.1
    GIVEN["unstack"] = lambda y: np.unstack(y)[0]


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("makes", [lambda x: np.outer(x, x), lambda x: np.ones((3, 3))])
@pytest.mark.filterwarnings("ignore:Numpy has detected")
def test_what_shares_memory_is_that_of_numpy_or_told(name, makes):
    def written_before(x):
        y = makes(x)
        part = GIVEN[name](y)
        y[...] = 7
        return y, part

    def written_after(x):
        y = makes(x)
        part = GIVEN[name](y)
        part[...] = 5
        return y, part

    for function in (written_before, written_after):
        x = np.array([0.5, 2.0, 3.0])
        try:
            found = graphc.jit(function, frontend="numpy", backend="numpy")(x)
        except graphc.GraphError as error:
            assert f"at {__file__}:" in str(error)
        else:
            same(found, function(x))
