"""Mistakes that users make at each entry point, and the messages for them."""

import pickle
import traceback

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import is_own
from graphc.ir.config import Config
from tests.errors.messages import ones, raised, refused, rows

x = gt.tensor("x", "float32", ("n", 3))
y = gt.tensor("y", "float32", ("n",))
s = gt.scalar("s")
k = gt.iscalar("k")


def square(v):
    return v * v


def numpy_jit(function, **options):
    return graphc.jit(function, frontend="numpy", **options)


def no_function(op):
    hint = f"hint: graphc.{op}(function), or @graphc.{op} above a function"
    return f"{op}: the argument must be a function", hint


@rows(
    (lambda: graphc.jit(3), *no_function("jit")),
    (lambda: graphc.jit(dims="pad")(3), *no_function("jit")),
    (lambda: graphc.block(3), *no_function("block")),
    (lambda: graphc.checkpoint(s * 2), *no_function("checkpoint"), "got: <multiply"),
    (lambda: graphc.vmap(s * 2), *no_function("vmap")),
    (lambda: graphc.optimize(3), *no_function("optimize")),
    (lambda: graphc.custom_vjp(s), *no_function("custom_vjp"), "got: <s: float32[]>"),
    (
        lambda: gt.scan(s, y, square),
        "scan: the first argument must be the body, a function",
        "got: <s: float32[]>",
        "hint: gt.scan(body, init, xs), as jax.lax.scan",
    ),
    (
        lambda: gt.scan(lambda c, v: (c, v), s, y, reverse="yes"),
        "scan: reverse must be True or False",
        "got: reverse='yes'",
    ),
    (
        lambda: gt.switch(k, square, square),
        "switch: branches must be a list of functions",
        "hint: gt.switch(index, [lambda: a, lambda: b])",
    ),
    (
        lambda: gt.switch(s, [square]),
        "switch: the index must be an integer scalar",
        'hint: convert it: index.astype("int64")',
    ),
)
def test_functions_and_values_that_are_swapped(row):
    raised(*row)


@rows(
    (
        lambda: graphc.vmap(square, in_axes="0")(y),
        "vmap: no axis has the size '0'",
        "hint: name an axis by its size, or give its number, as in_axes=0",
    ),
    (
        lambda: graphc.vmap(square, out_axes=3)(y),
        "vmap: axis 3 is out of range",
        "expected: an axis from -1 to 0",
    ),
    (
        lambda: graphc.vmap(lambda v: None)(y),
        "vmap: neither an array nor a number",
        "got: None",
    ),
    (
        lambda: graphc.grad(gt.sum(halved(y)), y),
        "custom_vjp: the forward rule must return a pair: outputs and residuals",
        "hint: return outputs, residuals",
    ),
    (
        lambda: graphc.grad(halved_product([x, x]), x),
        "custom_vjp: a cotangent does not have the structure of its argument",
        "got: 1 values",
    ),
)
def test_derivatives_and_examples(row):
    raised(*row)


halved = graphc.custom_vjp(lambda v: v / 2)
halved.defvjp(lambda v: v / 2, lambda kept, g: (g / 2,))
halved_product = graphc.custom_vjp(lambda pair: gt.sum(pair[0] * pair[1]) / 2)
halved_product.defvjp(lambda pair: (pair[0], None), lambda kept, g: (g / 2,))


def put():
    x.at[0] = 1


def within_no_stance():
    with graphc.stance("fail"):
        pass


def test_what_is_assigned_and_entered():
    first, hint = "index: values are never changed", "hint: write y = x.at[index].set"
    with pytest.raises(graphc.GraphError) as caught:
        put()
    assert str(caught.value).startswith(first) and hint in str(caught.value)
    with pytest.raises(graphc.GraphError) as caught:
        within_no_stance()
    assert 'with graphc.stance("fail"):' in str(caught.value).splitlines()[-2]


@rows(
    (
        lambda: gt.matrix("m", ("n", 3)),
        "matrix: unknown dtype ('n', 3)",
        "hint: name it, if it is the shape: shape=('n', 3)",
    ),
    (
        lambda: gt.mean(x, 0, 1),
        "mean: unknown dtype 1",
        "hint: several axes go in one tuple, as axis=(0, 1)",
    ),
    (lambda: graphc.Pad(growth="2"), "Pad: growth must be a number", "got: '2'"),
    (lambda: graphc.Pad(buckets=["a"]), "Pad: buckets must be integers", "got: 'a'"),
    (lambda: graphc.Pad(minimum=2.5), "Pad: minimum must be an integer", "got: 2.5"),
    (
        lambda: graphc.Budget(compilations="many"),
        "Budget: compilations must be an integer",
        "got: compilations='many'",
    ),
    (
        lambda: graphc.Budget(sizes={"n": 3}),
        "Budget: sizes must be lists, by the names of sizes",
        'hint: sizes={"n": [3, 4, 5]}; for one that never changes, [4]',
    ),
    (
        lambda: graphc.Budget(sizes=[3]),
        "Budget: sizes must be lists, by the names of sizes",
    ),
    (
        lambda: graphc.learned("abc", 2),
        "learned: needs a list of sizes, and a number of buckets",
        "hint: graphc.learned([3, 3, 10, 11], 2)",
    ),
    (lambda: graphc.learned([3], 0), "learned: needs at least one bucket", "got: 0"),
    (
        lambda: graphc.mesh(4),
        "mesh: a mesh needs axes, each with a number of devices",
        "got: 4",
        "hint: graphc.mesh(data=4, model=2)",
    ),
    (
        lambda: graphc.rewrites.default + "x",
        "rewrite: only rules can be joined to rules",
        "got: 'x'",
    ),
    (
        lambda: graphc.jit(square, static_argnums="1"),
        "jit: static_argnums are the positions of arguments",
        "hint: static_argnames='k' names them",
    ),
    (
        lambda: graphc.jit(square, device="cuda"),
        "jit: a device must be one of JAX",
        "got: device='cuda'",
    ),
    (
        lambda: graphc.from_jax(square, "float32[n]"),
        "from_jax: arguments must be arrays, types of arrays, or variables",
        "got: 'float32[n]'",
    ),
)
def test_options(row):
    raised(*row)


# The configuration.


def set_to(name, value):
    return lambda: setattr(graphc.config, name, value)


@rows(
    (
        set_to("dims", "padd"),
        "config: not a policy for sizes; did you mean 'pad'?",
    ),
    (set_to("dims", 3), "config: not a policy for sizes"),
    (set_to("casting", "any"), "config: casting cannot be 'any'"),
    (
        set_to("float", "int32"),
        "config: the default float cannot be int32",
        "expected: float16, float32, float64 or bfloat16",
    ),
)
def test_settings(row):
    before = graphc.config.dims
    raised(*row)
    assert graphc.config.dims is before


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("GRAPHC_DIMS", "padd", "auto, specialize, pad or bound"),
        ("GRAPHC_FLOAT", "float63", "float16, float32, float64 or bfloat16"),
        ("GRAPHC_CASTING", "none", "one of 'exact', 'safe', 'same_kind'"),
        ("GRAPHC_MAX_BYTES", "lots", "an integer, at least 16"),
        ("GRAPHC_PROGRESS", "maybe", "0 or 1"),
    ],
)
def test_variables_of_the_environment(variable, value, expected):
    """The error names no line, since no line of the user's is wrong."""
    with pytest.raises(graphc.GraphError) as caught:
        Config({variable: value})
    assert str(caught.value) == (
        f"config: the environment variable {variable} cannot be {value!r}\n"
        f"  expected: {expected}\n  help: graphc help settings"
    )


# Calls.


@rows(
    (lambda: added((ones(2, 3), ones(2))), "hint: write f(*arguments)"),
    (lambda: added([ones(2, 3), ones(2)]), "hint: write f(*arguments)"),
    (lambda: added({"x": ones(2, 3), "y": ones(2)}), "hint: write f(**arguments)"),
)
def test_all_arguments_in_one(row):
    call, hint = row
    refused(call, "call: missing inputs: y", hint)


added = graphc.function([x, y], x[:, 0] + y, backend="numpy")
total = graphc.ragged([y], gt.sum(y), backend="numpy")


@rows(
    (lambda: total(ones(3)), "hint: give a list of examples: f([x])"),
    (
        lambda: total([np.ones(3)]),
        'hint: graphc.ragged(..., casting="same_kind") takes it',
    ),
)
def test_examples_of_ragged(row):
    call, hint = row
    refused(call, "ragged: an example of y has another type", hint)


def told(call, kind):
    """The first line of a call's error, whose traceback has no frame of graphc."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    frames = traceback.extract_tb(error.__traceback__)
    assert [f for f in frames if is_own(f.filename)] == []
    return str(error).splitlines()[0]


@pytest.mark.parametrize(
    ("call", "kind", "first"),
    [
        (lambda: graphc.jit(square)(), TypeError, "square() missing 1"),
        (lambda: graphc.jit(square)(1.0, 2.0), TypeError, "square() takes 1 pos"),
        (lambda: graphc.jit(square)("a"), TypeError, "Error interpreting argument to"),
        (lambda: graphc.jit(square, static_argnums=5), ValueError, "Jitted function"),
        (lambda: graphc.jit(square, dim="pad"), TypeError, "jit() got an unexpected"),
        (
            lambda: graphc.function([x], x, mode="FAST_RUN"),
            TypeError,
            "function() got an unexpected keyword argument 'mode'; give the options",
        ),
        (
            lambda: graphc.function([x], x, rewrite=graphc.rewrites.none),
            TypeError,
            "function() got an unexpected keyword argument 'rewrite'; did you",
        ),
        (lambda: graphc.jit(lambda v: "a")(1.0), TypeError, "function <lambda> at "),
        (lambda: graphc.jit(square).export("m"), TypeError, "square() missing 1 req"),
        (lambda: graphc.jit(square).compile("a"), graphc.GraphError, "compile: "),
        (lambda: graphc.from_jax(square), graphc.GraphError, "from_jax: needs "),
        (lambda: numpy_jit(square)(), TypeError, "square() missing 1 required posit"),
        (lambda: numpy_jit(square)("a"), TypeError, "args[0] of square is of type str"),
        (
            lambda: numpy_jit(square)(np.array(["a"])),
            TypeError,
            "args[0] of square is an array of dtype <U1, which programs do not have",
        ),
        (
            lambda: numpy_jit(lambda v, k: v, static_argnames="k")(1.0, k=[1]),
            TypeError,
            "static arguments must be hashable (k): unhashable type: 'list'",
        ),
        (
            lambda: numpy_jit(lambda v: v.fooo)(ones(3)),
            AttributeError,
            "a symbolic value has no attribute 'fooo'",
        ),
        (
            lambda: numpy_jit(lambda v: v.item())(ones(1)),
            graphc.GraphError,
            "item: a symbolic value has no item while a function is traced",
        ),
        (
            lambda: numpy_jit(lambda v: np.sn(v))(ones(1)),
            AttributeError,
            "module 'numpy' has no attribute 'sn'",
        ),
        (
            lambda: numpy_jit(lambda v: v.sum(dim=0))(ones(3)),
            graphc.GraphError,
            "numpy.sum: got an unexpected keyword argument 'dim'",
        ),
        (
            lambda: numpy_jit(lambda v: np.histogram(v, bins="auto"))(ones(3)),
            graphc.GraphError,
            "histogram: the number of bins cannot be chosen from the data",
        ),
        (
            lambda: numpy_jit(lambda v: (v, "name"))(ones(3)),
            graphc.GraphError,
            "jit: the function returns text, but results must be arrays or numbers",
        ),
        (
            lambda: numpy_jit(overfull)(ones(2)),
            graphc.GraphError,
            "index: the update has more axes than the part it is written to",
        ),
    ],
)
def test_functions_that_are_jitted(call, kind, first):
    assert told(call, kind).startswith(first)


def overfull(v):
    rows_of_three = np.zeros(3)
    rows_of_three[0] = v
    return rows_of_three


def test_a_mistake_within_keeps_the_frames_below_the_users(monkeypatch):
    """Frames above, from the call to the user's function, are still removed."""

    monkeypatch.setattr("graphc.importers.numpy.traced.in_place.call_on_arrays", None)
    with pytest.raises(TypeError) as caught:
        numpy_jit(lambda v: v.sort())(ones(3))
    files = [f.filename for f in traceback.extract_tb(caught.value.__traceback__)]
    users = [i for i, name in enumerate(files) if name == __file__]
    assert [name for name in files[: users[-2]] if is_own(name)] == []
    assert any(is_own(name) for name in files[users[-2] :])


def test_attributes_that_functions_of_jit_have_not():
    f = graphc.jit(square)
    with pytest.raises(AttributeError, match=r"has no attribute 'plan'; f\.plans are"):
        f.plan  # noqa: B018
    with pytest.raises(AttributeError, match=r"'save'; f\.export\(path, \.\.\.\)"):
        f.save("model.py")
    assert pickle.loads(pickle.dumps(f))(2.0) == 4.0


# Files.


def test_attributes_that_compiled_functions_have_not():
    f = graphc.function([y], gt.sum(y))
    for name, way in (
        ("compilations", "; write f.stats().compilations"),
        ("plot", "; write f.show(), which opens the plan as a picture"),
        ("sorce", "; did you mean 'source'?"),
        ("nothing_like_that", ""),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(f, name)
        problem = f"a compiled function has no attribute {name!r}"
        assert str(caught.value) == problem + way


def test_functions_of_graphs_are_not_those_of_the_package():
    with pytest.raises(AttributeError, match="'scan'; import graphc.tensor as gt, and"):
        getattr(graphc, "scan")  # noqa: B009  (mypy knows that there is none)
    with pytest.raises(TypeError, match="1 positional argument"):
        graphc.Pad(16)


def test_a_model_of_no_sizes_is_not_written(tmp_path):
    f = graphc.function([y], gt.sum(y), dims="pad")
    first = "export: these sizes list no calls: nothing would be served"
    raised(lambda: f.export(tmp_path / "a.model", {"n": []}), first)
    assert not any(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "none" / "model.py"
    with pytest.raises(FileNotFoundError) as caught:
        added.save(path)
    assert str(caught.value) == f"[Errno 2] No such file or directory: {str(path)!r}"


def test_graphs_of_pytensor_are_no_values():
    pt = pytest.importorskip("pytensor.tensor")
    hint = 'hint: compile graphs of PyTensor by pytensor.function(..., mode="GRAPHC")'
    raised(lambda: gt.sin(pt.dvector("v")), "sin: neither an array nor a number", hint)


def test_the_program_of_what_is_no_function():
    pytest.importorskip("pytensor")
    import graphc.pytensor

    first = "program_of: not a function of graphc"
    raised(lambda: graphc.pytensor.program_of(3), first, "got: 3")


# Messages that used to be wrong, or said too little.


@rows(
    (lambda: gt.round(y, "a"), "round: the number of decimals must be an integer"),
    (lambda: graphc.from_jax(3), *no_function("from_jax")),
    (
        lambda: numpy_jit(lambda v: int(v[:1]))(ones(3)),
        "int: a symbolic value has no number before the function is called",
        'hint: use x.astype("int64")',
    ),
    (
        lambda: numpy_jit(lambda v: np.mean(v, dim=0))(ones(3)),
        "numpy.mean: got an unexpected keyword argument 'dim'",
        "hint: write axis=",
    ),
    (
        lambda: gt.bincount(gt.tensor("i", "int64", ("n",)), 4),
        "bincount: weights must be a vector of real numbers, one for each element",
        "hint: give the least length as minlength=n",
    ),
    (
        lambda: setattr(graphc.config, "float", 3),
        "config: the default float cannot be 3",
        "expected: float16, float32, float64 or bfloat16",
    ),
)
def test_a_mistake_is_told_what_to_do(row):
    raised(*row)


def told_by(f, *args):
    with pytest.raises(graphc.CallError) as caught:
        f(*args)
    return str(caught.value)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_what_has_no_numbers_of_the_dtype_is_told_apart(backend):
    f = graphc.function([y], y * 2, backend=backend)
    told = told_by(f, np.array([1 + 2j]))
    assert 'numpy.asarray(numpy.real(value), "float32") drops the imaginary' in told
    f(np.asarray(np.real(np.array([1 + 2j])), "float32"))
    for texts in (np.array(["a"]), np.array(["2020-01-01"], "datetime64[D]")):
        assert "hint: give numbers alone" in told_by(f, texts)


def test_sizes_in_the_place_of_arguments():
    f = graphc.jit(lambda x: x @ x)
    for sizes, kind in (({"n": range(3, 9)}, graphc.GraphError), ({"n": 3}, TypeError)):
        with pytest.raises(kind) as caught:
            f.compile(sizes)
        hint = f"hint: sizes are given by name, after the arguments: sizes={sizes}"
        assert hint in str(caught.value)


def test_a_method_that_is_not_called_says_so():
    x = gt.vector("x")
    for f in (graphc.function([x], x * 2), graphc.jit(lambda v: v * 2)):
        with pytest.raises(AttributeError, match=r"write f\.stats\(\)\.calls"):
            f.stats.calls  # noqa: B018
        assert f.stats().calls == 0 and "Calls and" in f.stats.__doc__


def test_a_size_that_is_an_array_is_no_number_to_be_converted():
    x = gt.matrix("x")
    for wrong in (lambda: gt.zeros(x), lambda: gt.eye(x.shape)):
        with pytest.raises(graphc.GraphError, match=r"the size of an axis is x\.shape"):
            wrong()
