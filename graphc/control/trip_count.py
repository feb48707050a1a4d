"""The number of steps that a loop does, as a size."""

from typing import Any

from graphc.ir.graph.build import as_size
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, op, type_error, views_of_inputs
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Size
from graphc.ir.types import TensorType, is_integer
from graphc.ops.common.batching import Batched, Shared
from graphc.ops.common.padding import PaddedValue, Padding


@op()
def _steps(x: Array, *, most: Size | None, shared: bool) -> TensorType:
    """`x`, to be used as a size of at most `most`.

    Where it is `shared`, examples have the largest of their numbers together.
    """
    if x.type.rank or not is_integer(x.dtype):
        raise type_error("a number of steps is an integer scalar")
    return x.type.like()


STEPS = _steps
_steps.emit("{x}")
_steps.views = views_of_inputs
_steps.range = lambda node: ("steps", 0, node.params["most"])
_steps.no_gradient("its result is an integer")
_steps.size_remedy = "give a bound of its steps: max_steps= of gt.while_loop"


@_steps.batch
def _(n: Size, batched: Batched, x: Value, *, most: Size | None, shared: bool) -> Any:
    if not shared:
        return x
    return Shared(_steps(F.max(x, initial=0), most=most, shared=True))


@_steps.padding
def _(pad: Padding, x: PaddedValue, **params: Param) -> Value:
    count: Value = _steps(x.value, **params)
    return count


def steps_size(steps: Value, most: Size | None, shared: bool = False) -> Size:
    """A number of steps as a size."""
    return as_size(_steps(steps, most=most, shared=shared))
