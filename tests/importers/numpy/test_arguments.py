"""Arguments of NumPy's functions are accepted by NumPy's names for them; casts."""

import inspect

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.importers.numpy.names import _functions_of_numpy
from tests.importers.numpy.test_function import same
from tests.newest_numpy import IS_OLD

X = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 6.0])
SQUARE = np.arange(9.0).reshape(3, 3)
NEEDED = {  # values of required arguments
    **dict.fromkeys(
        ["axis", "axis1", "decimals", "deg", "k", "n", "shift", "start"], 1
    ),
    **dict.fromkeys(["destination", "kth", "N", "source", "fill_value"], 0),
    **{"axis2": 0, "reps": 2, "repeats": 2, "pad_width": 1, "q": 0.5, "dims": (9, 9)},
    **{"shape": (3, 3), "new_shape": (2, 3), "func1d": np.sum, "tup": [SQUARE, SQUARE]},
    **{"arrays": [SQUARE, SQUARE], "indices_or_sections": 3, "obj": 1, "values": 9.0},
    **{"stop": 5.0, "condition": SQUARE > 3, "indices": np.zeros((1, 3), int)},
}


def by_names(name, function):
    """Call a function with all required arguments by name; None if that fails."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # it is written in C
        return None
    named = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    names = ", ".join(
        f"{n}=NEEDED[{n!r}]" if n in NEEDED else f"{n}=x * 1" for n in named
    )
    call = eval(f"lambda x: np.{name}({names})", {"np": np, "NEEDED": NEEDED})
    try:
        call(SQUARE)
    except Exception:
        return None
    return call


BY_NAMES = {name: by_names(name, f) for name, f in sorted(_functions_of_numpy())}
BY_NAMES = {name: call for name, call in BY_NAMES.items() if call is not None}


@pytest.mark.parametrize("name", [n for n in BY_NAMES if not n.startswith("empty")])
def test_arguments_have_the_names_of_numpy(name):
    ours = graphc.jit(BY_NAMES[name], frontend="numpy", backend="numpy")
    try:
        results = ours(SQUARE.copy())
    except graphc.GraphError as error:
        assert "argument" not in str(error).splitlines()[0]
    else:
        same(results, BY_NAMES[name](SQUARE.copy()))


def test_most_functions_are_called_by_names():
    assert len(BY_NAMES) > 140


AS_WRITTEN = {
    "a bound": lambda x: np.clip(a=x, a_min=2, a_max=4),
    "a list": lambda x: np.array(object=[x[0], 2.0]),
    "in place": lambda x: np.median(x, overwrite_input=True),
    "quantile": lambda x: np.percentile(a=x, q=30, overwrite_input=True),
    "joined": lambda x: np.concatenate((x, x), dtype="int64", casting="unsafe"),
    "stacked": lambda x: np.stack([x, x], axis=1, dtype="float32"),
    "rows": lambda x: np.vstack([x, x], dtype="float32", casting="same_kind"),
    "columns": lambda x: np.hstack([x, x > 2], dtype="complex64"),
    "astype": lambda x: x.astype("float32", casting="same_kind", copy=False),
    "of all": lambda x: np.take_along_axis(np.outer(x, x), np.array([1, 2]), axis=None),
    "deleted": lambda x: np.delete(x, [[0], [1]]),
    "broadcast": lambda x: np.broadcast_arrays(x, x[:, None], subok=True),
    "elements": lambda x: np.unique(np.where(x > 2, np.nan, x), axis=-1),
    "singular": lambda x: np.linalg.cond(np.outer(x * 0, x), 1),
    "along": lambda x: np.apply_along_axis(func1d=np.sum, axis=0, arr=np.outer(x, x)),
}
NUMBERS = {
    "float32": lambda x: np.float32(x[0]) * x,
    "size": lambda x: np.int64(x.shape[0]) * x,
    "array": lambda x: (np.float32(x), np.half(x), np.bool_(x), np.complex64(x)),
    "list": lambda x: np.float64([x[0], 1]),
    "written": lambda x: np.copyto(np.float64([1, 2]), x[:2]),
    "known": lambda x: (np.float32(0.1) * x, np.int32() + x, np.intp(x[1])),
    "class": lambda x: x * (x.dtype == np.float64) * isinstance(x[0], np.float64),
    "key": lambda x: {np.float64: 2.0}[x.dtype.type] * x,
    "dtype": lambda x: np.asarray(x, dtype=np.float32),
    "is": lambda x: x * (np.float64 is x.dtype.type) * np.float32(2),
}


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("name", AS_WRITTEN | NUMBERS)
def test_calls_are_taken_as_they_are_written(name, backend):
    if IS_OLD and name in ("a list", "elements"):
        pytest.skip("NumPy has no signature of np.array, and takes NaNs apart")
    function = (AS_WRITTEN | NUMBERS)[name]
    ours = graphc.jit(function, frontend="numpy", backend=backend)
    for n in (6, 4) if backend == "numpy" else (6,):
        same(ours(X[:n]), function(X[:n]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.concatenate((x, x), dtype="int64"),
        lambda x: x.astype("int8", casting="safe"),
        lambda x: np.stack([x, x], dtype="float32", casting="equiv"),
    ],
)
def test_casts_that_are_not_allowed_are_errors(function):
    with pytest.raises(TypeError, match="Cannot cast") as numpys:
        function(X)
    with pytest.raises(type(numpys.value), match="Cannot cast"):
        graphc.jit(function, frontend="numpy")(X)


def test_values_of_graphc_take_the_names_of_numpy():
    x = gt.tensor("x", "float64", ("n",))
    f = graphc.function([x], [np.sum(a=x), np.clip(a=x, a_min=2, a_max=4)])
    for result, wanted in zip(f(X), [X.sum(), X.clip(2, 4)], strict=True):
        np.testing.assert_array_equal(result, wanted)
