"""The structures of arguments and results, in calls and in files."""

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING

import jax

from graphc.errors import graph_error
from graphc.importers.jax.trace.arguments import JaxCall, parameter_names
from graphc.ir.types import ConcreteArray
from graphc_serving.structures import Parts, Structure

if TYPE_CHECKING:
    from graphc.importers.jax.read.jaxprs import PyTreeDef

ONE_LEAF = jax.tree.structure(0)


def in_structure(tree: "PyTreeDef") -> Callable[[list[ConcreteArray]], object]:
    """Return a function that puts a list of leaves into the structure of a tree."""
    if tree == ONE_LEAF:  # `unflatten` would change nothing here, yet take time
        return itemgetter(0)
    unflatten: Callable[[list[ConcreteArray]], object] = tree.unflatten
    return unflatten


def parameters_of(call: JaxCall, function: Callable[..., object]) -> list[list[object]]:
    """The name and structure of each argument that is not static, in order."""
    count = len(call.leaves)
    args, named = jax.tree.unflatten(call.form, range(count))
    fixed = {where for where, _ in call.statics}
    names = parameter_names(function, len(args))
    parameters = [(names[i], x) for i, x in enumerate(args) if i not in fixed]
    parameters += [(n, named[n]) for n in named if n not in fixed]
    return [
        [name, structure(tree, f"the argument {name}")] for name, tree in parameters
    ]


def structure_of_results(tree: "PyTreeDef") -> Structure:
    """The structure of results that form this tree."""
    numbered = jax.tree.unflatten(tree, range(tree.num_leaves))
    return structure(numbered, "the result")


def structure(tree: "PyTreeDef", what: str) -> Structure:
    """The structure of a tree whose leaves are numbers, as a file stores it.

    Raises GraphError for a container that readers of a file may not know.
    """
    kind = type(tree)
    if kind is int:
        return "single"
    if tree is None:
        return "none"
    if kind in (list, tuple):
        parts = [structure(x, f"{what}[{i}]") for i, x in enumerate(tree)]
        return Parts(kind.__name__, parts)
    if kind is dict and all(type(key) is str for key in tree):
        keys = list(tree)  # in the order of the leaves
        parts = [structure(tree[key], f"{what}[{key!r}]") for key in keys]
        return Parts(keys, parts)
    raise graph_error(
        f"a file cannot hold the structure of {what}",
        op="export",
        got=kind.__name__,
        expected="lists, tuples, dicts whose keys are text, None",
        hint="close over it if it does not change; else pass, or return, its arrays",
    )
