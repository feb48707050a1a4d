"""Costs of devices, from which the thresholds of rewrites follow.

A loop over tiles keeps what it computes in the cache of a CPU, whose steps cost next
to nothing. On an accelerator each step launches kernels, and memory is fast: there, a
loop is for what would take too much of it. `python -m graphc calibrate` measures the
row of the device at hand.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceCosts:
    """Costs of work on one kind of device.

    `temporary` is the most bytes of an array that a loop computes in each of its steps:
    on a CPU what stays in the cache of a core, on an accelerator the part of its memory
    that one temporary may take. `products` are the float32 operations per second in
    products of large matrices, and `step` the seconds that a step of a compiled loop
    takes beyond its work.
    """

    device: str
    temporary: int
    products: float
    step: float

    @property
    def step_work(self) -> int:
        """The operations in products that take as long as a step takes by itself."""
        return round(self.products * self.step)


# CPU: measured on two cores of a virtual server with 2 MiB of cache for each. Of the
# others, memory and rates are those of data sheets (NVIDIA H100 and H200, Google TPU
# v5e, AMD MI300), a temporary may take 1/64 of the memory, and a step is taken to
# launch some kernels at 4 us each. Calibrate where it matters.
CPU = DeviceCosts("cpu", 2**21, 32e9, 1.024e-6)
GPU = DeviceCosts("gpu", 2**30, 60e12, 16e-6)
TPU = DeviceCosts("tpu", 2**28, 100e12, 4e-6)
COSTS = {row.device: row for row in (CPU, GPU, TPU)}


def costs_of(platform: str) -> DeviceCosts:
    """The row of a platform of JAX; "cuda" and "rocm" are GPUs, others accelerators."""
    return COSTS.get(platform, GPU)


# Seconds of a core until XLA compiles: for each node that is traced and lowered, and
# for each call of a function that has been. Below the least, texts are left as they
# are.
LOWERED = 0.05e-3
CALLED = 0.15e-3
LEAST_SHARED = 1e-3


def worth_sharing(count: int, size: int) -> bool:
    """Whether `count` parts of `size` nodes are worth a function that is lowered once.

    Calls of it are compiled as if its nodes stood there, so that nothing else changes.
    """
    return (count - 1) * size * LOWERED - count * CALLED >= LEAST_SHARED


# Seconds of a core until XLA has compiled a slice that is a result of a program, and a
# program of its own for others; and of a call of such a program beyond its work. A
# program may take longer by the last part of its time for it.
SLICED = 7.5e-3
APART = 60e-3
CALLED_APART = 10e-6
LEAST_APART = 0.15
LONGER = 0.02


def least_slices(stacks: int) -> int:
    """The fewest slices of so many arrays that are worth a program of their own."""
    return stacks + math.ceil((APART + LEAST_APART) / SLICED)


def worth_taking_apart(places: int, seconds: float) -> bool:
    """Whether a program that takes so long may call another one for each place."""
    return places * CALLED_APART <= LONGER * seconds
