"""A program of compiled parts, and of Ops that PyTensor performs on the host.

Nodes are coloured: converted, or performed. The phase of a node is the largest phase of
the nodes before it, plus one where the colour changes; the converted nodes of one phase
are one part, compiled by graphc. Without performed nodes there is one part.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.type_other import SliceType

from graphc.errors import CallError, ForkError, GraphError
from graphc.ir.graph.nodes import Graph
from graphc.ir.types import ConcreteArray
from graphc.pytensor.convert import Conversion, Values, input_value, is_array
from graphc.pytensor.forked_process import numpy_options
from graphc.pytensor.lazy import has_choices
from graphc.pytensor.of_jax import has_function
from graphc.pytensor.registry import NotConverted, as_stated, has_conversion
from graphc.runtime.compile import function
from graphc.runtime.driver.programs import Programs
from graphc.runtime.function import Function

if TYPE_CHECKING:
    from pytensor.graph.fg import FunctionGraph


VariableStorage = dict[Variable, Any]
PROGRAMS = Programs()  # shared, since PyMC makes the same functions again


@dataclass(frozen=True)
class Compiled:
    """Nodes that graphc has compiled to a function from `inputs` to `outputs`."""

    inputs: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    graph: Graph
    function: Function
    options: dict[str, Any]
    chooses: bool  # whether there are branches

    @classmethod
    def of(
        cls,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        graph: Graph,
        options: dict[str, object],
        chooses: bool,
    ) -> "Compiled":
        """Compile a graph between variables, as the options say."""
        function = shared_function(graph, options)
        return cls(tuple(inputs), tuple(outputs), graph, function, options, chooses)

    def on_numpy(self) -> "Compiled":
        """The same nodes, compiled for NumPy."""
        parts = self.inputs, self.outputs, self.graph
        return Compiled.of(*parts, numpy_options(self.options), self.chooses)

    @cached_property
    def _compiled_by_branch(self) -> "Compiled":
        return self.on_numpy()

    def __call__(self, *arguments: object) -> Sequence[ConcreteArray]:
        """Compute the outputs; they must be read before arguments are written to."""
        try:
            results: Sequence[Any] = self.function.lend(*arguments)
        except CallError as error:
            if not self.chooses or self.function.backend == "numpy":
                raise
            return self._run_by_branch(arguments, error)
        return results

    def _run_by_branch(
        self, arguments: Sequence[object], error: CallError
    ) -> Sequence[ConcreteArray]:
        """Compute the outputs on NumPy, where sizes must fit only in branches taken.

        JAX traces every branch. Within a loop the branch is not known in advance, so
        there sizes must fit in all of them.
        """
        try:
            return self._compiled_by_branch(*arguments)
        except GraphError:
            raise error from None

    def run(self, stored: VariableStorage) -> None:
        """Compute the outputs from what is stored, and store them."""
        results = self(*[stored[v] for v in self.inputs])
        for v, result in zip(self.outputs, results, strict=True):
            stored[v] = result


@dataclass(frozen=True)
class Performed:
    """A node that PyTensor performs on the host, and why."""

    node: Apply
    reason: str
    thunk: Callable[[], Any]
    cells: dict[Variable, list[Any]]

    @property
    def is_of_jax(self) -> bool:
        """Whether PyTensor performs the node on JAX."""
        return type(self.node.op).__name__ == "JAXOp" or has_function(self.node.op)

    def run(self, stored: VariableStorage) -> None:
        """Compute the outputs from what is stored, and store them."""
        for v in self.node.inputs:
            if not isinstance(v, Constant):
                value = stored[v]
                self.cells[v][0] = np.asarray(value) if is_array(v.type) else value
        for v in self.node.outputs:
            self.cells[v][0] = None
        self.thunk()
        for v in self.node.outputs:
            stored[v] = self.cells[v][0]


Step = Compiled | Performed


def plan(fgraph: Any, options: dict[str, object]) -> list[Step]:
    """The steps of a program, in the order in which they run."""
    nodes = fgraph.toposort()
    host = {node: reason for node in nodes if (reason := _why_not_converted(node))}
    while True:
        try:
            return _plan_steps(fgraph, nodes, host, options)
        except _RefusedNodeError as refused:
            host[refused.node] = refused.reason


class _RefusedNodeError(Exception):
    """Raised for a node that turned out not to be convertible."""

    def __init__(self, node: Apply, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason


def _why_not_converted(node: Apply) -> str:
    """Why a node cannot be converted, as far as its Op and types tell; else ""."""
    for v in (*node.inputs, *node.outputs):
        known = isinstance(v, Constant) or isinstance(v.type, SliceType)
        if not known and not is_array(v.type):
            return f"{v.type} is not an array"
    if not has_conversion(node.op):
        return f"{type(node.op).__name__} has no conversion"
    return ""


def _plan_steps(
    fgraph: "FunctionGraph",
    nodes: Sequence[Apply],
    host: dict[Apply, str],
    options: dict[str, object],
) -> list[Step]:
    phases: dict[int, list[Apply]] = {}
    when: dict[Variable, tuple[int, bool]] = {}
    for node in nodes:
        is_host = node in host
        before = [when[v] for v in node.inputs if v in when]
        phase = max((p + (h != is_host) for p, h in before), default=int(is_host))
        when.update(dict.fromkeys(node.outputs, (phase, is_host)))
        phases.setdefault(phase, []).append(node)
    steps: list[Step] = []
    requested = set(fgraph.outputs)
    for phase in sorted(phases):
        members = phases[phase]
        if members[0] in host:
            steps += [_prepare_node(node, host[node]) for node in members]
        else:
            steps.append(_compile_nodes(fgraph, members, requested, options))
    return steps


def _compile_nodes(
    fgraph: "FunctionGraph",
    nodes: Sequence[Apply],
    requested: set[Variable],
    options: dict[str, object],
) -> Compiled:
    """Convert nodes, in order, and compile them to one function of graphc."""
    computed = dict.fromkeys(v for node in nodes for v in node.outputs)
    used = dict.fromkeys(v for node in nodes for v in node.inputs)
    outer = [v for v in used if v not in computed and not isinstance(v, Constant)]
    members = set(nodes)
    needed = [
        v
        for v in computed
        if v in requested or any(c not in members for c, _ in fgraph.clients[v])
    ]
    inputs = _sorted_as(fgraph.inputs, outer)
    outputs = _sorted_as(fgraph.outputs, needed)
    values: Values = {v: input_value(v, i) for i, v in enumerate(inputs)}
    conversion = Conversion(nodes, outputs, values)
    try:
        conversion.run()
    except ForkError:
        raise
    except (NotConverted, GraphError) as missing:
        raise _RefusedNodeError(conversion.node, str(missing).splitlines()[0]) from None
    typed = _read_by_type(fgraph, members)
    results = [
        as_stated(values[v], v.type.dtype) if v in typed else values[v] for v in outputs
    ]
    graph = Graph.of([values[v] for v in inputs], results)
    return Compiled.of(inputs, outputs, graph, options, has_choices(nodes))


def _read_by_type(fgraph: "FunctionGraph", members: set[Apply]) -> set[Variable]:
    """Variables that later steps or calls read, which rely on the stated dtypes."""
    later = (node for node in fgraph.apply_nodes if node not in members)
    updates = (fgraph.outputs[i] for i in fgraph.update_mapping or ())
    return {*updates, *(v for node in later for v in node.inputs)}


def shared_function(
    graph: Graph, options: dict[str, Any], single: bool = False
) -> Function:
    """Compile a graph, with the program of earlier functions that are alike.

    The function returns a list, or the only output if it is `single`.
    """
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    with PROGRAMS.shared():
        results = outputs[0] if single else outputs
        return function(inputs, results, unused="ignore", **options)


def _sorted_as(order: Iterable[Variable], variables: list[Variable]) -> list[Variable]:
    """Sort variables as in `order`, the others last.

    Calls then need not pick out their arguments and results.
    """
    members = dict.fromkeys(variables)
    return list(dict.fromkeys([*(v for v in order if v in members), *variables]))


def _prepare_node(node: Apply, reason: str) -> Performed:
    """Prepare a node with cells of its own for its inputs and outputs."""
    cells: dict[Variable, list[Any]] = {
        v: [v.data if isinstance(v, Constant) else None]
        for v in (*node.inputs, *node.outputs)
    }
    known = {v: [True] for v in node.inputs} | {v: [False] for v in node.outputs}
    thunk = node.op.make_thunk(node, cells, known, [], impl="py")
    return Performed(node, reason, thunk, cells)
