"""The graph network: its graphs, and the compilations for them."""

import ast
import re
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "source_graphs.py"


def test_a_graph_is_that_of_its_function(example):
    tree = ast.parse("def f(self, x):\n    return x + 1")
    graph = example.graph_of(tree.body[0])
    assert len(graph.kinds) == len(list(ast.walk(tree.body[0])))
    assert graph.is_method == 1 and len(set(graph.receivers)) == len(graph.kinds) - 1
    assert len(graph.senders) > len(graph.kinds) - 1


def test_it_tells_its_story(example, capsys, tmp_path):
    assert example.main(6, 2, tmp_path) == 0
    out = capsys.readouterr().out
    assert re.search(r"graphc.jit, 6 steps: [2-5] compilations", out)
    assert "jax.jit, 2 steps: 2 compilations" in out
    assert "n took 2 sizes" in out and out.endswith("everything agrees\n")
    assert (tmp_path / "source_graphs.png").stat().st_size > 10_000


def test_a_wrong_answer_is_reported(example, capsys, monkeypatch, tmp_path):
    calls = iter([([0.0, 1.0], [0.1, 0.2]), ([0.0, 2.0], [0.1, 0.2])])
    scope = example.main.__globals__
    monkeypatch.setitem(scope, "trained", lambda *_: next(calls))
    monkeypatch.setitem(scope, "draw", lambda *_: None)
    assert example.main(2, 2, tmp_path) == 1
    assert capsys.readouterr().out.endswith("THEY DIFFER\n")
