"""Devices: where a program runs, and the costs by which its rewrites are chosen."""

import importlib
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphc.analysis.cost import CPU, DeviceCosts, costs_of
from graphc.errors import graph_error
from graphc.runtime.driver.meshes import jax_mesh, require_present
from graphc.transform.sharding.meshes import DeviceMesh

if TYPE_CHECKING:
    from jax import Device


class Target(NamedTuple):
    """The device that was asked for, if any, and the costs where the program runs."""

    costs: DeviceCosts
    device: Any = None  # a jax.Device
    mesh: DeviceMesh | None = None  # over which sizes are sharded

    @property
    def is_chosen(self) -> bool:
        """Whether the program is to run elsewhere than where JAX would run it."""
        return self.device is not None or self.mesh is not None

    @contextmanager
    def settings(self, jax: ModuleType, wide: bool) -> Generator[None]:
        """Within: JAX has the mesh or the device, and 64 bits if `wide`."""
        bits = jax.enable_x64(True) if wide else nullcontext()
        with bits, self._placement(jax):
            yield

    def _placement(self, jax: ModuleType) -> AbstractContextManager[Any]:
        if self.mesh is not None:
            context: AbstractContextManager[Any] = jax.set_mesh(jax_mesh(self.mesh))
            return context
        return nullcontext() if self.device is None else self._default(jax)

    def _default(self, jax: ModuleType) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = jax.default_device(self.device)
        return context

    def platform(self, jax: ModuleType) -> str:
        """Return the platform that the program runs on, as `jax.export` names it."""
        if self.device is None or self.device.platform == jax.default_backend():
            platform: str = importlib.import_module(
                "jax.export"
            ).default_export_platform()
            return platform
        return "cuda" if self.device.platform == "gpu" else str(self.device.platform)

    def around(
        self, jax: ModuleType, run: Callable[..., object]
    ) -> Callable[..., object]:
        """Wrap `run` for the device; arrays committed to another device stay there."""
        if self.device is None:
            return run

        def on_device(*args: object) -> object:
            with self._default(jax):
                return run(*args)

        return on_device


def target_of(device: object, backend: str, mesh: DeviceMesh | None = None) -> Target:
    """Return the target for `device`: None, a platform of JAX or a `jax.Device`.

    Where sizes are sharded, the target is their `mesh`. Raises GraphError where there
    is no such device.
    """
    if backend == "numpy":
        return _of_numpy(device)
    jax = importlib.import_module("jax")
    if mesh is not None:
        require_present(mesh)
        platform = mesh.platform or jax.devices()[0].platform
        return Target(costs_of(platform), mesh=mesh)
    if device is None:
        return Target(costs_of(_default_platform(jax)))
    jax_device = _first_device(jax, device) if isinstance(device, str) else device
    if not isinstance(jax_device, jax.Device):
        raise graph_error(
            "`device` must say where JAX runs the program",
            op="function",
            got=repr(device),
            expected='None, a platform as "cpu" or "gpu", or a jax.Device',
        )
    platform = cast("Device", jax_device).platform
    return Target(costs_of(platform), jax_device)


def _of_numpy(device: object) -> Target:
    if device in (None, "cpu"):
        return Target(CPU)
    raise graph_error(
        "NumPy runs on the CPU",
        op="function",
        got=f"device={device!r}",
        hint='leave `device` out, or take backend="jax"',
    )


def _default_platform(jax: ModuleType) -> str:
    """Return the platform where JAX runs what it is not told to run elsewhere."""
    chosen = jax.config.jax_default_device
    if isinstance(chosen, str):
        return chosen
    platform: str = jax.default_backend() if chosen is None else chosen.platform
    return platform


def _first_device(jax: ModuleType, platform: str) -> object:
    """Return the first device of a platform."""
    try:
        if not platform:  # JAX would take "" for its default
            raise RuntimeError
        return jax.devices(platform)[0]
    except RuntimeError:
        there = sorted({"cpu", *(device.platform for device in jax.devices())})
        raise graph_error(
            f"JAX has no device of the platform {platform!r} here",
            op="function",
            expected=", ".join(map(repr, there)),
            hint="leave `device` out to run where JAX runs by default",
        ) from None
