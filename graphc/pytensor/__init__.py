"""PyTensor on graphc: `pytensor.function(..., mode="GRAPHC")`."""

from graphc.pytensor import arrays, control, elemwise, linalg, reductions, scan, subtensor
from graphc.pytensor.convert import convert
from graphc.pytensor.linker import mode, program_of
from graphc.pytensor.registry import NotConverted, convert_op

__all__ = ["NotConverted", "convert", "convert_op", "mode", "program_of"]
