"""Whether two graphs compute the same, by their structure."""

from collections.abc import Hashable, Mapping, Sequence

from graphc.control.scan import SCAN, parts_of
from graphc.control.switch import SWITCH
from graphc.importers.jax.read.foreign import JaxFunction
from graphc.ir.graph.bodies import Body, axes_of
from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.op import Opaque
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import Dim, Symbol, substitute, symbol_dim
from graphc.ops.effects.foreign import FOREIGN
from graphc.rewriting.engine.fixpoint import rewritten
from graphc.rewriting.rules.cleanup import CLEANUP

_NORMALISING = CLEANUP.exact()
_NO_MATTER = {"unroll"}  # params by which no value is another


def alike(a: Graph, b: Graph) -> bool:
    """Whether two graphs are proved to compute the same from the same inputs.

    They do if their outputs are the same nodes, as they stand or after rewriting both
    by rules that change no value.
    """
    return _are_same(a, b) or _are_same(
        *(rewritten(graph, _NORMALISING).graph for graph in (a, b))
    )


def _are_same(a: Graph, b: Graph) -> bool:
    numbers = _Numbers()
    outputs = [numbers.of(graph.inputs, graph.outputs) for graph in (a, b)]
    return outputs[0] == outputs[1]


class _Numbers:
    """Numbers for what nodes compute: two that have the same number compute the same.

    A number is that of a primitive, its params, and the numbers of its inputs; inputs
    of a graph are numbered by their positions.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._sizes: dict[Symbol, Dim] = {}  # of bodies
        self._by_position: dict[int, Dim] = {}

    def of(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> tuple[int, ...]:
        """The numbers of the outputs of a graph."""
        return self._of_body(inputs, outputs, {})

    def _of_body(
        self,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        literals: Mapping[int, int],
    ) -> tuple[int, ...]:
        """The numbers of the outputs, where literals are given for some inputs.

        One has the number that it has where it stands inside: it may stand there, too.
        """
        found = {inputs[i]: number for i, number in literals.items()}
        others = [v for i, v in enumerate(inputs) if i not in literals]
        found |= {v: self._number(i, str(v.type)) for i, v in enumerate(others)}
        for node in ancestors(outputs):
            if all(v in found for v in node.outputs):
                continue
            captured = _captured_literals(node)
            inner = {place: found[node.inputs[i]] for i, place in captured.items()}
            taken = [v for i, v in enumerate(node.inputs) if i not in captured]
            operands = tuple(found[v] for v in taken)
            if node.primitive.for_gradients:  # which have been taken
                found.update(zip(node.outputs, operands, strict=False))
                continue
            params = self._params(node, inner)
            for v in node.outputs:
                kind = node.primitive.name, v.index, v.type.dtype, v.type.weak
                found[v] = self._number(kind, operands, params)
        return tuple(found[v] for v in outputs)

    def _number(self, *key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))

    def _params(self, node: Node, literals: Mapping[int, int]) -> Hashable:
        called = _called(node)
        if called is None:
            told = [p for p in node.params.items() if p[0] not in _NO_MATTER]
            return tuple(self._param(p, literals) for p in told)
        function, sizes = called
        return function.told(sizes), node.params["shapes"]

    def _param(self, param: object, literals: Mapping[int, int]) -> Hashable:
        if isinstance(param, tuple):
            return tuple(self._param(p, literals) for p in param)
        if isinstance(param, Opaque):
            return self._param(param.content, literals)
        if isinstance(param, Body):
            return self._body(param, literals)
        if isinstance(param, Dim):
            return substitute(param, self._sizes)
        if isinstance(param, Node):
            return "a node"  # that computes a part of the same: no value depends on it
        # 1 is no True, nor 1.0, and 0.0 no -0.0.
        exact = repr(param) if isinstance(param, (float, complex)) else param
        return type(param), exact

    def _body(self, body: Body, literals: Mapping[int, int]) -> tuple[int, ...]:
        """The numbers of a body's outputs; its sizes are numbered by position, too."""
        axes = sorted(axes_of(body.inputs) - {*body.size_params}, key=_serial)
        for i, symbol in enumerate((*body.size_params, *axes)):
            size = self._by_position.setdefault(i, symbol_dim(Symbol(f"size_{i}")))
            self._sizes[symbol] = size
        return self._of_body(body.inputs, body.outputs, literals)


def _captured_literals(node: Node) -> dict[int, int]:
    """The places of literals among what the bodies of a node capture.

    Each is the place among the inputs of the node, with that among those of its bodies.
    """
    if node.primitive is SCAN:
        parts = parts_of(node.inputs, node.params)
        first, shift = len(parts.first) + len(parts.rows), 0
        last = first + len(parts.rest)
    elif node.primitive is SWITCH:
        first, last, shift = 1, len(node.inputs), 1
    else:
        return {}
    inputs = node.inputs
    places = [i for i in range(first, last) if literal_of(inputs[i]) is not None]
    return {i: i - shift for i in places}


def _called(node: Node) -> tuple[JaxFunction, tuple[int, ...]] | None:
    """The function that JAX runs, and the numbers of its sizes, if the node is one."""
    if node.primitive is not FOREIGN:
        return None
    function, sizes = node.params["function"].content, node.params["sizes"]
    known = isinstance(function, JaxFunction) and all(type(n) is int for n in sizes)
    return (function, sizes) if known else None


def _serial(symbol: Symbol) -> int:
    return symbol.serial
