"""Samples of ops with each of their sizes sharded in turn: run on four devices.

    XLA_FLAGS=--xla_force_host_platform_device_count=4 python -m THIS TURN OF FAMILY ...

Each gives NumPy's results or is refused when it is compiled; refusals are printed.
"""

import sys

import graphc
from graphc.ir.sizes.dims import Dim
from tests.ops.sampling import Batch, trial
from tests.ops.test_samples import FAMILIES, telling

REFUSALS = "cannot be sharded", "cannot be padded here"


def tried(sample):
    """The problems of a sample, and the refusals."""
    dtype = "float32" if "float32" in sample.dtypes else sample.dtypes[0]
    batch = Batch(dtype, symbolic=True)
    batch.add(trial(sample, telling(sample).calls[0], dtype, "jax"))
    shapes = [v.type.shape for v in batch.inputs]
    names = dict.fromkeys(str(n) for s in shapes for n in s if isinstance(n, Dim))
    for name in names if batch.outputs else ():

        def compiled(inputs, outputs, backend, name=name):
            dims = {name: graphc.Shard("data")}
            mesh = graphc.mesh(data=4)
            return graphc.function(inputs, outputs, dims=dims, mesh=mesh)

        try:
            batch.run("jax", compiled)
        except graphc.GraphError as error:
            text = str(error).splitlines()[0]
            assert any(known in text for known in REFUSALS), (sample.name, str(error))
            print("refused:", text)
    return batch.problems


if __name__ == "__main__":
    turn, of, families = *map(int, sys.argv[1:3]), sys.argv[3:]
    samples = [s for family in families for s in FAMILIES[family][turn::of]]
    problems = [p for s in samples for p in tried(s)]
    assert not problems, "\n".join(problems)
