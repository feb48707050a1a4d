"""The primitive of shared functions: a graph that is printed once and called often.

It is made when nothing else changes a graph any more (`rewriting.sharing`), so its
gradient is never taken, and none of its axes is padded.
"""

from collections.abc import Iterator, Sequence

from graphc.ir.graph.bodies import Body, BodyCall
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Array, Opaque, Printing, op
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Size
from graphc.ir.types import TensorType


@op()
def _call(
    *values: Array, body: Opaque, sizes: tuple[Size, ...]
) -> tuple[TensorType, ...]:
    """The outputs of a body for these values and sizes."""
    return tuple(body.content.types([v.type for v in values], sizes))


def _print_call(p: Printing) -> str:
    """The text of a call; in JAX its function is jitted, so it is lowered once."""
    params = p.node.params
    function = p.inner(params["body"], p.xp == "jnp")
    return f"{function}({', '.join([*p.inputs, *map(p.code, params['sizes'])])})"


CALL = _call
_call.rounding = "stored"
_call.several = True
_call.on_host = False
_call.emit(_print_call)
_call.no_gradient("it is made only after all gradients have been taken")
_call.no_batch("it is made only after all batch axes have been added")
_call.no_padding("it is made only after sizes have been padded")


def _views(node: Node) -> Iterator[tuple[Value, Value]]:
    body: Body = node.params["body"].content
    yield from zip(body.inputs, node.inputs, strict=True)
    yield from zip(node.outputs, body.outputs, strict=True)


_call.views = _views


def _body_calls(node: Node) -> tuple[BodyCall]:
    types, params = [v.type for v in node.inputs], node.params
    return (BodyCall(params["body"].content, types, params["sizes"]),)


_call.body_calls = _body_calls


def call(
    name: str, body: Body, values: Sequence[Value], sizes: Sequence[Size]
) -> tuple[Value, ...]:
    """The outputs of a body that is printed as a function called `name`."""
    params: dict[str, Param] = {"body": Opaque(name, body), "sizes": tuple(sizes)}
    return _call.bind(tuple(values), params).outputs
