"""Shards in the options of `function`: their mesh, and what they cannot be with."""

from collections.abc import Mapping
from typing import Any

from graphc.errors import graph_error
from graphc.runtime.driver.meshes import device_mesh
from graphc.transform.sharding.shards import Shard, mesh_of, sharded_dims

_ALLOWED: dict[str, tuple[object, ...]] = {
    "backend": ("jax",),
    "tier": (None, "jax"),
    "jit": ("auto", "fewest", True),
    "device": (None,),
}


def with_mesh(dims: Any, mesh: object, **options: object) -> Any:
    """`dims` with shards of the mesh that is given or set; the same without shards.

    `options` are other ones of `function`. Raises GraphError for those that contradict
    shards, where there is no mesh, and for a mesh without shards.
    """
    policies = dims.values() if isinstance(dims, Mapping) else [dims]
    if any(isinstance(policy, Shard) for policy in policies):
        dims = sharded_dims(dims, device_mesh(mesh))
    elif mesh is not None and mesh_of(dims) is None:
        problem = "a mesh is for sizes that are sharded, and none is"
        hint = 'dims={"batch": graphc.Shard("data")}'
        raise graph_error(problem, op="function", hint=hint)
    if mesh_of(dims) is not None:
        for name, choice in options.items():
            _require_allowed(name, _ALLOWED[name], choice)
    return dims


def _require_allowed(name: str, allowed: tuple[object, ...], choice: object) -> None:
    if not any(type(choice) is type(a) and choice == a for a in allowed):
        raise graph_error(
            "sizes are sharded by compiled programs of JAX, over all of a mesh",
            op="function",
            got=f"{name}={choice!r}, with graphc.Shard in dims",
            hint=f"leave {name} out, or give graphc.Pad() in the place of Shard",
        )
