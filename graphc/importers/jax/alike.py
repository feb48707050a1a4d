"""Whether two graphs compute the same by the same nodes, bodies of loops included."""

from collections.abc import Hashable, Sequence
from typing import Any

from graphc.ir.graph import Graph, Value
from graphc.ir.inner import Inner
from graphc.ir.op import Opaque
from graphc.ir.walk import ancestors


def alike(a: Graph, b: Graph) -> bool:
    """Whether the outputs of two graphs are the same nodes of the same inputs."""
    numbers = _Numbers()
    found = [numbers.of(g.inputs, g.outputs) for g in (a, b)]
    return found[0] == found[1]


class _Numbers:
    """Numbers for what nodes compute: two that have the same number compute the same.

    A number is that of a primitive, its params, and the numbers of its inputs; inputs
    of a graph are numbered by their positions.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> tuple[int, ...]:
        """The numbers of the outputs of a graph."""
        found = {v: self._number(i, str(v.type)) for i, v in enumerate(inputs)}
        for node in ancestors(outputs):
            if all(v in found for v in node.outputs):
                continue
            operands = tuple(found[v] for v in node.inputs)
            params = tuple(self._param(p) for p in node.params.items())
            for v in node.outputs:
                name = node.primitive.name
                found[v] = self._number(name, operands, params, v.index)
        return tuple(found[v] for v in outputs)

    def _number(self, *key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))

    def _param(self, param: Any) -> Hashable:
        if isinstance(param, tuple):
            return tuple(map(self._param, param))
        if isinstance(param, Opaque):
            return self._param(param.content)
        if isinstance(param, Inner):
            return self.of(param.inputs, param.outputs)
        return param
