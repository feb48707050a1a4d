"""graphc: a compiler for symbolic array programs."""

from graphc import tensor
from graphc.errors import CallError, GraphError, UnusedInputWarning
from graphc.explain.dump import dump
from graphc.ir.build import config
from graphc.ir.graph import Value
from graphc.runtime.compile import Input, function

__all__ = [
    "CallError",
    "GraphError",
    "Input",
    "UnusedInputWarning",
    "Value",
    "config",
    "dump",
    "function",
    "tensor",
]
