"""graphc: a compiler for symbolic array programs."""

import importlib
from typing import TYPE_CHECKING, Any

from graphc import rewrites, tensor
from graphc.errors import (
    CallError,
    ForkError,
    GraphError,
    NoCompileError,
    TooManyCompilationsError,
)
from graphc.explain.dump import dump
from graphc.importers.derivatives import grad, hessian, jacobian, value_and_grad
from graphc.importers.functions import block, checkpoint, ragged, vmap
from graphc.ir.config import config
from graphc.ir.foreign_names import OF_GRAPHC
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import misspelled
from graphc.ir.sizes.dims import Dim
from graphc.ops.arrays.sizes import known, same_size
from graphc.ops.effects.barriers import stop_gradient
from graphc.rewriting.engine.rule import rewrite
from graphc.runtime.compile import function
from graphc.runtime.driver.meshes import mesh
from graphc.runtime.driver.stance import stance
from graphc.runtime.examine import Input
from graphc.runtime.function import Function
from graphc.runtime.load_model import load
from graphc.runtime.ragged import Rows
from graphc.runtime.variants.decisions import SavedDecisions
from graphc.show.difference import diff
from graphc.testing import assert_compiles
from graphc.transform.derivatives.custom_vjp import custom_vjp
from graphc.transform.derivatives.gradients import (
    hvp,
    jvp,
    pullback,
    pushforward,
    vjp,
)
from graphc.transform.loops import LOOPS as _LOOPS  # noqa: F401  (they join gt)
from graphc.transform.planning.budget import Budget
from graphc.transform.policies import Bound, Pad, Specialize, learned
from graphc.transform.sharding.shards import Shard
from graphc.version import VERSION
from graphc.warning_kinds import (
    AheadWarning,
    BlockWarning,
    CacheWarning,
    ForkWarning,
    RecompilationWarning,
    SizeWarning,
    UnusedInputWarning,
)
from graphc_serving import Model, ModelError

__version__ = VERSION

__all__ = [
    "AheadWarning",
    "BlockWarning",
    "Bound",
    "Budget",
    "CacheWarning",
    "CallError",
    "Dim",
    "FallbackWarning",
    "ForkError",
    "ForkWarning",
    "Function",
    "GraphError",
    "Input",
    "Model",
    "ModelError",
    "NoCompileError",
    "Pad",
    "RecompilationWarning",
    "Rows",
    "SavedDecisions",
    "Shard",
    "SizeWarning",
    "Specialize",
    "TooManyCompilationsError",
    "UnusedInputWarning",
    "Value",
    "assert_compiles",
    "block",
    "checkpoint",
    "config",
    "custom_vjp",
    "diff",
    "dump",
    "from_jax",
    "function",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jit",
    "jvp",
    "known",
    "learned",
    "load",
    "mesh",
    "optimize",
    "pullback",
    "pushforward",
    "ragged",
    "rewrite",
    "rewrites",
    "same_size",
    "stance",
    "stop_gradient",
    "tensor",
    "value_and_grad",
    "vjp",
    "vmap",
]

if TYPE_CHECKING:
    from graphc.importers.jax import FallbackWarning, from_jax, optimize
    from graphc.importers.jax.decorator import jit
else:
    # These import JAX, when used.
    _OF_JAX = {"jit": "jax.decorator"}
    _OF_JAX |= dict.fromkeys(["FallbackWarning", "from_jax", "optimize"], "jax")
    _OF_OTHERS = ("pymc", "pytensor")  # modules that need what may not be installed

    def __getattr__(name: str) -> Any:
        if name in _OF_JAX:
            module = importlib.import_module(f"graphc.importers.{_OF_JAX[name]}")
            return getattr(module, name)
        if name in _OF_OTHERS:
            return importlib.import_module(f"graphc.{name}")
        problem = f"graphc has no attribute {name!r}"
        if name in OF_GRAPHC:
            raise AttributeError(f"{problem}; {OF_GRAPHC[name]}")
        if not name.startswith("_") and name in dir(tensor):
            way = f"import graphc.tensor as gt, and write gt.{name}"
            raise AttributeError(f"{problem}; {way}")
        raise AttributeError(problem + misspelled(name, __all__))


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
