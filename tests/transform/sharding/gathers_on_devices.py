"""Ops that need all of a sharded size, and messages foreseen: run on eight devices."""

import pytest

import graphc
import graphc.tensor as gt
from graphc.transform.sharding.meshes import DeviceMesh
from tests.transform.sharding import foreseen_programs

FOUR = DeviceMesh(("data",), (4,), (0, 1, 2, 3))
REFUSING = {"batch": graphc.Shard("data", gather="refuse")}


def test_bytes_are_those_that_xla_sends():
    foreseen_programs.compare_all()


def planned(inputs, outputs, dims=REFUSING):
    return graphc.function(inputs, outputs, dims=dims, mesh=FOUR)


def rows():
    return gt.tensor("x", "float32", ("batch", 3))


def test_an_op_that_gathers_is_told_with_its_bytes():
    x = rows()
    f = planned([x], x[::-1], {"batch": graphc.Shard("data")})
    (line,) = [line for line in f.explain().splitlines() if "axes whole" in line]
    assert line.startswith("    gather at gathers_on_devices.py:")
    assert line.endswith(" needs axes whole: 12*batch_capacity bytes to each device")
    assert "    sends, by rule: all-gather, 12*batch_capacity bytes" in f.explain()


def test_an_op_that_gathers_is_refused():
    x = rows()
    y = gt.roll(x, 1, axis=0)
    with pytest.raises(graphc.GraphError) as caught:
        planned([x], y).plan  # noqa: B018
    lines = str(caught.value).splitlines()
    assert lines[:4] == [
        "roll: needs all elements along 'data' on each device: this gathers "
        "12*batch_capacity bytes",
        "  got: float32[batch_capacity, 3], int64[batch_capacity]",
        "  expected: nothing to be gathered, because of Shard('data', gather='refuse')",
        "  hint: work along another axis, or leave gather='refuse' out",
    ]
    assert "y = gt.roll(x, 1, axis=0)" in lines[-2]


def test_all_that_an_op_gathers_is_told():
    x = rows()
    with pytest.raises(graphc.GraphError) as caught:
        planned([x], gt.lexsort([x[:, 0], x[:, 1]])).plan  # noqa: B018
    assert str(caught.value).splitlines()[0] == (
        "lexsort: needs all elements along 'data' on each device: this gathers "
        "8*batch_capacity bytes"
    )


def test_what_is_cut_of_a_whole_array_may_be_gathered():
    """XLA may shard sums that all devices hold; this is reported, not refused."""
    x = gt.tensor("x", "float32", ("batch", "batch"))
    lines = planned([x], gt.sum(x, axis=0)[1:]).explain().splitlines()
    (line,) = [line for line in lines if "no rule for" in line]
    assert line.endswith(": 4*batch_capacity bytes, if XLA gathers them")


def test_rows_of_neighbours_are_no_gather():
    x = rows()
    before = gt.concatenate([gt.zeros((2, 3), "float32"), x])
    y = gt.sum(gt.diff(x, axis=0) ** 2) + gt.sum(gt.pad(before, ((1, 0), (0, 0)))[:-2])
    f = planned([x], [y, graphc.grad(y, x)])
    (line,) = [x for x in f.explain().splitlines() if "sends, by rule" in x]
    assert "collective-permute" in line and "all-gather" not in line


def test_a_loop_over_rows_is_refused_and_one_over_columns_is_not():
    x = rows()
    over = lambda rows, n: gt.scan(lambda c, row: (c + row, c), gt.zeros(n), rows)[0]
    with pytest.raises(graphc.GraphError, match="scan: needs all elements along"):
        planned([x], over(x, (3,))).plan  # noqa: B018
    assert planned([x], over(x.T, (x.shape[0],))).plan


def test_a_step_that_sorts_its_carry_is_refused():
    x = gt.tensor("x", "float32", ("batch",))
    y, _ = gt.scan(lambda c, _: (gt.sort(c * x), None), x, None, length=3)
    with pytest.raises(graphc.GraphError, match="sort: needs all elements along"):
        planned([x], y).plan  # noqa: B018


@pytest.mark.parametrize("program", foreseen_programs.PROGRAMS)
def test_data_parallel_programs_gather_nothing(program):
    assert planned(*program()).plan


def test_one_axis_of_two():
    x = gt.tensor("x", "float32", ("batch", "width"))
    mesh = DeviceMesh(("data", "model"), (2, 2), (0, 1, 2, 3))
    dims = REFUSING | {"width": graphc.Shard("model")}
    f = lambda y: graphc.function([x], y, dims=dims, mesh=mesh)
    assert f(gt.flip(x, 1)).plan
    with pytest.raises(graphc.GraphError, match="along 'data'"):
        f(gt.flip(x, 0)).plan  # noqa: B018


def test_one_device_gathers_nothing():
    mesh = DeviceMesh(("data",), (1,), (0,))
    x = rows()
    assert graphc.function([x], x[::-1], dims=REFUSING, mesh=mesh).plan


def test_no_such_word():
    with pytest.raises(graphc.GraphError) as caught:
        graphc.Shard("data", gather="never")
    assert str(caught.value).splitlines()[:3] == [
        "Shard: `gather` says whether ops may gather all the elements along an axis",
        "  got: gather='never'",
        "  expected: 'allow' or 'refuse'",
    ]
