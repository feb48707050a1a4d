"""Random orders and choices: a part of `gt.random`."""

from collections.abc import Callable
from typing import Annotated

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, ShapeLike
from graphc.ir.graph.build import Shape, as_size, as_value, normal_axis, strong
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import (
    Array,
    Printing,
    op,
    require_at_most,
    require_equal,
    type_error,
)
from graphc.ir.namespace import F, public
from graphc.ir.params.kinds import AxisOf
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size
from graphc.ir.types import DType, TensorType, is_integer, product
from graphc.ops.random import numpy_discrete as helpers
from graphc.ops.random.batching import declare_mapped
from graphc.ops.random.gradients import DISCRETE, permutation_rule
from graphc.ops.random.sampler import (
    as_key,
    call_text,
    drawn_shape,
    drawn_type,
    emit_draw,
    floating,
    int_dtype,
    require_key,
    require_shape,
)

AxisOfSecond = Annotated[int, AxisOf(input=1)]


@op()
def _random_categorical(
    key: Array,
    logits: Array,
    *,
    axis: AxisOfSecond,
    shape: Shape,
    replace: bool,
    dtype: DType,
) -> TensorType:
    """Positions along `axis`, drawn with probabilities softmax(logits)."""
    require_key(key)
    categories = logits.type.shape[axis]
    batch = (*logits.type.shape[:axis], *logits.type.shape[axis + 1 :])
    require_shape(shape, batch)
    require_at_most(1, categories, "needs at least one category")
    if not replace:
        ahead = shape[: len(shape) - len(batch)]
        for n, target in zip(batch, shape[len(ahead) :], strict=True):
            reason = "logits are not broadcast to draws without replacement"
            require_equal(n, target, reason, kind="broadcast")
        require_at_most(product(ahead), categories, "more draws than categories")
    return drawn_type(dtype, shape)


def _print_categorical(p: Printing, function: str) -> str:
    params = p.node.params
    drawn = call_text(p, function, params["axis"], params["shape"], params["replace"])
    return f"{drawn}.astype({p.code(params['dtype'])})"


_random_categorical.on_host = False
emit_draw(_random_categorical, helpers.categorical_numpy, printed=_print_categorical)
_random_categorical.no_gradient(DISCRETE)
declare_mapped(_random_categorical)


@public(name="random.categorical")
def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
) -> Value:
    """Positions along `axis`, drawn with probabilities softmax(logits, axis).

    The axes of `shape` are first the numbers of draws, then the other axes of `logits`;
    by default there is one draw for each of these.
    """
    name = "random.categorical"
    value = floating(name, logits)
    if not value.type.rank:
        got = str(value.type)
        raise graph_error("needs an axis of categories", op=name, got=got)
    chosen = normal_axis(axis, value.type.rank, name)
    batch = (*value.type.shape[:chosen], *value.type.shape[chosen + 1 :])
    sizes = drawn_shape(name, shape, batch)
    to = int_dtype(name, None if replace else "int32", [value])
    return _random_categorical(
        as_key(key, name),
        value,
        axis=chosen,
        shape=sizes,
        replace=bool(replace),
        dtype=to,
    )


@op()
def _random_permutation(
    key: Array, x: Array, *, axis: AxisOfSecond, independent: bool
) -> TensorType:
    """The elements along an axis in random order."""
    require_key(key)
    return x.type.like()


emit_draw(_random_permutation, helpers.permutation_numpy, ["axis", "independent"])
_random_permutation.vjp(permutation_rule)
declare_mapped(_random_permutation)


@public(name="random.permutation")
def permutation(
    key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False
) -> Value:
    """`x` in random order along `axis`, or 0, 1, ... x - 1 for an integer `x`.

    All rows move together unless `independent`.
    """
    name = "random.permutation"
    value = as_value(x)
    if not value.type.rank and is_integer(value.dtype):
        value = F.arange(x, dtype=int_dtype(name, None, [value]))
    elif not value.type.rank:
        raise graph_error("needs an axis or an integer", op=name, got=str(value.type))
    value = strong(value)
    chosen = normal_axis(axis, value.type.rank, name)
    return _random_permutation(
        as_key(key, name), value, axis=chosen, independent=bool(independent)
    )


@public(name="random.shuffle")
def shuffle(key: ArrayLike, x: ArrayLike, axis: int = 0) -> Value:
    """`x` in random order along `axis`; all rows move together."""
    if not as_value(x).type.rank:
        got = str(as_value(x).type)
        raise graph_error("needs an axis", op="random.shuffle", got=got)
    return permutation(key, x, axis)


@op()
def _random_choice(
    key: Array, *p: Array, n: Size, shape: Shape, replace: bool, dtype: DType
) -> TensorType:
    """Positions below `n`, with probabilities `p` if they are given."""
    require_key(key)
    require_shape(shape)
    draws = product(shape)
    if replace:
        require_at_most(dims.minimum(draws, 1), n, "there is nothing to choose from")
    else:
        require_at_most(draws, n, "without replacement, more draws than elements")
    for chances in p:
        if chances.type.rank != 1:
            raise type_error("p must be a vector")
        require_equal(chances.type.shape[0], n, "one probability per element")
    return drawn_type(dtype, shape)


def _print_choice(p: Printing, function: Callable[[str], str]) -> str:
    """Print a choice: by probabilities, uniform, or uniform without replacement."""
    params, key = p.node.params, p.inputs[0]
    n, shape, dtype = (p.code(params[name]) for name in ("n", "shape", "dtype"))
    if len(p.inputs) > 1:
        drawn = f"{key}, {n}, {shape}, {params['replace']}, {p.inputs[1]}"
        return f"{p.xp}.asarray({function('choice')}({drawn}), {dtype})"
    if params["replace"]:
        return f"{function('randint')}({key}, {shape}, 0, {n}, {dtype})"
    every = f"{p.xp}.arange({n}, dtype={dtype})"
    order = f"{function('permutation')}({key}, {every}, 0, False)"
    return f"{order}[:{p.code(product(params['shape']))}].reshape({shape})"


_random_choice.on_host = False
_random_choice.emit(
    numpy=lambda p: _print_choice(
        p, lambda name: p.helper(getattr(helpers, f"{name}_numpy"))
    ),
    jax=lambda p: _print_choice(p, "jax.random.{}".format),
)
_random_choice.no_gradient(DISCRETE)
declare_mapped(_random_choice)


@public(name="random.choice")
def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> Value:
    """Elements of `a` along `axis`, or of 0, 1, ... a - 1 for an integer `a`.

    `p` is a vector of probabilities; by default they are uniform.
    """
    name = "random.choice"
    values = as_value(a)
    n: Size
    if not values.type.rank and is_integer(values.dtype):
        n, chosen = as_size(a), None
    elif not values.type.rank:
        raise graph_error("needs an axis or an integer", op=name, got=str(values.type))
    else:
        chosen = normal_axis(axis, values.type.rank, name)
        n = values.type.shape[chosen]
    weights = [] if p is None else [floating(name, p)]
    to = int_dtype(name, None, [values, *weights] if chosen is not None else weights)
    sizes = drawn_shape(name, shape)
    drawn = _random_choice(
        as_key(key, name), *weights, n=n, shape=sizes, replace=bool(replace), dtype=to
    )
    return drawn if chosen is None else F.take(strong(values), drawn, axis=chosen)
