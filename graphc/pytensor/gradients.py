"""A cost of PyTensor and its gradient, which graphc takes."""

from collections.abc import Sequence
from typing import Any

from graphc.errors import graph_error
from graphc.ir.graph import Graph
from graphc.pytensor.convert import convert
from graphc.pytensor.linker import mode
from graphc.transform.gradients import grad


def value_and_grad(cost: Any, wrt: Any, inputs: Sequence[Any]) -> Graph:
    """The graph of a scalar of PyTensor and its gradient by some of the inputs.

    The cost is converted and differentiated by graphc: this compiles faster than the
    gradient that PyTensor makes, and scans keep less. Shared variables follow the
    inputs, as in `convert`. Inputs without effect on the cost have gradients of zeros.

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
            problem = "gradients are taken by inputs"
            hint = "give the variable among the inputs"
            raise graph_error(problem, op="value_and_grad", got=str(v), hint=hint)
    graph = convert(cost, inputs, rewrite=mode().optimizer.rewrite)
    places = [list(inputs).index(v) for v in listed]
    by = [graph.inputs[i] for i in places]
    slopes = grad(graph.outputs[0], by, disconnected="zero")
    names = (*graph.output_names, *(f"d_{graph.input_names[i]}" for i in places))
    return Graph(graph.inputs, (*graph.outputs, *slopes), graph.input_names, names)
