"""Measure the costs of the device on which JAX runs, as a row of the cost model."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from graphc.analysis.cost import DeviceCosts, costs_of
from graphc.ir.types import JaxArray
from graphc.rewriting.loops.roll.worth import BACKWARD

if TYPE_CHECKING:
    from jax import Device


REPEATS = 5
SIDE = 2048  # of the matrices that are multiplied
STEPS, SMALL = 20_000, 8  # of a loop whose steps do next to nothing, on such matrices
SMALLEST, LARGEST = 2**16, 2**26  # bytes of arrays that may stay in a cache
PASSED = 2**28  # bytes that are read in all, for each of these sizes
SLOWER = 1.25  # factor by which a byte takes longer where an array no longer fits
MOVED = 2**28  # bytes of an array that no cache holds
CALLS = 1000  # of a function that does next to nothing
LAUNCHES = 64  # kernels in a row
CHAINS = 8, 16, 32  # blocks of programs that are compiled
WIDTH = 16  # of these blocks
NODES = 9  # of each of these
SHARE = 64  # a temporary may take one such part of an accelerator's memory


def measure_costs() -> DeviceCosts:
    """Measure the row of the cost model for the default device of JAX.

    This takes some seconds. Other work on the machine makes the device look slower.
    """
    platform = jax.default_backend()
    on_cpu = platform == "cpu"
    temporary = _cached_bytes() if on_cpu else _spared_bytes(jax.devices()[0])
    device = "cpu" if on_cpu else "tpu" if platform == "tpu" else "gpu"
    launch = 0.0 if on_cpu else _launch_seconds()
    moved = _bandwidth(), *_call_seconds(), launch
    flops, step = _operations_per_second(), _step_seconds()
    costs = DeviceCosts(device, temporary, flops, step, *moved)
    compiled, crowded, alike, looped = _compile_costs()
    return replace(
        costs,
        compiled=compiled,
        crowded=crowded,
        compiled_alike=alike,
        looped=looped,
    )


def _operations_per_second() -> float:
    """Measure the operations per second in a product of float32 matrices."""
    a = jnp.ones((SIDE, SIDE), "float32")
    return 2 * SIDE**3 / _busy_seconds(partial(jax.jit(jnp.matmul), a, a))


def _step_seconds() -> float:
    """Measure the seconds per step of a scan, each with a small matrix of its own."""
    x, each = jnp.eye(SMALL), jnp.ones((STEPS, SMALL, SMALL)) / SMALL

    def step(x: object, weights: Any) -> Any:
        return jnp.tanh(x @ weights), None

    loop = jax.jit(lambda x, each: jax.lax.scan(step, x, each)[0])
    return _seconds(partial(loop, x, each)) / STEPS


def _bandwidth() -> float:
    """Measure the bytes per second that are read from memory, or written to it."""
    x = jnp.ones(MOVED // 4, "float32")
    return 2 * MOVED / _busy_seconds(partial(jax.jit(jnp.negative), x))


def _call_seconds() -> tuple[float, float]:
    """Measure the seconds to call a compiled function, and to read its integer."""
    x, function = jnp.int32(0), jax.jit(lambda x: x + 1)

    def called(read: bool) -> object:
        state = x
        for _ in range(CALLS):
            state = function(state)
            if read:
                int(state)
        return state

    dispatch, both = (_seconds(partial(called, read)) / CALLS for read in (False, True))
    return dispatch, max(both - dispatch, 0.0)


def _launch_seconds() -> float:
    """Measure the seconds of a small kernel in a row of kernels that are not fused."""
    x, factors = jnp.eye(SMALL), jnp.ones((LAUNCHES, SMALL, SMALL)) / SMALL

    def row(x: JaxArray, matrices: JaxArray) -> object:
        for i in range(LAUNCHES):
            x = x @ matrices[i]
        return x

    return _busy_seconds(partial(jax.jit(row), x, factors)) / LAUNCHES


def _compile_costs() -> list[float]:
    """Measure how many seconds of a core XLA takes to compile.

    Returns the seconds per node of a gradient, per pair of such nodes, per node of
    alike blocks without a gradient, and for a loop.
    """
    blocks = [[_parameters() for _ in range(count)] for count in CHAINS]
    _seconds_to_compile(_chain, blocks[0])  # the compiler itself is loaded first
    gradients = [_seconds_to_compile(jax.grad(_chain), each) for each in blocks]
    numbers = [NODES * (1 + BACKWARD) * count for count in CHAINS]
    crowded, compiled, _ = np.polyfit(numbers, gradients, 2)
    chains = [_seconds_to_compile(_chain, each) for each in blocks]
    alike = np.polyfit(numbers, chains, 1)[0]
    stacked = _parameters(max(CHAINS))
    single = _parameters()
    looped = _seconds_to_compile(_loop, stacked) - _seconds_to_compile(_chain, [single])
    if compiled <= 0:  # noise prevails: count all of the time for the nodes
        compiled, crowded = gradients[-1] / numbers[-1], 0.0
    seconds = compiled, crowded, alike * (1 + BACKWARD), looped
    return [max(float(each), 0.0) for each in seconds]


def _block(x: jax.Array, parameters: Sequence[jax.Array]) -> jax.Array:
    scale, up, down = parameters
    return x + jnp.tanh((x - jnp.mean(x)) * scale @ up) @ down


def _parameters(*count: int) -> list[jax.Array]:
    """Return the parameters of a block, or of `count` blocks, stacked."""
    shapes = (WIDTH,), (WIDTH, WIDTH), (WIDTH, WIDTH)
    return [jnp.ones((*count, *shape), "float32") for shape in shapes]


def _chain(blocks: Sequence[Sequence[jax.Array]], x: jax.Array) -> jax.Array:
    for parameters in blocks:
        x = _block(x, parameters)
    return jnp.mean(x)


def _loop(parameters: Sequence[jax.Array], x: jax.Array) -> jax.Array:
    def step(x: jax.Array, parameters: Sequence[jax.Array]) -> tuple[jax.Array, None]:
        return _block(x, parameters), None

    return jnp.mean(jax.lax.scan(step, x, parameters)[0])


def _seconds_to_compile(
    function: Callable[..., jax.Array], parameters: object
) -> float:
    """Measure the seconds to compile a function that no cache has compiled before.

    On a CPU these are seconds of a core. On accelerators, where assemblers are other
    processes, they are wall-clock seconds.
    """
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    unique = float(np.random.default_rng().normal())
    x = jnp.ones((WIDTH // 2, WIDTH), "float32")
    jitted = jax.jit(lambda parameters, x: function(parameters, x * unique))
    lowered = jitted.lower(parameters, x)
    start = clock()
    lowered.compile()
    return clock() - start


def _cached_bytes() -> int:
    """Return the largest power of two of bytes that are read as fast as few bytes."""
    size, best, largest_fast = SMALLEST, float("inf"), SMALLEST
    while size <= LARGEST:
        per_byte = _pass_over(size)
        best = min(best, per_byte)
        if per_byte > SLOWER * best:
            break
        largest_fast, size = size, 2 * size
    return largest_fast


def _pass_over(size: int) -> float:
    """Measure the seconds per byte of passes over an array of `size` bytes."""
    x, passes = jnp.ones(size // 4, "float32"), PASSED // size

    def loop(x: object) -> JaxArray:
        return jax.lax.fori_loop(0, passes, lambda i, x: jnp.exp(-x), x)

    return _seconds(partial(jax.jit(loop), x)) / PASSED


def _spared_bytes(device: "Device") -> int:
    """Return how much of a device's memory one temporary may take."""
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return limit // SHARE if limit else costs_of(device.platform).temporary


def _busy_seconds(call: Callable[[], Any]) -> float:
    """Return the shortest time of some calls, less that of a call that does nothing."""
    nothing = partial(jax.jit(jnp.negative), jnp.ones((), "float32"))
    seconds = _seconds(call)
    return max(seconds - _seconds(nothing), seconds / 16)


def _seconds(call: Callable[[], Any]) -> float:
    """Return the shortest time of some calls, after one that compiles."""
    call().block_until_ready()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call().block_until_ready()
        times.append(time.perf_counter() - start)
    return min(times)
