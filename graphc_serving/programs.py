"""The programs of a saved model, read by `jax.export` and compiled."""

import dataclasses
import importlib
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy as np

from graphc_serving import private_jax
from graphc_serving.kinds import NDArray, Shaped, bytes_of, shortened
from graphc_serving.manifest import Exported, Manifest, ModelError
from graphc_serving.reading import Tensors

_CUSTOM_CALL = re.compile(r"custom_call\s+@?\"?([^\s\"(]+)")


class Unreadable(ModelError):
    """Raised for a program that the JAX at hand does not read."""


def compiled(
    jax: ModuleType,
    manifest: Manifest,
    i: int,
    tensors: Tensors,
    settings: Callable[[], AbstractContextManager[object]],
) -> Callable[..., Sequence[Shaped]]:
    """Compile a program; raise Unreadable, or ModelError for calls not allowed."""
    try:
        exported = _read_program(jax, manifest, i, tensors)
        targets = set(_CUSTOM_CALL.findall(exported.mlir_module()))
        run = exported.call
        flat = jax.jit(lambda *arrays: jax.tree.leaves(run(*arrays)))
        with settings():
            lowered = flat.lower(*exported.in_avals)
    except Exception as error:  # for example of text that is no StableHLO
        problem = f"program {i} cannot be read by JAX {jax.__version__}"
        if manifest.jax != jax.__version__:
            problem += f"; JAX {shortened(manifest.jax, 20)} wrote it"
        text = shortened(f"{type(error).__name__}: {error}")
        raise Unreadable(f"{problem}\n  got: {text}") from None
    strange = sorted(targets - private_jax.stable_targets())
    if strange:
        problem = f"program {i} calls something that no exported program may"
        raise ModelError(f"{problem}\n  got: {shortened(', '.join(strange))}")
    with settings():
        executable: Callable[..., Sequence[Shaped]] = lowered.compile()
    return executable


def array_of(manifest: Manifest, name: str, tensors: Tensors) -> NDArray:
    """A constant in its own dtype; dtypes that safetensors lacks are kept as bytes."""
    constant = manifest.known[name]
    flat = bytes_of(tensors[constant.name])
    return flat.view(np.dtype(constant.dtype)).reshape(constant.shape)


def _read_program(jax: ModuleType, manifest: Manifest, i: int, tensors: Tensors) -> Any:
    """Read a program by `jax.export`; its types must be those in the manifest."""
    program, content = manifest.programs[i], tensors[f"program_{i}"].tobytes()
    if program.module is not None:
        return _of_module(jax, manifest, program, content)
    exported = importlib.import_module("jax.export").deserialize(bytearray(content))
    for avals, arrays in (
        (exported.in_avals, program.arguments),
        (exported.out_avals, program.outputs),
    ):
        kinds = [(v.shape, v.dtype) for v in arrays]
        if [(a.shape, a.dtype.name) for a in avals] != kinds:
            raise ValueError("its types are not those in the manifest")
    if not set(manifest.platforms) <= set(exported.platforms):
        raise ValueError(f"it is for {', '.join(exported.platforms)}")
    return exported


def _of_module(
    jax: ModuleType, manifest: Manifest, program: Exported, content: bytes
) -> Any:
    """Make the program of a module alone, as old formats keep it.

    The module takes the place of that of another function, of the same types.
    """
    assert program.module is not None

    def zeros(*arrays: object) -> tuple[object, ...]:
        make = jax.numpy.zeros
        return tuple([make(v.shape, np.dtype(v.dtype)) for v in program.outputs])

    with jax.enable_x64(True):
        make = importlib.import_module("jax.export").export
        exported_zeros = make(jax.jit(zeros), platforms=manifest.platforms)
        struct = jax.ShapeDtypeStruct
        like = exported_zeros(
            *[struct(v.shape, np.dtype(v.dtype)) for v in program.arguments]
        )
    return dataclasses.replace(
        like,
        mlir_module_serialized=content,
        calling_convention_version=program.module.convention,
        module_kept_var_idx=program.module.taken,
    )
