"""How XLA compiles the programs of tests: quickly, or as users have them."""

import os
from typing import Any

import jax

# Most programs are run once or twice: compiling them well takes longer than that saves.
QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
}
USUAL = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_parallel_codegen_split_count": 32,
}
if jax.__version_info__ < (0, 11):  # newer ones have one way only
    QUICK["xla_cpu_use_fusion_emitters"] = False
    USUAL["xla_cpu_use_fusion_emitters"] = True


def compile_quickly() -> None:
    """Have all programs of this process, and of those that it starts, compiled so."""
    flags = [f"--{name}={value}".lower() for name, value in QUICK.items()]
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags])


def compiled_well(lowered: jax.stages.Lowered) -> Any:
    """A program as users have it, for what its text or memory tells."""
    return lowered.compile(compiler_options=USUAL)
