"""Turn the graph of one example of any size into that of many examples of all sizes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphc.errors import graph_error, standing_at
from graphc.ir.graph.build import variable
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.graph.replay import rebuilt
from graphc.ir.namespace import F
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Symbol, symbols_in
from graphc.ir.types import TensorType
from graphc.transform.derivatives.vectorize import vmap
from graphc.transform.padding.pad import padded
from graphc.transform.padding.padded_graph import PaddedGraph
from graphc.transform.policies import Pad


@dataclass(frozen=True)
class RaggedGraph:
    """The graph of many examples, made from the padded graph `one` of a single example.

    `graph` takes stacked examples, shared inputs, and a vector of sizes per symbol of
    `one.lengths`, in that order. `mapped` says which inputs of the example are stacked.
    `batch` is the number of examples.
    """

    one: PaddedGraph
    graph: Graph
    mapped: tuple[bool, ...]
    batch: Symbol


def batch_examples(
    graph: Graph, shared: Sequence[Value], pad: Pad, total: bool
) -> RaggedGraph:
    """Batch a graph over examples, each with its own sizes of inputs not `shared`.

    `total` sums each output over the examples. Raises GraphError where an op needs the
    true size, naming it, and where a shared input has a size that differs.
    """
    mapped = tuple(all(v is not s for s in shared) for v in graph.inputs)
    symbols = _symbols_of_shapes(
        v for v, m in zip(graph.inputs, mapped, strict=True) if m
    )
    for symbol in _symbols_of_shapes(shared):
        if symbol in symbols:
            raise graph_error(
                f"the size {symbol.name} of a shared input differs between examples",
                op="ragged",
                got=", ".join(str(v.type) for v in shared),
                hint="do not share that input, or give its size another name",
            )
    one = padded(graph, dict.fromkeys(symbols, pad))
    batch = dims.fresh_axis("batch")
    # All sizes, which come after the inputs of the example, are stacked.
    sizes = [True] * (len(one.graph.inputs) - len(mapped))
    pairs = list(zip(one.graph.inputs, [*mapped, *sizes], strict=True))
    inputs = [_stacked_input(v, batch) if several else v for v, several in pairs]
    axes = [0 if several else None for _, several in pairs]

    def example(*values: Value) -> list[Value]:
        new = dict(zip(one.graph.inputs, values, strict=True))
        return rebuilt(one.graph.outputs, new)

    outputs = list(vmap(example, in_axes=axes)(*inputs))
    if total:
        outputs = [
            _sum_over_examples(v, a) for v, a in zip(outputs, one.ragged, strict=True)
        ]
    names = one.graph.input_names
    many = Graph(tuple(inputs), tuple(outputs), names, one.graph.output_names)
    return RaggedGraph(one, many, mapped, batch.symbols[0])


def _symbols_of_shapes(values: Iterable[Value]) -> list[Symbol]:
    sizes = (n for value in values for n in value.type.shape)
    return list(dict.fromkeys(s for n in sizes for s in symbols_in(n)))


def _stacked_input(value: Value, batch: Dim) -> Value:
    with standing_at(value.node.place.plain):
        return variable(value.name, TensorType(value.dtype, (batch, *value.type.shape)))


def _sum_over_examples(value: Value, ragged: frozenset[int]) -> Value:
    if ragged:
        raise graph_error(
            "outputs of different sizes cannot be summed",
            op="ragged",
            got=str(value.type),
            hint="reduce them over the axes that differ, or leave total out",
        )
    return F.sum(value, axis=0, dtype=value.dtype)
