"""Every scalar Op, elementwise, by dtypes: rank 0, sizes 0 and 1, NaN, infinities."""

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.scalar import basic, math
from pytensor.tensor.elemwise import Elemwise

import graphc
import graphc.pytensor
from graphc.pytensor.registry import has_conversion
from graphc.pytensor.steps import _prepare_node

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
# At minus infinity PyTensor's TriGamma has a limit that the function lacks; its
# softplus of a bool is rounded to 16 bits.
APART = {("TriGamma", "float64"), ("TriGamma", "float32"), ("Softplus", "bool")}
# graphc's polygamma function is undefined left of zero; SciPy's is defined since 1.17.
APART |= {("PolyGamma", "int64"), ("PolyGamma", "bool")}
# These leave complex numbers to PyTensor.
APART |= {(name, "complex128") for name in ("Erf", "Gamma", "Log1mexp", "Psi")}


def scalar_ops():
    found = {}
    for module in (basic, math):
        for name, op in vars(module).items():
            if isinstance(op, basic.ScalarOp) and has_conversion(op):
                cast = isinstance(op, basic.Cast)
                found.setdefault(name if cast else type(op).__name__, op)
    return found


INPUTS = {"BetaInc": 3, "BetaIncInv": 3, "Hyp2F1": 4}  # the Op does not say


def given(op, dtypes):
    """Arrays for an Op, whose inputs have the two dtypes by turns."""
    count = INPUTS.get(type(op).__name__, op.nin if op.nin > 0 else 2)
    arrays = []
    for i in range(count):
        dtype = np.dtype(dtypes[i % 2])
        arrays.append(np.asarray(VALUES[dtype.kind][i % 2]).astype(dtype))
    size = min(map(len, arrays))
    return [a[:size] if i < 2 else a[1:2].repeat(size) for i, a in enumerate(arrays)]


def performed(made, arrays):
    """The result of PyTensor's own Op; None if it refuses the arrays."""
    node = made.owner
    stored = dict(zip(node.inputs, arrays, strict=True))
    try:
        with np.errstate(all="ignore"):
            _prepare_node(node, "").run(stored)
    except (TypeError, ValueError, NotImplementedError, OverflowError):
        return None
    return np.asarray(stored[made])


def cases_of(dtypes):
    """For each Op that takes these dtypes: name, inputs, output, arrays, result."""
    for name, op in scalar_ops().items():
        arrays = given(op, dtypes)
        variables = [pt.tensor(dtype=a.dtype.name, shape=(None,)) for a in arrays]
        try:
            made = Elemwise(op)(*variables)
        except (TypeError, NotImplementedError):
            continue
        expected = performed(made, arrays)
        if expected is not None and (name, dtypes[0]) not in APART:
            yield name, variables, made, arrays, expected


def compiled(cases, backend):
    inputs = [v for case in cases for v in case[1]]
    graph = graphc.pytensor.convert([case[2] for case in cases], inputs)
    return graphc.function(graph.inputs, graph.outputs, backend=backend)


def compare(cases, found, sizes):
    for (name, _, _, arrays, _), ours in zip(cases, found, strict=True):
        made = next(case[2] for case in cases if case[0] == name)
        expected = performed(made, [a[:sizes] for a in arrays])
        ours = np.asarray(ours)
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape), name
        rtol = RTOL.get(expected.dtype.name, 1e-8)
        np.testing.assert_allclose(ours, expected, rtol, rtol * 1e-2, err_msg=name)


@pytest.mark.parametrize("dtypes", CASES, ids="-".join)
def test_on_numpy(dtypes):
    cases = list(cases_of(dtypes))
    assert len(cases) > 40
    f = compiled(cases, "numpy")
    for size in (None, 1, 0):
        arrays = [a[:size] for case in cases for a in case[3]]
        with np.errstate(all="ignore"):
            compare(cases, f(*arrays), size)


def test_on_jax():
    """Only Ops that are cheap to compile are tried, with int64 and float32."""
    dear = {"BetaInc", "BetaIncInv", "GammaIncInv", "GammaIncCInv", "Hyp2F1", "Owens_t"}
    dear |= {"GammaInc", "GammaIncC", "GammaU", "GammaL", "Jv", "Ive", "Kve", "Iv"}
    dear |= {"PolyGamma", "J0", "J1", "I0", "I1", "Erfcx", "TriGamma", "Psi"}
    cases = [case for case in cases_of(CASES[5]) if case[0] not in dear]
    arrays = [a for case in cases for a in case[3]]
    compare(cases, compiled(cases, "jax")(*arrays), None)


def test_rank_0():
    inputs = [pt.dscalar(), pt.dscalar()]
    for name, op in scalar_ops().items():
        count = len(given(op, ("float64", "float64")))
        if count > 2 or isinstance(op, basic.Cast):
            continue
        try:
            made = Elemwise(op)(*inputs[:count])
        except (TypeError, NotImplementedError):
            continue
        expected = performed(made, [np.asarray(0.5)] * count)
        graph = graphc.pytensor.convert(made, inputs[:count])
        options = {"backend": "numpy", "unused": "ignore"}
        f = graphc.function(graph.inputs, graph.outputs[0], **options)
        ours = f(*[0.5] * count)
        assert np.shape(ours) == (), name
        np.testing.assert_allclose(ours, expected, 1e-9, err_msg=name)
