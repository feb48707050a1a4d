"""Random programs with sizes sharded over meshes, against NumPy: run on eight devices.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m THIS FIRST COUNT

With sizes of 0 to 4, most devices have no true element. Refused programs are printed.
"""

import sys
import warnings

import numpy as np

import graphc
from graphc.ir.sizes.dims import Dim
from tests.fuzz.generator import generate, run, tolerance
from tests.fuzz.more_steps import MORE
from tests.transform.sharding.sharded_ops import REFUSALS

MESHES = ({"data": 2}, {"data": 4}, {"data": 2, "model": 2}, {"data": 8})
REFUSED = (*REFUSALS, "both are sharded over", "are sharded in different ways")


def policies(program, mesh):
    """A size of some argument for each mesh axis, each of a different argument."""
    varying = [[n for n in v.type.shape if isinstance(n, Dim)] for v in program.inputs]
    names = [str(sizes[-1]) for sizes in varying if sizes]
    return {n: graphc.Shard(axis) for n, axis in zip(names, mesh, strict=False)}


def compared(seed):
    """The number of values compared for a seed's program; None if it is refused."""
    axes = MESHES[seed % len(MESHES)]
    program = generate(seed, MORE)
    dims = policies(program, axes)
    if not program.made or not dims:
        return 0
    try:
        results = run(program, "jax", dims=dims, mesh=graphc.mesh(**axes))
    except graphc.GraphError as error:
        line = str(error).splitlines()[0]
        assert any(known in line for known in REFUSED), (seed, str(error))
        print("refused:", seed, line)
        return None
    steps = zip(program.steps, program.made, results, strict=True)
    for step, known, got in steps:
        where = f"seed {seed}, {axes}, {dims}, {step}, of {program.steps}"
        if step.startswith(("signbit", "isreal", "iscomplex")):
            continue  # of NaN or rounded numbers: left open by libraries
        assert (got.dtype, got.shape) == (known.array.dtype, known.array.shape), where
        np.testing.assert_allclose(
            got, known.array, **tolerance(known), equal_nan=True, err_msg=where
        )
    return len(program.made)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    first, count = map(int, sys.argv[1:])
    counts = [compared(seed) for seed in range(first, first + count)]
    print(sum(filter(None, counts)), "values,", counts.count(None), "refused")
