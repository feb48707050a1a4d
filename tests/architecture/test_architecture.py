"""Imports point down, files and functions stay small, no op has a hole."""

import ast
import pathlib
from functools import cache
from typing import NamedTuple

import networkx as nx
import pytest

import graphc
import graphc.tensor
from graphc.ir.graph.op import BATCHING, EMISSION, GRADIENTS, PRIMITIVES
from graphc.ir.namespace import FUNCTIONS
from tests import parsed

ROOT = pathlib.Path(graphc.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
SERVING = sorted((ROOT.parent / "graphc_serving").rglob("*.py"))
LAYERS = [
    "version",
    "entries",
    "errors",
    "warning_kinds",
    "ir",
    "ops",
    "control",
    "analysis",
    "rewriting",
    "transform",
    "backends",
    "explain",
    "show",
    "runtime",
    "testing",
    "importers",
    "checking",
    "rewrites",
    "tensor",
    "pytensor",
    "pymc",
    "command",
    "__main__",
    "dev",
]


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in FILES}


class Facts(NamedTuple):
    """The facts about one file that the tests ask for."""

    imports: set[str]
    called: set[str]  # modules of the functions that the file reaches through `F`
    lines: int
    functions: list[tuple[str, int, bool]]  # name, lines, whether it imports inside


@cache
def facts(path):
    """Read a file once for all tests, since reading takes longer than checking."""
    text = path.read_text(encoding="utf-8")
    nodes = parsed.nodes(path)
    imports = set(imports_of(nodes)) - type_checking_only(nodes) - {module_of(path)}
    functions = [
        (node.name, node.end_lineno - node.lineno + 1, imports_inside(node))
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    called = set(called_through_f(nodes))
    return Facts(imports, called, len(text.splitlines()), functions)


def imports_inside(function):
    return any(isinstance(n, (ast.Import, ast.ImportFrom)) for n in ast.walk(function))


def imports_of(nodes):
    """Yield the modules of graphc that a file imports, also inside functions."""
    for node in nodes:
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found = [node.module]
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in found if name in MODULES)


def type_checking_only(nodes):
    """Return the modules imported under `if TYPE_CHECKING:`, which never run."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for inner in ast.walk(node):
                if isinstance(inner, ast.ImportFrom):
                    found.add(inner.module)
    return found


@cache
def dependencies():
    """The graph of imports, with an edge from each module to those it imports."""
    graph = nx.DiGraph()
    for path in FILES:
        graph.add_edges_from((module_of(path), name) for name in facts(path).imports)
    return graph


def layer(module):
    parts = module.split(".")
    return LAYERS.index(parts[1]) if len(parts) > 1 else len(LAYERS)


def test_imports_point_down():
    upward = [
        (a, b) for a, b in dependencies().edges if layer(a) < layer(b) and b != "graphc"
    ]
    assert upward == [], "see the floors in docs/design.md"


def called_through_f(nodes):
    """Modules of the functions that a file reaches as `F.name` or `F.space.name`."""
    for node in nodes:
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            if name.startswith("F.") and name[2:] in FUNCTIONS:
                yield FUNCTIONS[name[2:]].__module__


def dotted(node):
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


OF_VALUES = {  # operators and attributes of values, and of the sizes computed with them
    *("graphc.ir.graph.operators", "graphc.ir.graph.nodes"),
    *("graphc.ir.graph.arithmetic", "graphc.ir.graph.build"),
}


def test_calls_through_f_point_down():
    """A call through `F` is as good as an import of the module with the function."""
    upward = {
        (module_of(path), used)
        for path in FILES
        if module_of(path) not in OF_VALUES
        for used in facts(path).called
        if layer(module_of(path)) < layer(used)
    }
    assert upward == set(), "see the floors in docs/design.md"


def test_there_are_no_import_cycles():
    graph = dependencies().copy()
    packages = [n for n in graph if (ROOT.parent / n.replace(".", "/")).is_dir()]
    graph.remove_nodes_from(packages)
    assert list(nx.simple_cycles(graph)) == []


OPS = "graphc.ops"
SHARED = "common"  # the folder of ops/ that every family may import


def family(module):
    """The folder of an op module, or its own name if it lies in ops/ itself."""
    return module.removeprefix(f"{OPS}.").split(".")[0]


def edges_of_ops():
    """The imports from one op module to another."""
    inside = [
        (a, b)
        for a, b in dependencies().edges
        if a.startswith(f"{OPS}.") and b.startswith(f"{OPS}.")
    ]
    return sorted(inside)


def test_op_families_meet_in_the_namespace_only():
    """A folder of ops/ imports itself and `common`; it reaches others through `F`."""
    edges = edges_of_ops()
    assert any(family(a) != family(b) for a, b in edges)
    assert any(family(a) == family(b) != SHARED for a, b in edges)
    apart = [(a, b) for a, b in edges if family(b) not in (family(a), SHARED)]
    assert apart == [], "reach the functions of another family through F"


def test_op_modules_are_imported_in_one_place():
    """`graphc.ops` leads to every op module; the folders themselves import nothing."""
    modules = {m for m in MODULES if m.startswith(f"{OPS}.")}
    folders = {m for m in modules if (ROOT.parent / m.replace(".", "/")).is_dir()}
    apart = modules - folders - nx.descendants(dependencies(), OPS)
    assert apart == set(), "import them in graphc/ops/__init__.py"
    assert not any(dependencies().has_node(f) and dependencies()[f] for f in folders)


BY_NAME = {  # patterns contain names, and `verify` looks primitives up by name
    "graphc.dev.ops",  # looks up the functions of the same names
    *("graphc.rewriting.match.pattern", "graphc.rewriting.match.traced_patterns"),
    *("graphc.rewriting.engine.fixpoint", "graphc.rewriting.engine.rule"),
    "graphc.ir.graph.verify",
}


def is_name_of_primitive(node):
    """Whether an expression is the name of a primitive of graphc, not of JAX."""
    text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
    return text.endswith("primitive.name") and "eqn.primitive" not in text


def named(function):
    """The variables of a function that hold the name of a primitive."""
    for node in ast.walk(function):
        match node:
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
                pairs = zip(targets, values, strict=False)
            case ast.Assign([target], value):
                pairs = [(target, value)]
            case _:
                continue
        yield from (ast.unparse(t) for t, x in pairs if is_name_of_primitive(x))


def names_of_primitives(path):
    """Yield the places where the name of a primitive is compared or looked up."""
    for function in parsed.nodes(path):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        held = set(named(function))
        for node in ast.walk(function):
            match node:
                case ast.Compare(left=left, comparators=[*more]):
                    asked = [left, *more]
                case ast.Subscript(slice=index):
                    asked = [index]
                case ast.Call(func=ast.Attribute(attr="get" | "find"), args=[key, *_]):
                    asked = [key]
                case _:
                    continue
            for key in asked:
                if is_name_of_primitive(key) or ast.unparse(key) in held:
                    yield ast.unparse(node)


def test_ops_are_told_apart_by_identity():
    """Write `node.primitive is OP.where`, a trait or a table of rules; no names."""
    uses = {module_of(path): [*names_of_primitives(path)] for path in FILES}
    found = {module: texts for module, texts in uses.items() if texts}
    by_name = {m: f for m, f in found.items() if m not in BY_NAME}
    assert by_name == {}, "write `node.primitive is OP.where`, or a rule in a table"
    assert found.keys() <= BY_NAME


def primitives_named(path):
    """Yield the primitives that a file reaches as `OP.name`."""
    for node in parsed.nodes(path):
        if isinstance(node, ast.Attribute) and dotted(node.value) == "OP":
            yield PRIMITIVES[node.attr.removesuffix("_")]


def test_primitives_are_told_apart_from_above():
    """A module that singles out a primitive stands above it, or beside it."""
    upward = {
        (module_of(path), primitive.name)
        for path in FILES
        for primitive in primitives_named(path)
        if layer(module_of(path)) < layer(primitive.infer.__module__)
    }
    assert upward == {("graphc.ir.graph.build", "true_divide")}  # a hint: write a // b


def test_files_and_functions_stay_small():
    """Divide whatever is larger: one idea per module, one thing per function."""
    sizes = {path: facts(path) for path in FILES + SERVING}
    assert [path for path, has in sizes.items() if has.lines > 500] == []
    functions = [(path, *f) for path, has in sizes.items() for f in has.functions]
    assert [(path, name) for path, name, lines, _ in functions if lines > 60] == []
    inside = [(path, name) for path, name, _, imports in functions if imports]
    assert inside == [], "import at the head of the file"


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_every_primitive_runs_or_is_refused_with_a_reason(backend):
    for primitive in PRIMITIVES.values():
        if primitive.name != "input":
            given = primitive in EMISSION[backend]
            told = given or EMISSION[backend].reason(primitive)
            ways = f'.emit({backend}=...) or .refuse("{backend}", why)'
            assert told, f"{primitive.name} needs {ways}"


def test_every_primitive_has_a_gradient_or_a_reason_for_none():
    for primitive in PRIMITIVES.values():
        if primitive.arguments:
            ways = [primitive in GRADIENTS, bool(GRADIENTS.reason(primitive))]
            told = "needs one of .vjp, .no_gradient(why), .zero_gradient()"
            assert ways.count(True) == 1, f"{primitive.name} {told}"
            assert primitive.no_gradient_for.keys() <= set(primitive.arguments)
            assert all(primitive.no_gradient_for.values()), primitive.name


def test_every_primitive_can_be_batched_or_has_a_reason():
    for primitive in PRIMITIVES.values():
        if primitive.arguments:
            ways = [
                primitive.elementwise,
                primitive in BATCHING,
                bool(BATCHING.reason(primitive)),
            ]
            told = "needs one of .elementwise = True, .batch, .no_batch(why)"
            assert ways.count(True) == 1, f"{primitive.name} {told}"


def test_every_public_function_says_what_it_does():
    silent = [
        n for n, f in FUNCTIONS.items() if not n.startswith("_") and not f.__doc__
    ]
    assert silent == [], "give each a docstring"
