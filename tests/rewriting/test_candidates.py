"""The choice of rules to try at a node leaves out none that would apply."""

from collections import Counter

import pytest

import graphc.tensor as gt
from graphc.ir.graph.walk import ancestors, operands
from graphc.rewrites import Rules
from graphc.rewriting.default import ALL
from tests.rewriting.test_before_after import SIMPLER, graph_of
from tests.rewriting.written import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_rules_that_are_not_tried_do_not_apply(name):
    for code in FAMILIES[name].values():
        for first in (Rules(), SIMPLER):
            nodes = ancestors(graph_of(code, first).outputs)
            uses = Counter(x for node in nodes for x in operands(node))
            for node in nodes:
                for rule in set(ALL) - set(ALL.candidates(node)):
                    for value in node.outputs:
                        made = rule.apply(value, uses.__getitem__)
                        assert rule.whole or made is None, (rule.name, code)


def test_few_rules_are_tried():
    x, y = gt.vector("x"), gt.vector("y")
    found = {rule.name for rule in ALL.candidates(gt.exp(x + y).node)}
    assert found < {rule.name for rule in ALL if "exp" in rule.ops}
    assert not ALL.candidates(x.node)


def test_subsets_of_rules_are_made_once():
    assert ALL.early is ALL.early and ALL.early.early is ALL.early
    stages = [*ALL.early, *ALL.late, *ALL.last]
    assert stages == sorted(ALL, key=lambda rule: (rule.last, rule.late))
