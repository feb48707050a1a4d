"""Variables are named for their role, and functions for what they do or return."""

import ast
import functools
import pathlib

import graphc
from tests import parsed

ROOT = pathlib.Path(graphc.__file__).parent.parent
PACKAGES = ("graphc", "graphc_serving")
NAMELESS = {"found", "given", "made", "own", "rest", "kept", "wanted"}
LEFT = 3
SHOWN = 20
# A function is a verb, or names its result: `ask_body`, `axes_behind`, `is_needed`.
NAMELESS_FUNCTIONS = {
    *NAMELESS,
    *"again alone anew apart asked behind held needed said settled taken told".split(),
}
FUNCTIONS_LEFT = 21

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.Lambda)


def modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path, parsed.tree(path)


@functools.cache
def helpers():
    """The names of all functions that are printed into programs."""
    return {name for _, tree in modules() for name in names_of_helpers(tree)}


def names_of_helpers(tree):
    """Yield the names of functions that are printed into programs.

    Printers pass these functions to `helper`, or their docstring begins so.
    """
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            if (ast.get_docstring(node) or "").startswith("Printed into"):
                yield node.name
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "helper":
            parts = [part for operand in node.args for part in ast.walk(operand)]
            yield from (part.id for part in parts if isinstance(part, ast.Name))


def scopes(tree, helpers, outer=""):
    """Yield the functions and lambdas of a module with their names, except helpers."""
    for node in ast.iter_child_nodes(tree):
        name = outer
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            name = f"{outer}.{node.name}".lstrip(".")
            if node.name in helpers:
                continue
        if isinstance(node, SCOPES):
            yield name, node
        yield from scopes(node, helpers, name)


def variables(scope):
    """Yield the parameters of a function and the names that it assigns."""
    names = scope.args
    several = [*names.posonlyargs, *names.args, *names.kwonlyargs]
    yield from (a.arg for a in (*several, names.vararg, names.kwarg) if a)
    pending = [*scope.body] if isinstance(scope.body, list) else [scope.body]
    while pending:
        node = pending.pop()
        if isinstance(node, SCOPES):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        pending.extend(ast.iter_child_nodes(node))


def test_variables_say_what_they_are():
    """A variable is `candidates` or `first_use`, not `found`; see `NAMELESS`.

    A variable that is hard to name is a sign that the function does two things.
    """
    places = []
    for path, tree in modules():
        for name, scope in scopes(tree, helpers()):
            place = f"{path.relative_to(ROOT)}: {name or 'lambda'}"
            words = NAMELESS.intersection(variables(scope))
            places += [(path.stat().st_mtime, f"{place}: {w}") for w in sorted(words)]
    newest = [text for _, text in sorted(places, reverse=True)]
    head = f"{len(places)} nameless variables, at most {LEFT}; the newest files first:"
    assert len(places) <= LEFT, "\n".join([head, *newest[:SHOWN]])


def test_functions_say_what_they_do():
    places = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name not in helpers()
        if node.name.strip("_").lower() in NAMELESS_FUNCTIONS
    ]
    head = f"{len(places)} nameless functions and classes, at most {FUNCTIONS_LEFT}:"
    assert len(places) <= FUNCTIONS_LEFT, "\n".join([head, *places])
