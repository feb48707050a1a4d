"""Rules of random numbers. The last axis of a key holds its two words.

JAX draws a float by putting random bits into the mantissa of a number between 1 and 2.
The number is exactly one more than what `gt.random.uniform` draws, and is read as such.
"""

from collections.abc import Callable

from graphc.importers.jax.read.reader import Equation, rule_calling
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.settings import draws_one_by_one, offsets_seeds
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.build import cast, literal_of, number_constant, variable
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import PRIMITIVES as OPS
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.types import DType, TensorType, dtype_of
from graphc.ops.random.batching import from_keys
from graphc.transform.derivatives.vectorize import vmap

UINT32 = dtype_of("uint32")
_MANTISSAS = {"float32": (9, 0x3F800000), "float64": (12, 0x3FF0000000000000)}


def _draw_for_each_key(key: Value, draw: Callable[[Value], Value]) -> Value:
    """Draw from one key, or from each of several."""
    if key.type.rank == 1:
        return draw(key)
    node = draw(_variable_for_one(key, 1)).node
    draws: Value = from_keys(node.primitive, key, *node.inputs[1:], **node.params)
    return draws


def _variable_for_one(values: Value, rank: int) -> Value:
    """A variable for one of several values that have `rank` axes each."""
    shape = values.type.shape[values.type.rank - rank :]
    return variable("one", TensorType(values.dtype, shape))


def _require_draws_one_by_one(eqn: Equation) -> None:
    if not draws_one_by_one():
        problem = "each number depends on how many are drawn"
        name = eqn.eqn.primitive.name
        raise Unsupported(f"{name}: jax_threefry_partitionable is off, so {problem}")


@PRIMITIVES.define("random_seed")
def _random_seed(eqn: Equation, seed: Value) -> Value:
    """Make a key of an integer, or a key of each of several."""
    if offsets_seeds():  # JAX has added the offset to the seed
        raise Unsupported("random_seed: jax_random_seed_offset is set")
    key = F.random.key
    for _ in range(seed.type.rank):
        key = vmap(key)
    return key(seed)


@PRIMITIVES.define("random_split", sizes=("shape",))
def _random_split(eqn: Equation, key: Value) -> Value:
    """Split a key into several."""
    _require_draws_one_by_one(eqn)
    shape = tuple(map(F.size_value, eqn.shape("shape")))
    return _draw_for_each_key(key, lambda one: F.random.split(one, shape))


@PRIMITIVES.define("random_fold_in")
def _random_fold_in(eqn: Equation, key: Value, data: Value) -> Value:
    """Fold an integer into a key; either may be several, matched one to one."""
    data = cast(data, UINT32)
    ranks = key.type.rank - 1, data.type.rank
    if not any(ranks):
        return F.random.fold_in(key, data)
    if all(ranks) and ranks[0] != ranks[1]:
        problem = "the keys and the data have different numbers of axes"
        raise Unsupported(f"random_fold_in: {problem}")
    node = F.random.fold_in(_variable_for_one(key, 1), _variable_for_one(data, 0)).node
    level = "".join("1" if rank else "0" for rank in ranks)
    each, result = (level,) * max(ranks), (*eqn.result.shape,)
    keys: Value = node.primitive(key, data, **node.params, each=each, result=result)
    return keys


@PRIMITIVES.define("random_bits", sizes=("shape",))
def _random_bits(eqn: Equation, key: Value) -> Value:
    """Draw unsigned integers."""
    _require_draws_one_by_one(eqn)
    shape = tuple(map(F.size_value, eqn.shape("shape")))
    dtype = eqn.result.dtype
    return _draw_for_each_key(key, lambda one: F.random.bits(one, shape, dtype=dtype))


@PRIMITIVES.define("random_gamma")
def _random_gamma(eqn: Equation, key: Value, a: Value) -> Value:
    """Draw gamma variates or their logarithms; each key has its own parameters."""
    if eqn.reader.differentiates or eqn.reader.keeps_rules:
        raise Unsupported("random_gamma: JAX knows its derivative")
    _require_draws_one_by_one(eqn)
    op = OPS["random_loggamma" if eqn.params["log_space"] else "random_gamma"]
    depth = key.type.rank - 1
    params = {"shape": a.type.shape[depth:], "dtype": a.dtype}
    levels = {"each": ("11",) * depth, "result": a.type.shape} if depth else {}
    draws: Value = op(key, a, **params, **levels)
    return draws


@PRIMITIVES.define("bitcast_convert_type")
def _bitcast(eqn: Equation, x: Value) -> Value:
    """Reinterpret bits as elements of another dtype.

    Random bits with the exponent of 1 become floats between 1 and 2, drawn as such.
    """
    dtype = eqn.result.dtype
    if {x.dtype.kind, dtype.kind} <= {"i", "u"} and x.dtype.itemsize == dtype.itemsize:
        return cast(x, dtype)
    bits = _bits_of_mantissa(x, *_MANTISSAS.get(dtype.name, (0, 0)))
    if bits is None:
        return _same_bits(x, dtype)
    key, params = bits.node.inputs[0], bits.node.params
    shape = tuple(map(F.size_value, params["shape"]))
    drawn = _draw_for_each_key(
        key, lambda one: F.random.uniform(one, shape, dtype=dtype)
    )
    return drawn + number_constant(1, dtype)


def _same_bits(x: Value, dtype: DType) -> Value:
    """Reinterpret the bits of an array as another dtype.

    An element that is split gets an axis for its parts, the lowest bits first.
    """
    wide, narrow = _unsigned_dtype(x.dtype), _unsigned_dtype(dtype)
    bits = x if x.dtype == wide else F.bits_as(x, wide)
    step = 8 * min(wide.itemsize, narrow.itemsize)
    count = max(wide.itemsize, narrow.itemsize) * 8 // step
    if wide.itemsize > narrow.itemsize:
        places = cast(F.arange(count) * step, wide)
        bits = cast(F.right_shift(F.expand_dims(bits, -1), places), narrow)
    elif wide.itemsize < narrow.itemsize:
        places = cast(F.arange(count) * step, narrow)
        parts = F.left_shift(cast(bits, narrow), places)
        bits = F.sum(parts, axis=-1, dtype=narrow)
    return bits if dtype == narrow else F.bits_as(bits, dtype)


def _unsigned_dtype(dtype: DType) -> DType:
    """The dtype of unsigned integers of the same width."""
    if dtype.kind in "bc":
        problem = f"there is no op for {dtype.name} here"
        raise Unsupported(f"bitcast_convert_type: {problem}")
    return dtype_of(f"uint{8 * dtype.itemsize}")


def _bits_of_mantissa(x: Value, shift: int, exponent: int) -> Value | None:
    """The random bits whose leading bits form the mantissa of `x`, or None."""
    if x.node.primitive is not OP.bitwise_or:
        return None
    moved, one = x.node.inputs
    if moved.node.primitive is not OP.right_shift or not _is_known_as(one, exponent):
        return None
    bits, by = moved.node.inputs
    random = bits.node.primitive is OP.random_bits
    return bits if random and _is_known_as(by, shift) else None


def _is_known_as(x: Value, number: int) -> bool:
    literal = literal_of(x)
    return literal is not None and not literal.ndim and int(literal) == number


PRIMITIVES.define("random_wrap", "random_unwrap", "random_clone")(
    rule_calling(lambda key: key)
)
PRIMITIVES.refuse(
    "there is no op for it here",
    *("rng_bit_generator", "rng_uniform", "threefry2x32"),
)
