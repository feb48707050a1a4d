"""Models in files: what is exported is read back, and nothing else is accepted."""

import itertools
import json
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save

import graphc
import graphc.tensor as gt
from graphc_serving import reading
from graphc_serving.manifest import FORMAT, digest
from graphc_serving.reading import KEY

pytestmark = pytest.mark.usefixtures("compiled_quickly")
X = gt.tensor("x", "float32", ("n",))
Y = gt.tensor("y", "float32", ("m",))
TABLE = np.linspace(0, 1, 600, dtype="float32").reshape(2, 300)


def exact(inputs, outputs, **how):
    return graphc.function(inputs, outputs, dims="specialize", unused="ignore", **how)


def exported(f, path, sizes, **how):
    f.export(path / "model", sizes, **how)
    return graphc.load(path / "model")


def same(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    for one, other in pairs:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


DTYPES = "float32 float64 bfloat16 complex128 int64 uint8 bool".split()


@pytest.mark.parametrize(
    ("dtype", "graph"),
    [*zip(DTYPES, itertools.cycle([False, True]), strict=False), ("float32", True)],
)
def test_a_model_gives_what_the_function_gives(tmp_path, dtype, graph):
    x, k = gt.tensor("x", dtype, ("n", 2)), gt.tensor("k", dtype, ())
    numbers = (np.arange(600) % 7).reshape(2, 300).astype(x.dtype)
    table = gt.asarray(numbers)
    stacked = gt.concatenate([x @ table, gt.zeros((1, 300), dtype)])
    result = {"made": [stacked, (k, x.shape[0])], "β": x}
    f = exact([x, k], result)
    m = exported(f, tmp_path, {"n": [0, 1, 3]}, graph=graph)
    assert m.inputs == ("x", "k") and len(m.shapes) == 3
    for n in (0, 1, 3):
        a = np.ones((n, 2)).astype(x.dtype)
        b = np.ones((), x.dtype)
        wanted = f(a, b)
        same(m(a, b), wanted)
        same(m(k=b, x=a), wanted)
        with jax.enable_x64(True):
            same(m(jnp.asarray(a), jnp.asarray(b)), wanted)
    if graph:
        more, a = graphc.load(tmp_path / "model", graph=True), np.ones((5, 2))
        same(more(a.astype(x.dtype), b), f(a.astype(x.dtype), b))


def test_equal_constants_are_kept_once(tmp_path):
    y = gt.sum(X) + gt.asarray(TABLE) * gt.asarray(TABLE.copy())
    z = gt.take(gt.asarray(TABLE), gt.asarray(np.arange(300)), axis=1)
    f = exact([X], [y, z])
    exported(f, tmp_path, {"n": [2, 3, 4]}, graph=True)
    tensors = read_tensors((tmp_path / "model").read_bytes())
    large = [k for k, v in tensors.items() if v.dtype == np.float32]
    assert large == ["constant_0"]
    assert (tmp_path / "model").stat().st_size < 2 * TABLE.nbytes + 22_000


def test_loops_and_several_sizes_are_exported(tmp_path):
    last, rows = gt.scan(lambda c, v: (c + v, c * v), 0.0, X)
    f = exact([X, Y], [graphc.grad(last * gt.sum(rows), X), gt.sum(Y)])
    m = exported(f, tmp_path, {"n": [2, 3], "m": 4}, graph=True)
    assert m.shapes == [((2,), (4,)), ((3,), (4,))]
    a, b = np.arange(3, dtype="float32"), np.ones(4, "float32")
    same(m(a, b), f(a, b))
    more = graphc.load(tmp_path / "model", graph=True)
    same(more(a, b[:2]), f(a, b[:2]))


def test_no_inputs_and_no_outputs(tmp_path):
    same(exported(exact([], gt.asarray(TABLE) + 1), tmp_path, {})(), TABLE + 1)
    x = exact([X], [])
    assert exported(x, tmp_path, {"n": 2})(np.ones(2, "float32")) == []


def test_inputs_that_are_outputs(tmp_path):
    a = np.ones(2, "float32")
    for dims in ("specialize", "pad"):
        f = graphc.function([X], {"x": X, "n": X.shape[0]}, dims=dims)
        same(exported(f, tmp_path, {"n": 2}, graph=True)(a), f(a))


SERVER = """
    import sys, numpy as np, graphc_serving
    for path in sys.argv[1:]:
        m = graphc_serving.load(path)
        print(m(np.ones(3, "float32")).tolist(), m)
    print(sorted(n for n in sys.modules if n.split(".")[0] == "graphc"))
"""


def test_a_server_needs_no_compiler(tmp_path):
    exported(exact([X], gt.tanh(X) * 0 + 2), tmp_path, {"n": [3]})
    both = {"n": "pad", "count": "pad"}
    f = graphc.function([X], X[X > 0] + gt.sum(X), dims=both)
    f.export(tmp_path / "padded", {"n": 4, "count": 2})
    script, names = textwrap.dedent(SERVER), ("model", "padded")
    command = [sys.executable, "-c", script, *(str(tmp_path / n) for n in names)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [
        "[2.0, 2.0, 2.0] <graphc.Model (x: float32), 1 size on cpu>",
        "[4.0, 4.0, 4.0] <graphc.Model (x: float32), 1 size on cpu>",
        "[]",
    ]


def message(error, ask):
    with pytest.raises(error) as caught:
        ask()
    return caught.value.args[0].split("\n  at ")[0]


def test_calls_that_do_not_fit(tmp_path):
    k = gt.tensor("k", "int32", ())
    m = exported(exact([X, k], X * k), tmp_path, {"n": [2, 3]})
    a, head = np.ones(2, "float32"), "the arguments do not fit the model\n  "
    cases = {
        "got: shapes ((4,), ())\n  expected: one of ((2,), ()), ((3,), ())\n"
        "  hint: export it for these sizes too, or with graph=True for all": (
            np.ones(4, "float32"),
            1,
        ),
        "got: 1 argument and no names\n  expected: inputs x, k": (a,),
    }
    for text, args in cases.items():
        assert message(graphc.ModelError, lambda: m(*args)) == head + text
    text = "got: 1 argument and j\n  expected: inputs x, k"
    assert message(graphc.ModelError, lambda: m(a, j=1)) == head + text
    assert m(a, 3).tolist() == [3, 3]


def test_what_cannot_be_exported(tmp_path):
    guarded = exact([X, Y], X + Y)
    printed = graphc.function([X], gt.debug_print("{}", X), dims="specialize")
    ruled = graphc.custom_vjp(lambda x: x * 2)
    ruled.defvjp(lambda x: (ruled(x), ()), lambda _, g: (g,))
    _, rows = gt.scan(lambda c, v: (c + v, ruled(v)), 0.0, X)
    path = tmp_path / "model"
    cases = {
        "export: count is missing\n  got: n\n  expected: n, count": (
            lambda: exact([X], X[X > 0]).export(path, {"n": 3})
        ),
        "export: a NumPy program runs line by line": (
            lambda: graphc.function([X], X, backend="numpy").export(path, {"n": 3})
        ),
        "export: m is missing\n  got: no sizes": lambda: guarded.export(path, {}),
        "add: shapes do not broadcast: needs n == m; got 4 and 5": (
            lambda: guarded.export(path, {"n": [3, 4], "m": [3, 5]})
        ),
        "export: JAX cannot export the program\n"
        "  got: NotImplementedError: serialization of host_callbacks is not yet "
        "implemented\n"
        "  hint: nothing in it may print, or call Python": (
            lambda: printed.export(path, {"n": 3})
        ),
        "export: custom_vjp holds a function, and has no text\n"
        "  hint: leave graph=True out: the sizes that you list need no graph": (
            lambda: exact([X], rows).export(path, {"n": 3}, graph=True)
        ),
        "export: there is no platform 'abacus'\n"
        "  expected: 'cpu', 'cuda', 'rocm', 'tpu'": (
            lambda: exact([X], X + 1).export(path, {"n": 3}, platform="abacus")
        ),
    }
    for text, ask in cases.items():
        assert message(graphc.GraphError, ask).startswith(text), text
    assert not path.exists()


def test_a_platform_that_is_not_here(tmp_path):
    f = exact([X], X + 1)
    f.export(tmp_path / "model", {"n": 3}, platform="tpu", graph=True)
    m = graphc.load(tmp_path / "model", graph=True)  # compiled for this device
    same(m(np.ones(3, "float32")), f(np.ones(3, "float32")))
    assert message(graphc.ModelError, lambda: graphc.load(tmp_path / "model")) == (
        "the model is for 'tpu', which JAX does not have here\n"
        "  got: cpu\n"
        "  hint: export it with platforms=[...]"
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The content of a file that has everything a file can have."""
    path = tmp_path_factory.mktemp("whole") / "model"
    f = exact([X], {"y": gt.sum(X) + gt.asarray(TABLE)})
    f.export(path, {"n": [2]}, graph=True)
    return path.read_bytes()


def remade(content, change=lambda manifest, tensors: None, signed=True):
    """The file with its manifest and tensors changed, and with a digest that fits."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    manifest, tensors = json.loads(header["__metadata__"][KEY]), read_tensors(content)
    change(manifest, tensors)
    if signed:
        manifest["digest"] = digest(manifest, tensors)
    return save(tensors, {KEY: json.dumps(manifest)})


def put(name, value):
    return lambda manifest, _: manifest.update({name: value})


def put_tensor(name, value):
    return lambda _, tensors: tensors.update({name: np.asarray(value)})


MALFORMED = {
    "jax": 1,
    "platforms": [],
    "wide": 0,
    "casting": "unsafe",
    "least": None,
    "inputs": [["x", "object", ["n"]]],
    "parameters": [["x", ["tuple", ["single", "single"]]]],
    "structure": ["set", ["single"]],
    "served": [[[[-1]], {}]],
    "programs": [[0, [], [["", "float32", [2]]], [["", "float32", []]], 9, [1]]],
    "steps": [["run", 0, [0], []], ["exec", "import os"]],
    "results": [7],
    "constants": [["constant_0", "float32", [2, 301]]],
    "arguments": ["constant_1"],
    "graph": "constant_0",
}
PROBLEMS = {
    "jax": "TypeError 1 is not of type str",
    "platforms": "ValueError there is no platform",
    "wide": "TypeError 0 is not of type bool",
    "casting": "ValueError 'unsafe' is unknown",
    "least": "TypeError None is not of type int",
    "inputs": "ValueError there is no dtype object",
    "parameters": "ValueError the parameters hold a different number of inputs",
    "structure": "TypeError 'set' is not of type list",
    "served": "ValueError (-1,) is not a shape",
    "programs": "ValueError program 0 has fewer arguments",
    "steps": "ValueError stage 0 has other arguments",
    "results": "ValueError 7 is not an array",
    "constants": "ValueError constant_0 has another size",
    "arguments": "ValueError constants are missing",
    "graph": "TypeError 'constant_0' is not of type list",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_manifest(tmp_path, whole, name):
    path = tmp_path / "model"
    path.write_bytes(remade(whole, put(name, MALFORMED[name])))
    assert message(graphc.ModelError, lambda: graphc.load(path)) == (
        f"{path} is not a model: its manifest is malformed: {PROBLEMS[name]}"
    )
    path.write_bytes(remade(whole, lambda manifest, _: manifest.pop(name)))
    assert message(graphc.ModelError, lambda: graphc.load(path)) == (
        f"{path} is not a model: its manifest is malformed: KeyError '{name}'"
    )


FOREIGN = "it is not a file of safetensors, as f.export(path, ...) writes"
DAMAGED = "it is damaged or was changed: its digest does not match"
OTHERS = (
    "its manifest is malformed: ValueError tensors are missing, or there are others"
)
BAD = {
    "empty": (lambda c: b"", FOREIGN),
    "another kind": (lambda c: b"PK\x03\x04" + c, FOREIGN),
    "Python": (lambda c: b"import os\nprint(1)\n", FOREIGN),
    "zeros": (lambda c: bytes(1000), FOREIGN),
    "a length of 2**34": (lambda c: (2**34).to_bytes(8, "little") + c[8:], FOREIGN),
    "no text": (lambda c: c[:8] + b"{\xff" + c[10:], FOREIGN),
    "no manifest": (
        lambda c: save({"a": np.ones(3)}, {"other": "1"}),
        "it has no manifest of graphc",
    ),
    "a list": (lambda c: save({}, {KEY: "[]"}), "its format has no number"),
    "deep": (lambda c: save({}, {KEY: "[" * 10**6}), "it has no manifest of graphc"),
    "newer": (
        lambda c: remade(c, put("format", FORMAT + 1)),
        f"a newer graphc wrote it, in format {FORMAT + 1}; this one reads {FORMAT}",
    ),
    "older": (
        lambda c: remade(c, put("format", 1)),
        "an older graphc wrote it, in format 1; "
        f"this one reads {FORMAT}: export it again",
    ),
    "no format": (lambda c: remade(c, put("format", 0)), "its format has no number"),
    "a bit": (lambda c: c[:-1] + bytes([c[-1] ^ 1]), DAMAGED),
    "a constant": (
        lambda c: remade(c, put_tensor("constant_0", TABLE * 2), signed=False),
        DAMAGED,
    ),
    "a name": (lambda c: remade(c, put("platforms", ["tpu"]), signed=False), DAMAGED),
    "more": (
        lambda c: remade(c, put_tensor("other", TABLE)),
        OTHERS,
    ),
    "less": (
        lambda c: remade(c, lambda _, tensors: tensors.pop("program_0")),
        OTHERS,
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file(tmp_path, whole, kind):
    damage, reason = BAD[kind]
    path = tmp_path / "model"
    path.write_bytes(damage(whole))
    text = f"{path} is not a model: {reason}"
    assert message(graphc.ModelError, lambda: graphc.load(path)) == text


def test_a_file_that_is_cut_off(tmp_path, whole):
    path = tmp_path / "model"
    for end in range(0, len(whole), 701):
        path.write_bytes(whole[:end])
        text = message(graphc.ModelError, lambda: graphc.load(path))
        assert text.startswith(f"{path} is not a model: ")


def test_a_file_that_is_too_large(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(reading, "LARGEST", 1000)
    path = tmp_path / "model"
    path.write_bytes(whole)
    assert message(graphc.ModelError, lambda: graphc.load(path)) == (
        f"{path} is not a model: it has more than 1000 bytes"
    )


def test_a_file_without_a_graph(tmp_path):
    exported(exact([X], X + 1), tmp_path, {"n": 3})
    path = tmp_path / "model"
    assert message(graphc.ModelError, lambda: graphc.load(path, graph=True)) == (
        f"there is no graph in {path}\n  hint: export it with graph=True"
    )


def test_a_graph_that_is_none(tmp_path, whole):
    path = tmp_path / "model"
    for text, problem in {
        b"\xff": "load: the graph of the model is not text",
        b"graph() { return }": "load: the graph of the model has other inputs",
        b"import os": "parse_graph: line 1: expected 'graph', not import",
    }.items():
        new = put_tensor("graph", np.frombuffer(text, np.uint8))
        path.write_bytes(remade(whole, new))
        m = graphc.load(path, graph=True)
        ask = lambda: m(np.ones(5, "float32"))
        assert message(graphc.GraphError, ask).startswith(problem)


def test_a_program_that_is_none_is_not_run(tmp_path, whole):
    path = tmp_path / "model"
    path.write_bytes(remade(whole, put_tensor("program_0", np.zeros(9, np.uint8))))
    m = graphc.load(path)
    text = message(graphc.ModelError, lambda: m(np.ones(2, "float32")))
    head = f"program 0 cannot be read by JAX {jax.__version__}\n  got: "
    assert text.startswith(head)


def test_a_program_with_calls_of_its_own_is_not_run(tmp_path, whole):
    """Only ops for which JAX guarantees compatibility are run."""
    spec = jax.ShapeDtypeStruct((2, 300), "float32")
    name = "xla_ffi_python_cpu_callback"
    harm = jax.jit(lambda x, table: jax.ffi.ffi_call(name, spec)(table))
    check = jax.export.DisabledSafetyCheck.custom_call(name)
    specs = jax.ShapeDtypeStruct((2,), "float32"), spec
    found = jax.export.export(harm, disabled_checks=[check])(*specs)
    module = np.frombuffer(found.serialize(), np.uint8)
    path = tmp_path / "model"
    path.write_bytes(remade(whole, put_tensor("program_0", module)))
    m = graphc.load(path)
    assert message(graphc.ModelError, lambda: m(np.ones(2, "float32"))) == (
        "program 0 calls something that no exported program may\n"
        "  got: xla_ffi_python_cpu_callback"
    )
