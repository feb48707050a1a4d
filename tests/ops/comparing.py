"""Functions of the same arrays in one compiled program, compared with NumPy's results.

For tests that samples cannot express: several results, results of a Python object,
invariants.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim
from tests.ops.sampling import flat

BACKENDS = ("numpy", "jax")
ROUNDING = {"float16": 4e-3, "float32": 4e-6, "float64": 1e-12}
ROUNDING |= {"bfloat16": 3e-2, "complex64": 4e-6, "complex128": 1e-12}


@dataclass(frozen=True)
class OfJax:
    """A JAX function that runs in 64-bit mode and returns NumPy arrays."""

    function: Callable[..., Any]

    def __call__(self, *arrays):
        return results_of_jax({"": self}, arrays)[""]


def results_of_jax(functions, arrays):
    """Return the results of JAX functions by name.

    They run as one program, since each takes long to compile.
    """

    def results(*arrays):
        return {name: f.function(*arrays) for name, f in functions.items()}

    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(results)(*arrays))


def references(functions, arrays):
    """Return the expected results by name."""
    of_jax = {k: f for k, f in functions.items() if isinstance(f, OfJax)}
    found = results_of_jax(of_jax, arrays) if of_jax else {}
    found |= {k: f(*arrays) for k, f in functions.items() if k not in of_jax}
    return {name: flat(result) for name, result in found.items()}


def agree(cases, *arrays, symbolic=(False, True), backends=BACKENDS, rounding=None):
    """Check that each `name: (ours, NumPy's)` agrees, with the inferred types.

    Sizes are symbolic, static, or one after the other. JAX takes long to compile, so it
    runs only the last of these.
    """
    tolerances = ROUNDING if rounding is None else rounding
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = references({name: f for name, (_, f) in cases.items()}, arrays)
        for named in symbolic:
            inputs = variables(arrays, named)
            built = {name: flat(ours(*inputs)) for name, (ours, _) in cases.items()}
            for backend in backends if named == symbolic[-1] else ("numpy",):
                found = run(inputs, built, arrays, backend)
                for name, results in found.items():
                    where = f"{name}, {backend}, {'symbolic' if named else 'static'}"
                    assert len(results) == len(wanted[name]), where
                    for got, value in zip(results, wanted[name], strict=True):
                        compare(got, np.asarray(value), tolerances, where)
                    check_types(built[name], results, inputs, arrays, where)


def variables(arrays, named):
    """Return a variable per array; if `named`, with symbolic sizes, except for 1."""
    return [
        gt.tensor(
            f"x{i}",
            a.dtype,
            [f"n{i}{j}" if named and n != 1 else n for j, n in enumerate(a.shape)],
        )
        for i, a in enumerate(arrays)
    ]


def run(inputs, built, arrays, backend):
    """Return the results by name, computed by one program."""
    places = {(k, i): v for k, vs in built.items() for i, v in enumerate(vs)}
    results = graphc.function(inputs, list(places.values()), backend=backend)(*arrays)
    found = {name: [] for name in built}
    for (name, _), result in zip(places, results, strict=True):
        found[name].append(np.asarray(result))
    return found


def compare(got, wanted, tolerances, where):
    """Check for equal dtypes and shapes, and for values equal up to rounding."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), where
    tolerance = tolerances.get(wanted.dtype.name)
    if tolerance is None:
        np.testing.assert_array_equal(got, wanted, err_msg=where)
        return
    kind = complex if wanted.dtype.kind == "c" else float
    got, wanted = got.astype(kind), wanted.astype(kind)
    size = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    np.testing.assert_allclose(
        got, wanted, tolerance, tolerance * min(size, 1), err_msg=where
    )


def check_types(values, results, inputs, arrays, where):
    """Check the inferred dtypes and sizes, except sizes that depend on data."""
    known = {
        n.symbols[0]: actual
        for v, a in zip(inputs, arrays, strict=True)
        for n, actual in zip(v.type.shape, a.shape, strict=True)
        if isinstance(n, Dim)
    }
    for value, got in zip(values, results, strict=True):
        inferred = gt.asarray(value).type
        assert (inferred.dtype, inferred.rank) == (got.dtype, got.ndim), where
        for n, actual in zip(inferred.shape, got.shape, strict=True):
            if not isinstance(n, Dim) or known.keys() >= set(n.symbols):
                assert dims.evaluate(n, known) == actual, (where, str(inferred))
