"""The graph of a saved model as a function, for sizes that it has no program of."""

from graphc.errors import graph_error
from graphc.ir.build import constant
from graphc.ir.reader import parse_graph
from graphc.ir.replay import substituted
from graphc.runtime.compile import function
from graphc.runtime.function import Function
from graphc_serving.manifest import Manifest, Tensors
from graphc_serving.model import structured
from graphc_serving.programs import array_of


def function_of(manifest: Manifest, tensors: Tensors) -> Function:
    """Compile the graph of a model. Raises GraphError where its text is none."""
    try:
        text = tensors["graph"].tobytes().decode()
    except UnicodeDecodeError:
        raise graph_error("the graph of the model is no text", op="load") from None
    graph = parse_graph(text)
    names = manifest.graph or ()
    count = len(graph.inputs) - len(names)
    types = [(v.dtype.name, v.type.rank) for v in graph.inputs[: max(count, 0)]]
    if types != [(v.dtype, len(v.shape)) for v in manifest.inputs]:
        raise graph_error("the graph of the model has other inputs", op="load")
    arrays = [array_of(manifest, name, tensors) for name in names]
    new = dict(zip(graph.inputs[count:], map(constant, arrays), strict=True))
    outputs = substituted(graph.outputs, new, {})
    structure = structured(manifest.structure, iter(outputs))
    inputs = graph.inputs[:count]
    return function(inputs, structure, device=manifest.platform, unused="ignore")
