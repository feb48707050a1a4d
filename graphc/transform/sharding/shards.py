"""`Shard`, a policy of a size: its elements are spread along an axis of a mesh."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from math import lcm
from typing import Any, Literal

from graphc.errors import graph_error, in_number, shortened
from graphc.ir.graph.nodes import Node
from graphc.ir.sizes.dims import Symbol
from graphc.ir.sizes.names import HasName, shown_name
from graphc.ir.tracebacks import with_errors_at_caller
from graphc.ops.effects.capacities import Capacities
from graphc.transform.policies import Pad, Policy
from graphc.transform.sharding.meshes import NO_MESH, DeviceMesh, check_axis


@with_errors_at_caller
@dataclass(frozen=True)
class Shard:
    """Spread the elements of an axis evenly over the devices along `axis` of a mesh.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x = gt.tensor("x", "float32", ("batch", 2))
    >>> spread, mesh = {"batch": graphc.Shard("data")}, graphc.mesh(data=1)
    >>> f = graphc.function([x], gt.sum(x, axis=1), dims=spread, mesh=mesh)
    >>> print(f(np.ones((3, 2), "float32")))
    [2. 2. 2.]

    The size is stored at capacities of `pad`, rounded up to multiples of the number of
    devices, and masked by rule; without a `pad`, at the next multiple. Arguments
    without such an axis are given whole to each device. With `gather="refuse"`, an op
    that gathers elements along the axis, or may do so, is an error. Raises GraphError
    for an `axis` that is no name, a `pad` that is no `Pad`, and another word for
    `gather`.
    """

    axis: str
    pad: Pad | None = None
    gather: Literal["allow", "refuse"] = "allow"

    def __post_init__(self) -> None:
        axis: Any = self.axis
        if not isinstance(axis, str) or not axis:
            raise graph_error(
                "a shard is along one axis of a mesh, given by name",
                op="Shard",
                got=shortened(repr(axis)),
                hint='graphc.Shard("data")',
            )
        if self.pad is not None and type(self.pad) is not Pad:
            nested = isinstance(self.pad, Shard)
            raise graph_error(
                "a shard is along one axis of a mesh, not two"
                if nested
                else "the capacities of a shard are given by a Pad",
                op="Shard",
                got=shortened(repr(self.pad)),
                hint=f"graphc.Shard({axis!r}, graphc.Pad(...))",
            )
        if self.gather not in ("allow", "refuse"):
            raise graph_error(
                "`gather` says whether ops may gather all the elements along an axis",
                op="Shard",
                got=f"gather={shortened(repr(self.gather))}",
                expected="'allow' or 'refuse'",
            )


@dataclass(frozen=True)
class Sharded(Pad):
    """The capacities of a size that is spread along `axis` of a mesh.

    All capacities are multiples of the number of devices along that axis. Ops that need
    the true size are an error: they would need all elements on each device.
    """

    axis: str = ""
    mesh: DeviceMesh = NO_MESH
    gathers: bool = True  # whether ops may gather all elements

    def __str__(self) -> str:
        devices = in_number(self.mesh.size(self.axis), "device")
        return f"sharded over {self.axis}, {devices}, {super().__str__()}"

    @property
    def capacities(self) -> Capacities:
        """The policy as a param of the op that rounds up."""
        return replace(super().capacities, step=self.mesh.size(self.axis))

    @property
    def remedy(self) -> str:
        """The way out where an op needs the true size."""
        return "give graphc.Pad() instead of Shard: the program then runs on one device"


def sharded_dims(dims: object, mesh: DeviceMesh | None, op: str = "function") -> object:
    """Replace each `Shard` in `dims` by the policy for a mesh.

    Raises GraphError without a mesh, for an axis that the mesh lacks, and for a shard
    of all sizes.
    """
    if isinstance(dims, Shard):
        raise graph_error(
            "a shard is for one named size: an array may have several",
            op=op,
            got=f"dims={dims!r}",
            hint=f'dims={{"batch": graphc.Shard({dims.axis!r})}}',
        )
    if not isinstance(dims, Mapping):
        return dims
    return {
        key: _sharded(key, policy, mesh, op) if isinstance(policy, Shard) else policy
        for key, policy in dims.items()
    }


def shared_shard(
    policies: Iterable[Policy], symbols: Iterable[Symbol]
) -> Sharded | None:
    """The policy of sizes that must be equal, where one of them is sharded.

    Raises GraphError where they are sharded in different ways.
    """
    shards = dict.fromkeys(p for p in policies if isinstance(p, Sharded))
    if len(shards) > 1:
        raise graph_error(
            f"{' and '.join(sorted(map(shown_name, symbols)))} must be equal, but are "
            "sharded in different ways",
            op="function",
            got=" and ".join(f"{p.axis}, {p}" for p in shards),
            hint="give all of them the same Shard",
        )
    return next(iter(shards), None)


def refuse_one_number(symbol: Symbol, policy: Policy | None, node: Node) -> None:
    """Raise GraphError for a sharded size that a node needs to be one number."""
    if isinstance(policy, Sharded):
        raise graph_error(
            f"the size {shown_name(symbol)} cannot be sharded: it must be one number",
            op=node.op_called,
            got=", ".join(str(v.type) for v in node.inputs),
            hint="leave Shard out: such an array is given whole to each device",
            where=node.place,
        )


def mesh_of(dims: object) -> DeviceMesh | None:
    """The mesh that policies of `dims` are for; None without shards."""
    policies = dims.values() if isinstance(dims, Mapping) else ()
    return next((p.mesh for p in policies if isinstance(p, Sharded)), None)


def _sharded(key: HasName, shard: Shard, mesh: DeviceMesh | None, op: str) -> Sharded:
    name = shown_name(key) if hasattr(key, "name") else key
    got = f"dims={{{str(name)!r}: {shard!r}}}"
    if mesh is None:
        raise graph_error(
            "there is no mesh to shard over",
            op=op,
            got=got,
            hint=f"mesh=graphc.mesh({shard.axis}=...), or jax.set_mesh(...) first",
        )
    check_axis(mesh, shard.axis, op, got)
    return _policy_of_shard(shard, mesh)


def _policy_of_shard(shard: Shard, mesh: DeviceMesh) -> Sharded:
    """The policy of a shard: capacities that the devices share evenly."""
    devices = mesh.size(shard.axis)
    pad = Pad(multiple=devices) if shard.pad is None else shard.pad
    pad = replace(
        pad,
        minimum=_rounded(pad.minimum, devices),
        buckets=tuple(sorted({_rounded(n, devices) for n in pad.buckets})),
        multiple=lcm(pad.multiple, devices) if pad.multiple else 0,
        strict=True,
    )
    parts = {f.name: getattr(pad, f.name) for f in fields(Pad)}
    gathers = shard.gather == "allow"
    return Sharded(**parts, axis=shard.axis, mesh=mesh, gathers=gathers)


def _rounded(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
