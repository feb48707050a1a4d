"""The data of a picture are complete and in range, with the sizes of the graph."""

import dataclasses
import json
import math

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.show import records
from tests.show.programs import KINDS, driven, looped, masked, of_jax, padded


def programs_of(shown):
    """The programs of a picture as read back from JSON."""
    data = json.loads(shown._picture().to_json())
    assert data["schema"] == "graphc.plan" and data["version"] == 1
    assert data["graphc"] == graphc.__version__
    assert data.keys() == fields(records.PictureRecord)
    return data["programs"]


def fields(kind):
    return {field.name for field in dataclasses.fields(kind)}


def steps_within(steps):
    for step in steps:
        yield step
        yield from steps_within(step["steps"])


LISTS = {
    "symbols": records.SymbolRecord,
    "lines": records.LineRecord,
    "types": records.TypeRecord,
    "values": records.ValueRecord,
    "nodes": records.NodeRecord,
    "size_checks": records.SizeCheckRecord,
    "compilations": records.CompilationRecord,
    "rewrites": records.RewriteRecord,
    "predicates": records.PredicateRecord,
}
STEPS = {"segment", "read", "host", "check", "join", "loop", "program"}


def check(program):
    """Check that all fields are there, and that whatever a position names exists."""
    assert program.keys() == fields(records.ProgramRecord)
    for name, kind in LISTS.items():
        for one in program[name]:
            assert one.keys() == fields(kind), name
    steps = list(steps_within(program["steps"]))
    assert steps and all(s.keys() == fields(records.StepRecord) for s in steps)
    assert {s["kind"] for s in steps} <= STEPS
    nodes, values = program["nodes"], program["values"]
    inside = [n for node in nodes for body in node["bodies"] for n in body]
    used = [n for s in steps for n in s["nodes"]]
    assert sorted({*inside, *used}) == list(range(len(nodes)))
    for value in values:
        assert value["type"] < len(program["types"])
        assert value["node"] is None or value["node"] < len(nodes)
    for i, node in enumerate(nodes):
        assert node["line"] < len(program["lines"]) and node["outputs"]
        assert all(values[v]["node"] == i for v in node["outputs"])
        assert max([*node["inputs"], *node["outputs"]]) < len(values)
    for step in steps:
        own = [*step["keys"], *step["statics"]]
        assert all(s < len(program["symbols"]) for s in own)
        assert step["line"] is None or step["line"] < len(program["lines"])
        assert all(v < len(values) for v in (*step["inputs"], *step["outputs"]))
        assert (step["segment"] is not None) == (step["kind"] == "segment")
    for ref in refs(program):
        assert isinstance(ref, int) or ref in program["sizes"]


def refs(program):
    for one in program["types"]:
        yield from one["shape"]
    for one in (*program["size_checks"], *program["predicates"]):
        yield from (one["left"], one["right"])
    for size in program["sizes"].values():
        for _, factors in size["terms"] or ():
            yield from (r for f in factors if isinstance(f, list) for r in f[1])


@pytest.mark.parametrize("kind", KINDS)
def test_data_of_all_kinds_of_functions_keep_to_the_schema(kind):
    for program in programs_of(KINDS[kind]()):
        check(program)
        assert "class ProgramError" not in program["source"]


def test_the_plan_of_a_function_has_its_data():
    f = masked(dims="specialize")
    f(np.eye(4, 3, dtype="float32") * 2, 2)
    f(np.eye(5, 3, dtype="float32") * 2, 2)
    [program] = json.loads(f.plan.to_json())["programs"]
    assert f.plan.to_dict()["programs"][0]["source"] == program["source"]
    kinds = [s["kind"] for s in program["steps"]]
    assert kinds.count("read") == 1 and kinds.count("segment") == len(f.plan.segments)
    symbols = [s["name"] for s in program["symbols"]]
    [read] = (s for s in program["steps"] if s["kind"] == "read")
    [symbol] = read["keys"]
    assert program["symbols"][symbol]["kind"] == "count"
    statics = {symbols[i] for s in program["steps"] for i in s["statics"]}
    assert statics == {symbols[symbol], "k"}
    names = [program["values"][v]["name"] for v in program["inputs"]]
    assert [names[i] for i in program["static_inputs"]] == ["k"]
    done = [(c.segment, c.sizes) for c in f.stats().compilations]
    assert [(c["segment"], c["sizes"]) for c in program["compilations"]] == done
    first = program["compilations"][0]
    assert [[symbols[s], n] for s, n in first["keys"]] == [["n", 4]]
    rules = {r["rule"]: r for r in program["rewrites"]}
    assert sum(r["count"] for r in rules.values()) == len(f.rewrites)
    assert any(r["before"].startswith("log(add(1") for r in rules.values())
    files = {line["file"] for line in program["lines"]}
    assert files == {"programs.py"}
    codes = {line["code"] for line in program["lines"]}
    assert "kept = score[score > 1]" in codes


def evaluated(program, ref, numbers):
    """The number of a size, computed as the schema says."""
    if isinstance(ref, int):
        return ref
    total = 0
    for coefficient, factors in program["sizes"][ref]["terms"]:
        total += coefficient * math.prod(
            called(program, *f, numbers) if isinstance(f, list) else numbers[f]
            for f in factors
        )
    return total


def called(program, op, args, numbers):
    values = [evaluated(program, a, numbers) for a in args]
    return {
        "//": lambda a, b: a // b,
        "*": lambda *all: math.prod(all),
        "min": min,
        "max": max,
        "clip": lambda index, size: slice(index).indices(size)[1],
        "stretch": lambda *all: next((n for n in all if n != 1), 1),
    }[op](*values)


def test_sizes_are_those_of_the_graph():
    """Every op of sizes is tried, at numbers for which they differ."""
    x = gt.tensor("x", "float32", ("n", "m"))
    k = gt.iscalar("k")
    flat = gt.reshape(x, (-1,))
    rows = [flat[::3], flat[:k], gt.concatenate([flat, flat[1:]]), x[: x.shape[1]]]
    longer = gt.arange(gt.maximum(x.shape[0] + k, 3))
    f = graphc.function([x, k], [*rows, longer], jit=False, backend="numpy")
    [program] = programs_of(f)
    place = {s["name"]: i for i, s in enumerate(program["symbols"])}
    ops = {
        factor[0]
        for size in program["sizes"].values()
        for _, factors in size["terms"]
        for factor in factors
        if isinstance(factor, list)
    }
    assert {"//", "clip", "min", "max"} <= ops
    for n, m, number in ((4, 5, 3), (1, 0, -2), (7, 2, 100), (5, 3, -4)):
        numbers = {place["n"]: n, place["m"]: m, place["k"]: number}
        results = f(np.zeros((n, m), "float32"), number)
        for value, result in zip(program["outputs"], results, strict=True):
            shape = program["types"][program["values"][value]["type"]]["shape"]
            own = [evaluated(program, ref, numbers) for ref in shape]
            assert own == list(np.shape(result))


def test_capacities_say_how_they_are_chosen():
    [program] = programs_of(padded())
    capacities = {
        s["name"]: (program["symbols"][s["of"]]["name"], s["capacity"])
        for s in program["symbols"]
        if s["kind"] == "capacity"
    }
    assert capacities["n_capacity"][0] == "n"
    assert capacities["n_capacity"][1]["growth"] == 1.5
    assert capacities["m_capacity"][1]["buckets"] == [4, 32]
    policies = {s["name"]: s["policy"] for s in program["symbols"]}
    assert policies["m"] == "padded to one of 4, 32"


def test_graphs_inside_of_nodes_are_there():
    [program] = programs_of(looped())
    nodes = program["nodes"]
    [[body], *_] = (n["bodies"] for n in nodes if n["op"] == "scan")
    assert "tanh" in [nodes[i]["op"] for i in body]
    [driver] = programs_of(driven())
    [loop] = (s for s in driver["steps"] if s["kind"] == "loop")
    assert "read" in [s["kind"] for s in loop["steps"]] and loop["reason"]


def test_facts_choose_the_programs_of_a_jax_function():
    spread = of_jax()
    *alone, one, other = programs_of(spread)
    assert [p["name"] for p in alone][0] == "exactly x (3,)"
    assert len(spread.plans) == 2
    for program in (one, other):
        [fact] = program["predicates"]
        names = {i: s["name"] for i, s in enumerate(program["symbols"])}
        [n] = (i for i, name in names.items() if name == "n")
        small, large = (
            evaluated(program, fact["left"], {n: size})
            >= evaluated(program, fact["right"], {n: size})
            for size in (5, 12)
        )
        assert small != large and "programs.py" in fact["text"]


def test_a_plan_of_no_function_says_so():
    from graphc.transform.planning.partition import partition

    f = masked()
    bare = partition(f.plan.graph)
    with pytest.raises(graphc.GraphError, match=r"use the plan of a compiled function"):
        bare.to_json()


def test_what_a_person_meets_first_is_short():
    f = padded()
    for n in range(2, 12):
        f(np.ones((n, 3), "float32"), np.ones((n, 3), "float32"))
    arguments = "x: float32[n, 3], y: float32[m, 3]"
    assert repr(f.plan) == f"<graphc.Plan of ({arguments}): 1 segment, 0 glue>"
    stats = f.stats()
    counts = f"{stats.calls} calls, {len(stats.compilations)} compilations"
    assert repr(stats).startswith(f"<graphc.Stats: {counts} in ")
    assert len(repr(stats)) < 80 and stats._repr_html_().startswith(f"<pre>{counts}")
    spread = of_jax().stats()
    assert repr(spread).startswith("<graphc.JitStats: 6 calls, ")
    assert len(repr(spread)) < 80 and "where " in str(spread)
    x = gt.tensor("x\n<b>", "float32", ("n", 3))
    y = gt.tanh(x)
    assert repr(x) == "<x?<b>: float32[n, 3]>"
    assert repr(y) == "<y = tanh: float32[n, 3]>"
    assert repr(y + 1) == "<add: float32[n, 3]>"
    assert "<b>" not in x._repr_html_()


def test_what_a_notebook_shows_is_short():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sum(x))
    f(np.ones(3, "float32"))
    assert repr(f.stats()).startswith("<graphc.Stats: 1 call, 1 compilation in ")
    assert str(f.stats()).startswith("1 call, 1 compilation\n")
    assert repr(f.decisions) == "<graphc.SavedDecisions of 1 program>"
    assert f.source._repr_html_().startswith("<pre>&quot;&quot;&quot;A JAX program: ")
    many = graphc.ragged([x], gt.sum(x))
    assert repr(many) == "<graphc.ragged (float32[n]) -> (float32[]) on jax>"
