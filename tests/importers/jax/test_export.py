"""Functions of `graphc.jit` are exported as by `jax.jit`, or refused with a reason."""

import subprocess
import sys
import textwrap
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load as read_tensors

import graphc
import graphc_serving
from graphc.runtime.save.export import require_readable

pytestmark = pytest.mark.usefixtures("compiled_quickly")
Pair = namedtuple("Pair", "a b")
TABLE = np.linspace(0, 1, 900, dtype="float32").reshape(3, 300)
Struct = jax.ShapeDtypeStruct


def rows(n, m=3):
    return np.random.default_rng(n).normal(size=(n, m)).astype("float32")


def params():
    return {"w": rows(3, 2), "b": [np.ones(2, "float32"), None]}


def predict(params, x, *, scale=1.0):
    hidden = jnp.tanh(x @ params["w"] * scale + params["b"][0])
    return {"out": (hidden, hidden.sum()), "none": None}


def same(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def served(f, path, *args, **named):
    f.export(path / "model", *args, **named)
    return graphc_serving.load(path / "model")


(N,) = jax.export.symbolic_shape("n")
WAYS = {
    "words": ({"shapes": "_, _ _, n 3"}, rows(4)),
    "a symbol": ({}, Struct((N, 3), "float32")),
    "a text": ({}, Struct(("n", 3), "float32")),
}


@pytest.mark.parametrize("way", WAYS)
def test_trees_statics_and_sizes(tmp_path, way):
    how, x = WAYS[way]
    f = graphc.jit(predict, static_argnames="scale", **how)
    m = served(f, tmp_path, params(), x, sizes={"n": [2, 1, 5]}, scale=2.0)
    assert [p.name for p in m._manifest.parameters] == ["params", "x"]
    wanted = jax.jit(predict, static_argnames="scale")
    for n in (1, 2, 5):
        same(m(params(), rows(n)), wanted(params(), rows(n), scale=2.0))
        same(m(x=rows(n), params=params()), wanted(params(), rows(n), scale=2.0))
    with pytest.raises(graphc.ModelError, match=r"got: shapes .*\(4, 3\)"):
        m(params(), rows(4))


def test_the_sizes_of_the_arguments_and_a_static_in_the_middle(tmp_path):
    f = graphc.jit(lambda x, k, y, *more: x[:k] + y + sum(more), static_argnums=1)
    args = rows(4)[0], 2, np.float32(3), 1, np.ones(2, "float32")
    m = served(f, tmp_path, *args)
    given = [a for i, a in enumerate(args) if i != 1]
    same(m(*given), args[0][:2] + args[2] + 1 + args[4])
    assert m.inputs == ("x", "y", "more_3", "more_4")
    same(m([1.0, 2.0, 3.0], 1, 1, [0, 0]), np.float32([3, 4]))


def decide(x):
    if x.shape[0] == 4 or x.shape[0] % 3 == 0:
        return x.sum(0) * 10
    return jnp.where(x.shape[0] in (5, 7), -1.0, 1.0) * x.sum(0)


def test_each_size_is_decided_as_by_jax(tmp_path):
    f = graphc.jit(decide)
    sizes = list(range(1, 9))
    m = served(f, tmp_path, Struct((N, 3), "float32"), sizes={"n": sizes})
    for n in sizes:
        same(m(rows(n)), jax.jit(decide)(rows(n)))
    assert len(m.shapes) == 8


def looped(x):
    last, ys = jax.lax.scan(lambda c, v: (jnp.tanh(c + v), c), jnp.zeros(3), x)
    return last + jnp.mean(ys**2), x @ TABLE


def test_a_loop_is_rewritten_and_large_arrays_are_kept_once(tmp_path):
    cost = lambda x: looped(x)[0].sum() + looped(x)[1].sum()
    f = graphc.jit(graphc.value_and_grad(cost))
    m = served(f, tmp_path, Struct((N, 3), "float32"), sizes={"n": [3, 4, 6]})
    for n in (3, 6):
        same(m(rows(n)), jax.jit(jax.value_and_grad(cost))(rows(n)))
    tensors = read_tensors((tmp_path / "model").read_bytes())
    large = [k for k, v in tensors.items() if v.dtype == np.float32 and v.size == 900]
    assert len(large) == 1
    g = served(graphc.jit(looped), tmp_path, rows(4))
    same(g(rows(4)), jax.jit(looped)(rows(4)))


def pooled(x, w):
    return jax.nn.softmax(x @ w, axis=0), jnp.max(x, axis=0)


def pooled_rows(x):
    return pooled(x, np.arange(3, dtype="float32"))


def test_a_row_has_a_program_beside_a_graph_for_more(tmp_path):
    f = graphc.jit(pooled_rows)
    types = Struct((N, 3), "float32")
    m = served(f, tmp_path, types, sizes={"n": [1, 4]}, graph=True)
    more = graphc.load(tmp_path / "model", graph=True)
    for n, model in ((1, m), (4, m), (6, more)):
        same(model(rows(n)), jax.jit(pooled_rows)(rows(n)))


def test_a_padded_function_serves_what_has_room(tmp_path):
    f = graphc.jit(pooled, dims="pad", shapes="n 3, 3")
    w = np.arange(3, dtype="float32")
    m = served(f, tmp_path, rows(3), w, sizes={"n": [3, 20]}, graph=True)
    for n in (2, 3, 16, 17, 32):
        same(m(rows(n), w), jax.jit(pooled)(rows(n), w))
    assert [shapes[0] for shapes in m.shapes] == [(16, 3), (32, 3)]
    with pytest.raises(graphc.ModelError) as caught:
        m(rows(1), w)
    assert caught.value.args[0] == (
        "input x has 1 along axis 0, where the model takes 2 or more\n"
        "  got: float32[1, 3]\n  expected: float32[n, 3]"
    )
    with pytest.raises(graphc.ModelError, match=r"fit into one of \(\(16, 3\), \(3,\)"):
        m(rows(33), w)
    with pytest.raises(graphc.ModelError, match="graph=True. compiles for others"):
        m(rows(34), w)
    more = graphc.load(tmp_path / "model", graph=True)
    same(more(rows(70), w), jax.jit(pooled)(rows(70), w))


def test_a_graph_for_other_sizes(tmp_path):
    f = graphc.jit(predict)
    x = Struct((N, 3), "float32")
    f.export(tmp_path / "model", params(), x, sizes={"n": [2]}, graph=True)
    m = graphc.load(tmp_path / "model", graph=True)
    for n in (2, 9):
        same(m(params(), rows(n)), jax.jit(predict)(params(), rows(n)))


def test_several_platforms_are_in_one_file(tmp_path):
    f = graphc.jit(predict)
    m = served(f, tmp_path, params(), rows(4), platforms=["cuda", "cpu", "tpu"])
    assert m.platforms == ("cuda", "cpu", "tpu")
    same(m(params(), rows(4)), jax.jit(predict)(params(), rows(4)))
    assert repr(m).endswith("x: float32), 1 size on cuda, cpu, tpu>")


def kept(x, k):
    return {"best": np.sort(x[x > 0])[:k], "all": np.sum(x)}


def test_a_function_of_numpy_with_sizes_that_depend_on_data(tmp_path):
    f = graphc.jit(kept, frontend="numpy", shapes="n, ()")
    x = np.array([3.0, -1, 2, 1])
    path = tmp_path / "model"
    with pytest.raises(graphc.GraphError, match="is missing"):
        f.export(path, x, 2, sizes={"n": [4, 5]})
    f.export(path, x, 2, sizes={"n": [4, 5], "count": [3, 3]}, graph=True)
    m = graphc_serving.load(path)
    found = m(x, 2)
    assert found["best"].tolist() == [1, 2] and float(found["all"]) == 5
    assert m.sizes == [{"k": 2, "count": 3}] * 2
    with pytest.raises(graphc.ModelError) as caught:
        m(x, 3)
    text = "with k = 3, count = 3\n  expected: one of ((4,), ()) with k = 2, count = 3"
    assert text in str(caught.value)
    more = graphc.load(path, graph=True)
    assert more(np.array([1.0, 2, -3, -4, 5, 9]), 3)["best"].tolist() == [1, 2, 5]


def asks_for_type(x):
    return x * (2 if type(x.shape[0]) is int else 3)


def differences(x):
    return np.diff(x, axis=0), x[:-1] * x[1:]


def test_the_graph_of_a_function_of_numpy_has_parts_of_axes(tmp_path):
    f = graphc.jit(differences, frontend="numpy")
    (n,) = jax.export.symbolic_shape("n")
    path = tmp_path / "differences.model"
    f.export(path, Struct((n, 3), "float32"), sizes={"n": [4, 6]}, graph=True)
    m = graphc.load(path, graph=True)
    for n in (4, 50, 3):
        same(tuple(m(rows(n))), differences(rows(n)))


def test_a_graph_that_its_text_does_not_give_is_refused():
    text = 'graph(x: float32[?n]) { y: float32[?n] = negative(x) return "y" = z }'
    problem = "(?s)export: the text of the graph cannot be read again.*hint: do"
    with pytest.raises(graphc.GraphError, match=problem):
        require_readable(text, 0, "do")


def decide_by_numpy(x):
    return x * 2 if x.shape[0] == 4 else x


def test_a_function_of_numpy_that_decides_has_a_file_for_a_size(tmp_path):
    f = graphc.jit(decide_by_numpy, frontend="numpy")
    for n in (1, 4, 5):
        m = served(f, tmp_path, Struct(("n", 3), "float32"), sizes={"n": n})
        same(m(rows(n)), decide_by_numpy(rows(n)))


def waves(x):
    frequencies = np.fft.rfftfreq(x.shape[0], 0.1) > 2
    return x * frequencies.sum() if x.shape[0] > 5 else x


def test_a_function_of_numpy_that_decides_alike_serves_several_sizes(tmp_path):
    f = graphc.jit(waves, frontend="numpy")
    m = served(f, tmp_path, Struct(("n", 3), "float32"), sizes={"n": [6, 9, 8]})
    for n in (6, 9, 8):
        same(m(rows(n)), waves(rows(n)))


def message(f, *args, **named):
    with pytest.raises(graphc.GraphError) as caught:
        f.export("never", *args, **named)
    return str(caught.value).split("\n  at ")[0]


def test_what_a_file_cannot_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, key, any_n = rows(4), jax.random.key(0), Struct((N, 3), "float32")
    at = {"sizes": {"n": 5}}
    named = lambda x: Pair(x, x)
    varies = lambda x: x if x.shape[0] == 4 else (x, x)
    cases = {
        "export: a file cannot hold the structure of the result\n  got: Pair": (
            message(graphc.jit(named), x)
        ),
        "export: a file cannot hold the structure of the argument x['a']": (
            message(graphc.jit(lambda x: x["a"].a), {"a": Pair(x, x)})
        ),
        "export: a file cannot hold arguments of this dtype: key\n  got: key<fry>": (
            message(graphc.jit(lambda key: jax.random.normal(key)), key)
        ),
        "export: a file cannot hold results of this dtype: number 0\n  got: key<fry>": (
            message(graphc.jit(lambda x: jax.random.key(0), dims="pad"), x)
        ),
        "export: the argument x is neither an array nor the type of one\n  got: str": (
            message(graphc.jit(lambda x: x), "text")
        ),
        "export: n is missing\n  got: no sizes\n  expected: n": (
            message(graphc.jit(lambda x: x), Struct((N, 3), "float32"))
        ),
        "export: m is not a size of the arguments\n  got: m\n  expected: no sizes": (
            message(graphc.jit(lambda x: x), x, sizes={"m": 3})
        ),
        "export: an axis of a type must be a number or a name\n  got: 2*n": (
            message(graphc.jit(lambda x: x), Struct((2 * N,), "float32"))
        ),
        "export: a file holds results of one structure": (
            message(graphc.jit(varies), Struct((N,), "float32"), sizes={"n": [4, 5]})
        ),
        "export: dims='pad' needs one program for all sizes\n"
        "  got: a function that is traced differently for n = 5": (
            message(graphc.jit(asks_for_type, dims="pad"), any_n, **at)
        ),
        "export: dims='pad' needs one program for all sizes\n"
        "  got: a function that decides by sizes: x.shape[0] != 4 (test_export": (
            message(graphc.jit(decide, dims="pad"), any_n, **at)
        ),
        "export: graph=True needs one program for all sizes\n  got: a function": (
            message(graphc.jit(decide), any_n, **at, graph=True)
        ),
        "export: sizes below 2 are traced by themselves\n  got: n = 1; n = 0\n"
        "  hint: leave dims='pad' out: each": (
            message(graphc.jit(pooled_rows, dims="pad"), any_n, sizes={"n": [1, 5, 0]})
        ),
        "export: sizes below 2 are traced by themselves\n  got: n = 1\n  hint: list": (
            message(graphc.jit(pooled_rows), any_n, sizes={"n": 1}, graph=True)
        ),
        "export: JAX cannot export the program": (
            message(graphc.jit(lambda x: jax.debug.print("{}", x) or x), x)
        ),
        "export: give platform= or platforms=\n  got: both": (
            message(graphc.jit(lambda x: x), x, platform="cpu", platforms=["tpu"])
        ),
        "export: programs for many sizes take no compiler_options": (
            message(graphc.jit(lambda x: x, compiler_options={}), x)
        ),
        "export: a NumPy program cannot be exported": (
            message(graphc.jit(lambda x: x, frontend="numpy", backend="numpy"), x)
        ),
        "export: a NumPy program cannot be exported\n  hint: leave backend": (
            message(graphc.jit(lambda x: x, backend="numpy"), x)
        ),
    }
    for text, found in cases.items():
        assert found.startswith(text), found
    error = jax.errors.NonConcreteBooleanIndexError
    needs_number = graphc.jit(lambda x: x * {4: 2.0}[len(x)], frontend="numpy")
    with pytest.raises(graphc.GraphError, match="export each size to a file") as caught:
        needs_number.export("never", any_n, sizes={"n": [4, 5]})
    assert str(caught.value).count("help: graphc help") == 1
    of_numpy_cases = {
        r"x.shape\[0\] == 4 .*, not so for n = 5\n  hint: export the sizes of each": {},
        r"dims='pad' needs one .*\n.*\n  hint: leave it out: the": {"dims": "pad"},
        "graph=True needs one program": {"graph": True},
        r"sizes below 2 are traced by themselves\n  got: n = 1\n": {"n": [5, 1, 6]},
    }
    for text, how in of_numpy_cases.items():
        sizes, graph = {"n": how.pop("n", [4, 5])}, how.pop("graph", False)
        f = graphc.jit(decide_by_numpy, frontend="numpy", **how)
        with pytest.raises(graphc.GraphError, match=text):
            f.export("never", any_n, sizes=sizes, graph=graph)
    with pytest.raises(error, match='frontend="numpy"'):
        graphc.jit(lambda x: x[x > 0]).export("never", x)
    assert not list(tmp_path.iterdir())


SERVER = """
    import sys, numpy as np, graphc_serving
    model = graphc_serving.load(sys.argv[1])
    print(model({"w": np.ones((3, 2), "float32")}, np.ones((2, 3), "float32")).tolist())
    print(sorted(n for n in sys.modules if n.split(".")[0] == "graphc"))
"""


def test_a_server_needs_no_compiler(tmp_path):
    f = graphc.jit(lambda params, x: x @ params["w"])
    f.export(tmp_path / "model", {"w": rows(3, 2)}, rows(2))
    command = [sys.executable, "-c", textwrap.dedent(SERVER), str(tmp_path / "model")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["[[3.0, 3.0], [3.0, 3.0]]", "[]"]
