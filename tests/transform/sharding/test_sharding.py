"""Sharded sizes: results equal one device's, the text that runs, and refusals."""

import math
import os
import pickle
import warnings

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.runtime import shards
from graphc.transform.sharding.meshes import DeviceMesh
from graphc.transform.sharding.shards import sharded_dims
from tests.on_devices import on_devices
from tests.ops.test_samples import FAMILIES
from tests.transform.sharding import sharded_programs

AT_LENGTH = "GRAPHC_EXAMPLES" in os.environ
HERE = "tests.transform.sharding"
OPS = sorted(FAMILIES)
IN_TURN = """
import runpy, sys
for module, arguments in commands.items():
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__")
"""


@pytest.mark.parametrize("start", range(2))
def test_programs_on_meshes(start):
    """Many programs share one start, which takes as long as several of them."""
    numbers = range(start, len(sharded_programs.PROGRAMS), 2)
    on_devices(8, "-m", f"{HERE}.sharded_programs", *map(str, numbers))


@pytest.mark.parametrize(
    "families", [[f] for f in OPS] if AT_LENGTH else [["fft", "index", "search"]]
)
def test_each_op_equals_numpy_or_is_refused(families):
    share = ("0", "1") if AT_LENGTH else ("1", "4")
    on_devices(4, "-m", f"{HERE}.sharded_ops", *share, *families)


def test_generated_programs_and_those_of_examples():
    """They share a start."""
    first, count = ("0", "200") if AT_LENGTH else ("1002", "2")
    few = ["2", "series_likelihood", "penguins_rule", "penguins"]
    commands = {
        f"{HERE}.generated_programs": [first, count],
        f"{HERE}.sharded_examples": ["all"] if AT_LENGTH else few,
    }
    on_devices(8, "-c", f"commands = {commands}{IN_TURN}")


def graph():
    x = gt.tensor("x", "float32", ("batch", 3))
    w = gt.tensor("w", "float32", (3, 2))
    return [x, w], [gt.tanh(x @ w), gt.sum(x)]


def sharded(**options):
    options.setdefault("mesh", graphc.mesh(data=1))
    options.setdefault("dims", {"batch": graphc.Shard("data")})
    return graphc.function(*graph(), **options)


def arrays(batch):
    rng = np.random.default_rng(batch)
    return [rng.normal(size=s).astype("float32") for s in ((batch, 3), (3, 2))]


def test_the_text_has_the_mesh_and_the_shardings():
    lines = sharded().source.splitlines()
    mesh = "MESH = jax.sharding.Mesh(np.reshape(jax.devices()[:1], (1,)), ('data',))"
    assert mesh in lines
    start = lines.index("segment_0 = jax.jit(")
    assert lines[start : start + 5] == [
        "segment_0 = jax.jit(",
        "    segment_0,",
        "    in_shardings=(on_mesh('data'), on_mesh()),",
        "    out_shardings=(on_mesh('data'), on_mesh()),",
        ")",
    ]


def test_explain_tells_where_arrays_lie():
    lines = sharded().explain().splitlines()
    assert lines[1] == "  batch: sharded over data, 1 device, padded to a multiple of 1"
    assert lines[3:7] == [
        "    takes over data: x",
        "    takes whole on each device: w, 24 bytes",
        "    gives over data: tanh",
        "    gives whole on each device: sum, 4 bytes",
    ]
    full = sharded().explain(full=True)
    assert all(line in full for line in lines[3:7])


COLLECTIVES = """
import graphc, jax
from tests.transform.sharding.sharded_programs import arguments, regression
inputs, outputs = regression()
mesh = graphc.mesh(data=4)
f = graphc.function(inputs, outputs, dims={"batch": graphc.Shard("data")}, mesh=mesh)
(found,) = f.collectives({"batch": 13})
# A sum, a count of 64 bits, gradients for (3, 2) and (2,): no activation is gathered.
assert (found.segment, found.kind, found.bytes) == (0, "all-reduce", 44), found
assert not f.stats().compilations
f.compile({"batch": [13, 16]})
assert len(f.stats().compilations) == 1
f(*arguments(inputs, 14))
f(*map(jax.numpy.asarray, arguments(inputs, 16)))
assert len(f.stats().compilations) == 1, f.stats()
"""


def test_one_device_sends_nothing():
    assert sharded().collectives({"batch": 5}) == []
    x = gt.tensor("x", "float32", ("n",))
    assert graphc.function([x], gt.sum(x)).collectives({"n": 3}) == []


SPECTRA = """
import graphc, numpy as np
import graphc.tensor as gt
# A CPU transforms only what is stored row by row; these are gathered by columns.
x = gt.tensor("x", "float32", (3, "n"))
y = gt.fft.hfft(x, axis=1)
results, mesh = [y, graphc.grad(gt.sum(y**2), x)], graphc.mesh(data=4)
f = graphc.function([x], results, dims={"n": graphc.Shard("data")}, mesh=mesh)
rows = np.arange(12, dtype="float32").reshape(3, 4)
for ours, known in zip(f(rows), graphc.function([x], results)(rows), strict=True):
    np.testing.assert_allclose(ours, known, rtol=1e-4, atol=1e-3)
"""


MESHES = """
import graphc, jax, numpy as np
from tests.transform.sharding.test_sharding import arrays, graph, sharded

def check(f, devices):
    x, w = arrays(6)
    y, total = f(x, w)
    np.testing.assert_allclose(y, np.tanh(x @ w), rtol=1e-5)
    assert y.sharding.device_set == set(devices), y.sharding
    return y

some = [jax.devices()[i] for i in (3, 1)]
check(sharded(mesh=jax.sharding.Mesh(np.array(some), ("data",))), some)
explicit = jax.make_mesh((4,), ("data",))
check(sharded(mesh=explicit), jax.devices())
# One that is set counts, at calls it is in nobody's way, and arrays may lie on it.
with jax.set_mesh(explicit):
    f = sharded(mesh=None)
    y = check(f, jax.devices())
    x, w = arrays(8)
    there = jax.device_put(x, jax.NamedSharding(explicit, jax.P("data")))
    np.testing.assert_allclose(f(there, w)[0], np.tanh(x @ w), rtol=1e-5)
check(f, jax.devices())
other = jax.device_put(arrays(8)[0], jax.devices()[2])
assert len(f(other, w)[0].sharding.device_set) == 4
# In transformations of JAX, too.
jitted = jax.jit(lambda x, w: f(x, w)[0])
np.testing.assert_allclose(jitted(x, w), np.tanh(x @ w), rtol=1e-5)
slope = jax.grad(lambda w: f(x, w)[0].sum())(w)
np.testing.assert_allclose(slope, x.T @ (1 - np.tanh(x @ w) ** 2), rtol=1e-4, atol=1e-6)
three = jax.vmap(lambda x: f(x, w)[0])(np.stack([x] * 3))
np.testing.assert_allclose(three, np.stack([np.tanh(x @ w)] * 3), rtol=1e-5)
with jax.disable_jit():
    check(f, jax.devices())
with jax.debug_nans(True):
    check(f, jax.devices())
try:
    sharded(mesh=graphc.mesh(data=5))
except graphc.GraphError as error:
    assert str(error).splitlines()[0] == "mesh: the mesh needs 5 devices, and JAX has 4"
else:
    raise AssertionError
"""


def test_copies_and_pickles():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(pickle.dumps(sharded()))
    mesh = next(line for line in sharded().source.splitlines() if "MESH =" in line)
    assert mesh in again.source.splitlines()
    np.testing.assert_allclose(again(*arrays(3))[1], arrays(3)[0].sum(), rtol=1e-5)


PADS = [
    *(None, graphc.Pad(), graphc.Pad(minimum=5), graphc.Pad(growth=1.3)),
    *(graphc.Pad(multiple=6), graphc.Pad(buckets=[5, 10, 90])),
    graphc.Pad(buckets=[7], open_ended=True, growth=1.5),
]


@pytest.mark.parametrize("pad", PADS, ids=str)
@pytest.mark.parametrize("devices", [1, 3, 8])
def test_capacities_are_multiples(pad, devices):
    mesh = DeviceMesh(("data",), (devices,), tuple(range(devices)))
    policy = sharded_dims({"n": graphc.Shard("data", pad)}, mesh)["n"]
    found = [policy.capacity(n) for n in range(90)]
    assert all(c >= n and c % devices == 0 for n, c in enumerate(found))
    assert found == sorted(found)
    assert all(policy.capacity(c) == c for c in found)
    if pad is None:
        assert found == [max(math.ceil(n / devices), 1) * devices for n in range(90)]
    elif devices == 1:
        assert found == [pad.capacity(n) for n in range(90)]


def refusal(make):
    with pytest.raises(graphc.GraphError) as caught:
        make()
    lines = caught.value.args[0].splitlines()
    return [line for line in lines if not line.startswith("  at ")]


def test_no_mesh():
    assert refusal(lambda: sharded(mesh=None)) == [
        "function: there is no mesh to shard over",
        "  got: dims={'batch': Shard(axis='data', pad=None, gather='allow')}",
        "  hint: mesh=graphc.mesh(data=...), or jax.set_mesh(...) first",
    ]


def test_a_mesh_axis_that_is_not_there():
    dims = {"batch": graphc.Shard("date")}
    assert refusal(lambda: sharded(dims=dims)) == [
        "function: the mesh has no axis 'date'; did you mean 'data'?",
        "  got: dims={'batch': Shard(axis='date', pad=None, gather='allow')}",
        "  expected: one of 'data'",
    ]


@pytest.mark.parametrize("mesh", [4, "data", jax.devices()])
def test_something_that_is_no_mesh(mesh):
    lines = refusal(lambda: sharded(mesh=mesh))
    assert lines[0] == "function: `mesh` must say how devices are arranged"


def test_devices_of_other_processes(monkeypatch):
    mesh = graphc.mesh(data=1)
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    lines = refusal(lambda: sharded(mesh=mesh))
    assert lines == [
        "function: the mesh has devices of other processes, and none of this one",
        "  got: Mesh('data': 1, axis_types=(Auto,)), in process 1",
        "  hint: a mesh of jax.devices(), or of jax.local_devices() alone",
    ]


def test_a_mesh_over_several_processes_without_sizes_that_are_sharded(monkeypatch):
    """Their programs are not padded, so they are not agreed on before a call."""
    several = DeviceMesh(("data",), (2,), (0, 1), processes=(0, 1))
    monkeypatch.setattr(shards, "device_mesh", lambda mesh: several)
    x = gt.tensor("x", "float32", (4,))
    f = lambda: graphc.function([x], gt.with_sharding(x, ("data",)), mesh=several)
    assert refusal(f)[0] == (
        "function: a mesh over several processes is for sizes that are sharded"
    )


def test_one_mesh_axis_for_two_sizes_of_an_array():
    x = gt.tensor("x", "float32", ("n", "m"))
    dims = dict.fromkeys(["n", "m"], graphc.Shard("data"))
    mesh = graphc.mesh(data=1)
    f = lambda: graphc.function([x], gt.exp(x), dims=dims, mesh=mesh).source
    assert refusal(f) == [
        "function: n and m are sizes of one array, and both are sharded over 'data'",
        "  got: x: float32[n, m]",
        "  hint: shard one of them, or each over an axis of its own: "
        'graphc.mesh(data=..., model=...), graphc.Shard("model")',
    ]


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"backend": "numpy"}, "backend='numpy'"),
        ({"jit": False}, "jit=False"),
        ({"tier": "auto"}, "tier='auto'"),
        ({"device": "cpu"}, "device='cpu'"),
    ],
)
def test_options_that_leave_nothing_to_shard(options, got):
    lines = refusal(lambda: sharded(**options))
    assert lines[:2] == [
        "function: sizes are sharded by compiled programs of JAX, over all of a mesh",
        f"  got: {got}, with graphc.Shard in dims",
    ]


def test_an_op_that_needs_the_true_size():
    x = gt.tensor("x", "float32", (2, "n"))
    y, *_ = gt.linalg.lu(x)
    dims, mesh = {"n": graphc.Shard("data")}, graphc.mesh(data=1)
    with pytest.raises(graphc.GraphError) as caught:
        graphc.function([x], y, dims=dims, mesh=mesh).plan  # noqa: B018
    *told, hint, place = caught.value.args[0].splitlines()
    assert told[0].startswith("linalg.lu: the size n cannot be padded here: ")
    assert hint == (
        "  hint: give graphc.Pad() instead of Shard: "
        "the program then runs on one device"
    )
    assert "y, *_ = gt.linalg.lu(x)" in place


def test_a_size_that_must_be_one_number():
    x = gt.tensor("x", "float32", ("n", "m"))
    y = gt.cross(x, x)
    dims, mesh = {"m": graphc.Shard("data")}, graphc.mesh(data=1)
    size = pytest.warns(graphc.SizeWarning)
    with size, pytest.raises(graphc.GraphError) as caught:
        graphc.function([x], y, dims=dims, mesh=mesh).plan  # noqa: B018
    text = str(caught.value)
    assert text.startswith("cross: the size m cannot be sharded: it must be one number")
    assert "y = gt.cross(x, x)" in text


def test_sizes_that_must_be_equal_and_lie_differently():
    x, y = gt.tensor("x", "float32", ("n",)), gt.tensor("y", "float32", ("m",))
    dims = {"n": graphc.Shard("data"), "m": graphc.Shard("model")}
    mesh = graphc.mesh(data=1, model=1)
    f = lambda: graphc.function([x, y], gt.dot(x, y), dims=dims, mesh=mesh).plan
    assert refusal(f)[0] == (
        "function: m and n must be equal, but are sharded in different ways"
    )


def test_sizes_that_must_be_equal_share_a_shard():
    x, y = gt.tensor("x", "float32", ("n",)), gt.tensor("y", "float32", ("m",))
    dims, mesh = {"n": graphc.Shard("data")}, graphc.mesh(data=1)
    f = graphc.function([x, y], gt.dot(x, y), dims=dims, mesh=mesh)
    assert "in_shardings=(on_mesh('data'), on_mesh('data')" in f.source
    np.testing.assert_allclose(f(np.ones(5, "float32"), np.ones(5, "float32")), 5)


def test_a_size_that_is_computed():
    x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    dims, mesh = {k: graphc.Shard("data")}, graphc.mesh(data=1)
    f = lambda: graphc.function([x, k], gt.arange(k) * x[0], dims=dims, mesh=mesh).plan
    assert refusal(f)[0] == (
        "function: only axes of arguments can be sharded, and k is computed"
    )


def test_all_sizes_at_once():
    lines = refusal(lambda: sharded(dims=graphc.Shard("data")))
    assert lines[0].startswith("function: a shard is for one named size")


def test_a_policy_of_no_size():
    lines = refusal(lambda: sharded(dims={3: graphc.Shard("data")}))
    assert lines[0] == "function: `dims` names a size that the graph does not have"


GIVEN_AWAY = """
import graphc, graphc.tensor as gt, jax, numpy as np
mesh = graphc.mesh(data=4)
x, w = gt.tensor("x", "float32", ("n", 3)), gt.tensor("w", "float32", (3,))
options = {"dims": {"n": graphc.Shard("data")}, "mesh": mesh, "donate": [w]}
f = graphc.function([x, w], w * gt.sum(x), **options)
weights = jax.device_put(np.ones(3, "float32"), jax.NamedSharding(mesh, jax.P()))
f(np.ones((5, 3), "float32"), weights)
try:
    f(np.ones((5, 3), "float32"), weights)
except graphc.CallError as error:
    assert "deleted or donated" in str(error)
else:
    raise AssertionError
"""


SAVED = """
sharded(mesh=graphc.mesh(data=4)).save(path)
"""
ALONE = """
import runpy, sys, numpy as np
x, w, y = np.load(values).values()
ours, total = runpy.run_path(path)["program"](x, w)
np.testing.assert_allclose(ours, y, rtol=1e-5)
assert len(ours.sharding.device_set) == 4 and "graphc" not in sys.modules
"""


def test_collectives_meshes_given_arrays_and_a_saved_text_that_runs_alone(tmp_path):
    """All but the saved text run in one start, which takes as long as each of them.

    JAX ends the process if a function takes an array that is gone from one of several
    devices.
    """
    values = tmp_path / "values.npz"
    paths = f"path, values = {str(tmp_path / 'model.py')!r}, {str(values)!r}\n"
    on_devices(4, "-c", paths + COLLECTIVES + SPECTRA + MESHES + SAVED + GIVEN_AWAY)
    x, w = arrays(5)
    np.savez(values, x=x, w=w, y=np.tanh(x @ w))
    on_devices(4, "-c", paths + ALONE)


def test_a_mesh_for_nothing():
    lines = refusal(lambda: sharded(dims="pad"))
    assert lines[0] == "function: a mesh is for sizes that are sharded, and none is"


@pytest.mark.parametrize("axis", [3, None, "", ("data", "model")])
def test_a_shard_that_names_no_axis(axis):
    lines = refusal(lambda: graphc.Shard(axis))
    assert lines[0] == "Shard: a shard is along one axis of a mesh, given by name"


def test_a_shard_of_something_else():
    lines = refusal(lambda: graphc.Shard("data", graphc.Shard("model")))
    assert lines[0] == "Shard: a shard is along one axis of a mesh, not two"
    lines = refusal(lambda: graphc.Shard("data", "pad"))
    assert lines[0] == "Shard: the capacities of a shard are given by a Pad"


@pytest.mark.parametrize("axes", [{}, {"data": 0}, {"data": True}, {"data": "4"}])
def test_a_mesh_of_no_devices(axes):
    lines = refusal(lambda: graphc.mesh(**axes))
    assert lines[0] == "mesh: a mesh needs axes, each with a number of devices"


def test_no_file_of_a_model(tmp_path):
    lines = refusal(lambda: sharded().export(tmp_path / "model", {"batch": 4}))
    assert lines[0] == (
        "export: a program whose sizes are sharded cannot be exported yet"
    )
