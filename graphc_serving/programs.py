"""The programs of a saved model, read by `jax.export` and compiled."""

import dataclasses
import importlib
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from graphc_serving.kinds import shortened
from graphc_serving.manifest import Manifest, ModelError, NDArray, Tensors

_CUSTOM_CALL = re.compile(r"custom_call\s+@?\"?([^\s\"(]+)")


def compiled(
    jax: Any,
    manifest: Manifest,
    i: int,
    tensors: Tensors,
    settings: Callable[[], AbstractContextManager[Any]],
) -> Callable[..., Any]:
    """A program, compiled."""
    try:
        exported = _as_exported(jax, manifest, i, tensors)
        targets = set(_CUSTOM_CALL.findall(exported.mlir_module()))
        with settings():
            lowered = jax.jit(exported.call).lower(*exported.in_avals)
    except Exception as error:  # as of text that is no StableHLO
        problem = f"program {i} cannot be read by JAX {jax.__version__}"
        text = shortened(f"{type(error).__name__}: {error}")
        raise ModelError(f"{problem}\n  got: {text}") from None
    strange = sorted(targets - _stable_targets(jax))
    if strange:
        problem = f"program {i} calls what no exported program may"
        raise ModelError(f"{problem}\n  got: {shortened(', '.join(strange))}")
    with settings():
        made: Callable[..., Any] = lowered.compile()
    return made


def array_of(manifest: Manifest, name: str, tensors: Tensors) -> NDArray:
    """A constant in its own dtype; those that safetensors lacks are kept as bytes."""
    constant = manifest.known[name]
    flat = np.ascontiguousarray(tensors[constant.name]).reshape(-1).view(np.uint8)
    return flat.view(np.dtype(constant.dtype)).reshape(constant.shape)


def _stable_targets(jax: Any) -> set[str]:
    """The custom calls that JAX guarantees, which no export goes without."""
    module = importlib.import_module("jax._src.export._export")
    return set(getattr(module, "_CUSTOM_CALL_TARGETS_GUARANTEED_STABLE", ()))


def _as_exported(jax: Any, manifest: Manifest, i: int, tensors: Tensors) -> Any:
    """A program as `jax.export` has it, made of what the manifest says."""
    export = importlib.import_module("jax.export")
    program = manifest.programs[i]
    given = [(v.shape, v.dtype) for v in program.arguments]
    results = [(v.shape, v.dtype) for v in program.outputs]
    with jax.enable_x64(True):
        in_avals = tuple([jax.core.ShapedArray(s, np.dtype(d)) for s, d in given])
        out_avals = tuple([jax.core.ShapedArray(s, np.dtype(d)) for s, d in results])
    nones = {"in": (None,) * len(given), "out": (None,) * len(results)}
    parts = {
        "fun_name": "model",
        "in_tree": jax.tree.structure(((0,) * len(given), {})),
        "in_avals": in_avals,
        "out_tree": jax.tree.structure((0,) * len(results)),
        "out_avals": out_avals,
        "_has_named_shardings": False,
        "_in_named_shardings": nones["in"],
        "_out_named_shardings": nones["out"],
        "in_shardings_hlo": nones["in"],
        "out_shardings_hlo": nones["out"],
        "nr_devices": 1,
        "platforms": (manifest.platform,),
        "ordered_effects": (),
        "unordered_effects": (),
        "disabled_safety_checks": (),
        "mlir_module_serialized": tensors[f"program_{i}"].tobytes(),
        "calling_convention_version": program.convention,
        "module_kept_var_idx": program.kept,
        "uses_global_constants": False,
        "_get_vjp": None,
    }
    fields = [field.name for field in dataclasses.fields(export.Exported)]
    return export.Exported(**{name: parts[name] for name in fields})
