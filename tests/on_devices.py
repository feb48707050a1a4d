"""Python run where JAX has several devices, in a process of its own."""

import os
import subprocess
import sys


def on_devices(count: int, *command: str) -> str:
    """What Python prints with these arguments, where there are so many devices.

    JAX decomposes stacked matrices by tasks in the pool that waits for them: where as
    many devices as it has threads do so at once, they wait forever.
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
