"""How XLA compiles the programs of tests: quickly, or as users have them."""

import os
import tempfile
import threading
from typing import Any

import jax
from jax._src.interpreters import mlir

# Most programs run once or twice: compiling them well costs more than it saves.
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
if jax.__version_info__ < (0, 11):  # newer versions have no choice here
    QUICK["xla_cpu_use_fusion_emitters"] = False
    USUAL["xla_cpu_use_fusion_emitters"] = True


def compile_quickly() -> None:
    """Let this process, and those that it starts, compile all programs with `QUICK`."""
    flags = [f"--{name}={value}".lower() for name, value in QUICK.items()]
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags])


def compile_once() -> str:
    """Share compiled programs between this process and those that it starts.

    Many tests compile the same programs, and so do all workers. Returns the new folder
    that holds the programs.
    """
    folder = tempfile.mkdtemp(prefix="graphc-tests-")
    shared: dict[str, str | int] = {
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in shared.items():
        os.environ[name.upper()] = str(value)
        jax.config.update(name, value)
    return folder


class Contexts(threading.local):
    """The MLIR contexts of a thread, each replaced after it has served many programs.

    JAX makes one per program, which takes longer than lowering a small one. A context
    isn't kept for ever, since it holds the types and constants of all programs that it
    served.
    """

    most = 200  # programs per context

    def __init__(self, make: Any) -> None:
        self._make, self._context, self._served = make, None, self.most

    def __call__(self) -> Any:
        if self._served >= self.most:
            self._context, self._served = self._make(), 0
        self._served += 1
        return self._context


def lower_quickly() -> None:
    """Let JAX lower many programs in one context, if this version makes contexts so."""
    if hasattr(mlir, "make_ir_context"):
        mlir.make_ir_context = Contexts(mlir.make_ir_context)


def compiled_well(lowered: jax.stages.Lowered) -> Any:
    """Compile a program as it is for users, for tests of its text or memory."""
    return lowered.compile(compiler_options=USUAL)
