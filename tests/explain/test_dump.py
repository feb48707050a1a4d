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
