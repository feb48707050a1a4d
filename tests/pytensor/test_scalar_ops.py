"""Every scalar Op, elementwise, by dtypes: rank 0, sizes 0 and 1, NaN and infinities."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.scalar import basic, math
from pytensor.tensor.elemwise import Elemwise

import graphc
import graphc.pytensor
from tests.pytensor.test_ops import reference

pytestmark = pytest.mark.usefixtures("compiled_quickly", "python_only")
SPECIAL = np.array([-2.5, -1.0, 0.0, 0.25, 0.5, 1.0, 3.0, np.nan, np.inf, -np.inf])
PAIRS = np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))
WHOLE = np.array([3, 0, 1, 2, 5]), np.array([2, 3, 1, 4, 2])
COMPLEX = np.array([1 + 2j, -0.5, 0.25 - 1j]), np.array([2 - 1j, 0.5, 1j])
VALUES = {"b": ([True, False], [False, True]), "i": WHOLE, "u": WHOLE}
VALUES |= {"f": PAIRS, "c": COMPLEX}
CASES = [
    *(("float64",) * 2, ("float32",) * 2, ("int8",) * 2, ("bool",) * 2),
    *(("complex128",) * 2, ("int64", "float32"), ("float32", "float64")),
    *(("uint8", "int8"), ("int16", "uint16"), ("uint64", "int64")),
]
RTOL = {"float16": 4e-3, "float32": 5e-5, "complex64": 5e-5}
# PyTensor's are of scipy's extension, or of the dtype of the input, where ours are not:
# the first is a limit at minus infinity, the second is rounded to 16 bits.
APART = {("TriGamma", "float64"), ("TriGamma", "float32"), ("Softplus", "bool")}


def scalar_ops():
    found = {}
    for module in (basic, math):
        for name, op in vars(module).items():
            if isinstance(op, basic.ScalarOp):
                cast = isinstance(op, basic.Cast)
                found.setdefault(name if cast else type(op).__name__, op)
    return found


def given(op, dtypes):
    """Arrays for an Op, of as many dtypes in turn as it has inputs."""
    count = op.nin if op.nin > 0 else 2
    arrays = []
    for i in range(count):
        dtype = np.dtype(dtypes[i % 2])
        arrays.append(np.asarray(VALUES[dtype.kind][i % 2]).astype(dtype))
    size = min(map(len, arrays))
    return [a[:size] if i < 2 else a[1:2].repeat(size) for i, a in enumerate(arrays)]


def graph_of(dtypes):
    """All Ops that take these dtypes: names, inputs, outputs and arguments."""
    names, inputs, outputs, arrays = [], [], [], []
    for name, op in scalar_ops().items():
        own = given(op, dtypes)
        variables = [pt.tensor(dtype=a.dtype.name, shape=(None,)) for a in own]
        try:
            made = Elemwise(op)(*variables)
            with np.errstate(all="ignore"):
                reference(variables, [made])(*own)
        except (TypeError, NotImplementedError, ValueError):
            continue  # PyTensor does not take them either
        if (name, dtypes[0]) not in APART:
            names, outputs = [*names, name], [*outputs, made]
            inputs, arrays = [*inputs, *variables], [*arrays, *own]
    return names, inputs, outputs, arrays
