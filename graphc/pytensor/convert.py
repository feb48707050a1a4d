"""Conversion of PyTensor's variables to values: types, constants and nodes."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import graph_inputs, io_toposort
from pytensor.scalar import ScalarType
from pytensor.tensor.type import TensorType

import graphc.tensor as gt
from graphc.errors import graph_error, standing_at
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import constant
from graphc.ir.graph.nodes import Graph, Value
from graphc.ops.arrays.stated_sizes import state_shape
from graphc.pytensor.lazy import (
    BranchPath,
    LazyBranch,
    branch_results,
    is_choice,
    nodes_by_branch,
)
from graphc.pytensor.places import place_of
from graphc.pytensor.registry import NotConverted, as_stated, convert_op

Values = dict[Variable, Any]
# Ops for which PyTensor states wrong dtypes: where matrices are complex, and for sums
# and products so far of booleans and short integers.
MISSTATED = ("CumOp", "Eigh", "QR", "SVD")
# Ops whose results have the dtype of their first argument.
KEEPING = {
    *("AdvancedIncSubtensor", "AdvancedIncSubtensor1", "IncSubtensor"),
    *("AdvancedSubtensor", "AdvancedSubtensor1", "Subtensor"),
    *("Alloc", "DeepCopyOp", "DimShuffle", "Reshape", "SpecifyShape"),
    *("SortOp", "Unique"),
}


def convert(outputs: Any, inputs: Sequence[object], rewrite: Any = None) -> Graph:
    """The graph of graphc between variables of PyTensor.

    Sizes that PyTensor does not know are symbols. Shared variables that the outputs
    depend on follow the `inputs`, as inputs of the graph. `rewrite` is first applied to
    a copy of PyTensor's graph, such as `graphc.pytensor.mode().optimizer.rewrite`.

    Raises GraphError for an Op that has no conversion; the mode "GRAPHC" would have
    PyTensor perform it.

    >>> import graphc, graphc.pytensor, pytensor.tensor as pt
    >>> x = pt.dvector("x")
    >>> graph = graphc.pytensor.convert(pt.exp(x).sum(), [x])
    >>> f = graphc.function(graph.inputs, graph.outputs[0], backend="numpy")
    >>> print(f([0.0, 0.0]))
    2.0
    """
    results = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    leaves = [*inputs, *shared_variables(results, inputs)]
    copy = FunctionGraph(leaves, results, clone=True)
    if rewrite is not None:
        rewrite(copy)
    try:
        values: Values = {v: input_value(v, i) for i, v in enumerate(copy.inputs)}
        Conversion(copy.toposort(), copy.outputs, values).run()
    except NotConverted as missing:
        hint = "register one with graphc.pytensor.convert_op.register, or use the mode"
        raise graph_error(str(missing), op="convert", hint=f'{hint} "GRAPHC"') from None
    input_values = tuple(values[v] for v in copy.inputs)
    output_values = tuple(known_value(v, values) for v in copy.outputs)
    names = tuple(v.name or "" for v in results)
    return Graph(
        input_values, output_values, tuple(v.name for v in input_values), names
    )


def shared_variables(
    outputs: Sequence[object], inputs: Sequence[object]
) -> list[object]:
    """The shared variables that `outputs` depend on, in order.

    Raises GraphError where they depend on another variable that is not an input.
    """
    known_inputs = set(inputs)
    roots = [v for v in graph_inputs(outputs) if not isinstance(v, Constant)]
    shared = [v for v in dict.fromkeys(roots) if v not in known_inputs]
    for v in shared:
        if not isinstance(v, SharedVariable):
            problem, hint = "an input is missing", "give it among the inputs"
            raise graph_error(problem, op="convert", got=str(v), hint=hint)
    return shared


def is_array(kind: object) -> bool:
    """Whether a type is one of dense arrays; that of sparse ones derives from it."""
    dense = type(kind).__name__ != "SparseTensorType"
    return dense and isinstance(kind, (TensorType, ScalarType))


def input_value(v: Variable, position: int) -> Value:
    """Make a variable of graphc for an input of PyTensor."""
    if not is_array(v.type):
        raise NotConverted(f"an input is not a tensor: {v} of type {v.type}")
    name = v.name or f"input_{position}"
    return gt.tensor(name, v.type.dtype, tuple(getattr(v.type, "shape", ())))


def convert_graph(
    outputs: Sequence[Variable], inputs: Sequence[Variable], arguments: Sequence[Value]
) -> list[Any]:
    """Convert the outputs of an inner graph of PyTensor, with `arguments` as inputs."""
    values = dict(zip(inputs, arguments, strict=True))
    Conversion(io_toposort(inputs, outputs), outputs, values).run()
    return _inner_results(outputs, values)


def _inner_results(outputs: Sequence[Variable], values: Values) -> list[Any]:
    """The results of a body or branch; integers of the dtypes that PyTensor states.

    The results of another step or branch must have the same dtypes.
    """
    results = [known_value(v, values) for v in outputs]
    return [
        as_stated(value, v.type.dtype)
        if isinstance(value, Value) and value.dtype.kind in "biu"
        else value
        for value, v in zip(results, outputs, strict=True)
    ]


class Conversion:
    """The conversion of nodes, in order, each of which adds its outputs to the values.

    `node` is the one being converted, or the one at which an error was raised.
    """

    node: Apply

    def __init__(
        self, nodes: Sequence[Apply], outputs: Sequence[Variable], values: Values
    ) -> None:
        self._nodes, self._values = nodes_by_branch(nodes, outputs), values

    def run(self, place: BranchPath = None) -> None:
        """Convert the nodes of a place: outside of all branches, or in one."""
        for node in self._nodes.get(place, ()):
            self.node = node
            results = convert_node(node, self._inputs(node))
            self._values.update(zip(node.outputs, results, strict=True))

    def _inputs(self, node: Apply) -> list[Any]:
        if not is_choice(node):
            return [known_value(v, self._values) for v in node.inputs]
        test = known_value(node.inputs[0], self._values)
        return [test, *[partial(self._results, LazyBranch(node, i)) for i in (0, 1)]]

    def _results(self, branch: LazyBranch) -> list[object]:
        self.run(branch)
        return _inner_results(branch_results(*branch), self._values)


def convert_node(node: Apply, inputs: Sequence[Value]) -> list[Any]:
    """Convert one node; its outputs have the dtypes that PyTensor states."""
    with standing_at(place_of(node)):
        result = convert_op(node.op, node, *inputs)
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        misstated = _is_misstated(node, inputs)
        pairs = zip(results, node.outputs, strict=True)
        return [with_stated_type(value, out.type, misstated) for value, out in pairs]


def _is_misstated(node: Apply, inputs: Sequence[Value]) -> bool:
    """Whether PyTensor states wrong dtypes for a node or the arrays it rearranges.

    As in NumPy, functions of elements and loops have the dtypes that are stated.
    """
    kind = type(getattr(node.op, "core_op", node.op)).__name__
    if kind in MISSTATED:
        return True
    if kind == "Join":  # of parts, after the number of the axis
        arrays = list(zip(inputs, node.inputs, strict=True))[1:]
    else:
        arrays = [(inputs[0], node.inputs[0])] if kind in KEEPING else []
    return any(isinstance(v, Value) and v.dtype.name != a.type.dtype for v, a in arrays)


def known_value(v: Variable, values: Mapping[Variable, object]) -> Any:
    """The value of a variable; for a constant, a literal, a slice or None."""
    if v in values:
        return values[v]
    if not isinstance(v, Constant):
        raise NotConverted(f"{v} is not known here")
    if v.data is None or isinstance(v.data, slice):
        return v.data
    if is_array(v.type):
        return constant(np.asarray(v.data, v.type.dtype))
    raise NotConverted(f"a constant is not a tensor: {v} of type {v.type}")


def with_stated_type(
    value: ArrayLike, expected: TensorType, misstated: bool = False
) -> ArrayLike:
    """Give a result the dtype that PyTensor states, and the axes of size 1."""
    if not isinstance(value, Value):
        return value
    if not misstated:
        value = as_stated(value, expected.dtype)
    if not isinstance(expected, TensorType):  # of a scalar graph, done on whole arrays
        return value
    if value.type.rank != expected.ndim:
        raise NotConverted("PyTensor states a number of axes that results do not have")
    sizes = zip(expected.shape, value.type.shape, strict=True)
    is_one = [n == 1 and not isinstance(m, int) for n, m in sizes]
    if any(is_one):
        pairs = zip(is_one, value.shape, strict=True)
        value = state_shape(value, [1 if one else n for one, n in pairs])
    return value
