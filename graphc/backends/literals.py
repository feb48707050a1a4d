"""Constants as source text: exact, with their dtype."""


import numpy as np

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.types import BFLOAT16, NDArray

MOST_INLINE = 8  # elements of an array that still reads well in one line
LARGEST_BARE = {"uint32": 2**31 - 1, "uint64": 2**63 - 1}


def number(array: NDArray) -> str:
    """A rank-0 array as a Python literal, in parentheses where negative.

    Large unsigned integers carry their dtype, since JAX takes bare ones for signed. So
    does a NaN with a sign or a payload, which is written as its bytes.

    >>> number(np.array(0.1, "float32")), number(np.array(-2)), number(np.array(np.inf))
    ('0.1', '(-2)', 'np.inf')
    """
    if _is_other_nan(array):
        return f"{_from_bytes(array)}[()]"
    if array.dtype.kind == "c":
        return f"complex({number(array.real)}, {number(array.imag)})"
    if array.dtype.kind == "u" and array > LARGEST_BARE.get(array.dtype.name, array):
        return f"np.{array.dtype.name}({array})"
    text = repr(array.item()) if array.dtype.kind in "biu" else str(array[()])
    text = text.replace("inf", "np.inf").replace("nan", "np.nan")
    if text == "-0":  # of bfloat16; the integer 0 has no sign
        text = "-0.0"
    return f"({text})" if text.startswith("-") else text


def _is_other_nan(array: NDArray) -> bool:
    """Whether a part of the number is a NaN with other bits than those of `np.nan`."""
    if array.dtype.kind in "biu" or bool(array == array):
        return False
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    plain = np.asarray(np.nan, parts[0].dtype).tobytes()
    return any(part != part and part.tobytes() != plain for part in parts)


def _from_bytes(array: NDArray) -> str:
    dtype = repr(array.dtype.name).replace("'", '"')
    raw = f'np.frombuffer(bytes.fromhex("{array.tobytes().hex()}"), {dtype})'
    return f"{raw}.reshape({array.shape})"


def typed_number(array: NDArray) -> str:
    """A rank-0 array as an expression of exactly its dtype."""
    if array.dtype.name == "bool":
        return f"np.{bool(array)}_"  # a sum of such bools is a bool, unlike in Python
    if array.dtype.name == "bfloat16":
        return f'np.asarray({number(array)}, "bfloat16")'
    if array.dtype.kind == "u":
        return f"np.{array.dtype.name}({array})"
    return f"np.{array.dtype.name}({number(array)})"


def array_text(array: NDArray) -> str:
    """An array of any rank as an expression; long arrays are written as their bytes."""
    dtype = repr(array.dtype.name).replace("'", '"')
    if 0 < array.size <= MOST_INLINE and array.ndim == 1:
        items = ", ".join(number(item) for item in map(np.asarray, array))
        return f"np.array([{items}], {dtype})"
    if not array.size:
        return f"np.zeros({array.shape}, {dtype})"
    return _from_bytes(array)


def is_beside_an_array(node: Node, value: Value) -> bool:
    """Whether another input of the same dtype is an array and so fixes the dtype.

    NumPy does not adapt Python numbers to bfloat16.
    """
    return value.dtype != BFLOAT16 and any(
        v.dtype == value.dtype and not v.node.primitive.inline for v in node.inputs
    )


def is_of_python_numbers(node: Node) -> bool:
    """Whether Python numbers go in and an array comes out, as in `n > 3`."""
    inputs = node.inputs
    if not inputs or not inputs[0].type.weak:
        return False
    if node.primitive.literals != "beside" or node.outputs[0].type.weak:
        return False
    return all([v.type.weak for v in inputs])
