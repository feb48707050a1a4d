"""Run Python in a process of its own, in which JAX has several devices."""

import os
import subprocess
import sys


def on_devices(count: int, *command: str) -> str:
    """Run Python with these arguments and `count` devices; return what it prints.

    JAX decomposes stacked matrices by tasks in the thread pool that waits for them: if
    as many devices as the pool has threads do so at once, they wait forever.
    """
    device_flag = f"--xla_force_host_platform_device_count={count}"
    flags = " ".join([os.environ.get("XLA_FLAGS", ""), device_flag])
    env = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    env["NPROC"] = str(count + 1)  # threads of the pool
    process = subprocess.run(
        [sys.executable, *command], env=env, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout
