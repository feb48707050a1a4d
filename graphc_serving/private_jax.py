"""All private parts of JAX that are used, each with a way to do without it.

JAX may change these parts in any version. So each is looked up when it is needed, by a
function that checks that the part is still what it was, and no result depends on one.
"""

import importlib
import re
import sys
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from functools import lru_cache, update_wrapper
from inspect import signature
from types import ModuleType
from typing import Any

Run = Callable[..., Any]
PUT = ["aval", "sharding", "xs", "devices", "committed"]
_TYPES = 1024  # types of arrays that are remembered


def device_put(jax: ModuleType) -> Run | None:
    """Find `batched_device_put`, in which `jax.device_put` ends after many checks.

    The function takes an array of NumPy, which keeps 64 bits, the sharding on one
    device, a list of that device, and whether the result is committed to it. Where it
    is gone, `jax.device_put` is used, which takes ten times as long.
    """
    try:
        put: Run = jax._src.lib._jax.batched_device_put
    except AttributeError:
        return None
    named = re.findall(r"(\w+):", put.__doc__ or "")
    if named[: len(PUT)] != PUT:
        return None
    type_of = lru_cache(_TYPES)(jax.core.ShapedArray)

    def placed(array: Any, sharding: Any, devices: list[Any], committed: bool) -> Any:
        aval = type_of(array.shape, array.dtype)
        return put(aval, sharding, [array], devices, committed, enable_x64=True)

    return placed


def of_weak_type(array: Any) -> Any:
    """Return the array as one of a weak type, which shares its memory.

    None where the constructor is gone, so that an op makes such an array, for which JAX
    compiles a program for each shape.
    """
    try:
        aval = array.aval.update(weak_type=True)
        parts = [shard.data for shard in array.addressable_shards]
        return type(array)(
            aval, array.sharding, parts, committed=array.committed, _skip_checks=True
        )
    except (AttributeError, TypeError):
        return None


def switch_of_x64(jax: ModuleType) -> tuple[Run, Run] | None:
    """Find the functions behind `jax.enable_x64(True)`: to set it, and to set it back.

    They act on this thread. Where they are gone, that context is used, which takes six
    times as long.
    """
    swap = getattr(jax.enable_x64, "swap_local", None)
    restore = getattr(jax.enable_x64, "set_local", None)
    return None if swap is None or restore is None else (swap, restore)


def cache_miss(jitted: Run) -> Run | None:
    """Find the function that a jitted function calls for a new signature.

    It returns results, and data for C++ to keep. Where it is gone, the jitted function
    is called instead, whose calls go through Python first.
    """
    return getattr(jitted, "_cache_miss", None)


def dispatched(jax: ModuleType, jitted: Any, missed: Run, plainly: Run) -> Run | None:
    """Make a function that C++ calls like `jitted`, with `missed` as its `cache_miss`.

    `missed` returns a triple: the results; what C++ is to keep for calls of this
    signature, or None for nothing; and False. `plainly` is called where JAX does not
    compile, or looks for a NaN. Where the private parts are gone, a function in Python
    finds the program of a call by itself.
    """
    try:
        state = jitted.__getstate__()
        function: Any = jax._src.lib._jax.pjit(
            state["function_name"],
            plainly,
            missed,
            state["static_argnums"],
            state["static_argnames"],
            state["global_cache_key"],
            state["pytree_registry"],
            state["shard_arg_fallback"],
        )
        update_wrapper(function, jitted)
        function._fun = plainly
    except (AttributeError, KeyError, TypeError):
        return None
    return function


def traces_nothing(jax: ModuleType) -> Callable[[], bool] | None:
    """Find the function that tells whether no function is being traced in this thread.

    Where it is gone, states of traces are compared, which takes twice as long.
    """
    context = getattr(jax._src.core, "trace_ctx", None)
    return getattr(context, "is_top_level", None)


def trace_context(jax: ModuleType) -> Callable[[], Hashable] | None:
    """Find the function that tells all options of this thread by which traces differ.

    Where it is gone, the options that are known here are read one by one.
    """
    context = getattr(jax._src.config, "trace_context", None)
    return context if callable(context) else None


def discharge_state() -> Run | None:
    """Find the function that puts arrays in the place of references in a jaxpr.

    Where it is gone, functions that make references are compiled for each size.
    """
    try:
        module = importlib.import_module("jax._src.state.discharge")
        discharge: Run = module.discharge_state
        first = next(iter(signature(discharge).parameters))
    except (AttributeError, ImportError, StopIteration):
        return None
    return discharge if first == "closed_jaxpr" else None


def search_by_halves() -> Run | None:
    """Find the function by which `jnp.searchsorted` searches one table.

    Where it is gone, searches have a program for each number of halvings.
    """
    try:
        module = importlib.import_module("jax._src.numpy.hijax")
        search: Run = module._searchsorted_scan_impl
    except (AttributeError, ImportError):
        return None
    return search


def options(jax: ModuleType) -> Mapping[str, Any]:
    """The options of JAX by name, each a context that sets it for this thread.

    Where they are gone, options stay as they are, and no executable is kept.
    """
    states: Mapping[str, Any] = getattr(jax._src.config, "config_states", {})
    return states


def keep_entries_in(folder: object) -> bool:
    """Have JAX's cache of executables, which is closed now, read and write in `folder`.

    The cache uses `folder / name`, and its methods `exists`, `read_bytes` and
    `write_bytes`. Where the cache is gone, or deletes old entries, JAX writes in place;
    an entry that a killed process has left is then reported by each process that would
    read it.
    """
    try:
        module = importlib.import_module("jax._src.compilation_cache")
        if not _open_cache(module):
            return False
        cache = module._cache
        if cache.eviction_enabled or not cache.path:
            return False
        cache.path = folder
    except AttributeError:
        return False
    return True


def _open_cache(module: ModuleType) -> bool:
    """Open the cache in the directory that this thread's option names, if JAX can.

    JAX closes a cache in two steps, and asserts that there is none when it opens one:
    another thread may have opened one between those steps.
    """
    for _ in range(100):
        with suppress(AssertionError):
            module._initialize_cache()
            return True
        module.reset_cache()
    return False


def stable_targets() -> set[str]:
    """The custom calls that JAX guarantees to keep for exported programs.

    Where the list is gone, there are none, so that a model with custom calls does not
    run.
    """
    module = importlib.import_module("jax._src.export._export")
    return set(getattr(module, "_CUSTOM_CALL_TARGETS_GUARANTEED_STABLE", ()))


def has_run() -> bool:
    """Whether JAX has started a runtime; assumed to be so where JAX does not tell.

    JAX's own function takes a lock, which may be held for ever in a forked child.
    """
    if "jax" not in sys.modules:
        return False
    return bool(getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", True))
