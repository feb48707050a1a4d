"""`device=`, which says where a program runs."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphError

ON_THE_SECOND = """
import jax, numpy as np, graphc, graphc.tensor as gt
first, second = jax.devices()
x = gt.tensor("x", "float32", ("n",))
f = graphc.function([x], [gt.exp(x), gt.cumsum(x)], device=second, dims="pad")
g = graphc.function([x], gt.exp(x))
for n in (3, 4, 9):
    a = np.ones(n, "float32")
    assert all(y.devices() == {second} for y in f(a)), f(a)
    assert f(jax.numpy.asarray(a))[0].devices() == {second}
    assert g(a).devices() == {first}
h = graphc.function([x], gt.exp(x), device=second, dims="specialize")
there = jax.device_put(np.ones(5, "float32"), second)
assert h.compiled((5,))(there).devices() == {second}
assert h(np.ones(5, "float32")).devices() == {second}

# What is computed of arguments that are committed to a device is there.
x, w = gt.tensor("x", "float32", ("n",)), gt.scalar("w")
graph = graphc.function([x, w], [gt.cumsum(x), x * w], dims="pad")
read = graphc.jit(lambda x, w: [jax.numpy.cumsum(x), x * w])
for n in (3, 4, 9):
    a, b = np.ones(n, "float32"), np.float32(2)
    there = jax.device_put(a, second), jax.device_put(b, second)
    for f in (graph, read):
        for given in [(there[0], b), (a, there[1]), there]:
            assert all(y.devices() == {second} and y.committed for y in f(*given))
        assert not any(y.committed for y in f(a, b))
    try:
        read(there[0], jax.device_put(b, first))
    except ValueError as error:
        assert "incompatible devices" in str(error)
    else:
        raise AssertionError
"""


def program(**options):
    x = gt.tensor("x", "float32", ("n",))
    return graphc.function([x], gt.exp(x), **options)


@pytest.mark.parametrize("device", [None, "cpu", jax.devices("cpu")[0]])
def test_a_platform_a_device_or_where_jax_runs(device):
    f = program(device=device)
    x = np.arange(3, dtype="float32")
    np.testing.assert_allclose(f(x), np.exp(x), rtol=1e-6)
    assert f(x).devices() == {jax.devices("cpu")[0]}
    assert program(backend="numpy", device="cpu")(x).dtype == "float32"


def test_a_program_runs_on_the_device_that_is_asked_for_or_given():
    flags = "--xla_force_host_platform_device_count=2"
    env = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", ON_THE_SECOND]
    found = subprocess.run(command, env=env, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def refusal(**options):
    with pytest.raises(GraphError) as caught:
        program(**options)
    lines = caught.value.args[0].splitlines()
    return [line for line in lines if not line.startswith("  at ")]


@pytest.mark.parametrize("name", ["abacus", ""])
def test_a_device_that_is_not_there(name):
    assert refusal(device=name) == [
        f"function: JAX has no device of the platform {name!r} here",
        "  expected: 'cpu'",
        "  hint: leave `device` out to run where JAX runs by default",
    ]


def test_something_that_is_no_device():
    lines = refusal(device=3)
    assert lines[0] == "function: `device` must say where JAX runs the program"
    assert lines[1:3] == [
        "  got: 3",
        '  expected: None, a platform as "cpu" or "gpu", or a jax.Device',
    ]


def test_numpy_runs_on_the_cpu():
    lines = refusal(backend="numpy", device="gpu")
    assert lines[0] == "function: NumPy runs on the CPU"
