"""Emitted programs, and the parts that all backends print in the same way."""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, Literal

import numpy as np

from graphc.backends.layout import docstring
from graphc.backends.module import Module
from graphc.backends.names import Hints
from graphc.backends.placing import placed_text
from graphc.backends.prelude import check_inputs, check_line, helpers
from graphc.backends.sizes import is_wide
from graphc.backends.slice_bounds import slice_bounds
from graphc.backends.source import PrintedBody
from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.build import INPUT, tuple_text
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import Symbol
from graphc.ir.syntax import parsed
from graphc.ops.common.conditions import is_reporting
from graphc.transform.planning.driver import Driver
from graphc.transform.planning.plan import Check, Plan
from graphc.transform.sharding.by_hand import is_chosen

_SAME_KEYS = {"random_key", "random_fold_in"}  # the result depends on the key alone
_IMPORTS = {
    "JAX": ["import jax", "import jax.numpy as jnp", "import numpy as np"],
    "NumPy": ["import numpy as np"],
}
WIDE = {np.dtype(name) for name in ("int64", "uint64", "float64", "complex128")}


def segment_text(source: str, index: int) -> str | None:
    """The text of a segment within a program; None if the program has none."""
    for node in parsed(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == f"segment_{index}":
            return ast.get_source_segment(source, node)
    return None


@dataclass(frozen=True)
class Outputs:
    """The structure of outputs: one value, or a list, tuple or dict of structures."""

    kind: str  # "single", "list", "tuple" or "dict"
    keys: tuple[str, ...] = ()
    parts: "tuple[Outputs, ...]" = ()

    def built(self, values: Iterable[object]) -> object:
        """Return the values, taken in order, in this structure."""
        remaining = iter(values)
        if self.kind == "single":
            return next(remaining)
        parts = [part.built(remaining) for part in self.parts]
        if self.kind == "dict":
            return dict(zip(self.keys, parts, strict=True))
        return parts if self.kind == "list" else tuple(parts)

    def text(self, values: Iterable[str]) -> str:
        """The expression after `return` for the values, taken in order."""
        remaining = iter(values)
        if self.kind == "single":
            return next(remaining)
        texts = [part.text(remaining) for part in self.parts]
        if self.kind == "list":
            return f"[{', '.join(texts)}]"
        if self.kind == "tuple":
            return f"({', '.join(texts)}{',' * bool(texts)})"
        pairs = zip(self.keys, texts, strict=True)
        return "{" + ", ".join(f"{k!r}: {v}" for k, v in pairs) + "}"


@dataclass(frozen=True)
class Source:
    """The text of a program; its entry point is the function `program`.

    It is `alone` if it does nothing but call its segment, and `wide` if it allows
    64-bit arrays for that call. Before it, the integers at the positions `checked` are
    checked.
    """

    text: str
    sizes: dict[str, Symbol]  # by their names in the text
    foreigns: Mapping[str, Callable[..., Any]]  # functions to add to it, by name
    alone: bool = False
    wide: bool = False
    checked: tuple[int, ...] = ()
    values: Mapping[Value, str] = field(default_factory=dict)  # their names in the text


def flat_outputs(plan: Plan, outputs: "Outputs") -> "Outputs":
    """The structure that the function running the graph of a plan returns."""
    if plan.padded is None:
        return outputs
    return Outputs("tuple", (), (Outputs("single"),) * len(plan.graph.outputs))


def new_module(plan: Plan) -> tuple[Module, list[str]]:
    """Return a module in which the names of the inputs are taken, and those names."""
    graph = plan.graph
    checks = [c.condition for c in checks_of(plan)]
    nodes = ancestors([*graph.outputs, *checks]) if checks else graph.nodes
    outputs: dict[Value, str] = {}
    for value, name in zip(graph.outputs, graph.output_names, strict=True):
        if name:
            outputs.setdefault(plan.resolve(value), name)
    graphs = (graph,) if plan.called is graph else (graph, plan.called)
    cut = slice_bounds(graphs, checks, plan.resolve)
    plans = plan, *(loop.body for loop in plan.loops)
    aliases = {v: of for one in plans for v, of in one.aliases.items()}
    module = Module(Hints(nodes, outputs), aliases, cut)
    if plan.mesh is not None:
        module.on_mesh, module.lays_by_hand = "on_mesh", is_chosen(graph.nodes)
    if plan.padded is not None:
        for old, new in zip(plan.called.inputs, graph.inputs, strict=False):
            module.share_name(new, old)
    return module, [module.value_name(v) for v in graph.inputs]


def function_name(padded: bool) -> str:
    """The name of the function that runs the graph of a plan."""
    return "on_padded" if padded else "program"


def checks_of(plan: Plan) -> list[Check]:
    """The conditions that the driver tests."""
    return [step for step in plan.glue if isinstance(step, Check)]


def needs_64_bits(module: Module, plan: Plan, others: Iterable[Value] = ()) -> bool:
    """Whether an array other than a literal has a 64-bit dtype, which JAX must be told.

    `others` are arrays that reach JAX although no segment needs them. The segments must
    be in the module already, as it knows whether they compute sizes with 64 bits.
    """
    if module.widens or any(v.dtype in WIDE for v in plan.graph.outputs):
        return True  # an output may be a literal
    nodes = (n for s in plan.segments for n in with_inner_nodes(s.nodes))
    computed = [v for n in nodes for v in n.outputs]
    taken = [v for s in plan.segments for v in s.inputs]
    wide = [v for v in (*computed, *taken, *others) if v.type.dtype in WIDE]
    return any(not v.node.primitive.inline for v in wide)


def draw_decorators(nodes: Iterable[Node]) -> list[str]:
    """The decorator for a JAX function with random draws, if `nodes` have any.

    With it an element of a random array does not depend on the array's size, and is the
    same as on NumPy, whatever the settings of JAX.
    """
    names = {node.primitive.name for node in with_inner_nodes(nodes)}
    draws = any(n.startswith("random_") and n not in _SAME_KEYS for n in names)
    return ["@jax.threefry_partitionable(True)"] if draws else []


def size_checks(
    module: Module, plan: Plan, names: list[str], body: PrintedBody | None = None
) -> list[str]:
    """The lines that check the integers with which segments compute sizes.

    An integer that the lines of `body` read as a size is read here instead, which
    checks it.
    """
    shown, test = plan.graph.input_names, "if not isinstance({}, jax.core.Tracer)"
    lines: list[str] = []
    for i in checked_sizes(module, plan):
        line = "" if body is None else body.take_read(plan.graph.inputs[i].symbol)
        check = f'{test.format(names[i])}: integer("{shown[i]}", {names[i]})'
        lines.append(line or check)
    return lines


def checked_sizes(module: Module, plan: Plan) -> tuple[int, ...]:
    """The positions of the integers with which segments in the module compute sizes.

    Integers that only bound slices are clipped there, and need no check.
    """
    checked = {s for s in module.summed - module.slice_bounds if is_wide(s)}
    inputs = enumerate(plan.graph.inputs)
    return tuple([i for i, value in inputs if value._symbol in checked])


def argument_check(plan: Plan, names: list[str]) -> list[str]:
    """The lines that check the arguments once per combination of shapes and dtypes.

    None for a padded program, whose arguments have been checked already.
    """
    if plan.padded is not None:
        return []
    return checked_once(plan.graph, names)


def checked_once(graph: Graph, names: list[str]) -> list[str]:
    """The lines that check arguments of a graph once per combination of types."""
    parts: list[str] = []
    for value, name in zip(graph.inputs, names, strict=True):
        array = value.type.rank > 0
        parts += [f"{name}.shape", f"{name}.dtype"] if array else [f"kind({name})"]
    key = tuple_text(parts)
    return [
        f"key = {key}",
        "if key not in CHECKED:",
        f"    {check_line(names)}",
        f"    CHECKED.add({key})",
    ]


def print_steps(body: PrintedBody, driver: Driver, names: Sequence[str]) -> None:
    """Print the steps of a driver, with names for its inputs."""
    body.bind_all(driver.graph.inputs, names)
    for step in driver.steps:
        print_step(step, body)


@singledispatch
def print_step(step: object, body: PrintedBody) -> None:
    """Print a step of a driver as lines of `body`, and bind its results there."""
    raise TypeError(f"no text is known for a {type(step).__name__}")


def print_check(body: PrintedBody, check: Check) -> None:
    """Print the test of a condition on the host."""
    value = body.module.resolve(check.condition)
    condition = body.on_host.get(value) or body.value(value)
    numbers = is_reporting(value.type)
    fails = f"{condition}[0]" if numbers else f"not {condition}"
    body.line(f"if {fails}:")
    body.line(f"    {raise_statement(check, condition)}")


def raise_statement(check: Check, numbers: str, first: int = 0) -> str:
    """The statement that raises; its message contains the `numbers` after `first`."""
    text, *others = check.texts
    pieces = [f"str({numbers}[{first + i}]), {t!r}" for i, t in enumerate(others, 1)]
    message = repr(check.message)
    if is_reporting(check.condition.type):
        message = f'"".join([{", ".join([repr(text), *pieces])}])'
    more = [str(check.place), check.kind, check.error]
    arguments = [message, *map(repr, more if check.error else more[:-1])]
    return f"raise ProgramError({', '.join(arguments)})"


def print_return(body: PrintedBody, plan: Plan, outputs: "Outputs") -> None:
    """Print the line that returns the outputs in the structure the user asked for."""
    results = [_output_text(body, plan.resolve(v)) for v in plan.graph.outputs]
    body.line(f"return {outputs.text(results)}")


def _output_text(body: PrintedBody, value: Value) -> str:
    """The expression of an output, converted to a JAX array where it is not one."""
    name, dtype = body.value(value), value.dtype.name
    is_argument = value.node.primitive is INPUT
    if is_argument and body.backend == "jax":
        return f'jnp.asarray({name}, "{dtype}")'
    if is_argument or value.node.primitive.driven or body.on_host.get(value) == name:
        return placed_text(body.module, name, dtype)
    return name


def assemble(
    module: Module,
    plan: Plan,
    backend: Literal["JAX", "NumPy"],
    functions: list[list[str]],
) -> Source:
    """The whole program: the functions first, then the helpers that they call."""
    called = plan.called
    guards = () if plan.padded is None else plan.padded.guards_by(integers=False)
    names = list(map(module.value_name, called.inputs))
    checks = check_inputs(module, called, names, guards, plan.casting)
    title = docstring(f"A {backend} program: {called.signature}.")
    lines = [title, "", *_IMPORTS[backend], *module.imports]
    for function in [*functions, checks]:
        lines += ["", "", *function]
    lines += module.preamble()
    return Source(
        "\n".join(lines) + "\n" + helpers(),
        module.sizes,
        module.foreigns.functions,
        values=module.value_names,
    )
