"""Check the options of `graphc.jit` that concern sizes."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from graphc.errors import GraphError, graph_error, shortened
from graphc.ir.graph.nodes import Graph
from graphc.ir.namespace import misspelled
from graphc.ir.sizes.names import CAPACITY
from graphc.ops.common.conditions import CHECKS, Checking
from graphc.rewriting.engine.rule import Rules
from graphc.runtime.call.arguments import Backend
from graphc.runtime.compile import check_options, function
from graphc.runtime.function import Function
from graphc.runtime.pipeline import Jit
from graphc.runtime.variants.decisions import SavedDecisions
from graphc.runtime.variants.program_decisions import starting_decisions
from graphc.transform.planning.budget import Budget
from graphc.transform.policies import NAMED, Bound, Policy
from graphc.transform.sharding.meshes import DeviceMesh
from graphc.transform.sharding.shards import mesh_of

_NAME = re.compile(r"[^\W\d]\w*")
NAMING_HINT = 'shapes="n _" names axes: one word for each axis of each array'


@dataclass(frozen=True)
class Options:
    """How `graphc.jit` compiles; its docstring explains the options."""

    dims: Any
    rewrites: Rules
    backend: Backend
    decisions: SavedDecisions | None = None  # of other processes
    check: Checking = False  # for what NumPy would raise
    decided: Mapping[str, Policy] = field(default_factory=dict)  # for one program
    name: str = ""  # of the function, for JAX's logs

    @property
    def mesh(self) -> DeviceMesh | None:
        """The devices that sizes are sharded over, if any are."""
        return mesh_of(self.dims)


class CallersError(Exception):
    """Raised for an `error` of the caller, so that no handler takes it for another."""

    def __init__(self, error: GraphError) -> None:
        super().__init__(str(error))
        self.error = error


def compiled_by(options: Options, graph: Graph, jit: Jit = "auto") -> Function:
    """Compile a graph with the options of `jit`."""
    return function(
        list(graph.inputs),
        list(graph.outputs),
        jit=jit if options.backend == "jax" else "auto",
        dims=options.dims,
        rewrites=options.rewrites,
        backend=options.backend,
        check=options.check,
        unused="ignore",
        casting="exact",
        decisions=starting_decisions(graph, options.decided),
        name=options.name,
    )


def check_frontend(frontend: object) -> None:
    """Raise GraphError unless `frontend` says whose names functions are written in."""
    if frontend not in ("jax", "numpy"):
        problem, expected = f"frontend cannot be {frontend!r}", "one of 'jax', 'numpy'"
        raise graph_error(problem, op="jit", expected=expected)


def checking_of(check: Checking | None, frontend: str) -> Checking:
    """Whether programs check for what NumPy raises; by default only those for NumPy.

    Raises GraphError for an unknown choice, and for checks in functions of JAX.
    """
    if check is None:
        return frontend == "numpy"
    if check not in CHECKS:
        expected = f"one of {', '.join(map(repr, CHECKS))}"
        problem = f"check cannot be {check!r}"
        raise graph_error(problem, op="jit", expected=expected)
    if check and frontend == "jax":
        problem = "JAX raises no errors about data, nor do functions written for it"
        hint = 'use frontend="numpy", or leave check out'
        raise graph_error(problem, op="jit", got=f"check={check!r}", hint=hint)
    return check


def check_choices(options: Options, shapes: object, counts: bool) -> None:
    """Raise GraphError, at the line that decorates, for options without meaning.

    If a function has `counts`, which are sizes that depend on data, these have names of
    their own, shown by its graph.
    """
    check_options("jit", options.backend, options.rewrites, options.dims)
    names = names_in_shapes(shapes)
    if options.mesh is not None and shapes is None:
        raise graph_error(
            "sizes are sharded by their names, and no axis has a name",
            op="jit",
            got=f"dims={shortened(repr(list(options.dims)))}",
            hint=NAMING_HINT,
        )
    policies = options.dims if isinstance(options.dims, Mapping) else {}
    for key, policy in policies.items():
        if not isinstance(key, str):
            raise _unknown_name_error(key, "the name of a size, as text")
        if isinstance(NAMED.get(policy, policy), Bound) and not counts:
            problem = f"Bound() is for sizes that depend on data, not {key}"
            raise graph_error(problem, op="jit", hint="use Pad()")
    if shapes is not None and not counts:
        require_known_names(options.dims, dict.fromkeys(names, ""))


def names_in_shapes(shapes: object) -> list[str]:
    """The names of sizes in `shapes`. Raises GraphError if `shapes` is not text."""
    leaves = jax.tree.leaves(shapes)
    if not all(isinstance(leaf, str) for leaf in leaves):
        raise graph_error(
            "`shapes` must be text, or a structure of texts like the arguments",
            op="jit",
            got=f"shapes={shortened(repr(shapes))}",
            hint=NAMING_HINT,
        )
    words = [name for leaf in leaves for name in _NAME.findall(leaf)]
    return [name for name in dict.fromkeys(words) if name != "_"]


def require_names_of_call(dims: object, axes: Mapping[str, str]) -> None:
    """Do what `require_known_names` does for a call: raise CallersError."""
    try:
        require_known_names(dims, axes)
    except GraphError as error:
        raise CallersError(error) from None


def require_known_names(dims: object, axes: Mapping[str, str]) -> None:
    """Raise GraphError if `dims` names sizes other than those of these axes."""
    names = dims.sizes if isinstance(dims, Budget) else dims
    for key in names if isinstance(names, Mapping) else ():
        if key.removesuffix(CAPACITY) not in axes:
            known = [f"{n}, which is {at}" if at else n for n, at in axes.items()]
            expected = f"one of {', '.join(known)}" if known else "no name"
            raise _unknown_name_error(key, expected, misspelled(key, list(axes)))


def dims_of(dims: object, names: Container[str]) -> object:
    """The part of `dims` that concerns the sizes in `names`."""
    if isinstance(dims, Budget):
        sizes = {k: n for k, n in dims.sizes.items() if k in names}
        return replace(dims, sizes=sizes)
    if not isinstance(dims, Mapping):
        return dims
    return {k: p for k, p in dims.items() if k.removesuffix(CAPACITY) in names}


def _unknown_name_error(key: object, expected: str, meant: str = "") -> GraphError:
    return graph_error(
        f"`dims` names a size that the function does not have{meant}",
        op="jit",
        got=shortened(repr(key)),
        expected=shortened(expected),
        hint=NAMING_HINT,
    )
