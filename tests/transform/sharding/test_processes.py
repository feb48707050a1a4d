"""Several processes that share a mesh: one's results, and errors in bounded time."""

import os
import re
import time

import numpy as np

from tests.on_processes import on_processes, processes_ended
from tests.transform.sharding import lines_on_processes

AT_LENGTH = "GRAPHC_EXAMPLES" in os.environ

STEP = """
import os, sys
import numpy as np
import graphc, graphc.tensor as gt

graphc.config.process_wait = 10 if len(sys.argv) > 1 else 60
mesh = graphc.mesh(data=jax.device_count())
S = jax.NamedSharding(mesh, jax.P("data"))
x, t = gt.tensor("x", "float32", ("batch", 3)), gt.tensor("t", "float32", ("batch",))
w = gt.tensor("w", "float32", (3,))
symbols = x, t, w
y = gt.tanh(x @ w)
loss = gt.mean((y - t) ** 2)
dims = {"batch": graphc.Shard("data", graphc.Pad(minimum=8))}
outputs = [loss, w - 0.1 * graphc.grad(loss, w), y, x[t > 0]]
f = graphc.function([x, t, w], outputs, dims=dims, mesh=mesh)
one = graphc.function([x, t, w], outputs, dims="pad")

def arguments(batch):
    rng = np.random.default_rng(batch)
    return [rng.normal(size=s).astype("float32") for s in ((batch, 3), (batch,), (3,))]

def told(call):
    try:
        call()
    except graphc.CallError as error:
        assert error.kind == "process"
        print(str(error).splitlines()[0])
"""

EQUAL = """
def compare(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5, atol=1e-6)

def whole(a):
    return jax.device_put(a, jax.NamedSharding(mesh, jax.P()))

for batch in (5, 8, 13, 0, 1, 16):
    args = arguments(batch)
    ours = f(*args)
    compare([ours[0], ours[1], whole(ours[2]), ours[3]], one(*args))
    assert ours[2].sharding.spec == (jax.P("data") if batch % 4 == 0 else jax.P())
print(len(f.stats().compilations), "compilations")
for batch in (0, 4, 8, 12):  # rows of each process, fewer than a capacity, too
    x, t, w = arguments(batch)
    here = slice(RANK * batch // 2, (RANK + 1) * batch // 2)
    rows, ts = (jax.make_array_from_process_local_data(S, a[here]) for a in (x, t))
    assert rows.shape == (batch, 3)
    value, after, _, _ = f(rows, ts, w)
    compare([value, after], one(x, t, w)[:2])
    value, again, _, _ = f(rows, t, after)  # parameters on the mesh stay there
    assert again.sharding.device_set == set(jax.devices())
(reduced,) = [c for c in f.collectives({"batch": 13}) if c.segment == 0]
assert (reduced.kind, reduced.bytes) == ("all-reduce", 24), reduced
"""


JIT = """
import jax.numpy as jnp
shards = {"batch": graphc.Shard("data")}

@graphc.jit(shapes="batch d, d", dims=shards, mesh=mesh)
def step(x, w):
    loss = lambda w: jnp.mean(jnp.tanh(x @ w) ** 2)
    value, slope = jax.value_and_grad(loss)(w)
    return {"loss": value, "w": w - 0.1 * slope}

try:
    with graphc.stance("no_compile" if RANK else "default"):
        step(*arguments(5)[::2])
except graphc.GraphError as error:
    print("jit:", str(error).splitlines()[0])
for batch in (5, 8):
    x, _, w = arguments(batch)
    found = step(x, w)
    np.testing.assert_allclose(found["loss"], np.mean(np.tanh(x @ w) ** 2), rtol=1e-5)
told(lambda: step(arguments(5 + RANK)[0], arguments(5)[2]))
again = step(*arguments(6)[::2])
path = f"{FOLDER}/saved_{RANK}.py"
f.save(path)
import runpy
program = runpy.run_path(path)
values = program["program"](*arguments(5))
np.testing.assert_allclose(np.asarray(values[0]), one(*arguments(5))[0], rtol=1e-5)
try:
    program["program"](*arguments(5 + RANK))
except program["ProgramError"] as error:
    print(error)
"""


DIFFERENT = """
x, t, w = symbols
told(lambda: f(*arguments(5 + RANK)))
v = gt.tensor("v", "float32", ("m",))
g = graphc.function([x, v], gt.sum(x) * gt.sum(v), dims=dims, mesh=mesh)
told(lambda: g(arguments(5)[0], np.zeros(3 + RANK, "float32")))
k = gt.tensor("k", "int32", ())
first = graphc.function([x, k], gt.sum(x[:k]), dims=dims, mesh=mesh)
told(lambda: first(arguments(5)[0], np.int32(2 + RANK)))
with graphc.stance("no_compile" if RANK else "default"):
    told(lambda: f(*arguments(40)))
if RANK:
    g.compile({"batch": 5, "m": 3})
with graphc.stance("no_compile"):
    told(lambda: g(arguments(5)[0], np.zeros(3, "float32")))
other = graphc.function([x, t, w], outputs[::2], dims=dims, mesh=mesh)
told(lambda: (other if RANK else f)(*arguments(5)))
for refusing in (0, 1):
    rows, *others = arguments(5)
    try:
        f(rows.astype("float64") if RANK == refusing else rows, *others)
    except graphc.CallError as error:
        print(error.kind, "of process", RANK, str(error).splitlines()[0])
assert f(*arguments(8))[2].shape == (8,)  # and all go on
if RANK == 0:
    graphc.config.process_wait = 1
    late = graphc.function([x, t, w], loss, dims=dims, mesh=mesh)
    told(lambda: late(*arguments(5)))
"""


def test_two_processes_compute_what_one_does_and_are_told_where_they_differ(tmp_path):
    """They run JAX functions and saved texts too, and differ in many ways.

    These are sizes, replicated arguments, programs, and a call that one process makes
    alone. The processes start only once for all of this.
    """
    sizes = "process 0 has x: float32[5, 3], and process 1 has x: float32[6, 3]"
    whole = "process 0 has v: float32[3], and process 1 has v: float32[4]"
    number = "process 0 has k: int32[] of 2, and process 1 has k: int32[] of 3"
    stances = [f"{i} has permission to compile: {not i}" for i in (0, 1)]
    stance = f"process {stances[0]}, and process {stances[1]}"
    ahead = "['segment 0 for batch_capacity = 8, m = 3']"
    ahead = f"process 0 has compiled: [], and process 1 has compiled: {ahead}"
    programs = "processes 0 and 1 call different programs"
    code = f"FOLDER = {str(tmp_path)!r}\n{STEP}{EQUAL}{JIT}{DIFFERENT}"
    outs = on_processes(2, code, devices=2)
    assert all(re.search(r"^\d+ compilations$", out, re.M) for out in outs)
    first, second = [
        [line for line in out.splitlines() if "process" in line] for out in outs
    ]
    needs = "nothing may be compiled here, but this call needs a compilation"
    assert f"jit: process 1 has refused its call: {needs}" == first.pop(0)
    assert f"jit: {needs}" in outs[1].splitlines()
    assert first[0].endswith("and process 1 has x: float32[6, 3]")
    assert first[1:8] == [sizes, sizes, whole, number, stance, ahead, programs]
    dtype = "input x has another dtype"
    refused = "process of process {} process {} has refused its call: " + dtype
    assert first[8:10] == [f"dtype of process 0 {dtype}", refused.format(0, 1)]
    assert re.fullmatch(r"process 1 has not come to call \d+ within 1 s", first[10])
    assert second[:8] == first[:8]
    assert second[8:] == [refused.format(1, 0), f"dtype of process 1 {dtype}"]


SHORT = "import sys; sys.argv.append('waits little')\n"
KILLED = """
f(*arguments(8))
if RANK == 2:
    os._exit(9)
print("go on")
while True:
    f(*arguments(8))[1].block_until_ready()
"""


def test_one_killed_process_ends_the_others():
    """They end within `process_wait` plus JAX's own wait for processes that left."""
    start = time.monotonic()
    ended = processes_ended([SHORT + STEP + KILLED] * 3, patience=5)
    assert time.monotonic() - start < 60
    assert ended[2].code == 9
    for one in ended[:2]:
        assert one.code not in (0, 9) and "go on" in one.out
        known = (
            "CallError: process 2 has not come to call 2 within 10 s",
            "The following tasks are unhealthy",
            "Connection closed by peer",
        )
        assert any(text in one.error for text in known), one.error


def epoch(folder, first, last):
    call = f"main({str(folder)!r}, {first}, {last})"
    return f"from tests.transform.sharding.lines_on_processes import main\n{call}"


def test_an_epoch_of_ragged_lines_and_a_restart_on_fewer_processes(tmp_path):
    """Some processes train and write; fewer go on; one alone has the same losses."""
    many, few = (4, 2) if AT_LENGTH else (2, 1)  # many share 21 lines unevenly
    half = lines_on_processes.STEPS // 2 if not AT_LENGTH else 12
    whole = lines_on_processes.STEPS if not AT_LENGTH else 0
    outs = on_processes(many, epoch(tmp_path, 0, half))
    assert all(f"{half} steps 1 compilations" in out for out in outs)
    on_processes(few, epoch(tmp_path, half, whole))
    example, batch, parts = lines_on_processes.training(1)
    p = lines_on_processes.start(example)
    count = whole or len(parts)
    _, losses = lines_on_processes.trained(batch, parts, p, 0, count)
    phases = (many, half, losses[:half]), (few, count, losses[half:])
    for ranks, last, there in phases:
        for rank in range(ranks):
            ours = np.load(tmp_path / f"losses_{last}_{rank}.npy")
            np.testing.assert_allclose(ours, there, rtol=1e-4)
