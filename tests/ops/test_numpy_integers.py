"""NumPy integers are accepted wherever a Python int is, and non-integers are refused.

Every integer argument of every sample is tried, except arrays, since an integer of
NumPy has a dtype of its own there.
"""

import inspect
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.build import as_value
from tests.ops.sampling import applied, flat
from tests.ops.test_samples import EVERY
from tests.samples.spec import Call


@pytest.mark.parametrize(
    "cut", [3, np.int64(3), np.array(3), [2, np.int8(3)], (2,), np.array([1, 4])]
)
def test_parts_are_those_of_numpy(cut):
    x = gt.tensor("x", "float32", (6, 2))
    array = np.arange(12, dtype="float32").reshape(6, 2)
    parts = graphc.function([x], gt.split(x, cut), backend="numpy")(array)
    expected = np.split(array, cut)
    assert len(parts) == len(expected)
    for part, other in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(part, other)


def test_the_number_of_parts_is_known_when_the_graph_is_built():
    x, n = gt.tensor("x", "float32", (6,)), gt.iscalar("n")
    with pytest.raises(graphc.GraphError, match="split: the number of parts must be"):
        gt.split(x, n)
    with pytest.raises(graphc.GraphError, match="a number of parts must be an integer"):
        gt.split(x, 6 / 2)


@pytest.mark.parametrize("decimals", [2, 0, -1])
def test_decimals_are_integers_of_any_kind(decimals):
    x, array = gt.vector("x"), np.array([12.345, -6.5, 0.005], "float32")
    y = gt.round(x, np.int64(decimals))
    f = graphc.function([x], y, backend="numpy")
    np.testing.assert_allclose(f(array), np.round(array, decimals), rtol=1e-6)


def with_numbers(argument, make):
    """The argument with `make(i)` in place of each integer in it."""
    if type(argument) is int:
        return make(argument)
    if isinstance(argument, (list, tuple)):
        return type(argument)(with_numbers(item, make) for item in argument)
    if isinstance(argument, slice):
        ends = argument.start, argument.stop, argument.step
        return slice(*(with_numbers(end, make) for end in ends))
    return argument


def calls_with_numbers():
    """Yield each call of a sample with each argument that contains plain integers."""
    for sample in EVERY:
        try:
            signature = inspect.signature(sample.function())
            calls = [signature.bind(*c.args, **c.options) for c in sample.calls]
        except (TypeError, ValueError):  # a refused call; a class
            continue
        for call, bound in zip(sample.calls, calls, strict=True):
            for name, argument in bound.arguments.items():
                parameter = signature.parameters[name]
                numbers = []
                with_numbers(argument, numbers.append)
                listed = parameter.kind is parameter.VAR_POSITIONAL
                if numbers and not listed and of_numbers(parameter.annotation):
                    yield sample, call, name


def of_numbers(annotation):
    """Whether a parameter takes integers but no arrays, whose integers have dtypes."""
    text = str(annotation)
    return "ArrayLike" not in text and any(t in text for t in ("int", "Size", "Shape"))



def built(sample, call, variables, name="", make=None):
    """The values of a call, with `make(i)` for each integer of the argument `name`."""
    bound = inspect.signature(sample.function()).bind(*call.args, **call.options)
    if name:
        bound.arguments[name] = with_numbers(bound.arguments[name], make)
    dtype = "float32" if "float32" in sample.dtypes else sample.dtypes[0]

    def variable(spec):
        fresh = gt.tensor("x", spec.dtype or dtype, spec.shape)
        return variables.setdefault(spec, fresh)

    changed = Call(bound.args, bound.kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = applied(sample.function(), changed, variable)
        return [as_value(v) for v in flat(result)]


def test_an_integer_of_numpy_is_that_of_python():
    """Equal nodes are one object, so the very same values must come out."""
    tried = 0
    for sample, call, name in calls_with_numbers():
        variables = {}
        try:
            expected = built(sample, call, variables)
        except graphc.GraphError:
            continue
        for kind in (np.int64, np.int32, np.array):
            if kind is np.array and takes_no_array(sample.name, name):
                continue
            values = built(sample, call, variables, name, kind)
            same = all(x is y for x, y in zip(values, expected, strict=True))
            assert same, (sample.name, name, call, kind)
        tried += 1
    assert tried > 250


def takes_no_array(function, name):
    """Whether an array there is a label or an index, so differs from a number."""
    return function == "getitem" or (function, name) == ("array_split", "axis")


x = gt.tensor("x", "float32", (4, 6))
three = np.int64(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gt.tensordot(x, x, 1.0), "tensordot: axes must be an integer"),
        (lambda: gt.diag(x, 1.0), "diag: the diagonal must be an integer"),
        (lambda: gt.diag(x, np.bool_(1)), "diag: the diagonal must be an integer"),
        (lambda: gt.diagonal(x, 0.5), "diagonal: the offset must be an integer"),
        (lambda: gt.eye(3, k=1.0), "eye: the diagonal must be an integer"),
        (lambda: gt.tri(3, k=np.float64(1)), "tri: the diagonal must be an integer"),
        (lambda: gt.diff(x, 2.0), "diff: the order must be an integer"),
        (lambda: gt.diag_indices(3, 2.0), "diag_indices: ndim must be an integer"),
        (lambda: gt.linalg.tensorinv(x, 1.0), "tensorinv: ind must be an integer"),
        (lambda: gt.partition(x, 1.0), "partition: kth must be integers"),
        (lambda: gt.bincount(gt.ivector("i"), minlength=2.5), "the least length"),
        (lambda: gt.map(gt.sin, x, batch_size=2.0), "map: the size of a batch is an"),
        (lambda: gt.scan(lambda c, r: (c, r), 0, x, unroll=2.0), "scan: unroll must"),
        (
            lambda: graphc.vmap(gt.sin, in_axes=0.0)(x),
            "vmap: not an axis: 0.0 in in_axes",
        ),
        (lambda: graphc.vmap(gt.sin, in_axes=True)(x), "vmap: no axis: True in"),
        (lambda: graphc.Budget(compilations=3.0), "compilations must be an integer"),
        (lambda: graphc.Pad(minimum=True), "Pad: minimum must be an integer"),
        (lambda: graphc.learned([3, 4.5], 2), "learned: needs a list of sizes"),
    ],
)
def test_floats_and_bools_are_refused(call, message):
    with pytest.raises(graphc.GraphError, match=message):
        call()


def test_loops_and_policies_take_integers_of_numpy():
    batched = graphc.vmap(gt.sin, in_axes=np.int64(1), out_axes=np.int32(1))(x)
    assert batched.type.shape == (4, 6)
    y = gt.map(gt.sin, x, batch_size=three)
    _, z = gt.scan(lambda c, row: (c, row * 2), 0, x, unroll=three)
    f = graphc.function([x], [y, z], backend="numpy")
    array = np.ones((4, 6), "float32")
    np.testing.assert_allclose(f(array)[0], np.sin(array), rtol=1e-6)
    np.testing.assert_allclose(f(array)[1], 2 * array)
    budget = graphc.Budget(compilations=three, largest=np.int64(64))
    assert budget == graphc.Budget(compilations=3, largest=64)
    assert type(budget.largest) is int
    assert graphc.learned([np.int64(3), 9], three) == graphc.learned([3, 9], 3)
    assert type(graphc.Pad(minimum=three).minimum) is int


def test_options_of_functions_take_integers_of_numpy():
    v = gt.tensor("v", "float32", ("n",))
    f = graphc.function([v], gt.exp(v), donate=[np.int64(0)])
    assert list(f(np.zeros(2, "float32"))) == [1, 1]
    ragged = graphc.ragged([v], gt.sum(v), batch=np.int64(2), backend="numpy")
    assert list(ragged([np.ones(n, "float32") for n in (1, 2, 3)])) == [1, 2, 3]
    assert graphc.mesh(data=np.int64(1)).axis_names == ("data",)
