"""Rules of random numbers. A key is an array of two words, in its last axis.

A draw of floats is made in JAX of random bits: put into the mantissa of a number
between 1 and 2. Bits cannot be read as floats here, but this number is one more than
what `gt.random.uniform` draws, exactly.
"""

from graphc.importers.jax.reader import Equation, elementwise
from graphc.importers.jax.rules import PRIMITIVES
from graphc.importers.jax.unsupported import Unsupported
from graphc.ir.build import cast, literal_of, number_constant
from graphc.ir.graph import Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.types import dtype_of

UINT32 = dtype_of("uint32")
_MANTISSAS = {"float32": (9, 0x3F800000), "float64": (12, 0x3FF0000000000000)}


def _same(_: Equation, key: Value) -> Value:
    return key


PRIMITIVES.define("random_wrap", "random_unwrap")(_same)


def _single(eqn: Equation, key: Value) -> Value:
    """One key: what is drawn for several at once has rules of its own."""
    if key.type.rank != 1:
        raise Unsupported(f"{eqn.eqn.primitive.name}: of several keys at once")
    return key


@PRIMITIVES.define("random_seed")
def _random_seed(eqn: Equation, seed: Value) -> Value:
    """The key of an integer."""
    if seed.type.rank:
        raise Unsupported("random_seed: of several seeds at once")
    return F.random.key(seed)


@PRIMITIVES.define("random_split")
def _random_split(eqn: Equation, key: Value) -> Value:
    """Several keys of one."""
    shape = eqn.shape(eqn.params["shape"])
    return F.random.split(_single(eqn, key), tuple(map(F.size_value, shape)))


@PRIMITIVES.define("random_fold_in")
def _random_fold_in(eqn: Equation, key: Value, data: Value) -> Value:
    """The key of a key and an integer."""
    if data.type.rank:
        raise Unsupported("random_fold_in: of several integers at once")
    return F.random.fold_in(_single(eqn, key), cast(data, UINT32))


@PRIMITIVES.define("random_bits")
def _random_bits(eqn: Equation, key: Value) -> Value:
    """Unsigned integers."""
    shape = tuple(map(F.size_value, eqn.shape(eqn.params["shape"])))
    return F.random.bits(_single(eqn, key), shape, dtype=eqn.result.dtype)


@PRIMITIVES.define("bitcast_convert_type")
def _bitcast(eqn: Equation, x: Value) -> Value:
    """Random bits with the exponent of 1, read as floats between 1 and 2."""
    dtype = eqn.result.dtype
    if {x.dtype.kind, dtype.kind} <= {"i", "u"} and x.dtype.itemsize == dtype.itemsize:
        return cast(x, dtype)
    bits = _mantissa(x, *_MANTISSAS.get(dtype.name, (0, 0)))
    if bits is None:
        raise Unsupported("bitcast_convert_type: there is no op for it here")
    key, params = bits.node.inputs[0], bits.node.params
    shape = tuple(map(F.size_value, params["shape"]))
    return F.random.uniform(key, shape, dtype=dtype) + number_constant(1, dtype)


def _mantissa(x: Value, shift: int, exponent: int) -> Value | None:
    """The random bits of which `x` has the first as a mantissa; None without."""
    if x.node.primitive is not OP.bitwise_or:
        return None
    moved, one = x.node.inputs
    if moved.node.primitive is not OP.right_shift or not _is(one, exponent):
        return None
    bits, by = moved.node.inputs
    random = bits.node.primitive is OP.random_bits
    return bits if random and _is(by, shift) else None


def _is(x: Value, number: int) -> bool:
    literal = literal_of(x)
    return literal is not None and not literal.ndim and int(literal) == number


PRIMITIVES.define("random_clone")(elementwise(lambda key: key))
PRIMITIVES.refuse(
    "there is no op for it here",
    *("random_gamma", "rng_bit_generator", "rng_uniform", "threefry2x32"),
)
