"""A cost of PyTensor and its gradient, which is taken by graphc."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytensor
from pytensor.graph.traversal import io_toposort

from graphc.errors import GraphError, graph_error
from graphc.ir.graph.nodes import Graph, Value
from graphc.pytensor.convert import convert
from graphc.pytensor.lazy import inner_graphs
from graphc.pytensor.linker import mode
from graphc.pytensor.registry import RULES
from graphc.transform.derivatives.gradients import grad

if TYPE_CHECKING:
    from pytensor.graph.basic import Variable
    from pytensor.graph.fg import FunctionGraph
    from pytensor.graph.op import Op

# Ops that return their input, but change its gradient.
GRADIENT_OPS = {
    "ZeroGrad",
    "UndefinedGrad",
    "DisconnectedGrad",
    "GradClip",
    "GradScale",
}
OVERRIDES = ("pullback_overrides", "lop_overrides", "grad_overrides")


def value_and_grad(
    cost: object,
    wrt: object,
    inputs: Sequence[object],
    rewrite: Callable[["FunctionGraph"], object] | None = None,
) -> Graph:
    """The graph of a scalar of PyTensor and its gradient by some of the inputs.

    The cost is converted and differentiated by graphc: this compiles faster than the
    gradient that PyTensor makes, and scans keep less. PyTensor's gradient is converted
    instead where graphc has no formula, and where the gradient of an Op does not follow
    from its value: `grad_clip` and the like, a scan with `truncate_gradient`, an
    `OpFromGraph` with a gradient of its own. Shared variables follow the inputs, as in
    `convert`; `rewrite` is as in `convert` too, by default the rewrites of the mode
    "GRAPHC". Inputs without effect on the cost have gradients of zeros.

    >>> import graphc, graphc.pytensor, pytensor.tensor as pt
    >>> x = pt.dvector("x")
    >>> graph = graphc.pytensor.value_and_grad((x**2).sum(), x, [x])
    >>> f = graphc.function(graph.inputs, graph.outputs, backend="numpy")
    >>> print(*f([1.0, 3.0]))
    10.0 [2. 6.]
    """
    listed = list(wrt) if isinstance(wrt, (list, tuple)) else [wrt]
    for v in listed:
        if v not in inputs:
            problem = "gradients are taken with respect to inputs"
            hint = "give the variable among the inputs"
            raise graph_error(problem, op="value_and_grad", got=str(v), hint=hint)
    rewrite = rewrite or mode().optimizer.rewrite
    places = [list(inputs).index(v) for v in listed]
    graph = convert(cost, inputs, rewrite)
    outputs = _with_gradient(graph, [graph.inputs[i] for i in places], cost)
    if outputs is None:
        theirs = pytensor.grad(
            cost, listed, disconnected_inputs="ignore", return_disconnected="zero"
        )
        graph = convert([cost, *theirs], inputs, rewrite)
        outputs = graph.outputs
    slopes = (f"d_{graph.input_names[i]}" for i in places)
    names = (graph.output_names[0], *slopes)
    return Graph(graph.inputs, outputs, graph.input_names, names)


def _with_gradient(
    graph: Graph, by: Sequence[Value], cost: object
) -> tuple[Value, ...] | None:
    """The cost and its gradient; None if graphc has none, or PyTensor another one."""
    if any(map(may_override_gradient, ops_of([cost]))):
        return None
    try:
        return *graph.outputs, *grad(graph.outputs[0], by, disconnected="zero")
    except GraphError:
        return None


def ops_of(outputs: Sequence["Variable"]) -> Iterator[object]:
    """The Ops that variables depend on, including those of inner graphs."""
    waiting = [node.op for node in io_toposort([], outputs)]
    while waiting:
        op = waiting.pop()
        yield op
        waiting += [v for n in ("core_op", "scalar_op") if (v := getattr(op, n, None))]
        for graph in inner_graphs(op):
            waiting += [node.op for node in graph.toposort()]


def may_override_gradient(op: "Op") -> bool:
    """Whether the gradient of an Op may differ from the derivative of its value."""
    name = type(op).__name__
    if name in GRADIENT_OPS or getattr(op, "truncate_gradient", -1) != -1:
        return True
    converted_whole = name in RULES and name != "OpFromGraph"
    overrides = (getattr(op, attribute, None) for attribute in OVERRIDES)
    return not converted_whole and any(v is not None for v in overrides)
