"""Run Python in several processes that share a mesh over the loopback interface."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

ROOM = 120  # seconds, after which all processes are ended and the test fails
START = """
import sys, jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(
    "127.0.0.1:{port}", {count}, {rank}, initialization_timeout=60,
    heartbeat_timeout_seconds={patience}, shutdown_timeout_seconds=5,
)
"""


class Ended(NamedTuple):
    """The exit code of a process, and what it printed."""

    code: int
    out: str
    error: str


def on_processes(count: int, code: str, *, devices: int = 1) -> list[str]:
    """Run `code` in `count` processes with `devices` each; return their output."""
    ended = processes_ended([code] * count, devices=devices)
    told = [f"process {i}: {one.code}\n{one.error}" for i, one in enumerate(ended)]
    assert not any(one.code for one in ended), "\n".join(told)
    return [one.out for one in ended]


def processes_ended(
    codes: Sequence[str], *, devices: int = 1, room: float = ROOM, patience: int = 30
) -> list[Ended]:
    """Run each code in a process, as its `RANK`; return how each one ended.

    A process that has not been heard of for `patience` seconds counts as ended by the
    others; on a busy machine it may only be slow.
    """
    port, count = free_port(), len(codes)
    flag = f"--xla_force_host_platform_device_count={devices}"
    flags = " ".join([os.environ.get("XLA_FLAGS", ""), flag])
    env = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    running = []
    for rank, code in enumerate(codes):
        start = START.format(port=port, count=count, rank=rank, patience=patience)
        text = f"{start}\nRANK = {rank}\n{code}"
        running.append(
            subprocess.Popen(
                [sys.executable, "-u", "-c", text],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    until = time.monotonic() + room
    try:
        pairs = [p.communicate(timeout=until - time.monotonic()) for p in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    codes_of = [process.returncode for process in running]
    return [Ended(c, *pair) for c, pair in zip(codes_of, pairs, strict=True)]


def free_port() -> int:
    """A port of the loopback interface on which nothing listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
