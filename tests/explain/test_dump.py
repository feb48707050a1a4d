"""`graphc.dump`: the text of values, graphs, plans and functions."""

import re

import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.ir.text.printer import to_text
from graphc.ir.text.reader import parse_graph


def model():
    x = gt.tensor("x", "float32", ("n", 3))
    hidden = gt.tanh(x)
    kept = hidden[x[:, 0] > 0]
    return x, gt.sum(kept, axis=0)


def uncommented(text):
    return [line.split("  # ")[0] for line in text.splitlines()]


def test_a_value_with_the_names_of_the_program():
    x = gt.tensor("x", "float32", ("n", 3))
    total = gt.sum(gt.tanh(x), axis=1)
    text = graphc.dump(total)
    assert uncommented(text) == [
        "graph(x: float32[n, 3]) {",
        "  tanh: float32[n, 3] = tanh(x)",
        "  total: float32[n] = sum(tanh; axes=(1,), keepdims=False)",
        "  return total",
        "}",
    ]
    assert "# test_dump.py:" in text


def test_a_graph_is_read_back():
    x, y = model()
    graph = Graph((x,), (y,), ("x",), ("result",))
    text = graphc.dump(graph)
    assert "  return result=result" in text
    assert to_text(parse_graph(text)) == to_text(graph)


def test_a_plan():
    x, y = model()
    f = graphc.function([x], y, rewrites=graphc.rewrites.none)
    lines = uncommented(graphc.dump(f.plan))
    steps = [re.split("[(:]", line)[0] for line in lines if not line.startswith("    ")]
    assert steps == [
        "plan",
        "  segment 0",
        "  }",
        "  read count_nonzero",
        "  segment 1",
        "  }",
        "  return sum",
        "}",
    ]
    later = lines[lines.index("  read count_nonzero") + 1 :]
    assert later[0].endswith("; count_nonzero) {")
    assert "nonzero: int64[count_nonzero] = nonzero(greater;" in "\n".join(later)


def test_a_plan_with_host_steps_and_checks():
    x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    rows = gt.reshape(x, (gt.maximum(k, 2), -1))
    y = gt.assert_(k > 0, "k is\npositive", rows)
    text = graphc.dump(graphc.function([x, k], y).plan)
    assert '  check greater, "k is\\npositive"\n' in text
    assert "  host greater: bool[] = greater(k, constant)  # test_dump.py:" in text


def test_a_plan_with_capacities():
    """The params that say which capacities there are can be read back."""
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sort(x[x > 0]), dims={"count": "pad"})
    bucket = "bucket(count_nonzero; capacities=(2.0, 16, (), 0, False, 1))"
    assert f"host bucket: int64[] = {bucket}" in graphc.dump(f.plan)
    text = to_text(f.plan.graph)
    assert "bucket(" in text and to_text(parse_graph(text)) == text


def test_a_plan_with_guessed_rows():
    """Its steps compute other values than the loop of the graph, and need them."""
    k, start = gt.tensor("k", "int64", ()), gt.zeros((), "int64")
    step = lambda c: (c + 1, c * 2)
    _, rows = gt.while_loop(lambda c: c < k, step, start, collect=True)
    text = graphc.dump(graphc.function([k], rows, dims="pad").plan)
    assert "growing" not in text
    steps = re.search(r"= bucket\((\w+);", text)[1]
    assert f" {steps}," in text.split("= scan(")[0]


@pytest.mark.parametrize("dims", ["specialize", "pad"])
def test_a_plan_with_a_loop_that_python_runs(dims):
    x = gt.tensor("x", "float32", ("n",))
    few = lambda v: gt.sum(gt.sort(x)[gt.arange(gt.sum(v >= x))])
    _, sums = gt.scan(lambda c, v: (c, few(v)), gt.zeros(()), x)
    f = graphc.function([x], sums, dims=dims)
    (loop,) = f.plan.loops
    lines = uncommented(graphc.dump(f.plan))
    at = [line.startswith("  loop scan, scan_1: ") for line in lines].index(True)
    assert lines[at + 1].startswith("  plan(")
    segments = [line for line in lines[at:] if line.startswith("    segment ")]
    assert len(segments) == len(loop.body.segments) == 2


def test_a_function_is_its_source():
    x, y = model()
    for backend in ("jax", "numpy"):
        f = graphc.function([x], y, backend=backend)
        assert graphc.dump(f) == f.source


def test_anything_else():
    with pytest.raises(graphc.GraphError) as info:
        graphc.dump(3)
    message = str(info.value)
    assert message.startswith("dump: needs a value, a graph, a plan or a function")
    assert "got: builtins.int" in message and "test_dump.py:" in message
