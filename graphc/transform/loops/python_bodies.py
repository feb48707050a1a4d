"""Bodies of loops that run in Python, as graphs of their own."""

from graphc.ir.build import variable
from graphc.ir.dims import Dim, Size, Symbol, substitute, symbol_dim
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.inner import Inner, resized_too, runs_in_python
from graphc.ir.types import TensorType
from graphc.transform.loops.doubling import grown


def body_graph(loop: Node) -> tuple[Graph, tuple[Symbol, ...], Node, Value]:
    """The graph of one step, whose sizes are known from its inputs and some more.

    Those come second; then why it cannot be compiled as a whole: a node within, and
    what gives the size that it needs.
    """
    inner: Inner = loop.params["body"].content
    known: dict[Symbol, Size] = {}
    for size in (n for v in inner.inputs for n in v.type.shape if isinstance(n, Dim)):
        for symbol in size.symbols:
            known.setdefault(symbol, _axis(symbol))
    given = [known.setdefault(s, _axis(s)) for s in inner.symbols]
    inputs = []
    for value in inner.inputs:
        sizes = value.type.shape
        shape = [substitute(n, known) if isinstance(n, Dim) else n for n in sizes]
        inputs.append(variable(value.name, TensorType(value.dtype, tuple(shape))))
    new = dict(zip(inner.inputs, inputs, strict=True))
    outputs = resized_too(inner.outputs, new, known)
    names = tuple(v.name for v in inputs), ("",) * len(outputs)
    graph, _ = grown(Graph(tuple(inputs), tuple(outputs), *names))
    symbols = tuple(n.symbols[0] for n in given if isinstance(n, Dim))
    return graph, symbols, *_reason(inner)


def _axis(symbol: Symbol) -> Size:
    """A size of the body's own, which no value gives."""
    return symbol_dim(Symbol(symbol.name, None, symbol.lower))


def _reason(inner: Inner) -> tuple[Node, Value]:
    """The first node that needs a size that is computed within, and what gives it."""
    for node in inner.nodes:
        for value in node.demands:
            if value.symbol in inner.computed:
                return node, value
    node = next(filter(runs_in_python, inner.nodes))
    return _reason(node.params["body"].content)
