"""`graphc.jit` with sizes that are sharded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from tests.on_devices import on_devices
from tests.transform.sharding.test_sharding import refusal

ROWS = {"n": graphc.Shard("data")}


def test_calls_are_those_of_jax():
    on_devices(4, "-m", "tests.importers.jax.sharded_calls")


def jitted(**options):
    options = {"shapes": "n", "dims": ROWS, "mesh": graphc.mesh(data=1)} | options
    return graphc.jit(jnp.sum, **options)


def test_a_mesh_of_one_device():
    f = jitted()
    np.testing.assert_allclose(f(np.arange(5.0, dtype="float32")), 10)
    assert "on_mesh('data')" in f.source
    assert "n: sharded over data, 1 device" in f.explain()


def test_no_mesh():
    assert refusal(lambda: jitted(mesh=None)) == [
        "jit: there is no mesh to shard over",
        "  got: dims={'n': Shard(axis='data', pad=None, gather='allow')}",
        "  hint: mesh=graphc.mesh(data=...), or jax.set_mesh(...) first",
    ]


def test_an_axis_that_the_mesh_lacks():
    lines = refusal(lambda: jitted(dims={"n": graphc.Shard("date")}))
    assert lines[0] == "jit: the mesh has no axis 'date'; did you mean 'data'?"


def test_sizes_without_names():
    lines = refusal(lambda: jitted(shapes=None))
    assert lines[0] == "jit: sizes are sharded by their names, and no axis has a name"
    assert lines[-1].startswith('  hint: shapes="n _" names axes')


def test_a_name_that_no_axis_has():
    lines = refusal(lambda: jitted(dims={"m": graphc.Shard("data")}))
    told = "jit: `dims` names a size that the function does not have"
    assert lines[0].startswith(told)


def test_a_mesh_for_nothing():
    lines = refusal(lambda: jitted(dims="pad"))
    assert lines[0] == "jit: a mesh is for sizes that are sharded, and none is"


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (
            {"backend": "numpy"},
            "sizes are sharded by compiled programs of JAX, over all of a mesh",
        ),
        ({"device": jax.devices()[0]}, "programs for many sizes take no device"),
        ({"out_shardings": object()}, "programs for many sizes take no out_shardings"),
    ],
)
def test_options_that_place_otherwise(option, told):
    assert refusal(lambda: jitted(**option))[0] == f"jit: {told}"


def test_no_file_of_a_model(tmp_path):
    x = np.ones(4, "float32")
    lines = refusal(lambda: jitted().export(tmp_path / "model", x))
    assert lines[0] == (
        "export: a program whose sizes are sharded cannot be exported yet"
    )
