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
SLOWER = 1.25  # so much longer a byte takes where an array no longer fits
MOVED = 2**28  # bytes of an array that no cache holds
CALLS = 1000  # of a function that does next to nothing
LAUNCHES = 64  # kernels in a row
CHAINS = 8, 16, 32  # blocks of programs that are compiled
WIDTH = 16  # of these blocks
NODES = 9  # of each of these
SHARE = 64  # a temporary may take such a part of an accelerator's memory


def calibrated() -> DeviceCosts:
    """The row of the default device of JAX.

    It takes some seconds. Other work on the machine makes the device look slower.
    """
    platform = jax.default_backend()
    on_cpu = platform == "cpu"
    temporary = _cached_bytes() if on_cpu else _spared_bytes(jax.devices()[0])
    device = "cpu" if on_cpu else "tpu" if platform == "tpu" else "gpu"
    launch = 0.0 if on_cpu else _launch()
    moved = _bandwidth(), *_calls(), launch
    costs = DeviceCosts(device, temporary, _products(), _step(), *moved)
    compiled, crowded, alike, looped = _compilations()
    return replace(
        costs,
        compiled=compiled,
        crowded=crowded,
        compiled_alike=alike,
        looped=looped,
    )


def _products() -> float:
    """Operations per second in a product of float32 matrices."""
    a = jnp.ones((SIDE, SIDE), "float32")
    return 2 * SIDE**3 / _busy(partial(jax.jit(jnp.matmul), a, a))


def _step() -> float:
    """Seconds of one step of a scan that multiplies by a small matrix of its own."""
    x, each = jnp.eye(SMALL), jnp.ones((STEPS, SMALL, SMALL)) / SMALL

    def step(x: object, weights: Any) -> Any:
        return jnp.tanh(x @ weights), None

    loop = jax.jit(lambda x, each: jax.lax.scan(step, x, each)[0])
    return _seconds(partial(loop, x, each)) / STEPS


def _bandwidth() -> float:
    """Bytes per second that are read from memory, or written to it."""
    x = jnp.ones(MOVED // 4, "float32")
    return 2 * MOVED / _busy(partial(jax.jit(jnp.negative), x))


def _calls() -> tuple[float, float]:
    """Seconds of the call of a compiled function, and of reading its integer."""
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


def _launch() -> float:
    """Seconds of a small kernel in a row of such, which are not fused."""
    x, factors = jnp.eye(SMALL), jnp.ones((LAUNCHES, SMALL, SMALL)) / SMALL

    def row(x: JaxArray, matrices: JaxArray) -> object:
        for i in range(LAUNCHES):
            x = x @ matrices[i]
        return x

    return _busy(partial(jax.jit(row), x, factors)) / LAUNCHES


def _compilations() -> list[float]:
    """Seconds of a core for nodes of gradients, pairs of them, others, and a loop."""
    blocks = [[_parameters() for _ in range(count)] for count in CHAINS]
    _compiled(_chain, blocks[0])  # the compiler itself is loaded first
    gradients = [_compiled(jax.grad(_chain), each) for each in blocks]
    numbers = [NODES * (1 + BACKWARD) * count for count in CHAINS]
    crowded, compiled, _ = np.polyfit(numbers, gradients, 2)
    alike = np.polyfit(numbers, [_compiled(_chain, each) for each in blocks], 1)[0]
    stacked = _parameters(max(CHAINS))
    looped = _compiled(_loop, stacked) - _compiled(_chain, [_parameters()])
    if compiled <= 0:  # the noise is larger: all of it for the nodes
        compiled, crowded = gradients[-1] / numbers[-1], 0.0
    seconds = compiled, crowded, alike * (1 + BACKWARD), looped
    return [max(float(each), 0.0) for each in seconds]


def _block(x: jax.Array, parameters: Sequence[jax.Array]) -> jax.Array:
    scale, up, down = parameters
    return x + jnp.tanh((x - jnp.mean(x)) * scale @ up) @ down


def _parameters(*count: int) -> list[jax.Array]:
    """The parameters of a block, or of so many on top of each other."""
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


def _compiled(function: Callable[..., jax.Array], parameters: object) -> float:
    """Seconds to compile a function, which no cache has compiled before.

    They are those of a core on a CPU; assemblers of accelerators are other processes.
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
    """The largest array, in powers of two, that is read as fast as a small one."""
    size, best, largest_fast = SMALLEST, float("inf"), SMALLEST
    while size <= LARGEST:
        per_byte = _pass_over(size)
        best = min(best, per_byte)
        if per_byte > SLOWER * best:
            break
        largest_fast, size = size, 2 * size
    return largest_fast


def _pass_over(size: int) -> float:
    """Seconds per byte of passes over an array of so many bytes."""
    x, passes = jnp.ones(size // 4, "float32"), PASSED // size

    def loop(x: object) -> JaxArray:
        return jax.lax.fori_loop(0, passes, lambda i, x: jnp.exp(-x), x)

    return _seconds(partial(jax.jit(loop), x)) / PASSED


def _spared_bytes(device: "Device") -> int:
    """The part of a device's memory that one temporary may take."""
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return limit // SHARE if limit else costs_of(device.platform).temporary


def _busy(call: Callable[[], Any]) -> float:
    """The shortest time of some calls, beyond that of a call that does nothing."""
    nothing = partial(jax.jit(jnp.negative), jnp.ones((), "float32"))
    seconds = _seconds(call)
    return max(seconds - _seconds(nothing), seconds / 16)


def _seconds(call: Callable[[], Any]) -> float:
    """The shortest time of some calls, after one that compiles."""
    call().block_until_ready()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call().block_until_ready()
        times.append(time.perf_counter() - start)
    return min(times)
