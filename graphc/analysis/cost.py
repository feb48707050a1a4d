"""Costs of devices, which set the thresholds of rewrites and of plans.

On a CPU, a loop over tiles keeps its intermediate results in the cache, and its steps
cost next to nothing. On an accelerator each step launches kernels, and memory is fast:
there, a loop pays only for what would otherwise take too much memory.
`python -m graphc calibrate` measures the row of the device at hand.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# Seconds per call for each value that one compiled function returns and another takes:
# two functions with 100 values between them take 195 us longer than one.
HANDED = 2e-6


@dataclass(frozen=True)
class DeviceCosts:
    """Costs of work on one kind of device.

    `temporary` is the most bytes of an array that a loop computes in each of its steps:
    on a CPU what stays in the cache of a core, on an accelerator the part of its memory
    that one temporary may take. `products` is the number of float32 operations per
    second in products of large matrices, `step` the seconds that a step of a compiled
    loop takes beyond its work, and `bandwidth` the bytes per second that move to or
    from memory.

    `dispatch` is the time in seconds that calling a compiled function takes on the
    host, `read` the seconds until a computed integer has reached the host as well, and
    `launch` the seconds that a kernel takes by itself: an accelerator launches one for
    each op that is not fused with others, where a CPU calls a function. `called` is the
    seconds that a CPU takes for each small node that it calls so.

    The rest are seconds of one core until XLA has compiled, on whatever host compiles
    for the device: `compiled` for each node; `crowded` for each pair of nodes of blocks
    whose gradient is taken, since the kernels of later blocks grow; `compiled_alike`
    for each node of blocks of which no other node takes values, since their kernels are
    the same; and `looped` for a loop.
    """

    device: str
    temporary: int
    products: float
    step: float
    bandwidth: float = 8e9
    dispatch: float = 5e-6
    read: float = 9e-6
    launch: float = 0.0
    called: float = 0.3e-6
    compiled: float = 1e-3
    crowded: float = 1.5e-6
    compiled_alike: float = 0.6e-3
    looped: float = 0.1

    @property
    def step_work(self) -> int:
        """The operations in products that take as long as the overhead of one step."""
        return round(self.products * self.step)

    @property
    def cached(self) -> int:
        """Roughly the bytes that stay in the caches of a CPU while a loop fills them.

        Zero for an accelerator, which computes faster than it reads in any case.
        """
        return 0 if self.launches else 4 * self.temporary

    @property
    def residuals(self) -> int:
        """The most bytes that a gradient keeps of a loop besides the carries.

        A quarter of the memory of an accelerator; 2 GiB on a CPU.
        """
        return 16 * self.temporary if self.launches else 2**31

    @property
    def whole(self) -> int:
        """The most bytes of an array that reductions and products take as a whole.

        On a CPU, as many as stay in its cache; on an accelerator, an eighth of its
        memory. With blocks of an eighth of that, on an NVIDIA H100, attention over 8192
        rows took 1.07 times as long, and 1.13 times with a mask; on an H200 its
        gradient took 1.3 times as long in float32 and 1.7 times in bfloat16.
        """
        return 8 * self.temporary if self.launches else self.temporary

    @property
    def worth_caching(self) -> int:
        """The fewest bytes of exponentials worth keeping rather than computing again.

        One exponential takes as long as 32 operations, a nanosecond on a CPU. Writing
        and reading them takes a kernel, with a quarter of the overhead of a step.
        """
        elements = self.step / 4 * self.products / 32
        return round(4 * elements)

    @property
    def launches(self) -> bool:
        """Whether the device is an accelerator, on which the host launches the work."""
        return self.launch > 0

    @property
    def reuse(self) -> int:
        """The operations that take as long as moving one float32 from memory."""
        return round(4 * self.products / self.bandwidth)

    @property
    def rows(self) -> int:
        """The number of rows from which a product with a matrix is near full speed.

        Each row takes two operations per element of the matrix; with this many rows,
        reading the matrix takes a quarter of the time.
        """
        return 2 * self.reuse

    @property
    def turn(self) -> float:
        """The seconds of launches in one turn of a loop: its test and its counter."""
        return 2 * self.launch

    @property
    def small_step(self) -> float:
        """The longest step, in seconds, beside which the time of a turn counts.

        A turn takes 1/16 of such a step; the fraction is assumed.
        """
        return 16 * self.turn

    @property
    def together(self) -> int:
        """The most steps that one turn of a loop does.

        For 2000 steps on an NVIDIA H100, with states of 8, 128 and 1024 elements, two
        steps per turn took 0.51, 0.17 and 0.80 of the time, four 0.11, 0.15 and 0.74,
        eight 0.09, 0.13 and 0.70; each of the steps in a turn is compiled.
        """
        return 4 if self.launches else 1

    @property
    def few_chunks(self) -> int:
        """The chunks of a scan that may all be kept, however little memory is spare.

        A chunk has half a `temporary`. On an accelerator, 16 chunks are 1/8 of the
        memory, and computing them again would launch all their kernels again. The
        number is assumed.
        """
        return 16 if self.launches else 4

    @property
    def stacked_at_once(self) -> int:
        """The most bytes of rows of a scan, and of a value of them, outside of chunks.

        A gradient has twice as many: on a CPU, beyond 32 MiB each call gets fresh
        memory. Chunks took 1.00 to 1.30 times as long for losses of 2 to 11 MiB of
        logits, and 1.15 to 1.63 times for their gradients. Beyond that, chunks save
        memory at a price: for 64 MiB they took 0.5 to 1.2 of the time, with a tenth of
        the temporary arrays. An accelerator has chunks of half a `temporary`, whatever
        the size of the rows.
        """
        return 0 if self.launches else 2**24

    @property
    def lookups(self) -> int:
        """The look-ups per row of a table from which counting them pays.

        An accelerator adds to one number one look-up at a time, and launches the count,
        its test and a product in place of one kernel: four times as many look-ups,
        assumed.
        """
        return 16 if self.launches else 4

    @property
    def looked_up(self) -> int:
        """The fewest elements of a row for which looking it up or counting it pays.

        An accelerator is assumed to read 128 bytes at a time: 32 float32.
        """
        return 32 if self.launches else 8

    @property
    def padding(self) -> float:
        """The seconds by which padding and cutting make a call longer.

        Arguments are padded and results cut one by one, which takes about ten
        dispatches.
        """
        return 10 * self.dispatch

    @property
    def cheap(self) -> int:
        """The elements for which a padded transform takes as long as `padding`.

        Padding turns one transform into six, and each reads and writes a complex64 per
        element.
        """
        elements = int(self.bandwidth * self.padding / (6 * 2 * 8))
        return 1 << max(elements.bit_length() - 1, 0)

    @property
    def counted(self) -> int:
        """The fewest bytes of rows of a table for which counting their look-ups pays.

        Rows that are looked up move from memory and back; a count, which is a loop of
        its own, takes half a step beyond its work.
        """
        return round(self.step / 2 * self.bandwidth / 2)

    @property
    def sparse(self) -> int:
        """How many times its true size a capacity may be so that the size is not read.

        A short array, of some 2000 elements read and written, may take as much longer
        as reading its size and calling one more function would.
        """
        return 1 + round((self.read + self.dispatch) * self.bandwidth / (2000 * 8))

    @property
    def segment(self) -> float:
        """The cost of one more compiled function, in nodes of a compilation.

        About ten nodes account for the function itself, the rest for a thousand calls
        of it.
        """
        return 11.0 + round(1000 * self.dispatch / self.compiled)


# CPU: measured on two cores of a virtual server with 2 MiB of cache each; bandwidth,
# dispatch and read are round numbers near the measured 5e9, 3 us and 4 to 9 us. The
# compile times of XLA are fitted to gradients of 8 to 64 small blocks with 27 nodes
# each, 0.3 s and 6.5 s. A node of blocks that are alike took 0.34 ms in cells of 20
# nodes and 0.6 to 0.8 ms in blocks of 40, of transformers and others. GPU: `graphc
# calibrate` on an NVIDIA H100 with JAX 0.11.2, rounded. TPU: memory and rates are from
# the data sheet of Google's TPU v5e, a temporary may take 1/64 of the memory, a step
# launches some kernels; dispatch, read and launch are assumed. Calibrate where it
# matters.
CPU = DeviceCosts("cpu", 2**21, 32e9, 1.024e-6)
GPU = DeviceCosts(
    *("gpu", 2**30, 128e12, 5.2e-6, 2e12, 38e-6, 160e-6, 1.4e-6),
    compiled=0.7e-3,
    crowded=0.0,
    compiled_alike=0.5e-3,
    looped=0.1,
)
TPU = DeviceCosts("tpu", 2**28, 100e12, 4e-6, 0.82e12, 10e-6, 50e-6, 1e-6)
COSTS = {row.device: row for row in (CPU, GPU, TPU)}


def costs_of(platform: str) -> DeviceCosts:
    """The row of a JAX platform; "cuda", "rocm" and unknown platforms count as GPUs."""
    return COSTS.get(platform, GPU)


_here = ContextVar("_here", default=CPU)


def current_costs() -> DeviceCosts:
    """The costs of the device for which the current rules look at a graph."""
    return _here.get()


@contextmanager
def using_costs(costs: DeviceCosts) -> Generator[None]:
    """Make `current_costs` return these costs within the context."""
    token = _here.set(costs)
    try:
        yield
    finally:
        _here.reset(token)


# Seconds of a core until XLA compiles: for each node that is traced and lowered, and
# for each call of a function that is lowered already. Where less than `LEAST_SHARED` is
# saved, the text stays as it is.
LOWERED = 0.05e-3
CALLED = 0.15e-3
LEAST_SHARED = 1e-3


def worth_sharing(count: int, size: int) -> bool:
    """Whether `count` parts of `size` nodes are worth a function that is lowered once.

    XLA compiles a call of the function as if its nodes stood there, so only lowering
    gains.
    """
    return (count - 1) * size * LOWERED - count * CALLED >= LEAST_SHARED


# Seconds of a core until XLA has compiled one slice that is a result of a program: at a
# place known to XLA (`SLICED`), and at a place unknown to it, where all slices are
# alike (`SLICED_ALIKE`); `PLACES` is for the numbers of those places. Where less than
# `LEAST_ALIKE` is saved, the text stays as it is. Measured: 192 slices of three arrays
# took 1.9 and 0.2; calls take as long in both cases.
SLICED = 9e-3
SLICED_ALIKE = 0.8e-3
PLACES = 50e-3
LEAST_ALIKE = 0.15


def slices_pay_alike(slices: int) -> bool:
    """Whether this many slices are worth numbers of places that XLA does not know."""
    return slices * (SLICED - SLICED_ALIKE) - PLACES >= LEAST_ALIKE


def seconds_of_slices(slices: int) -> float:
    """Roughly the seconds of a core to compile this many slices that are results."""
    alike = PLACES + slices * SLICED_ALIKE
    return alike if slices_pay_alike(slices) else slices * SLICED
