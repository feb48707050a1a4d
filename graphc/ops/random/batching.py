"""Random functions under `vmap`: each example draws as it would alone.

Each example draws from its own key. Where the key is not batched, all examples share
it and get the same draws, each with its own parameters. The node of many examples has
the same primitive and two more params: `each` says, for each new axis from the
outermost one, which inputs have it ("10": the first of two); `result` is the whole
shape.
"""

from collections.abc import Callable
from functools import wraps
from typing import Annotated

import numpy as np

from graphc.ir.graph.build import Shape, variable
from graphc.ir.graph.nodes import Node, Params, Value
from graphc.ir.graph.op import (
    EMISSION,
    Emit,
    Primitive,
    Printing,
    TypeRule,
    require_equal,
    type_error,
)
from graphc.ir.params.kinds import Letters, Param
from graphc.ir.sizes.dims import Size
from graphc.ir.types import NDArray, TensorType
from graphc.ops.random import padding

Level = Annotated[str, Letters("[01]*", "digits 0 and 1")]
Levels = tuple[Level, ...]


def each_numpy(
    draw: Callable[..., NDArray],
    levels: Value,
    shape: tuple[int, ...],
    dtype: str,
    *inputs: NDArray,
) -> NDArray:
    """Printed into NumPy programs: `draw` for each index of the leading axes."""
    if not levels:
        return draw(*inputs)
    out = np.empty(shape, dtype)
    for i in range(shape[0]):
        each = zip(inputs, levels[0], strict=True)
        one = [x[i] if has == "1" else x for x, has in each]
        out[i] = each_numpy(draw, levels[1:], shape[1:], dtype, *one)
    return out


def declare_mapped(primitive: Primitive) -> None:
    """Declare the batching and mask rules of a random function's primitive.

    All else must be declared before: its type and emission rules are wrapped here.
    """
    plain = primitive.infer
    primitive.infer = _mapped_type_rule(plain)
    primitive.kinds.declare("each", Levels, optional=True)
    primitive.kinds.declare("result", Shape, optional=True)
    for backend, table in EMISSION.items():
        rule = table.find(primitive)
        if rule is not None:
            table.define(primitive, _mapped_printer(rule, backend))

    padding.declare(primitive)

    @primitive.batch
    def _(
        n: Size,
        batched: list[bool],
        /,
        *inputs: Value,
        each: Levels = (),
        result: Shape = (),
        **params: Param,
    ) -> Value:
        level = "".join("1" if has_axis else "0" for has_axis in batched)
        if not each:
            result = _type_of_one(primitive, inputs, (level,), params).shape
        return primitive(*inputs, **params, each=(level, *each), result=(n, *result))


def _type_of_one(
    primitive: Primitive, inputs: tuple[Value, ...], each: Levels, params: Params
) -> TensorType:
    """The type of the result for one example."""
    result_type = primitive.infer(*_example_inputs(inputs, each), **params)
    assert isinstance(result_type, TensorType)
    return result_type


def from_keys(
    primitive: Primitive, key: Value, *inputs: Value, **params: Param
) -> Value:
    """Draw for each key of an array of keys, with the same other inputs."""
    depth = key.type.rank - 1
    if not depth:
        return primitive(key, *inputs, **params)
    each = ("1" + "0" * len(inputs),) * depth
    one = _type_of_one(primitive, (key, *inputs), each, params)
    result = (*key.type.shape[:-1], *one.shape)
    return primitive(key, *inputs, **params, each=each, result=result)


def missing_axes(i: int, each: Levels) -> tuple[int, ...]:
    """The new axes of the result that input `i` does not have."""
    return tuple(axis for axis, level in enumerate(each) if level[i] == "0")


def _example_inputs(inputs: tuple[Value, ...], each: Levels) -> list[Value]:
    """Make variables for the inputs of one example."""
    examples = []
    for i, x in enumerate(inputs):
        depth = sum(level[i] == "1" for level in each)
        examples.append(variable("example", TensorType(x.dtype, x.type.shape[depth:])))
    return examples


def level_sizes(inputs: tuple[Value, ...], each: Levels) -> Shape:
    """The sizes of the new axes, which must agree; to be called inside a type rule."""
    sizes: list[Size] = []
    used = [0] * len(inputs)
    for level in each:
        having = [i for i, has in enumerate(level) if has == "1"]
        candidates = [inputs[i].type.shape[used[i]] for i in having]
        for n in candidates:
            require_equal(n, candidates[0], "all inputs need one for each example")
        sizes.append(candidates[0])
        for i in having:
            used[i] += 1
    return tuple(sizes)


def _mapped_type_rule(plain: TypeRule) -> TypeRule:
    @wraps(plain)
    def infer(
        *inputs: Value, each: Levels = (), result: Shape = (), **params: Param
    ) -> TensorType:
        if not each:
            one = plain(*inputs, **params)
        elif any(len(level) != len(inputs) or "1" not in level for level in each):
            raise type_error("needs axes of the inputs")
        else:
            one = plain(*_example_inputs(inputs, each), **params)
        assert isinstance(one, TensorType)
        return TensorType(one.dtype, (*level_sizes(inputs, each), *one.shape))

    return infer


def _mapped_printer(plain: Emit, backend: str) -> Emit:
    def printed(p: Printing) -> str:
        params = dict(p.node.params)
        each, result = params.pop("each", ()), params.pop("result", ())
        if not each:
            return plain(p)
        one = p._replace(node=Node(p.node.primitive, p.node.inputs, params, ()))
        names = _names(plain(one), len(p.inputs))
        draw = f"lambda {', '.join(names)}: {plain(one._replace(inputs=names))}"
        if backend == "jax":
            return _print_vmap(draw, each, p.inputs)
        arguments = map(p.code, (each, result, p.node.outputs[0].dtype))
        return p.call(each_numpy, draw, *arguments, *p.inputs)

    return printed


def _names(text: str, count: int) -> tuple[str, ...]:
    """Make names for the inputs of one example that do not occur in `text`."""
    prefix = "one"
    while prefix in text:
        prefix += "_"
    return tuple(f"{prefix}{i}" for i in range(count))


def _print_vmap(draw: str, each: Levels, inputs: tuple[str, ...]) -> str:
    for level in reversed(each):
        axes = "".join("0, " if has == "1" else "None, " for has in level)
        draw = f"jax.vmap({draw}, ({axes.strip()}))"
    return f"{draw}({', '.join(inputs)})"
