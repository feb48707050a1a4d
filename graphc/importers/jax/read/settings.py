"""Settings of JAX by which the trace of a function differs."""

from collections.abc import Hashable
from operator import attrgetter
from typing import Any

import jax

_CONFIG: Any = jax.config
_TRACED_BY = (
    *("jax_allow_f16_reductions", "jax_check_static_indices"),
    *("jax_default_matmul_precision", "jax_default_prng_impl", "jax_disable_jit"),
    *("jax_enable_custom_prng", "jax_enable_x64", "jax_explicit_x64_dtypes"),
    *("jax_numpy_dtype_promotion", "jax_numpy_rank_promotion"),
    "jax_softmax_custom_jvp",
    *("jax_threefry_partitionable", "jax_transfer_guard_host_to_device"),
)


def is_wide() -> bool:
    """Whether numbers have 64 bits where nothing else is said."""
    wide: bool = _CONFIG.jax_enable_x64
    return wide


def draws_one_by_one() -> bool:
    """Whether a random number of an array is the same in one of another size."""
    apart: bool = getattr(_CONFIG, "jax_threefry_partitionable", True)
    return apart


def runs_plainly() -> bool:
    """Whether JAX is told to run functions op by op, uncompiled."""
    plainly: bool = _CONFIG.jax_disable_jit
    return plainly


def guards_transfers() -> bool:
    """Whether JAX refuses numbers that nobody has put on a device, as sizes."""
    guard = _CONFIG.jax_transfer_guard_host_to_device
    return guard in ("disallow", "disallow_explicit")


def settings() -> Hashable:
    """The settings that hold now."""
    return _settings(_CONFIG)


_settings = attrgetter(*(name for name in _TRACED_BY if hasattr(_CONFIG, name)))
