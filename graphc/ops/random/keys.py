"""Keys of random draws (`gt.random`): from seeds, split, or joined with integers."""

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, ShapeLike
from graphc.ir.graph.build import (
    Shape,
    as_shape,
    as_value,
    cast,
    check_shape,
    constant,
    literal_of,
    strong,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op, type_error
from graphc.ir.namespace import enroll, public
from graphc.ir.types import INT32, UINT32, NDArray, TensorType, is_integer
from graphc.ops.random import numpy_samplers as helpers
from graphc.ops.random.batching import declare_mapped
from graphc.ops.random.sampler import (
    as_key,
    call_text,
    drawn_type,
    emit_draw,
    require_key,
    require_shape,
)


@op()
def _random_key(seed: Array) -> TensorType:
    """The key of an integer seed."""
    if not is_integer(seed.dtype) or seed.type.rank:
        raise type_error("the seed must be an integer scalar")
    return TensorType(UINT32, (2,))


_random_key.literals = "always"


def _words_of(seed: Value) -> NDArray | None:
    """The key of a constant seed outside 0 .. 2**32 - 1; None for other seeds.

    A bare Python number would not give this key: the upper word of a negative seed
    depends on the dtype.
    """
    known = literal_of(seed)
    if known is None or 0 <= int(known) < 2**32:
        return None
    return helpers.key_numpy(known)


def _print_key(p: Printing) -> str:
    words = _words_of(p.node.inputs[0])
    if words is not None:
        return f'{p.xp}.asarray({words.tolist()}, "uint32")'
    if p.xp == "np":
        return call_text(p, p.helper(helpers.key_numpy))
    if p.is_lowered_later and literal_of(p.node.inputs[0]) is not None:
        return f"jax.random.PRNGKey(np.uint32({p.inputs[0]}))"
    return f"jax.random.PRNGKey({p.inputs[0]})"


_random_key.emit(_print_key)
_random_key.no_gradient("keys are integers")
declare_mapped(_random_key)


@public(name="random.key")
def key(seed: ArrayLike) -> Value:
    """The key, uint32[2], of a seed: an integer or an integer scalar."""
    name, value = "random.key", as_value(seed)
    if not is_integer(value.dtype) or value.type.rank:
        got = str(value.type)
        raise graph_error("the seed must be an integer scalar", op=name, got=got)
    words = _words_of(value)
    if words is not None:
        return constant(words)
    if literal_of(value) is not None:
        return _random_key(cast(value, UINT32))
    small = not value.type.weak and value.dtype.itemsize < 4
    return _random_key(cast(value, INT32) if small else strong(value))


enroll(key, "random.PRNGKey")


@op()
def _random_split(key: Array, *, shape: Shape) -> TensorType:
    """Independent keys, in an array of this shape."""
    require_key(key)
    require_shape(shape)
    return drawn_type(UINT32, (*shape, 2))


def _print_split(p: Printing) -> str:
    shape = p.node.params["shape"]
    number = shape[0] if len(shape) == 1 else shape
    return call_text(p, "jax.random.split", number)


_random_split.emit(
    numpy=lambda p: call_text(
        p, p.helper(helpers.split_keys_numpy), p.node.params["shape"]
    ),
    jax=_print_split,
)
_random_split.no_gradient("keys are integers")
declare_mapped(_random_split)


@public(name="random.split")
def split(key: ArrayLike, num: ShapeLike = 2) -> Value:
    """`num` independent keys, uint32[num, 2]; `num` may be a shape."""
    shape = check_shape(as_shape(num), "random.split")
    return _random_split(as_key(key, "random.split"), shape=shape)


@op()
def _random_fold_in(key: Array, data: Array) -> TensorType:
    """The key that follows from a key and an integer."""
    require_key(key)
    if data.dtype != UINT32 or data.type.rank:
        raise type_error("the data must be a uint32 scalar")
    return key.type.like()


emit_draw(_random_fold_in, helpers.fold_in_numpy)
_random_fold_in.no_gradient("keys are integers")
declare_mapped(_random_fold_in)


@public(name="random.fold_in")
def fold_in(key: ArrayLike, data: ArrayLike) -> Value:
    """The key that follows from `key` and an integer, of which 32 bits count."""
    name, value = "random.fold_in", as_value(data)
    if not is_integer(value.dtype) or value.type.rank:
        raise graph_error("needs an integer scalar", op=name, got=str(value.type))
    number = literal_of(value)
    if number is not None and not 0 <= int(number) < 2**32:
        raise graph_error(f"the integer {int(number)} does not fit uint32", op=name)
    return _random_fold_in(as_key(key, name), cast(value, UINT32))
