"""Shards in the options of `function`: their mesh, and options that exclude them."""

import sys
from collections.abc import Mapping
from typing import Any

from graphc.errors import graph_error, shortened
from graphc.ir.graph.nodes import Graph
from graphc.runtime.driver.meshes import device_mesh
from graphc.transform.policies import NAMED
from graphc.transform.sharding.by_hand import is_chosen
from graphc.transform.sharding.meshes import DeviceMesh
from graphc.transform.sharding.shards import Shard, mesh_of, sharded_dims

_ALLOWED: dict[str, tuple[object, ...]] = {
    "backend": ("jax",),
    "tier": (None, "jax"),
    "jit": ("auto", "fewest", True),
    "device": (None,),
}
_EXAMPLE = 'dims={"batch": graphc.Shard("data")}'
_PADS = "give graphc.Pad() in place of Shard"


def with_mesh(
    dims: object, mesh: object, options: Mapping[str, object], op: str = "function"
) -> Any:
    """Return `dims` with its shards laid on the mesh that is given or set.

    Without shards, `dims` stays the same. `options` are the other ones of `op`. Raises
    GraphError for those that contradict shards, and where there is no mesh.
    """
    _require_no_axis(dims, mesh, op)
    policies = dims.values() if isinstance(dims, Mapping) else [dims]
    if any(isinstance(policy, Shard) for policy in policies):
        dims = sharded_dims(dims, device_mesh(mesh, op), op)
    if mesh_of(dims) is not None:
        _require_allowed(options, "graphc.Shard in dims", _PADS, op)
    return dims


def _require_no_axis(dims: object, mesh: object, op: str) -> None:
    """Raise GraphError for a policy that is the name of an axis of the mesh."""
    if mesh is None and "jax" not in sys.modules:
        return  # no mesh is set, and JAX may not be installed
    policies = dims if isinstance(dims, Mapping) else {"batch": dims}
    for key, policy in policies.items():
        if not isinstance(policy, str) or policy in (*NAMED, "auto"):
            continue
        laid_on = device_mesh(mesh, op)
        if laid_on is not None and policy in laid_on.names:
            raise graph_error(
                f"{policy!r} is an axis of the mesh, not a policy for sizes",
                op=op,
                got=f"dims={shortened(repr(dims))}",
                hint=f"dims={{{shortened(repr(key))}: graphc.Shard({policy!r})}}",
            )


def mesh_for(
    graph: Graph, dims: object, mesh: object, options: Mapping[str, object]
) -> DeviceMesh | None:
    """Return the mesh that a graph is for: of `dims`, or of shardings chosen by hand.

    Shardings by hand do nothing where no mesh is given and other `options` leave
    nothing to be sharded. Raises GraphError for a mesh that nothing lies on, and for
    options that contradict the mesh.
    """
    shards = mesh_of(dims)
    if shards is not None:
        return shards
    if not is_chosen(graph.nodes):
        if mesh is not None:
            raise unused_mesh_error("function", ", or gt.with_sharding(x, ...)")
        return None
    if mesh is None and conflicting_options(options):
        return None
    _require_allowed(options, "gt.with_sharding and a mesh", "the mesh")
    by_hand = device_mesh(mesh)
    if by_hand is not None and by_hand.processes:
        raise graph_error(
            "a mesh over several processes is for sizes that are sharded",
            op="function",
            got=f"the mesh {by_hand}, gt.with_sharding alone",
            hint=f"{_EXAMPLE} as well, or a mesh of jax.local_devices()",
        )
    return by_hand


def unused_mesh_error(op: str, more: str = "") -> Exception:
    """Return the error for a mesh that nothing lies on."""
    problem = "a mesh is for sizes that are sharded, and none is"
    return graph_error(problem, op=op, hint=f"{_EXAMPLE}{more}")


def conflicting_options(options: Mapping[str, object]) -> list[str]:
    """Return the options under which nothing is sharded."""
    named = [(name, allowed) for name, allowed in _ALLOWED.items() if name in options]
    return [name for name, allowed in named if not is_among(options[name], allowed)]


def is_among(choice: object, allowed: tuple[object, ...]) -> bool:
    """Whether a choice is one of those allowed; True is not taken for 1."""
    return any(type(choice) is type(a) and choice == a for a in allowed)


def _require_allowed(
    options: Mapping[str, object], beside: str, other: str, op: str = "function"
) -> None:
    for name in conflicting_options(options)[:1]:
        raise graph_error(
            "sizes are sharded by compiled programs of JAX, over all of a mesh",
            op=op,
            got=f"{name}={options[name]!r}, with {beside}",
            hint=f"leave {name} out, or {other}",
        )
