"""The number of steps that a loop does, as a size."""

from collections.abc import Callable, Sequence

from graphc.control.carries import variable_like
from graphc.ir.graph.build import as_size
from graphc.ir.graph.nodes import Value, origins
from graphc.ir.graph.op import Array, Shared, op, type_error, views_of_inputs
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size, maximum
from graphc.ir.types import TensorType, is_integer
from graphc.ops.common.batching import Batched
from graphc.ops.common.padding import PaddedValue, Padding


@op()
def _steps(x: Array, *, most: Size | None, shared: bool) -> TensorType:
    """`x`, to be used as a size of at most `most`.

    If it is `shared`, the examples of a batch use the largest of their numbers
    together.
    """
    if x.type.rank or not is_integer(x.dtype):
        raise type_error("a number of steps must be an integer scalar")
    return x.type.like()


STEPS = _steps
_steps.emit("{x}")
_steps.views = views_of_inputs
_steps.range = lambda node: ("steps", 0, node.params["most"])
_steps.no_gradient("its result is an integer")
_steps.size_remedy = "give a bound of its steps: max_steps= of gt.while_loop"


@_steps.batch
def _(
    n: Size, batched: Batched, x: Value, *, most: Size | None, shared: bool
) -> Value | Shared:
    if not shared:
        return x
    return Shared(_steps(F.max(x, initial=0), most=most, shared=True))


@_steps.padding
def _(pad: Padding, x: PaddedValue, **params: Param) -> Value:
    return _steps(x.value, **params)


def steps_size(steps: Value, most: Size | None, shared: bool = False) -> Size:
    """Return a number of steps as a size."""
    return as_size(_steps(steps, most=most, shared=shared))


def counted_steps(
    first: Sequence[Value],
    test: Callable[[list[Value]], Value],
    step: Callable[[list[Value]], list[Value]],
) -> Size | None:
    """The steps of a loop that counts up to a size of axes; None for any other loop.

    The loop starts with the carries `first` and goes on as long as their `test` holds:
    an integer among them is below a limit, and `step` adds a constant to that integer.
    """
    variables = list(map(variable_like, first))
    distance = _distance_to_limit(test(variables))
    if distance is None:
        return None
    for i, counter in enumerate(variables):
        if counter.type.rank or not is_integer(counter.dtype):
            continue
        limit, start = distance + as_size(counter), as_size(first[i])
        if origins(limit) or origins(start) or counter.dtype.itemsize < 4:
            continue  # the limit is no size of axes, or the counter may overflow
        increment = as_size(step(variables)[i]) - as_size(counter)
        if isinstance(increment, int) and increment > 0:
            return maximum((limit - start + (increment - 1)) // increment, 0)
    return None


def _distance_to_limit(condition: Value) -> Size | None:
    """The difference of two sizes that is positive as long as a comparison holds."""
    node = condition.node
    if not all(v.type.rank == 0 and is_integer(v.dtype) for v in node.inputs):
        return None
    if node.primitive in (OP.less, OP.less_equal):
        low, high = map(as_size, node.inputs)
    elif node.primitive in (OP.greater, OP.greater_equal):
        high, low = map(as_size, node.inputs)
    else:
        return None
    strict = node.primitive in (OP.less, OP.greater)
    return high - low if strict else high - low + 1
