"""The mesh of a program, and the shardings at the borders of its segments.

    MESH = jax.sharding.Mesh(np.reshape(jax.devices()[:4], (4,)), ('data',))

    segment_0 = jax.jit(
        segment_0,
        in_shardings=(on_mesh('data'), on_mesh()),
        out_shardings=(on_mesh(),),
    )
"""

from collections.abc import Iterable
from hashlib import sha256

from graphc.ir.graph.build import tuple_text
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.layout import without_last_whole
from graphc.transform.sharding.meshes import DeviceMesh


def mesh_lines(mesh: DeviceMesh) -> list[str]:
    """The lines that define the mesh and `on_mesh`."""
    count = len(mesh.devices)
    present = f"jax.devices({mesh.platform!r})" if mesh.platform else "jax.devices()"
    devices = f"{present}[:{count}]"
    if mesh.devices != tuple(range(count)):
        devices = f"[{present}[i] for i in {mesh.devices}]"
    return [
        f"MESH = jax.sharding.Mesh(np.reshape({devices}, {mesh.sizes}), {mesh.names})",
        "",
        "",
        "@functools.cache",
        "def on_mesh(*axes):",
        '    """The sharding of an array whose axes lie along these of the mesh."""',
        "    spec = jax.sharding.PartitionSpec(*axes)",
        "    return jax.sharding.NamedSharding(MESH, spec)",
    ]


def digest(functions: Iterable[Iterable[str]]) -> str:
    """A hexadecimal number by which processes tell programs apart."""
    text = "\n".join([line for function in functions for line in function])
    return sha256(text.encode()).hexdigest()[:16]


def sharding_text(axes: MeshAxes | None) -> str:
    """The expression of the sharding of an array; "None" where JAX decides it."""
    if axes is None:
        return "None"
    return f"on_mesh({', '.join(map(repr, without_last_whole(axes)))})"


def specs_text(axes_of_arrays: Iterable[MeshAxes]) -> str:
    """The partition specs of several arrays, as `jax.shard_map` takes them."""
    return tuple_text(f"{sharding_text(axes)}.spec" for axes in axes_of_arrays)


def constraint_text(name: str, axes: MeshAxes) -> str:
    """The expression that constrains an array of a segment to lie along these axes."""
    return f"jax.lax.with_sharding_constraint({name}, {sharding_text(axes)})"


def in_shardings(places: Iterable[MeshAxes | None]) -> str:
    """The option of `jax.jit` that says where the arguments of a segment lie."""
    return f"in_shardings={tuple_text(map(sharding_text, places))}"


def out_shardings(places: Iterable[MeshAxes | None], direct: bool) -> str:
    """The option of `jax.jit` that says where the results of a segment lie.

    A `direct` segment, which is the whole program, always returns a tuple; any other
    returns a single array as such.
    """
    texts = list(map(sharding_text, places))
    alone = len(texts) == 1 and not direct
    return f"out_shardings={texts[0] if alone else tuple_text(texts)}"
