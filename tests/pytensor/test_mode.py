"""The mode "GRAPHC": shared variables, sizes, Ops on the host, errors, messages."""

import re

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse
from numpy.linalg import LinAlgError
from pytensor import sparse
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.ifelse import ifelse
from pytensor.raise_op import CheckAndRaise

import graphc
import graphc.pytensor
import graphc.tensor as gt

pytestmark = pytest.mark.usefixtures("compiled_quickly", "python_only")
VECTOR = np.array([3.0, 1.0, 2.0])
PLAIN = pytensor.Mode("py", "minimum_compile")


class Doubled(Op):
    """An Op that graphc has no conversion for."""

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * 2

    def grad(self, inputs, slopes):
        return [slopes[0] * 2]

    pullback = lambda self, inputs, outputs, slopes: self.grad(inputs, slopes)


class Tripled(Doubled):
    """An Op for which its user registers a conversion."""


@graphc.pytensor.convert_op.register(Tripled)
def _(op, node, x):
    return x * 3


def both(inputs, outputs, **options):
    """The function compiled on each backend."""
    modes = [graphc.pytensor.mode(backend=b) for b in ("numpy", "jax")]
    return [pytensor.function(inputs, outputs, mode=m, **options) for m in modes]


def test_the_mode_is_known_by_its_name():
    x = pt.dvector("x")
    f = pytensor.function([x], pt.exp(x), mode="GRAPHC")
    np.testing.assert_allclose(f(VECTOR), np.exp(VECTOR))
    [compiled] = graphc.pytensor.program_of(f).functions
    assert compiled.backend == "jax"


def test_the_mode_may_be_the_default():
    x = pt.dvector("x")
    with pytensor.config.change_flags(mode="GRAPHC"):
        f = pytensor.function([x], x * 2)
    assert graphc.pytensor.program_of(f).functions
    with pytest.raises(ValueError, match="Instead got: GRAFC"):
        pytensor.config.mode = "GRAFC"


def test_options_that_there_are_not_are_refused_at_once():
    with pytest.raises(TypeError, match="argument 'dim'; did you mean 'dims'"):
        graphc.pytensor.mode(dim="pad")
    with pytest.raises(TypeError, match="'zzz'; expected backend, jit, check"):
        graphc.pytensor.mode(zzz=1)


@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_functions_of_equal_graphs_share_programs_of_64_bits(dims):
    mode = graphc.pytensor.mode(dims=dims)
    for _ in range(3):
        x = pt.dvector("x")
        f = pytensor.function([x], [x * 2, pt.sum(x**2)], mode=mode, trust_input=True)
        doubled, total = f(VECTOR)
        assert doubled.dtype == total.dtype == "float64" and total == 14.0


def test_errors_name_the_line_of_the_call_and_of_the_model():
    x, y = pt.dvector("x"), pt.dvector("y")
    total = x + y  # the model
    for f in both([x, y], total):
        with pytest.raises(ValueError) as raised:
            f(np.ones(2), np.ones(3))  # the call
        text = str(raised.value)
        assert "asked for by test_mode.py:" in text
        assert re.search(r"  at .*test_mode\.py:\d+: f\(np.ones\(2\)", text)


def test_functions_may_have_no_outputs():
    assert pytensor.function([], [], mode="GRAPHC")() == []


def test_results_belong_to_the_caller():
    x = pt.dvector("x")
    for f in both([x], [x, x + 1]):
        same, more = f(VECTOR)
        same += 1
        more += 1
        np.testing.assert_array_equal(f(VECTOR)[0], [3, 1, 2])


def test_arguments_may_be_written_to_after_a_call():
    x, y = pt.dvector("x"), pt.dvector("y")
    for f in both([x, y], [y[::-1], pt.cumsum(x)]):  # not in the graph's order
        for n in (3, 3, 3, 3000):
            given = np.ones(n), np.arange(n) * 1.0
            turned, sums = f(*given)
            given[0][:], given[1][:] = 7, 7
            assert (sums[-1], turned[0]) == (n, n - 1)


def test_shared_variables_are_read_and_updated_at_each_call():
    for backend in ("numpy", "jax"):
        s, x = pytensor.shared(np.zeros(2)), pt.dscalar("x")
        mode = graphc.pytensor.mode(backend=backend)
        f = pytensor.function([x], s.sum(), updates={s: s + x}, mode=mode)
        assert [f(1.0), f(2.0)] == [0.0, 2.0]
        np.testing.assert_array_equal(s.get_value(), [3.0, 3.0])
        s.set_value(np.ones(5))  # another size
        assert f(0.0) == 5.0


def test_sizes_may_change_between_calls_and_are_padded():
    x = pt.dvector("x")
    mode = graphc.pytensor.mode(dims="pad")
    f = pytensor.function([x], pt.log(x[x > 1]).sum(), mode=mode)
    for n in range(1, 12):
        given = np.arange(n) + 1.0
        np.testing.assert_allclose(f(given), np.log(given).sum())
    [compiled] = graphc.pytensor.program_of(f).functions
    assert len(compiled.stats().compilations) == 1


def test_an_op_that_is_not_known_is_performed_between_compiled_parts():
    x = pt.dvector("x")
    y = (Doubled()(pt.sin(x)) ** 2).sum()
    for f in both([x], [y, pytensor.grad(y, x)]):
        value, slope = f(VECTOR)
        np.testing.assert_allclose(value, (4 * np.sin(VECTOR) ** 2).sum())
        np.testing.assert_allclose(slope, 8 * np.sin(VECTOR) * np.cos(VECTOR))
        lines = graphc.pytensor.program_of(f).explain(full=True).splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("host"))
        assert lines[start : start + 3] == [
            "host: PyTensor performs Doubled",
            "  because Doubled has no conversion",
            "  to remove it: register one with graphc.pytensor.convert_op.register",
        ]


def test_sparse_arrays_are_left_to_pytensor():
    x, y = sparse.csr_matrix("x", dtype="float64"), pt.dmatrix("y")
    given = scipy.sparse.csr_matrix(np.diag(VECTOR)), np.ones((3, 2))
    for f in both([x, y], sparse.dot(x, y) * 2):
        np.testing.assert_array_equal(f(*given), 2 * given[0] @ given[1])


def test_inputs_of_many_sizes_do_not_part_a_function():
    inputs = [pt.dvector(name) for name in "abcdef"]
    outputs = [pt.exp(pt.sin(x) + 0.5 * x**2).sum() for x in inputs]
    f = pytensor.function(inputs, [*outputs, *pytensor.grad(sum(outputs), inputs)])
    g = pytensor.function(
        inputs, [*outputs, *pytensor.grad(sum(outputs), inputs)], mode="GRAPHC"
    )
    [compiled] = graphc.pytensor.program_of(g).functions
    assert len(compiled.plan.segments) == 1
    given = [np.arange(n) / n for n in range(1, 7)]
    for ours, theirs in zip(g(*given), f(*given), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-12)


def test_a_conversion_of_ones_own_is_used():
    x = pt.dvector("x")
    for f in both([x], Tripled()(x) + 1):
        np.testing.assert_array_equal(f(VECTOR), VECTOR * 3 + 1)
        assert len(graphc.pytensor.program_of(f).steps) == 1


def test_random_variables_draw_what_pytensor_draws():
    ours = [graphc.pytensor.mode(backend=b) for b in ("numpy", "jax")]
    drawn = [draws(mode) for mode in ("FAST_COMPILE", *ours)]
    np.testing.assert_allclose(drawn[1], drawn[0])
    np.testing.assert_allclose(drawn[2], drawn[0])
    assert drawn[0][0] != drawn[0][1]


def draws(mode):
    """The results of two calls of a function that draws from a shared generator."""
    x, rng = pt.dvector("x"), pytensor.shared(np.random.default_rng(7))
    after, drawn = pt.random.gamma(x, 2.0, rng=rng).owner.outputs
    f = pytensor.function([x], pt.exp(-drawn).sum(), updates={rng: after}, mode=mode)
    return [float(f(VECTOR)), float(f(VECTOR))]


class NotAllowed(Exception):
    """An exception class of the user's own."""


def grown(rows, start):
    """A scan whose carry grows by one element in each step."""
    step = lambda _, carry: pt.concatenate([carry, carry[:1]])
    return pytensor.scan(
        step, sequences=rows, outputs_info=[start], return_updates=False
    )


def failing():
    """(inputs, outputs, arguments, the class that PyTensor raises) by name."""
    x, y, m, i = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("m"), pt.lscalar("i")
    v = pt.lvector("v")
    checked = CheckAndRaise(NotAllowed, "x must be positive")(x, pt.all(x > 0))
    two, three = np.ones(2), np.ones(3)
    return {
        "broadcast": ([x, y], x + y, (two, three), ValueError),
        "stretch": ([x, y], x + y, (two, np.ones(1)), ValueError),
        "product": ([m, x], m @ x, (np.ones((2, 2)), three), ValueError),
        "reshape": ([x], x.reshape((2, 2)), (three,), ValueError),
        "join": ([m, x], pt.join(0, m, x[None]), (np.ones((2, 2)), three), ValueError),
        "item": ([x, i], x[i], (two, 2), IndexError),
        "take": ([x, v], x[v], (two, np.array([0, 5])), IndexError),
        "specify_shape": ([x], pt.specify_shape(x, 3), (two,), AssertionError),
        "check": ([x], checked * 2, (-two,), NotAllowed),
        "split": ([x], pt.split(x, [1, 1], n_splits=2)[0], (three,), ValueError),
        "dtype": ([v], v * 2, (two,), TypeError),
        "mask": ([x, v], x[v > 0], (three, np.array([0, 5])), IndexError),
        "singular": ([m], pt.linalg.inv(m), (np.ones((2, 2)),), LinAlgError),
        "square": ([m], pt.linalg.inv(m), (np.ones((2, 3)),), LinAlgError),
        "no_step": ([i], pt.arange(0, 5, i), (0,), ZeroDivisionError),
        "eye": ([i], pt.eye(i, 2), (-1,), ValueError),
        "power": ([v, i], v**i, (np.array([2, 3]), -1), ValueError),
        "step_shape": ([x, y], grown(x, y), (two, two), ValueError),
        "rank": ([x], x * 2, (np.ones((2, 2)),), TypeError),
        "missing": ([x, y], x + y, (two,), TypeError),
    }


@pytest.mark.parametrize("name", failing())
def test_errors_are_of_the_class_that_pytensor_raises(name):
    inputs, outputs, arguments, kind = failing()[name]
    with pytest.raises(kind):
        pytensor.function(inputs, outputs, mode=PLAIN)(*arguments)
    for backend in ("numpy", "jax"):
        mode = graphc.pytensor.mode(backend=backend, check=True)
        with pytest.raises(kind):
            pytensor.function(inputs, outputs, mode=mode)(*arguments)


def test_a_graph_is_converted_with_its_shared_variables():
    x, s = pt.dvector("x"), pytensor.shared(np.array(2.0), name="s")
    graph = graphc.pytensor.convert([x * s, x.shape[0]], [x])
    assert graph.input_names == ("x", "s")
    f = graphc.function(graph.inputs, graph.outputs, backend="numpy")
    product, size = f(VECTOR, 3.0)
    np.testing.assert_array_equal(product, VECTOR * 3)
    assert size == 3


def test_graphc_takes_the_gradient():
    x, w = pt.dmatrix("x"), pt.dvector("w")
    cost = pt.softplus(x @ w).sum()
    graph = graphc.pytensor.value_and_grad(cost, [w], [x, w])
    f = graphc.function(graph.inputs, graph.outputs, backend="numpy")
    given = np.arange(6.0).reshape(3, 2) / 3, np.array([0.5, -1.0])
    expected = pytensor.function([x, w], [cost, pytensor.grad(cost, w)])(*given)
    for ours, theirs in zip(f(*given), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-12)


def test_what_cannot_be_converted_is_told():
    x, rng = pt.dvector("x"), pytensor.shared(np.random.default_rng(7))
    with pytest.raises(graphc.GraphError) as missing:
        graphc.pytensor.convert(Doubled()(x), [x])
    assert str(missing.value).splitlines()[:2] == [
        "convert: there is no conversion of Doubled",
        "  hint: register one with graphc.pytensor.convert_op.register, or use the mode"
        ' "GRAPHC"',
    ]
    with pytest.raises(graphc.GraphError, match="an input is missing"):
        graphc.pytensor.convert(x + pt.dvector("y"), [x])
    with pytest.raises(graphc.GraphError, match="an input is not a tensor"):
        graphc.pytensor.convert(pt.random.normal(rng=rng) + x, [x])
    with pytest.raises(graphc.GraphError, match="not a function of graphc"):
        graphc.pytensor.program_of(pytensor.function([x], x))
    message = "gradients are taken with respect to inputs"
    with pytest.raises(graphc.GraphError, match=message):
        graphc.pytensor.value_and_grad(x.sum(), pt.exp(x), [x])


def test_values_of_graphc_go_on_from_a_converted_graph():
    x = pt.dvector("x")
    graph = graphc.pytensor.convert(pt.sqr(x), [x])
    total = gt.sum(graph.outputs[0])
    assert graphc.function(graph.inputs, total, backend="numpy")(VECTOR) == 14


def test_options_that_say_nothing_are_refused_where_the_mode_is_made():
    for name, value in [
        ("dims", "padd"),
        ("dims", {"n": "padd"}),
        ("backend", "jaxx"),
        ("jit", "most"),
        ("check", 1),
        ("rewrites", "none"),
        ("tier", "fast"),
        ("casting", "saf"),
    ]:
        with pytest.raises(graphc.GraphError, match="^mode: "):
            graphc.pytensor.mode(**{name: value})
    with pytest.raises(graphc.GraphError, match="^mode: tier='auto' is not for"):
        graphc.pytensor.mode(tier="auto", backend="numpy")


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "wrap"])
def test_padding_by_elements_is_compiled_once_for_many_sizes(mode):
    x = pt.dmatrix("x")
    padded = pt.pad(x, ((1, 2), (0, 3)), mode=mode)
    slope = pytensor.grad(pt.sum(padded**2), x)
    f = pytensor.function([x], [padded, slope], mode=graphc.pytensor.mode())
    for shape in [(5, 6), (6, 7), (9, 8), (4, 3), (7, 2), (3, 9), (1, 4)]:
        a = np.arange(float(np.prod(shape))).reshape(shape)
        expected = np.pad(a, ((1, 2), (0, 3)), mode=mode)
        times = np.bincount(expected.astype(int).ravel()).reshape(shape)
        for result, right in zip(f(a), [expected, 2 * a * times], strict=True):
            np.testing.assert_array_equal(result, right)
    (compiled,) = graphc.pytensor.program_of(f).steps
    assert len(compiled.function.stats().compilations) == 2


def test_compilations_of_a_function_are_limited():
    """This holds for functions that the linker made, and for resized data."""
    data = pytensor.shared(VECTOR)
    x = pt.dvector("x")
    f = pytensor.function([x], pt.exp(x).sum() + data.sum(), mode="GRAPHC")
    [compiled] = graphc.pytensor.program_of(f).functions
    refused = pytest.raises(graphc.NoCompileError, match="nothing may be compiled")
    with graphc.stance("no_compile", compiled), refused:
        f(VECTOR)
    with graphc.assert_compiles(compiled, at_most=2):
        for n in (3, 5, 7, 5, 3):
            np.testing.assert_allclose(f(np.zeros(n)), n + VECTOR.sum())
        with pytest.raises(graphc.TooManyCompilationsError, match="no more than 2"):
            f(np.zeros(400))
    with graphc.stance("no_compile"):
        data.set_value(VECTOR * 2)
        np.testing.assert_allclose(f(np.zeros(7)), 7 + 2 * VECTOR.sum())
        with pytest.raises(graphc.NoCompileError):
            f(np.zeros(400))
    np.testing.assert_allclose(f(np.zeros(400)), 400 + 2 * VECTOR.sum())
    assert len(compiled.stats().compilations) == 3


OUT_OF_BOUNDS = {
    "an element": lambda x, j: x[j],
    "elements set": lambda x, j: pt.set_subtensor(x[j], 5.0),
    "elements added to": lambda x, j: pt.inc_subtensor(x[j], 5.0),
    "rows in a scan": lambda x, j: pytensor.scan(
        lambda i, v: v[i], sequences=[j], non_sequences=[x], return_updates=False
    ),
}


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_indices_out_of_bounds_are_errors_as_in_pytensor(name, backend):
    x, j = pt.dvector("x"), pt.lvector("j")
    mode = graphc.pytensor.mode(backend=backend)
    f = pytensor.function([x, j], OUT_OF_BOUNDS[name](x, j), mode=mode)
    f(VECTOR, [0, 2, -3])
    for wrong in (3, -4):
        with pytest.raises(IndexError, match="out of bounds"):
            f(VECTOR, [0, wrong])
    f(VECTOR, [0, 1])


def test_indices_into_shapes_are_in_bounds():
    j = pt.lvector("j")
    f = pytensor.function([j], pt.unravel_index(j, (2, 3)), mode="GRAPHC")
    np.testing.assert_array_equal(f([5]), [[1], [2]])
    g = pytensor.function([j], pt.ravel_multi_index((j, j), (2, 3)), mode="GRAPHC")
    np.testing.assert_array_equal(g([1]), [4])
    for call, wrong in ((f, [6]), (f, [-1]), (g, [2])):
        with pytest.raises(ValueError, match="an index is out of bounds"):
            call(wrong)


def test_matrices_that_pytensor_lets_pass_are_no_errors():
    m = pt.dmatrix("m")
    f = pytensor.function([m], pt.linalg.cholesky(m), mode="GRAPHC")
    assert np.isnan(f(-np.eye(2))[0, 0])


SIZES_OF_EMPTY_ARRAYS = {  # expressions of a vector and a matrix's sizes
    "roll": lambda x, m, n: pt.roll(x, 3),
    "roll of columns": lambda x, m, n: pt.roll(m[:, 1:], -1, axis=1),
    "quotient": lambda x, m, n: x[: 5 // n],
    "remainder of a part": lambda x, m, n: x.sum() + 7 % (n // 2),
    "remainder of data": lambda x, m, n: 10 % x[x > 1].shape[0] + 10 // x[x > 1].size,
}


@pytest.mark.parametrize("options", [{}, {"dims": "pad"}, {"backend": "numpy"}])
@pytest.mark.parametrize("name", SIZES_OF_EMPTY_ARRAYS)
def test_numbers_divided_by_sizes_of_empty_arrays_are_zero(name, options):
    x, m = pt.dvector("x"), pt.dmatrix("m")
    y = SIZES_OF_EMPTY_ARRAYS[name](x, m, m.shape[0])
    ours = pytensor.function(
        [x, m], y, mode=graphc.pytensor.mode(**options), on_unused_input="ignore"
    )
    theirs = pytensor.function([x, m], y, mode=PLAIN, on_unused_input="ignore")
    for n in (3, 0, 1, 2, 5, 4):
        arguments = np.arange(1.0 * n), np.ones((n, n + 1))
        np.testing.assert_array_equal(ours(*arguments), theirs(*arguments))


def test_sums_of_short_integers_that_are_read_later_have_the_declared_dtype():
    s, flag = pytensor.shared(np.array([1, 2], "int8")), pt.bscalar("flag")
    sums = pt.cumsum(s)
    result = Doubled()(sums) + ifelse(flag, sums, s)
    f = pytensor.function([flag], result, updates={s: sums}, mode="GRAPHC")
    assert [f(1).tolist(), f(0).tolist()] == [[3, 9], [3, 11]]
    assert s.get_value().tolist() == [1, 4]
