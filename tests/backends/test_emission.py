"""The printed programs: their text, and that nothing else is needed to run them."""

import ast
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.backends.literals import array_text, number, typed_number
from graphc.backends.names import sanitise

NONE = graphc.rewrites.none  # no rewrites: the expected programs are printed as written

MASKED_JAX = """\
def segment_0(x, w):
    n = x.shape[0]
    compiling(0, n=n)
    # model.py:4: h = gt.tanh(x @ w)
    matmul = jnp.matmul(x, w)  # float32[n, 3]
    h = jnp.tanh(matmul)  # float32[n, 3]
    # model.py:5: kept = h[h[:, 0] > 0]
    basic_index = h[:, 0]  # float32[n]
    greater = basic_index > 0.0  # bool[n]
    count_nonzero = jnp.count_nonzero(greater).astype("int64")  # int64[]
    return h, greater, count_nonzero


segment_0 = jax.jit(segment_0)


def segment_1(greater, h, kept_count):
    n = greater.shape[0]
    compiling(1, kept_count=kept_count, n=n)
    # model.py:5: kept = h[h[:, 0] > 0]
    (nonzero,) = jnp.nonzero(greater, size=kept_count)  # int64[kept_count]
    kept = h.at[nonzero].get(mode="promise_in_bounds")  # float32[kept_count, 3]
    # model.py:6: total = gt.sum(kept, axis=0) * 2
    sum_ = jnp.sum(kept, axis=0)  # float32[3]
    total = sum_ * 2.0  # float32[3]
    return total


segment_1 = jax.jit(segment_1, static_argnums=(2,))


CHECKED = set()


def program(x, w):
    key = (x.shape, x.dtype, w.shape, w.dtype)
    if key not in CHECKED:
        x, w = check_inputs(x, w)
        CHECKED.add((x.shape, x.dtype, w.shape, w.dtype))
    with jax.enable_x64(True):
        h, greater, count_nonzero = segment_0(x, w)
        kept_count = integer("kept_count", count_nonzero)
        total = segment_1(greater, h, kept_count)
        return total
"""

MASKED_NUMPY = """\
@np.errstate(all="ignore")  # as in JAX, no warnings for NaN and infinity
def program(x, w):
    key = (x.shape, x.dtype, w.shape, w.dtype)
    if key not in CHECKED:
        x, w = check_inputs(x, w)
        CHECKED.add((x.shape, x.dtype, w.shape, w.dtype))
    # model.py:4: h = gt.tanh(x @ w)
    matmul = np.matmul(x, w)  # float32[n, 3]
    h = np.tanh(matmul)  # float32[n, 3]
    del matmul
    # model.py:5: kept = h[h[:, 0] > 0]
    basic_index = h[:, 0]  # float32[n]
    greater = basic_index > 0.0  # bool[n]
    del basic_index
    count_nonzero = np.count_nonzero(greater)  # int64[]
    kept_count = integer("kept_count", count_nonzero)
    (nonzero,) = np.nonzero(greater)  # int64[kept_count]
    del greater
    kept = h[nonzero]  # float32[kept_count, 3]
    del h, nonzero
    # model.py:6: total = gt.sum(kept, axis=0) * 2
    sum_ = np.sum(kept, axis=0)  # float32[3]
    del kept
    total = sum_ * 2.0  # float32[3]
    del sum_
    return np.asarray(total)
"""

MODEL = """\
import graphc.tensor as gt
x = gt.tensor("x", "float32", ("n", 3))
w = gt.tensor("w", "float32", (3, 3))
h = gt.tanh(x @ w)
kept = h[h[:, 0] > 0]
total = gt.sum(kept, axis=0) * 2
"""


@pytest.fixture
def model(tmp_path):
    """The variables of a small model that has a file of its own."""
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    names = {}
    exec(compile(MODEL, str(path), "exec"), names)
    return names


def body(source, start):
    return source[source.index(start) :]


def program_text(source, start):
    """Cut the source from `start` to the end of the function `program`."""
    text = body(source, start)
    end = text.index("\n\n\n", text.index("def program("))
    return text[: end + 1]


def as_written(model, backend="jax"):
    inputs = [model["x"], model["w"]]
    return graphc.function(inputs, model["total"], backend=backend, rewrites=NONE)


def test_jax_text_is_what_a_person_would_write(model):
    f = as_written(model)
    assert program_text(f.source, "def segment_0") == MASKED_JAX


def test_numpy_text_is_what_a_person_would_write(model):
    f = as_written(model, "numpy")
    assert program_text(f.source, "@np.errstate") == MASKED_NUMPY


def test_text_imports_jax_and_numpy_only(model):
    for backend, allowed in [
        ("jax", {"jax", "jax.numpy", "numpy"}),
        ("numpy", {"numpy"}),
    ]:
        f = as_written(model, backend)
        imports = {
            alias.name
            for node in ast.walk(ast.parse(f.source))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert imports == allowed


def test_saved_programs_run_where_graphc_is_not(model, tmp_path):
    x = np.arange(12, dtype="float32").reshape(4, 3) - 6
    w = np.eye(3, dtype="float32")
    programs = [as_written(model, backend) for backend in ("numpy", "jax")]
    for i, f in enumerate(programs):
        f.save(tmp_path / f"model_{i}.py")
    script = (
        "import sys; sys.modules['graphc'] = None\n"
        "import numpy as np, model_0\n"
        "assert 'jax' not in sys.modules\n"
        "import model_1\n"
        "x = np.arange(12, dtype='float32').reshape(4, 3) - 6\n"
        "for m in (model_0, model_1):\n"
        "    print(np.asarray(m.program(x, np.eye(3, dtype='float32'))).tolist())"
    )
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for f, line in zip(programs, run.stdout.splitlines(), strict=True):
        np.testing.assert_allclose(ast.literal_eval(line), f(x, w), rtol=1e-6)


def test_one_name_per_value_and_the_users_own():
    x = h = gt.vector("x")
    for _ in range(3):
        h = gt.sin(h)
    f = graphc.function([x], {"y": h + 1})
    printed = [line.split(" = ")[0].strip() for line in f.source.splitlines()]
    assert printed.count("y") == 1 and "return {'y': y}" in f.source
    assert len({"sin", "sin_1", "sin_2", "h"}.intersection(printed)) == 3


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("x); import os", "x_import_os"),
        ("a\nb", "a_b"),
        ("class", "class_"),
        ("sum", "sum_"),
        ("jnp", "jnp_"),
        ("program", "program_"),
        ("segment_0", "segment_0_"),
        ("α", "alpha"),
        ("а", "a"),  # Cyrillic
        ("１", "_1"),  # a full-width digit
        ("", "value"),
        ("__class__", "class_"),
        ("x" * 100, "x" * 40),
    ],
)
def test_names_are_safe_and_recognisable(given, safe):
    assert sanitise(given) == safe
    assert safe.isidentifier()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("x", [0.0, -0.0, 0.1, -1e30, np.inf, -np.inf, np.nan, 1e-45])
def test_float_literals_are_exact(dtype, x):
    with np.errstate(over="ignore"):
        array = np.asarray(x, dtype)
    for text in (number(array), typed_number(array)):
        read = np.asarray(eval(text, {"np": np}), dtype)
        assert read.tobytes() == array.tobytes() or np.isnan(x)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, 2, 3], "uint8"),
        np.zeros((0, 3), "float32"),
        np.arange(24.0).reshape(2, 3, 4),
        np.array([True, False]),
        np.array([1 + 2j, complex(np.nan, -np.inf)], "complex64"),
        np.array([2**63 - 1, -(2**63)], "int64"),
    ],
)
def test_array_literals_are_exact(array):
    read = eval(array_text(array), {"np": np})
    assert read.dtype == array.dtype and read.shape == array.shape
    np.testing.assert_array_equal(read, array)


def test_weak_numbers_do_not_widen():
    x = gt.tensor("x", "float32", ("n",))
    y = x * 0.5 + x / x.shape[0] + gt.sqrt(x.shape[0]) * x
    for backend in ("jax", "numpy"):
        f = graphc.function([x], y, backend=backend)
        assert f(np.ones(4, "float32")).dtype == np.float32
        np.testing.assert_allclose(
            f(np.ones(4, "float32")), np.full(4, 2.75), rtol=1e-6
        )


def test_works_under_users_transformations():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sum(gt.sin(x) ** 2))
    a = jnp.linspace(0, 1, 5)
    np.testing.assert_allclose(jax.grad(f)(a), jnp.sin(2 * a), rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(f)(a[None]), f(a)[None], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(f)(a), f(a), rtol=1e-6)


def test_users_may_jit_themselves():
    x = gt.tensor("x", "float32", ("n",))
    k = gt.iscalar("k")
    y = gt.sum(x[:k] ** 2)
    plain = {"rewrites": NONE}
    for f in (
        graphc.function([x, k], y, jit=False, **plain),
        graphc.function([x, k], y, **plain),
    ):
        assert f.static_argnums == (1,)
        run = jax.jit(f.jax_callable, static_argnums=f.static_argnums)
        assert run(jnp.arange(4.0), 3) == 5
        slope = jax.grad(f.jax_callable)(jnp.arange(4.0), 3)
        np.testing.assert_array_equal(slope, [0, 2, 4, 0])


def test_arithmetic_for_sizes_stays_on_the_host_when_traced():
    x, k = gt.tensor("x", "float32", ()), gt.tensor("k", "int32", ())
    chosen = gt.where(k == 3, k - 1, k // 2)
    f = graphc.function([x, k], [gt.tanh(gt.full((chosen,), x)), chosen * 2])
    run = jax.jit(f.jax_callable, static_argnums=f.static_argnums)
    for given, count in ((3, 2), (7, 3)):
        many, double = run(jnp.float32(0.5), given)
        assert many.shape == (count,) and double == 2 * count


def test_64_bits_stay_without_a_global_flag():
    x = gt.tensor("x", "float64", ("n",))
    i = gt.tensor("i", "int64", ("n",))
    f = graphc.function([x, i], [gt.exp(x), i * 3, gt.cumsum(i), x / 3])
    assert not jax.config.jax_enable_x64
    out = f(np.full(3, 0.1), np.arange(3))
    assert [o.dtype.name for o in out] == ["float64", "int64", "int64", "float64"]
    np.testing.assert_array_equal(np.asarray(out[3]), np.full(3, 0.1) / 3)


def test_unjitted_64_bits_insist_on_the_mode():
    x = gt.tensor("x", "float64", ("n",))
    f = graphc.function([x], gt.exp(x), jit=False)
    with pytest.raises(graphc.GraphError, match="enable_x64"):
        f(np.ones(3))
    with jax.enable_x64(True):
        assert f(jnp.ones(3)).dtype == np.float64


def test_the_source_of_one_segment(model):
    f = as_written(model)
    text = f.segment_source(1)
    assert text.startswith("def segment_1(") and text.endswith("return total")
    with pytest.raises(graphc.GraphError, match="no segment 2"):
        f.segment_source(2)


def test_a_small_integer_vector_may_be_cut_by_a_symbolic_size():
    v = gt.tensor("v", "int64", (4,))
    x = gt.tensor("x", "float32", ("n",))
    for backend in ("jax", "numpy"):
        f = graphc.function([v, x], v[: x.shape[0]] * 2, backend=backend)
        out = f(np.arange(4), np.ones(2, "float32"))
        np.testing.assert_array_equal(np.asarray(out), [0, 2])


def test_a_number_with_axes_is_an_array_of_jax():
    i = gt.tensor("i", "int64", ("n",))
    one = gt.reshape(gt.asarray(np.int64(1)), (1,))
    assert np.asarray(graphc.function([i], one[i])([0, 0])).tolist() == [1, 1]


def test_an_unused_64_bit_input_keeps_its_dtype_on_the_way():
    x = gt.tensor("x", "float32", ("n",))
    i = gt.tensor("i", "int64", ("n",))
    with pytest.warns(graphc.UnusedInputWarning, match="'i'"):
        f = graphc.function([x, i], x * 2)
    np.testing.assert_array_equal(f(np.ones(2, "float32"), np.arange(2)), [2, 2])


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_outputs_come_back_in_their_structure(backend):
    a = gt.tensor("a", "float32", ())
    outputs = (a, {"b": [a + 1, ()], "c": {"d": (a + 2,)}}, [])
    found = graphc.function([a], outputs, backend=backend)(np.float32(1))
    plain = jax.tree.map(float, found)
    assert plain == (1.0, {"b": [2.0, ()], "c": {"d": (3.0,)}}, [])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_size_that_needs_no_integer_is_traced_in_plain_jax(dtype):
    """`static_argnums` lists all that must be static; nothing else needs to be."""
    x, k = gt.vector("x"), gt.tensor("k", dtype, ())
    f = graphc.function([x, k], gt.sum(x[:k]))
    assert f.static_argnums == ()
    rows = np.arange(5, dtype="float32")
    with jax.enable_x64(True):
        run = jax.jit(f.jax_callable, static_argnums=f.static_argnums)
        for count in (0, 2, 5, 9, -1):
            assert run(rows, count) == f(rows, count) == rows[:count].sum()
        assert run._cache_size() == 1
        slope = jax.vmap(jax.grad(f.jax_callable), (None, 0))
        slopes = slope(rows, np.arange(3, dtype=dtype))
    np.testing.assert_array_equal(slopes, np.tri(5, dtype="float32")[:3] - np.eye(3, 5))


def test_a_shown_text_needs_no_place_for_the_value(capsys):
    x = gt.vector("x", "float64")
    for backend in ("numpy", "jax"):
        f = graphc.function([x], gt.debug_print("{{here}}", x), backend=backend)
        assert np.asarray(f(np.float64([1, 2]))).tolist() == [1, 2]
        jax.effects_barrier()
        assert capsys.readouterr().out == "{here}\n"
