"""Settings of JAX by which the trace of a function differs."""

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

# Whether sizes that are numbers here are those of one call of many. It is a setting, as
# JAX keeps traces of inner functions, of which there are others then.
_make_context: Any = jax.make_user_context
_IS_FOR_MANY: Any = _make_context(default_value=False)


def for_many_sizes() -> AbstractContextManager[None]:
    """Trace here at numbers as at symbols: the trace is compared with one of these."""
    context: AbstractContextManager[None] = _IS_FOR_MANY(True)
    return context


def is_for_many_sizes() -> bool:
    """Whether a trace at numbers is to have the steps of one at symbols."""
    is_for_many: bool = _IS_FOR_MANY.value
    return is_for_many


def is_wide() -> bool:
    """Whether numbers have 64 bits where nothing else is said."""
    wide: bool = _CONFIG.jax_enable_x64
    return wide


def draws_one_by_one() -> bool:
    """Whether a random number of an array is the same in one of another size."""
    apart: bool = getattr(_CONFIG, "jax_threefry_partitionable", True)
    return apart


def offsets_seeds() -> bool:
    """Whether JAX adds a number to the seeds of keys, where it makes these."""
    return bool(getattr(_CONFIG, "jax_random_seed_offset", 0))


def runs_plainly() -> bool:
    """Whether JAX is told to run functions op by op, uncompiled."""
    plainly: bool = _CONFIG.jax_disable_jit
    return plainly


def guards_transfers() -> bool:
    """Whether JAX refuses numbers that nobody has put on a device, as sizes."""
    guard = _CONFIG.jax_transfer_guard_host_to_device
    return guard in ("disallow", "disallow_explicit")


def _by_states() -> Callable[[], bool]:
    state: Any = get_opaque_trace_state
    outside = state(convention="graphc")
    return lambda: state(convention="graphc") == outside


# Whether JAX is tracing no function in this thread.
traces_nothing: Callable[[], bool] = private_jax.traces_nothing(jax) or _by_states()


def settings() -> Hashable:
    """The settings that hold now."""
    if _CONTEXT is None:
        return _settings(_HOLDERS)
    return _CONTEXT(), _settings(_HOLDERS)


def _reading() -> tuple[object, Callable[[object], Hashable]]:
    """Those that hold settings, and the function that reads all of them.

    Most have a context manager in `jax`, whose value is read faster than that in
    `config`. A version of JAX may lack some.
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


_HOLDERS, _settings = _reading()
