"""Messages between devices, as rules foresee them, and gathers that are refused."""

import graphc
import graphc.tensor as gt
from graphc.transform.planning.foreseen_messages import foreseen_messages
from tests.on_devices import on_devices


def test_bytes_are_those_that_xla_sends_and_gathers_are_told_and_refused():
    file = "tests/transform/sharding/gathers_on_devices.py"
    on_devices(8, "-m", "pytest", "-q", "-W", "ignore", file)


def test_one_device_sends_nothing():
    x = gt.tensor("x", "float32", ("n",))
    dims, mesh = {"n": graphc.Shard("data")}, graphc.mesh(data=1)
    f = graphc.function([x], [gt.sum(x), gt.sort(x)], dims=dims, mesh=mesh)
    assert "    sends, by rule: nothing" in f.explain().splitlines()
    assert foreseen_messages(graphc.function([x], gt.sum(x)).plan) == {}
