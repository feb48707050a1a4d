"""Whether two graphs compute the same: by the same nodes, or else on a random input."""

import zlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from graphc.errors import GraphError
from graphc.importers.jax.foreign import JaxFunction, calls_python
from graphc.ir.dims import Dim, Symbol, substitute, symbol_dim
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.inner import Body, axes_of, within
from graphc.ir.op import Opaque
from graphc.ir.types import BOOL, TensorType, is_inexact, is_integer
from graphc.ir.walk import ancestors
from graphc.ops.effects.foreign import FOREIGN
from graphc.rewriting.default import NONE
from graphc.runtime.compile import function


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
        self._sizes: dict[Symbol, Dim] = {}  # of bodies
        self._by_position: dict[int, Dim] = {}

    def of(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> tuple[int, ...]:
        """The numbers of the outputs of a graph."""
        found = {v: self._number(i, str(v.type)) for i, v in enumerate(inputs)}
        for node in ancestors(outputs):
            if all(v in found for v in node.outputs):
                continue
            operands = tuple(found[v] for v in node.inputs)
            params = self._params(node)
            for v in node.outputs:
                name = node.primitive.name
                found[v] = self._number(name, operands, params, v.index)
        return tuple(found[v] for v in outputs)

    def _number(self, *key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))

    def _params(self, node: Node) -> Hashable:
        called = _called(node)
        if called is None:
            return tuple(self._param(p) for p in node.params.items())
        function, sizes = called
        return function.told(sizes), node.params["shapes"]

    def _param(self, param: Any) -> Hashable:
        if isinstance(param, tuple):
            return tuple(map(self._param, param))
        if isinstance(param, Opaque):
            return self._param(param.content)
        if isinstance(param, Body):
            return self._body(param)
        if isinstance(param, Dim):
            return substitute(param, self._sizes)
        return param

    def _body(self, body: Body) -> tuple[int, ...]:
        """The numbers of a body's outputs; its sizes are numbered by position, too."""
        axes = sorted(axes_of(body.inputs) - {*body.size_params}, key=_serial)
        for i, symbol in enumerate((*body.size_params, *axes)):
            size = self._by_position.setdefault(i, symbol_dim(Symbol(f"size_{i}")))
            self._sizes[symbol] = size
        return self.of(body.inputs, body.outputs)


def _called(node: Node) -> tuple[JaxFunction, tuple[int, ...]] | None:
    """The function that JAX runs, and the numbers of its sizes, if the node is one."""
    if node.primitive is not FOREIGN:
        return None
    function, sizes = node.params["function"].content, node.params["sizes"]
    known = isinstance(function, JaxFunction) and all(type(n) is int for n in sizes)
    return (function, sizes) if known else None


def _serial(symbol: Symbol) -> int:
    return symbol.serial


NEAR = 1e-3  # relative: graphs that differ in rounding only are the same


def agree(a: Graph, b: Graph) -> bool:
    """Whether two graphs give the same for a random input, up to rounding, on NumPy.

    Functions of the user's own are not called for that.
    """
    if any(map(_calls_python, (a, b))):
        return False
    inputs = [_random(i, v.type) for i, v in enumerate(a.inputs)]
    try:
        found = [_run(g, inputs) for g in (a, b)]
    except GraphError:  # an op that NumPy has not
        return False
    return all(_near(x, y) for x, y in zip(*found, strict=True))


def _calls_python(graph: Graph) -> bool:
    called = filter(None, map(_called, within(ancestors(graph.outputs))))
    return any(calls_python(function.equation(sizes)) for function, sizes in called)


def _run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    given, wanted = list(graph.inputs), list(graph.outputs)
    options: dict[str, Any] = {"rewrites": NONE, "unused": "ignore"}
    run = function(given, wanted, backend="numpy", **options)
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in run(*inputs)]


def _random(number: int, type: TensorType) -> Any:
    rng = np.random.default_rng(zlib.crc32(f"{number} {type}".encode()))
    shape: Any = type.shape
    if type.dtype == BOOL:
        return rng.random(shape) < 0.5
    if is_integer(type.dtype):
        return rng.integers(0, 3, shape).astype(type.dtype)
    numbers = rng.normal(size=shape)
    if type.dtype.kind == "c":
        numbers = numbers + 1j * rng.normal(size=shape)
    return np.asarray(numbers).astype(type.dtype)


def _near(x: Any, y: Any) -> bool:
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if not is_inexact(x.dtype):
        return bool((x == y).all())
    wide = "complex128" if x.dtype.kind == "c" else "float64"
    x, y = x.astype(wide), y.astype(wide)
    return bool(np.allclose(x, y, rtol=NEAR, atol=NEAR, equal_nan=True))
