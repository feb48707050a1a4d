"""A saved model accepts and refuses the same arguments as its function."""

import copy
import cProfile
import pickle
import pstats

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.types import DTYPES
from tests.runtime.test_export import message

pytestmark = pytest.mark.usefixtures("compiled_quickly")


class Shaped(np.ndarray):
    """A subclass of NumPy arrays, such as some libraries have."""


class Convertible:
    """An object that NumPy can convert to an array."""

    def __array__(self, dtype=None, copy=None):
        return np.array([1, 2, 3], dtype or "float32")


def read_only(array):
    array.flags.writeable = False
    return array


ARRAYS = {
    **{dtype: np.array([0, 1, 1], dtype) for dtype in DTYPES},
    "list": [1, 2, 3],
    "list of floats": [1.5, 2, 3],
    "list of complex": [1j, 2, 3],
    "list of bools": [True, False, True],
    "tuple": (1, 2.0, True),
    "list of NumPy's numbers": [np.float64(1), np.float64(2), np.float64(3)],
    "list of a wide integer": [1, 2, 2**70],
    "ragged list": [1, [2, 3], 4],
    "list of text": ["a", "b", "c"],
    "empty list": [],
    "nested list": [[1, 2, 3]],
    "range": range(3),
    "masked": np.ma.masked_array([1, 2, 3], [0, 1, 0], "float32"),
    "masked, nothing hidden": np.ma.masked_array([1, 2, 3], dtype="float32"),
    "object": np.array([1, 2, 3], object),
    "text": np.array(["a", "b", "c"]),
    "dates": np.array(["2020-01-01"] * 3, "datetime64[D]"),
    "big-endian": np.array([1, 2, 3], ">f4"),
    "big-endian integers": np.array([1, 2, 3], ">i2"),
    "read-only": read_only(np.ones(3, "float32")),
    "with a stride": np.arange(6, dtype="float32")[::2],
    "backwards": np.arange(3, dtype="float32")[::-1],
    "subclass": np.ones(3, "float32").view(Shaped),
    "memory view": memoryview(np.ones(3, "float32")),
    "convertible": Convertible(),
    "of JAX": jnp.ones(3),
    "integers of JAX": jnp.arange(3),
    "float16 of JAX": jnp.ones(3, "float16"),
    "a number": 1.0,
    "rank 2": np.ones((3, 1), "float32"),
    "None": None,
    "a text": "abc",
    "a dict": {"x": 1},
    "a type": np.float32,
    "a function": len,
    "float8": np.ones(3, ml_dtypes.float8_e4m3fn),
    "a key": jax.random.key(0),
}
NUMBERS = {
    **{dtype: DTYPES[dtype].type(1) for dtype in DTYPES},
    **{f"{dtype} of rank 0": np.array(1, dtype) for dtype in DTYPES},
    "int": 3,
    "negative": -1,
    "wide": 2**40,
    "huge": 2**80,
    "float": 1.5,
    "bool": True,
    "complex": 1j,
    "of JAX": jnp.float32(2),
    "integer of JAX": jnp.int32(2),
    "weak": jnp.asarray(2.0) + 0,
    "rank 1": np.ones(1, "float32"),
    "list": [1],
    "masked": np.ma.masked,
    "masked of rank 0": np.ma.masked_array(1.0, False),
    "object": np.array(1, object),
    "None": None,
    "a text": "1",
}


def outcome(run):
    """The result as bytes, or the first line of the error."""
    try:
        found = np.asarray(run())
    except (graphc.CallError, graphc.ModelError) as error:
        return str(error).splitlines()[0]
    return found.dtype.name, found.shape, found.tobytes()


@pytest.fixture(scope="module", params=["float32", "int32", "bool", "complex64"])
def pairs(request, tmp_path_factory):
    """A function of an array and a number, and its model, for each casting rule."""
    x = gt.tensor("x", request.param, ("n",))
    k = gt.tensor("k", request.param, ())
    y = gt.where(x, k, x) if request.param == "bool" else x + k
    made = {}
    for rule in ("safe", "same_kind", "exact"):
        f = graphc.function([x, k], y, casting=rule, dims="specialize")
        path = tmp_path_factory.mktemp(rule) / "model"
        f.export(path, {"n": [0, 3, 1]})
        made[rule] = f, graphc.load(path), DTYPES[request.param].type(1)
    return made


@pytest.mark.parametrize("rule", ["safe", "same_kind", "exact"])
def test_every_kind_of_array_and_number_is_as_for_the_function(pairs, rule):
    f, m, one = pairs[rule]
    array = np.array([one, one, one])
    for name, given in ARRAYS.items():
        wanted = outcome(lambda: f(given, one))  # noqa: B023
        assert outcome(lambda: m(given, one)) == wanted, name  # noqa: B023
    for name, given in NUMBERS.items():
        wanted = outcome(lambda: f(array, given))  # noqa: B023
        assert outcome(lambda: m(array, given)) == wanted, name  # noqa: B023


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    x, k = gt.tensor("x", "float32", ("n", 2)), gt.iscalar("k")
    f = graphc.function([x, k], [x * 2, x[:k]], dims="specialize")
    path = tmp_path_factory.mktemp("model") / "model"
    f.export(path, {"n": [3, 1000], "k": [2, 2]})
    return graphc.load(path)


def test_what_is_said_of_arguments_that_do_not_fit(model):
    asks = {
        "input x has another dtype\n  got: float64[3, 2]\n  expected: float32[n, 2]\n"
        '  hint: a model of graphc.function(..., casting="same_kind") takes it; or '
        'numpy.asarray(value, "float32") converts it, if that is meant': (
            lambda: model(np.ones((3, 2)), 2)
        ),
        "input x is a masked array: its mask would be lost\n  got: float64[2, 2]\n"
        "  expected: float32[n, 2]\n"
        "  hint: pass x.filled(number), or the mask as an input of its own": (
            lambda: model(np.ma.ones((2, 2)), 2)
        ),
        "input k has another dtype\n  got: float[]\n  expected: int64[]\n"
        '  hint: numpy.asarray(value, "int64") converts it, if that is meant': (
            lambda: model(np.ones((3, 2), "float32"), 2.0)
        ),
        "the arguments do not fit the model\n  got: shapes ((3, 2), ()) with k = 3\n"
        "  expected: one of ((3, 2), ()) with k = 2, ((1000, 2), ()) with k = 2\n"
        "  hint: export it for these sizes too, or with graph=True for all": (
            lambda: model(np.ones((3, 2), "float32"), 3)
        ),
        "input x is traced by JAX, and a model is compiled\n"
        "  hint: call the model outside of jax.jit, jax.vmap and jax.grad: it is "
        "compiled by itself": lambda: jax.jit(model)(np.ones((3, 2), "float32"), 2),
    }
    for text, ask in asks.items():
        assert message(graphc.ModelError, ask) == text
    assert model.sizes == [{"k": 2}, {"k": 2}]


def test_a_model_does_not_see_what_is_written_after_a_call(model):
    for n in (3, 1000):
        room = np.empty(n * 2 + 16, "float32")
        start = -room.__array_interface__["data"][0] % 64 // 4
        x = room[start : start + n * 2].reshape(n, 2)  # aligned: XLA reads it in place
        x[:] = 1
        found = model(x, 2)
        x[:] = 9
        assert [np.asarray(a).max() for a in found] == [2, 1]


def test_models_are_pickled_and_copied(model):
    x = np.ones((3, 2), "float32")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.asarray(other(x, 2)[0]).tolist() == [[2, 2]] * 3
        assert other.shapes == model.shapes


def calls_of_python(run):
    """The number of functions that a warm call calls."""
    for _ in range(2):
        run()
    profile = cProfile.Profile()
    profile.runcall(run)
    return pstats.Stats(profile).total_calls


def test_a_call_of_arrays_takes_few_steps(tmp_path):
    x, w = gt.tensor("x", "float32", ("n", 3)), gt.tensor("w", "float32", (3,))
    f = graphc.function([x, w], gt.tanh(x @ w), dims="specialize")
    f.export(tmp_path / "model", {"n": 5})
    m = graphc.load(tmp_path / "model")
    args = np.ones((5, 3), "float32"), np.ones(3, "float32")
    for given in (args, tuple(map(jnp.asarray, args))):
        assert calls_of_python(lambda: m(*given)) < 100  # noqa: B023
