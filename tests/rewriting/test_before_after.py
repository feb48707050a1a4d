"""Every rule, before and after, as the files before_after/*.txt show it.

`GRAPHC_WRITE=1 pytest tests/rewriting/test_before_after.py` rewrites these files.
"""

import importlib
import os
import pathlib

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.analysis.cost import GPU
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.walk import ancestors
from graphc.rewrites import Rules, everything, rewritten
from graphc.rewriting.rules.accelerators import ACCELERATORS
from graphc.rewriting.rules.cleanup import CLEANUP
from graphc.rewriting.rules.contraction import CONTRACTION
from graphc.rewriting.rules.selection import SELECTION
from tests.rewriting.ordered import ordered
from tests.rewriting.written import FAMILIES, VARIABLES

FOLDER = pathlib.Path(__file__).with_name("before_after")
WRITE = "GRAPHC_WRITE" in os.environ
ADD = "run: GRAPHC_WRITE=1 pytest tests/rewriting/test_before_after.py"
SIMPLER = CLEANUP + SELECTION
INPUTS = {name: gt.tensor(name, *given) for name, given in VARIABLES.items()}


def family(name):
    folders = {"hoisting": "loops.fuse_consumers", "rolling": "loops.roll.chains"}
    folders["sharing"] = "sharing.share"
    module = folders.get(name, f"rules.{name}")
    module = importlib.import_module(f"graphc.rewriting.{module}")
    return getattr(module, name.upper())


def graph_of(code, first):
    """The graph of some code, simplified by the rules that run first."""
    value = eval(code, {"graphc": graphc, "gt": gt, "np": np} | INPUTS)
    nodes = set(ancestors([value]))
    inputs = {name: x for name, x in INPUTS.items() if x.node in nodes}
    graph = Graph(tuple(inputs.values()), (value,), tuple(inputs), ("",))
    return rewritten(graph, first).graph


def block(rule, code):
    """The example of a rule as text: its code, its graph, and what is left of it."""
    before = graph_of(code, SIMPLER if rule in CONTRACTION else Rules())
    fires = Rules((rule,)).on(GPU) if rule in ACCELERATORS else Rules((rule,))
    result = rewritten(before, fires)
    shown = "\n".join(ordered(before))
    assert result.log, f"{rule.name} does not apply in {code}, which is\n{shown}"
    marks = ["exact" if rule.exact else "rounds"] + ["finite"] * rule.finite
    head = f"{rule.name} ({', '.join(marks)}): {code}"
    body = [*ordered(before), "->", *ordered(result.graph)[1:]]
    return "\n".join([head, *(f"    {line}" for line in body)])


def text_of(name):
    """The text of a family's file."""
    rules, codes = family(name), FAMILIES[name]
    missing = [rule.name for rule in rules if rule.name not in codes]
    assert not missing, f"tests/rewriting/written.py needs code for {missing}"
    made = [block(rule, codes[rule.name]) for rule in rules]
    return "\n\n".join([f"The rules of {name}: code, its graph, what is left.", *made])


@pytest.mark.parametrize("name", FAMILIES)
def test_before_and_after(name):
    path, text = FOLDER / f"{name}.txt", text_of(name) + "\n"
    if WRITE:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, ADD


def test_every_rule_has_its_example():
    shown = [name for examples in FAMILIES.values() for name in examples]
    names = {rule.name for rule in everything}
    assert sorted(shown) == sorted(names), f"see written.py: {names ^ {*shown}}"
    assert sorted(p.stem for p in FOLDER.iterdir()) == sorted(FAMILIES)
