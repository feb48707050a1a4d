"""PyTensor on graphc: `pytensor.function(..., mode="GRAPHC")`.

Importing this package registers the mode. `mode(...)` makes one with options of
`graphc.function`, `convert` returns a graph of graphc, `value_and_grad` one with
gradients, and `program_of` the program that a compiled function runs. `convert_op` is
the open table of conversions.

In: graphs of PyTensor.
Out: graphs of graphc, compiled, as thunks that PyTensor calls.
Begin at `convert`, then `registry` and `linker`.
"""

from graphc.pytensor import (
    arrays,
    control,
    elemwise,
    linalg,
    reductions,
    scan,
    subtensor,
)
from graphc.pytensor.convert import convert
from graphc.pytensor.gradients import value_and_grad
from graphc.pytensor.linker import mode, program_of
from graphc.pytensor.registry import NotConverted, convert_op

FAMILIES = (arrays, control, elemwise, linalg, reductions, scan, subtensor)

__all__ = [
    "NotConverted",
    "convert",
    "convert_op",
    "mode",
    "program_of",
    "value_and_grad",
]


def __dir__() -> list[str]:
    return sorted(__all__)
