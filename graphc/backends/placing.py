"""How programs make JAX arrays outside of compiled functions.

`jnp.asarray` of a NumPy array, or of a number with a dtype, runs an XLA program that is
compiled for each shape; `jax.device_put` compiles nothing.
"""

from collections.abc import Callable
from types import ModuleType

import numpy as np

from graphc.backends.module import Module
from graphc.ir.types import DType

ON_DEVICE = [
    "def on_device(array, like=None):",
    '    """The array as one of JAX, placed as `like`; nothing is compiled for it."""',
    "    device = None if like is None or not like.committed else like.sharding",
    "    with jax.enable_x64(True):  # keeps 64-bit arrays as they are",
    "        return jax.device_put(array, device)",
]


def placer(module: Module) -> str:
    """The name of the function that places arrays, which the module will contain."""
    module.hooks["on_device"] = ON_DEVICE
    return "on_device"


def array_of(
    jax: ModuleType, on_device: Callable[..., object], value: object, dtype: DType
) -> object:
    """Printed into programs: an argument, or a result of the host, as an array of JAX.

    A NumPy array is copied, since somebody else may write to it.
    """
    if isinstance(value, jax.core.Tracer):
        return jax.numpy.asarray(value, dtype)
    # To pyright, a class of a module that is a parameter tells nothing of an array.
    if isinstance(value, jax.Array) and value.dtype == dtype and not value.weak_type:  # pyright: ignore[reportAttributeAccessIssue]
        return value
    return on_device(np.array(value, dtype))


def placed_text(module: Module, text: str, dtype: str) -> str:
    """The expression of a value computed on the host, as a JAX array."""
    return f'{module.helper(array_of)}(jax, {placer(module)}, {text}, "{dtype}")'
