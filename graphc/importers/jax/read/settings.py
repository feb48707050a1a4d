"""Settings of JAX that change how a function is traced."""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import jax
from jax.extend.core import get_opaque_trace_state

from graphc_serving import private_jax

_CONFIG: Any = jax.config
_CONTEXT = private_jax.trace_context(jax)
_BESIDE = (
    *("default_prng_impl", "enable_custom_prng"),
    "transfer_guard_host_to_device",
)
_IN_CONTEXT = (
    *("allow_f16_reductions", "check_static_indices", "debug_key_reuse"),
    *("default_matmul_precision", "disable_jit", "enable_x64", "explicit_x64_dtypes"),
    *("numpy_dtype_promotion", "numpy_rank_promotion", "random_seed_offset"),
    *("softmax_custom_jvp", "threefry_partitionable"),
)
_TRACED_BY = _BESIDE if _CONTEXT is not None else (*_BESIDE, *_IN_CONTEXT)

# Whether numbers given as sizes here stand for one call of many. This is a setting of
# JAX so that JAX, which caches traces of inner functions, keeps separate ones for this
# case.
_make_context: Any = jax.make_user_context
_IS_FOR_MANY: Any = _make_context(default_value=False)


def for_many_sizes() -> AbstractContextManager[None]:
    """Trace at numbers here as at symbols, since the two traces are compared."""
    context: AbstractContextManager[None] = _IS_FOR_MANY(True)
    return context


def is_for_many_sizes() -> bool:
    """Whether a trace at numbers must take the steps of one at symbols."""
    is_for_many: bool = _IS_FOR_MANY.value
    return is_for_many


def is_wide() -> bool:
    """Whether numbers have 64 bits unless specified otherwise."""
    wide: bool = _CONFIG.jax_enable_x64
    return wide


def draws_one_by_one() -> bool:
    """Whether each random number is independent of how many are drawn."""
    apart: bool = getattr(_CONFIG, "jax_threefry_partitionable", True)
    return apart


def offsets_seeds() -> bool:
    """Whether JAX adds an offset to the seeds from which it makes keys."""
    return bool(getattr(_CONFIG, "jax_random_seed_offset", 0))


def runs_plainly() -> bool:
    """Whether JAX is set to run functions op by op, uncompiled."""
    plainly: bool = _CONFIG.jax_disable_jit
    return plainly


def guards_transfers() -> bool:
    """Whether JAX refuses numbers from the host, such as sizes."""
    guard = _CONFIG.jax_transfer_guard_host_to_device
    return guard in ("disallow", "disallow_explicit")


def _by_states() -> Callable[[], bool]:
    state: Any = get_opaque_trace_state
    outside = state(convention="graphc")
    return lambda: state(convention="graphc") == outside


# Whether JAX is not tracing any function in this thread.
traces_nothing: Callable[[], bool] = private_jax.traces_nothing(jax) or _by_states()


def settings() -> Hashable:
    """The current settings that traces depend on."""
    if _CONTEXT is None:
        return _settings(_HOLDERS)
    return _CONTEXT(), _settings(_HOLDERS)


def _settings_reader() -> tuple[object, Callable[[object], Hashable]]:
    """The objects that hold settings, and the function that reads them all.

    Most settings have a context manager in `jax`, whose value is faster to read than
    the one in `config`. A version of JAX may lack some of them.
    """
    holders, paths = SimpleNamespace(config=_CONFIG), []
    for name in _TRACED_BY:
        state = getattr(jax, name, None)
        if hasattr(state, "value"):
            setattr(holders, name, state)
            paths.append(f"{name}.value")
        elif hasattr(_CONFIG, f"jax_{name}"):
            paths.append(f"config.jax_{name}")
    return holders, attrgetter(*paths)


_HOLDERS, _settings = _settings_reader()
