"""Each hint in the code base that contains code works when it is typed.

The hints are read from the code itself. A new or reworded hint needs lines in
typed_hints.txt, where each hint stands above the code that it says to write.
`{}` stands for what the message fills in.
"""

import ast
import copy
import multiprocessing
import pathlib
import re
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests import parsed

HOUSE = pathlib.Path(graphc.__file__).parents[1]
FILES = [*HOUSE.glob("graphc/**/*.py"), *HOUSE.glob("graphc_serving/**/*.py")]
VARIABLES = re.compile(r"hint|remedy|\bCOPY\b|_NAMES$", re.IGNORECASE)
FUNCTIONS = re.compile(r"hint|remedy|_meant|meant$|way_out", re.IGNORECASE)
CODE = re.compile(r"\w\(|[a-z_]=[^=]|[\w}]\[|\b(gt|graphc|np|numpy|jax)\.\w")
NAMES = re.compile(r"\b(?:gt|graphc|np|numpy|jax)\.\w[\w.]*\w")


def text_of(node):
    """The text of a string in the code, with {} for what is put into it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = node.values
        return "".join(p.value if isinstance(p, ast.Constant) else "{}" for p in parts)
    return None


def texts_of(node):
    """Yield the texts that an expression may evaluate to, or is put together from."""
    text = text_of(node)
    if text is not None:
        yield text
        return
    children = {
        ast.IfExp: lambda n: (n.body, n.orelse),
        ast.BoolOp: lambda n: n.values,
        ast.BinOp: lambda n: (n.left, n.right),
        ast.Tuple: lambda n: n.elts,
        ast.Dict: lambda n: n.values,
        ast.Call: lambda n: n.args,
    }
    for child in children.get(type(node), lambda _: ())(node):
        yield from texts_of(child)


def hinting(node):
    """Yield the expressions in a statement or call whose value is a hint."""
    if isinstance(node, ast.Call):
        yield from (k.value for k in node.keywords if k.arg in ("hint", "remedy"))
    elif isinstance(node, ast.Assign):
        names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        yield from [node.value] * any(map(VARIABLES.search, names))
    elif isinstance(node, ast.FunctionDef) and FUNCTIONS.search(node.name):
        returns = (n for n in ast.walk(node) if isinstance(n, ast.Return))
        yield from (n.value for n in returns if n.value is not None)


def hints():
    """Yield the hints of the code base that contain code."""
    for path in FILES:
        for node in parsed.nodes(path):
            for expression in hinting(node):
                yield from filter(CODE.search, texts_of(expression))


def rows():
    """Yield the hints of typed_hints.txt, each with the code below it."""
    text = TABLE.read_text(encoding="utf-8")
    for part in re.split(r"\n(?=['\"])", text.strip()):
        hint, _, code = part.partition("\n")
        yield ast.literal_eval(hint), textwrap.dedent(code)


TABLE = pathlib.Path(__file__).with_name("typed_hints.txt")
ROWS = dict(rows())
# Hints that need another library or process, with the tests that try them.
ELSEWHERE = {
    "add --args 'float32[n]' for each, and --sizes n=8": "command",
    "call the model outside of jax.jit, jax.vmap and jax.grad: it is": "serving",
    'compile graphs of PyTensor by pytensor.function(..., mode="GRAPHC")': "pytensor",
    'compile it with pytensor.function(..., mode="GRAPHC")': "pytensor",
    "density.initial is such a vector; jax.vmap takes several": "pymc",
    "correct the rule given to graphc.custom_vjp": "no code",
    "model.debug() tells which variable; initval=... gives another start": "pymc",
    "register one with graphc.pytensor.convert_op.register, or use the mode": "ops",
    "use stack() or buffer for other parts": "tests/transform, tensor arrays",
    "with pymc.Model() as model: ...": "pymc",
}


def test_each_hint_has_its_lines():
    told = {*hints()}
    assert told - {*ROWS} - {*ELSEWHERE} == set(), "write them into typed_hints.txt"
    assert {*ROWS} - told == set(), "hints that there are no more"
    assert {*ELSEWHERE} - told == set()


def numpy_jit(function):
    return graphc.jit(function, frontend="numpy")


def copied(v):
    w = v.copy()
    w[0] = 0
    return w


def widened(v):
    w = v.astype("float64")
    w += 0.5
    return w


def masked_write(v):
    w = v.copy()
    w[v > 0] = np.zeros(3)
    return w


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """The content of an exported file."""
    y = gt.tensor("y", "float32", ("n",))
    path = tmp_path_factory.mktemp("hints") / "exported.model"
    graphc.function([y], y * 2).export(path, {"n": [3]}, graph=True)
    return path.read_bytes()


@pytest.fixture
def names(tmp_path, content):
    """All names that the lines use, made anew for each test."""
    y = gt.tensor("y", "float32", ("n",))
    f = graphc.function([y], y * 2)
    exported = tmp_path / "exported.model"
    exported.write_bytes(content)

    @graphc.rewrite(lambda a: gt.negative(gt.negative(a)), exact=True)
    def rule(a):
        return a

    return {
        "gt": gt,
        "graphc": graphc,
        "jax": jax,
        "jnp": jnp,
        "np": np,
        "copy": copy,
        "multiprocessing": multiprocessing,
        "numpy_jit": numpy_jit,
        "copied": copied,
        "widened": widened,
        "masked_write": masked_write,
        "ones": lambda *shape: np.ones(shape, "float32"),
        "folder": tmp_path,
        "exported": exported,
        "mesh": graphc.mesh(data=1),
        "masked": np.ma.masked_array(np.ones(3, "float32"), [True, False, False]),
        "y": y,
        "X": gt.matrix("X", "float32"),
        "rows": gt.tensor("rows", "float32", ("rows", 3)),
        "b": gt.tensor("b", "float32", ("batch",)),
        "z": gt.vector("z", "complex64"),
        "words": gt.tensor("words", "uint32", (2,)),
        "s": gt.scalar("s"),
        "k": gt.iscalar("k"),
        "n": y.shape[0],
        "f": f,
        "path": tmp_path / "jitted.model",
        "jitted": graphc.jit(lambda v: v * 2),
        "ruled": graphc.custom_vjp(lambda v: v * 2),
        "rule": rule,
    }


@pytest.mark.parametrize("hint", ROWS, ids=lambda hint: hint[:40])
def test_what_a_hint_says_to_write_works(hint, names):
    code = ROWS[hint]
    for name in NAMES.findall(hint.replace("numpy.", "np.")):
        assert name in code, f"{name} is not typed"
    exec(code, names)
