"""Thresholds of rules follow the costs of the device that a program is for."""

import pytest

import graphc.tensor as gt
from graphc.analysis.cost import (
    COSTS,
    CPU,
    GPU,
    TPU,
    DeviceCosts,
    costs_of,
    current_costs,
)
from graphc.ir.graph.bodies import has_bodies
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.walk import ancestors
from graphc.rewrites import blocking, default, hoisting, rolling, scan_in_chunks
from graphc.rewriting.engine.fixpoint import apply_late_rules, rewritten
from graphc.rewriting.engine.rule import Rules
from graphc.rewriting.loops.tile import strip_mine


def loops_on(costs, inputs, output, rules=default):
    """Count the loops of a program after rewriting with the costs of a device."""
    names = tuple(v.name for v in inputs), ("",)
    chosen = rules.on(costs)
    early = rewritten(Graph(tuple(inputs), (output,), *names), chosen.early).graph
    found = apply_late_rules(early, chosen).graph
    return sum(has_bodies(node) for node in ancestors(found.outputs))


def attention(keys):
    q, k, v = (gt.tensor(name, "float32", (keys, 64)) for name in "qkv")
    return [q, k, v], gt.nn.softmax(q @ k.T) @ v


@pytest.mark.parametrize("costs", [GPU, TPU])
def test_an_accelerator_makes_no_loop_for_what_fits_in_memory(costs):
    inputs, output = attention(4096)
    assert loops_on(CPU, inputs, output) > 0
    assert loops_on(costs, inputs, output) == 0


def test_what_does_not_fit_is_made_in_tiles_on_an_accelerator_too():
    (q, k, v), _ = attention(2**17)
    output = gt.exp(-gt.abs(q @ k.T)) @ v
    assert loops_on(GPU, [q, k, v], output) > 0


def test_blocks_worth_a_step_on_a_cpu_are_not_worth_one_on_an_accelerator():
    x = gt.tensor("x", "float32", (64, 64))
    ws = [gt.tensor(f"w{i}", "float32", (64, 64)) for i in range(8)]
    y = x
    for w in ws:
        y = gt.tanh(y @ w)
    rules = default - "repeated_blocks" + rolling(least_saved=8)
    for costs, loops in ((CPU, 1), (GPU, 0)):
        assert loops_on(costs, [x, *ws], y, rules) == loops


def test_thresholds_that_are_given_hold_on_every_device():
    rules = blocking(2**20) + rolling(8, 8) + scan_in_chunks(16)
    inputs, output = attention(4096)
    assert loops_on(GPU, inputs, output, rules) > 0


def test_rules_of_a_device_have_the_names_and_the_order_of_the_others():
    names = [rule.name for rule in default]
    assert [rule.name for rule in default.on(GPU)] == names
    assert default.on(GPU) is default.on(GPU)
    assert "repeated_blocks" not in (default - "repeated_blocks").on(TPU)


def test_rules_that_were_tuned_keep_their_thresholds():
    inputs, output = attention(4096)
    assert loops_on(CPU, inputs, output, default.on(GPU)) == 0


def test_platforms():
    assert costs_of("cpu") is CPU
    assert costs_of("cuda") is costs_of("rocm") is COSTS["gpu"]
    assert costs_of("tpu") is TPU
    assert DeviceCosts("own", 2**20, 1e9, 1e-6).step_work == 1000


def test_the_row_of_the_cpu_gives_the_thresholds_that_were_measured_there():
    assert (CPU.step_work, CPU.reuse, CPU.rows) == (32768, 16, 32)
    assert (CPU.padding, CPU.cheap, CPU.sparse, CPU.segment) == (5e-5, 4096, 8, 16.0)
    assert (CPU.few_chunks, CPU.lookups, CPU.looked_up) == (4, 4, 8)
    assert (CPU.turn, CPU.small_step, CPU.together) == (0, 0, 1)
    assert CPU.counted == 64 * 8 * 4
    assert not CPU.launches and GPU.launches and TPU.launches


def test_thresholds_grow_with_the_costs_that_they_follow():
    for row in (GPU, TPU):
        assert row.reuse == round(4 * row.products / row.bandwidth) > CPU.reuse
        assert (row.few_chunks, row.lookups, row.looked_up) == (16, 16, 32)
        assert (row.turn, row.together) == (2 * row.launch, 4)
        assert row.few_chunks * row.temporary // 2 <= row.residuals
        assert row.counted > CPU.counted
        assert row.sparse > 1000 and row.cheap > CPU.cheap and row.segment > 16
    nothing = DeviceCosts("own", 1, 1.0, 1.0, 1.0, 0.0, 0.0)
    assert (nothing.cheap, nothing.sparse, nothing.segment) == (1, 1, 11.0)


def test_rules_know_the_device_that_they_look_for():
    """A step of 64 rows is a large product on a CPU, and a small one on a GPU."""
    x, w = gt.tensor("x", "float32", (9, 64, 8)), gt.tensor("w", "float32", (8, 8))
    y = gt.tensor("y", "float32", (9, 64, 8))
    _, rows = gt.scan(lambda c, r: (c + r, c * r), gt.zeros((64, 8), "float32"), x)
    names = ("x", "w", "y"), ("",)
    graph = Graph((x, w, y), (gt.sum((rows @ w - y) ** 2),), *names)
    for costs, fused in ((CPU, True), (GPU, False)):
        assert current_costs() is CPU
        log = rewritten(graph, hoisting.on(costs)).log
        assert ("reduction_in_scan" in [a.rule.name for a in log]) is fused


@pytest.mark.parametrize(
    ("rows", "width", "on_cpu", "on_gpu"),
    [(16, 32, True, True), (16, 31, True, False), (15, 32, True, False)]
    + [(4, 8, True, False), (3, 8, False, False), (4, 7, False, False)],
)
def test_patterns_know_the_device_that_they_are_looked_for(rows, width, on_cpu, on_gpu):
    table = gt.tensor("t", "float32", (10_000, width))  # more than counting pays for
    i = gt.tensor("i", "int64", (10_000 * rows,))
    graph = Graph((table, i), (gt.sum(table[i], 0),), ("t", "i"), ("",))
    for costs, counts in ((CPU, on_cpu), (GPU, on_gpu)):
        log = rewritten(graph, default.on(costs)).log
        assert ("sum_of_rows" in [a.rule.name for a in log]) is counts
        assert current_costs() is CPU


def test_one_hot_products_are_looked_up_where_rows_are_long():
    ids, x = gt.tensor("i", "int64", (40,)), gt.tensor("x", "float32", (16, 3))
    hot = gt.astype(gt.equal(ids[:, None], gt.arange(16)), "float32")
    graph = Graph((ids, x), (hot @ x,), ("i", "x"), ("",))
    for costs, looks_up in ((CPU, True), (GPU, False)):
        log = rewritten(graph, default.on(costs)).log
        names = [a.rule.name for a in log]
        assert any(name.startswith("one_hot_by") for name in names) is looks_up


@pytest.mark.parametrize(("costs", "chunks"), [(CPU, 4), (GPU, 16), (TPU, 16)])
def test_chunks_of_a_scan_that_are_kept(costs, chunks, monkeypatch):
    found = []
    monkeypatch.setattr(
        strip_mine, "_run_in_chunks", lambda *args: found.append(args[-1].few)
    )
    w, x = gt.tensor("w", "float32", (8,)), gt.tensor("x", "float32", (99, 8))
    step = lambda c, r: (gt.tanh(c + r), c)  # noqa: E731
    for rule in (scan_in_chunks(), scan_in_chunks(few=3)):
        loops_on(costs, [w, x], gt.sum(gt.scan(step, w, x)[1]), Rules((rule,)))
    assert found == [chunks, 3]
