"""Names that users choose never act as code in the text, and stay recognisable."""

import ast
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.backends.names import RESERVED, Names, sanitise
from graphc.errors import SourceLocation, label, shortened

AT_LENGTH = "GRAPHC_EXAMPLES" in os.environ
both = pytest.mark.parametrize("backend", ["jax", "numpy"])
CYRILLIC = "а"

HOSTILE = [
    "x); import os",
    'x"); raise SystemExit("injected")  #',
    "x'); raise SystemExit('injected')  #",
    "x\nraise SystemExit('injected')\n",
    'x"""\nraise SystemExit("injected")\n"""',
    "x\rraise SystemExit('injected')",
    "x\x0craise SystemExit('injected')",
    "x\u2028raise SystemExit('injected')",
    "x\\",
    "{x!r}",
    "%(x)s",
    "# x",
    "",
    "1",
    "_",
    "__class__",
    "\ud800",
    "\x00",
    "é",
    "x" * 5000,
    CYRILLIC,
]
TAKEN = [
    *("class", "match", "None", "sum", "print", "slice", "min", "zip", "np", "jnp"),
    *("jax", "program", "check_inputs", "segment_0", "segment_1", "require", "expect"),
    *("agree", "fits", "kind", "integer", "key", "CHECKED", "ProgramError", "DATA"),
    *("compiling", "clamp", "scatter_numpy", "dynamic_slice_numpy", "x_kept", "n"),
    *("self", "args", "scipy", "math", "segment"),
]


@pytest.fixture
def program(request):
    """Return a function that builds a program with one name for everything."""

    def build(name, backend):
        a = gt.tensor(name, "float32", ("n",))
        b = gt.vector(name)
        k = gt.iscalar(name)
        i = gt.tensor(name, "int64", (None,))
        kept = a[a > 0]
        outputs = {
            name: a[:k] + kept[:k],
            f"{name}2": b[i],
            "3": a.at[i].set(0),
            "4": gt.arange(k * b.shape[0] + k // 2),
            "5": gt.assert_(gt.sum(a) > 0, f"{name} must be positive", a),
            "6": gt.sum(a[i[0] : i[0] + 2]),
            "7": a * np.arange(3, dtype="float32")[:1],
        }
        return graphc.function([a, b, k, i], outputs, backend=backend)

    return build


def arguments():
    a = np.array([1, 2, 3], "float32")
    return a, np.array([5, 6], "float32"), 2, np.array([0, 1])


def checked_result(f, name):
    out = {key: np.asarray(value).tolist() for key, value in f(*arguments()).items()}
    assert out == {
        name: [2, 4],
        f"{name}2": [5, 6],
        "3": [0, 0, 3],
        "4": [0, 1, 2, 3, 4],
        "5": [1, 2, 3],
        "6": 3,
        "7": [0, 0, 0],
    }


@both
@pytest.mark.parametrize("name", HOSTILE + TAKEN, ids=lambda name: ascii(name)[:20])
def test_any_name_may_be_given_to_anything(program, backend, name):
    """By default XLA compiles nothing here, which would take most of the time."""
    f = program(name, backend)
    with jax.disable_jit(not AT_LENGTH):
        checked_result(f, name)
    f.source.encode("utf-8")


@both
def test_long_names_make_no_long_lines(backend):
    x, y = (gt.tensor("x" * 5000, "float32", ("n",)) for _ in range(2))
    v, k = gt.vector("v" * 5000), gt.iscalar("k" * 5000)
    f = graphc.function([x, y, v, k], [x + y, v[:k]], backend=backend)
    assert max(map(len, f.source.splitlines())) < 500
    a = np.ones(2, "float32")
    assert np.asarray(f(a, a, a, 1)[1]).tolist() == [1]


SHORT = [name for name in HOSTILE if len(name) < 100]


@both
@pytest.mark.parametrize("name", SHORT, ids=lambda name: ascii(name)[:20])
def test_no_statement_comes_from_a_name(program, backend, name):
    """The text has the same structure whatever the names are."""

    def structure(source):
        return [type(node).__name__ for node in ast.walk(ast.parse(source))]

    expected = structure(program("plain", backend).source)
    assert structure(program(name, backend).source) == expected


@both
@pytest.mark.parametrize("name", HOSTILE + TAKEN, ids=lambda name: ascii(name)[:20])
def test_names_of_keywords_of_calls_and_keys_of_dicts_are_kept(backend, name):
    y = gt.vector("y")
    k = gt.iscalar("k")
    f = graphc.function({name: y, "and": k}, {name: y[:k], "or": k}, backend=backend)
    out = f(**{name: np.ones(3, "float32"), "and": 2})
    assert list(out) == [name, "or"] and out[name].shape == (2,)
    with pytest.raises(graphc.CallError) as caught:
        f(**{name: np.ones(3), "and": 2})
    shown = shortened(name, 60)
    assert f"input {shown} has another dtype" in str(caught.value)


@both
def test_look_alikes_and_duplicates_stay_apart(backend):
    inputs = [gt.scalar(name) for name in ("a", CYRILLIC, "a", "ａ", "A", "a_1")]
    total = sum((i + 1) * v for i, v in enumerate(inputs))
    f = graphc.function(inputs, total, backend=backend)
    assert f(1.0, 0.0, 0.0, 0.0, 0.0, 0.0) == 1
    assert f(0.0, 1.0, 0.0, 0.0, 0.0, 0.0) == 2
    assert f(0.0, 0.0, 0.0, 0.0, 0.0, 1.0) == 6
    tree = ast.parse(f.source)
    parameters = next(
        [a.arg for a in node.args.args]
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "check_inputs"
    )
    assert len(set(parameters)) == 6 and all(p.isascii() for p in parameters)


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("x); import os", "x_import_os"),
        ("x\ny", "x_y"),
        ("class", "class_"),
        ("lambda", "lambda_"),
        ("sum", "sum_"),
        ("jnp", "jnp_"),
        ("key", "key_"),
        ("kind", "kind_"),
        (CYRILLIC, "a"),
        ("β", "beta"),
        ("ﬁt", "fit"),
        ("2d", "_2d"),
        ("y" * 5000, "y" * 40),
        ("weights[0]", "weights_0"),
        ("layer/1/bias", "layer_1_bias"),
    ],
)
def test_names_are_recognisable(given, safe):
    assert sanitise(given) == safe


def test_no_name_of_the_program_itself_is_free():
    """Names given by users never shadow what the functions of a program call."""
    for backend in ("jax", "numpy"):
        x, k = gt.vector("x"), gt.iscalar("k")
        source = graphc.function([x, k], x[x > 0][:k], backend=backend).source
        for node in ast.parse(source).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                name = node.name
                assert sanitise(name) != name or name in RESERVED, name


def test_unique_names_are_unique():
    names = Names()
    given = ["a", "a", "a_1", "a", "A", "class", "class_", "а"]
    found = [names.unique(name) for name in given]
    assert len(set(found)) == len(given)
    assert all(name.isidentifier() and name not in RESERVED for name in found)


def test_labels_can_stand_anywhere():
    for name in HOSTILE:
        assert not set(label(name)) & set("\"'\\\n\r\x0c\u2028#{}%() \0\ud800")
        assert len(label(name)) <= 40


@both
@pytest.mark.parametrize(
    "filename",
    [
        "evil\nraise SystemExit('injected')\n.py",
        'a"b.py',
        "a'''b.py",
        "x\\",
        "<a\u2028raise SystemExit('injected')>",
        'a"""\nraise SystemExit("injected")\n"""',
    ],
    ids=ascii,
)
def test_names_of_files_do_no_harm(backend, filename):
    names = {}
    code = (
        "import graphc.tensor as gt\n"
        "x = gt.vector('x')\n"
        "kept = x[x > 0]\n"
        "cut = gt.zeros(x.shape[0] - 1)\n"
    )
    exec(compile(code, filename, "exec"), names)
    outputs = [names["kept"], names["cut"]]
    f = graphc.function([names["x"]], outputs, backend=backend)
    assert f(np.ones(2, "float32"))[1].shape == (1,)
    with pytest.raises(graphc.CallError) as caught:
        f(np.ones(0, "float32"))
    shown = str(SourceLocation(filename, 4))
    assert f"\n  asked for by {shown}" in str(caught.value)
    assert len(shown.splitlines()) == 1


BLOCKED = """
import ast, importlib, importlib.abc, sys

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "graphc":
            raise ImportError("graphc is not here")

sys.meta_path.insert(0, Blocker())
sys.path = [p for p in sys.path if "graphc" not in p]
try:
    import graphc
except ImportError:
    pass
else:
    raise SystemExit("graphc could be imported")
import numpy as np

a = np.array([1, 2, 3], "float32")
for name in sys.argv[1:]:
    saved = importlib.import_module(name)
    out = saved.program(a, np.array([5, 6], "float32"), 2, np.array([0, 1]))
    print(ascii({key: np.asarray(value).tolist() for key, value in out.items()}))
assert "graphc" not in sys.modules
"""


def test_saved_programs_run_without_graphc(program, tmp_path):
    """One process imports all of them, since starting one takes as long as they do."""
    names = ["x", *HOSTILE[:5], "class", CYRILLIC, "\ud800"] * 2
    for i, name in enumerate(names):
        f = program(name, "numpy" if i < len(names) // 2 else "jax")
        f.save(tmp_path / f"saved_{i}.py")
        assert (tmp_path / f"saved_{i}.py").read_text(encoding="utf-8") == f.source
    modules = [f"saved_{i}" for i in range(len(names))]
    command = [sys.executable, "-c", BLOCKED, *modules]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for name, line in zip(names, run.stdout.splitlines(), strict=True):
        printed = ast.literal_eval(line)
        assert printed[name] == [2, 4] and printed["4"] == [0, 1, 2, 3, 4]
