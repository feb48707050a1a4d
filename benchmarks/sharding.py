"""A training step on several devices, against JAX as a person writes it.

    python -m benchmarks.sharding [DEVICES]

DEVICES, by default 8, are made of the CPU. The size of a batch that is spread over them
differs from call to call. Both sides store it at one capacity, mask the padding, and
keep the weights on each device. The bytes are those of the messages between devices, on
each of them, read from what XLA has compiled. The ratios of bytes should be 1, those of
time 0.95 to 1.05. Devices of one CPU share its cores, so times show only overhead.

The last table is for as many rows on each of 1, 2, 4 ... devices. It has what XLA says
of the program of one device: its messages and floating-point operations, which should
not grow.
"""

import sys
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import Row, compare, named, print_table, row, same, setting
from graphc.runtime.driver.collectives import collectives_in

RATE = np.float32(0.01)
ROWS = setting(64, 2)  # rows per device, in tables with more and more devices
NETS = setting(((64, 256, 128), (1024, 256, 128), (1024, 1024, 512)), ((8, 16, 8),))
Array = Any


def loss(xp: Any, x: Array, t: Array, first: Array, second: Array) -> Array:
    """Return the squared errors of a net of two layers, a number for each row."""
    error = xp.tanh(x @ first) @ second - t
    return xp.sum(error * error, axis=1)


@dataclass(frozen=True)
class Step:
    """A step of gradient descent by both sides, for batches of at most `capacity`."""

    capacity: int
    width: int
    hidden: int
    mesh: jax.sharding.Mesh

    def ours(self) -> Any:
        """Compile the step by graphc."""
        x = gt.tensor("x", "float32", ("batch", self.width))
        t = gt.tensor("t", "float32", ("batch", 1))
        first = gt.tensor("first", "float32", (self.width, self.hidden))
        second = gt.tensor("second", "float32", (self.hidden, 1))
        value = gt.mean(loss(gt, x, t, first, second))
        slopes = graphc.grad(value, [first, second])
        steps = zip([first, second], slopes, strict=True)
        shard = graphc.Shard("data", graphc.Pad(buckets=[self.capacity]))
        outputs = [value, *(p - RATE * g for p, g in steps)]
        options = {"dims": {"batch": shard}, "mesh": self.mesh}
        return graphc.function([x, t, first, second], outputs, **options)

    def theirs(self) -> tuple[Any, Any]:
        """Return the jitted step by hand, and a function to pad and spread batches."""
        rows = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec("data"))
        whole = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec())

        def step(x: Array, t: Array, first: Array, second: Array, n: Array) -> Array:
            def cost(first: Array, second: Array) -> Array:
                inside = jnp.arange(self.capacity) < n
                errors = loss(jnp, x, t, first, second)
                return jnp.sum(jnp.where(inside, errors, 0)) / n

            value, slopes = jax.value_and_grad(cost, (0, 1))(first, second)
            steps = zip([first, second], slopes, strict=True)
            return [value, *(p - RATE * g for p, g in steps)]

        taken = rows, rows, whole, whole, whole
        jitted = jax.jit(step, in_shardings=taken, out_shardings=whole)

        def placed(x: Array) -> Array:
            buffer = np.zeros((self.capacity, *x.shape[1:]), x.dtype)
            buffer[: len(x)] = x
            return jax.device_put(buffer, rows)

        def call(x: Array, t: Array, first: Array, second: Array) -> Array:
            return jitted(placed(x), placed(t), first, second, len(x))

        return jitted, call

    def arguments(self, batch: int) -> list[Array]:
        """Return a batch on the host, and weights on each device."""
        rng = np.random.default_rng(batch)
        shapes = (batch, self.width), (batch, 1), (self.width, self.hidden)
        arrays = [rng.normal(size=s) / 16 for s in (*shapes, (self.hidden, 1))]
        whole = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec())
        x, t, *weights = [a.astype("float32") for a in arrays]
        return [x, t, *jax.device_put(weights, whole)]


def measured(capacity: int, width: int, hidden: int, mesh: Any) -> list[Row]:
    """Measure the time of a step, and the bytes of its messages."""
    step = Step(capacity, width, hidden, mesh)
    ours, (jitted, theirs) = step.ours(), step.theirs()
    calls = [step.arguments(n) for n in (capacity, capacity - 3, capacity // 2)]
    for args in calls:
        same(ours(*args), theirs(*args), 1e-4)
    assert len(ours.stats().compilations) == 1
    what = f"{capacity} rows, layers of {width} and {hidden}"

    def run(side: Any) -> Any:
        return lambda: [side(*args) for args in calls]

    times = compare(run(ours), run(theirs), calls=5)
    bytes_of = [
        sum(one.bytes for one in found)
        for found in (
            ours.collectives({"batch": capacity}),
            collectives_in(0, _text(jitted, calls[0])),
        )
    ]
    return [row(f"{what}: three steps", times, 1.05), _of_bytes(what, *bytes_of)]


def scaled(devices: int) -> list[Row]:
    """Compare the messages and operations of one device, of `devices` in all."""
    step = Step(ROWS * devices, *NETS[0][1:], graphc.mesh(data=devices))
    ours, (jitted, _) = step.ours(), step.theirs()
    args = step.arguments(step.capacity)
    (lowered,) = ours.lower({"batch": step.capacity})
    both = [lowered.compile(), jitted.lower(*args, 1).compile()]
    what = f"{devices} devices"
    bytes_of = [sum(c.bytes for c in collectives_in(0, p.as_text())) for p in both]
    flops = [int(p.cost_analysis()["flops"]) for p in both]
    ratio = flops[0] / flops[1]
    operations = Row(f"{what}: operations", *map(str, flops), ratio, 1.05)
    return [_of_bytes(what, *bytes_of), operations]


def _text(jitted: Any, args: list[Array]) -> str:
    """Return the HLO of the step by hand."""
    text: str = jitted.lower(*args, 1).compile().as_text()
    return text


def _of_bytes(what: str, ours: int, theirs: int) -> Row:
    ratio = ours / theirs if theirs else 1.0
    return Row(f"{what}: bytes", str(ours), str(theirs), ratio, 1.0)


def main() -> None:
    wanted = int((named() or ["8"])[0])
    if "--smallest" not in sys.argv:
        jax.config.update("jax_num_cpu_devices", max(wanted, 64))
    devices = min(wanted, len(jax.devices()))
    mesh = graphc.mesh(data=devices)
    rows = [r for net in NETS for r in measured(*net, mesh)]
    print_table(f"training steps on {devices} devices, one batch spread", rows)
    counts = [2**i for i in range(7) if 2**i <= len(jax.devices())]
    rows = [r for count in counts for r in scaled(count)]
    print_table(f"of one device, with {ROWS} rows on each", rows)


if __name__ == "__main__":
    main()
