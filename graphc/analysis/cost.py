"""Costs of devices, from which the thresholds of rewrites and of plans follow.

A loop over tiles keeps what it computes in the cache of a CPU, whose steps cost next
to nothing. On an accelerator each step launches kernels, and memory is fast: there, a
loop is for what would take too much of it. `python -m graphc calibrate` measures the
row of the device at hand.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# Seconds that a value takes, at each call, which one compiled function returns and
# another takes: two functions with 100 values between them take 195 us longer than one.
HANDED = 2e-6


@dataclass(frozen=True)
class DeviceCosts:
    """Costs of work on one kind of device.

    `temporary` is the most bytes of an array that a loop computes in each of its steps:
    on a CPU what stays in the cache of a core, on an accelerator the part of its memory
    that one temporary may take. `products` are the float32 operations per second in
    products of large matrices, `step` the seconds that a step of a compiled loop takes
    beyond its work, and `bandwidth` the bytes per second that go from memory or to it.

    `dispatch` are the seconds that the call of a compiled function takes the host,
    `read` those until an integer that is computed is there too, and `launch` those that
    a kernel takes by itself: an accelerator launches one for each op that is not fused
    with others, a CPU calls a function; `called` are the seconds that each small node
    takes a CPU so.

    Seconds of a core until XLA has compiled, on whatever host compiles for the device:
    `compiled` for each node, `crowded` for each pair of nodes of blocks that a gradient
    is of, since kernels of later blocks grow, `compiled_alike` for each node of blocks
    of which no other node takes values, since their kernels are the same, and `looped`
    for a loop.
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
        """The operations in products that take as long as a step takes by itself."""
        return round(self.products * self.step)

    @property
    def cached(self) -> int:
        """The bytes that stay in the caches of a CPU while a loop fills them, about.

        An accelerator computes faster than it reads, whatever it is.
        """
        return 0 if self.launches else 4 * self.temporary

    @property
    def residuals(self) -> int:
        """The most bytes that a gradient keeps of a loop besides the carries.

        A quarter of the memory of an accelerator; of that of a CPU, 2 GiB.
        """
        return 16 * self.temporary if self.launches else 2**31

    @property
    def whole(self) -> int:
        """The most bytes of an array that reductions and products take as a whole.

        On a CPU, as many as stay in its cache. On an accelerator an eighth of its
        memory. In blocks of an eighth of these, on an NVIDIA H100, attention of 8192
        rows took 1.07 of its time, 1.13 with a mask; on an H200 its gradient took 1.3
        in float32 and 1.7 in bfloat16.
        """
        return 8 * self.temporary if self.launches else self.temporary

    @property
    def worth_caching(self) -> int:
        """The fewest bytes of exponentials that are kept, not computed once more.

        One takes as long as 32 operations, on a CPU a nanosecond; to write and to read
        them takes a kernel, with a quarter of the overhead of a step.
        """
        elements = self.step / 4 * self.products / 32
        return round(4 * elements)

    @property
    def launches(self) -> bool:
        """Whether it is an accelerator: the host launches what it does."""
        return self.launch > 0

    @property
    def reuse(self) -> int:
        """The operations that take as long as to move one float32 from memory."""
        return round(4 * self.products / self.bandwidth)

    @property
    def rows(self) -> int:
        """The rows of which a product with a matrix is about as fast as of more.

        There are two operations in each row for each element of the matrix; to read
        this takes a quarter of the time then.
        """
        return 2 * self.reuse

    @property
    def turn(self) -> float:
        """The seconds that a turn of a loop launches: its test, and its counter."""
        return 2 * self.launch

    @property
    def small_step(self) -> float:
        """The most seconds of a step beside which those of a turn count.

        They are 1/16 of it then: assumed.
        """
        return 16 * self.turn

    @property
    def together(self) -> int:
        """The most steps that one turn of a loop does.

        Of 2000 steps on an NVIDIA H100, with states of 8, 128 and 1024, two in a turn
        took 0.51, 0.17 and 0.80 of the time, four 0.11, 0.15 and 0.74, eight 0.09, 0.13
        and 0.70; each of them is compiled.
        """
        return 4 if self.launches else 1

    @property
    def few_chunks(self) -> int:
        """The chunks of a scan that may all be kept, whatever there is to spare.

        A chunk has half a `temporary`. Of an accelerator, 16 are 1/8 of its memory: to
        compute them once more would launch all that again. The number is assumed.
        """
        return 16 if self.launches else 4

    @property
    def stacked_at_once(self) -> int:
        """The most bytes of rows of a scan, and of a value of them, outside of chunks.

        A gradient has twice as many: on a CPU, beyond 32 MiB memory is fresh at each
        call. Chunks took 1.00 to 1.30 of the time of losses of 2 to 11 MiB of logits,
        and 1.15 to 1.63 of that of gradients. Beyond, they save memory at a price: for
        64 MiB they took 0.5 to 1.2 of the time, with a tenth of the temporary arrays.
        An accelerator has chunks of half a `temporary`, whatever there is.
        """
        return 0 if self.launches else 2**24

    @property
    def lookups(self) -> int:
        """So many look-ups for each row of a table pay for a count of them.

        An accelerator adds to one number once at a time, and launches the count, its
        test and a product for what was one kernel: four times as many, assumed.
        """
        return 16 if self.launches else 4

    @property
    def looked_up(self) -> int:
        """The fewest elements of a row that are worth it to look it up or count it.

        An accelerator reads 128 bytes together, which is assumed: 32 float32.
        """
        return 32 if self.launches else 8

    @property
    def padding(self) -> float:
        """The seconds by which padding and cutting make a call longer.

        Arguments are padded and results cut one by one: some ten calls as they are.
        """
        return 10 * self.dispatch

    @property
    def cheap(self) -> int:
        """The elements for which a padded transform takes as long as `padding`.

        It makes six of one, and each reads and writes a complex64 per element.
        """
        elements = int(self.bandwidth * self.padding / (6 * 2 * 8))
        return 1 << max(elements.bit_length() - 1, 0)

    @property
    def counted(self) -> int:
        """The fewest bytes of rows of a table that are worth a count of their look-ups.

        Rows that are looked up go to memory and from it; a count, which is a loop of
        its own, takes half a step beyond its work.
        """
        return round(self.step / 2 * self.bandwidth / 2)

    @property
    def sparse(self) -> int:
        """How many times a size may be stored so that it need not be read.

        A short array, of some 2000 elements that are read and written, may take as much
        longer as it would to read its size and to call one more function.
        """
        return 1 + round((self.read + self.dispatch) * self.bandwidth / (2000 * 8))

    @property
    def segment(self) -> float:
        """The cost of one more compiled function, in nodes of a compilation.

        Some ten go for the function as such, the rest for a thousand calls of it.
        """
        return 11.0 + round(1000 * self.dispatch / self.compiled)


# CPU: measured on two cores of a virtual server with 2 MiB of cache for each; its
# bandwidth, dispatch and read are round numbers near what was measured, 5e9, 3 us and
# 4 to 9 us. What XLA takes to compile is fitted to gradients of 8 to 64 small blocks
# with 27 nodes each, 0.3 s and 6.5 s. A node of blocks that are alike took 0.34 ms in
# cells of 20 nodes and 0.6 to 0.8 in blocks of 40, of transformers and others. GPU:
# `graphc calibrate` on an NVIDIA H100 with JAX 0.11.2, rounded. TPU: memory and rates
# are those of the data sheet of Google's TPU v5e, a temporary may take 1/64 of the
# memory, a step launches some kernels; dispatch, read and launch are assumed.
# Calibrate where it matters.
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
    """The row of a platform of JAX; "cuda" and "rocm" are GPUs, others accelerators."""
    return COSTS.get(platform, GPU)


_here = ContextVar("_here", default=CPU)


def here() -> DeviceCosts:
    """The costs of the device for which a rule looks at a graph."""
    return _here.get()


@contextmanager
def weighing(costs: DeviceCosts) -> Generator[None]:
    """Within: `here` are these costs."""
    token = _here.set(costs)
    try:
        yield
    finally:
        _here.reset(token)


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


# Seconds of a core until XLA has compiled a slice that is a result of a program, at a
# place that it knows; one of those at places that it does not, which are alike; and the
# numbers of such places. Below the least, texts are left as they are. Measured: 192
# slices of three arrays 1.9 and 0.2, with calls that take as long.
SLICED = 9e-3
SLICED_ALIKE = 0.8e-3
PLACES = 50e-3
LEAST_ALIKE = 0.15


def worth_alike(slices: int) -> bool:
    """Whether so many slices are worth numbers of places that XLA does not know."""
    return slices * (SLICED - SLICED_ALIKE) - PLACES >= LEAST_ALIKE


def sliced_seconds(slices: int) -> float:
    """Seconds of a core to compile so many slices that are results, about."""
    return PLACES + slices * SLICED_ALIKE if worth_alike(slices) else slices * SLICED
