"""The example of a user's rule: the rule is short and right, and changes the plan."""

from pathlib import Path

import numpy as np
import pytest

import graphc

EXAMPLE = Path(__file__).parents[2] / "examples" / "penguins_rule.py"


@pytest.fixture(scope="module")
def both(example):
    inputs, score = example.model()
    rules = graphc.rewrites.default + example.median_of_selected
    before = graphc.function(inputs, score)
    return before, graphc.function(inputs, score, rewrites=rules)


def test_the_rule_is_short():
    text = EXAMPLE.read_text()
    start = text.index("@graphc.rewrite(")
    assert len(text[start : text.index("\n\n\n", start)].splitlines()) < 15


def test_it_changes_the_plan(both):
    before, after = both
    assert len(before.plan.segments) > 1 and len(before.plan.glue) == 1
    assert len(after.plan.segments) == 1 and not after.plan.glue
    assert [a.rule.name for a in after.rewrites] == ["median_of_selected"] * 2


def test_the_scores_are_those_of_plain_numpy(example, both):
    columns = example.load()
    mass, flipper = columns["body_mass_g"], columns["flipper_length_mm"]
    assert len(mass) == 344 and np.isnan(mass).sum() == 2
    kept = [columns["species"] == name for name in np.unique(columns["species"])]
    for keep in (*kept, np.ones(344, bool), np.arange(344) < 2):
        wanted = example.plain_numpy(mass, flipper, keep)
        for f in both:
            np.testing.assert_allclose(f(mass, flipper, keep), wanted, rtol=1e-9)
    assert len(both[1].stats().compilations) == 1


def test_it_tells_its_story(example, capsys):
    assert example.main() == 0
    out = capsys.readouterr().out
    assert "median_of_selected: fired in " in out
    assert "Gentoo: line 167 of the file, +3.5" in out
    assert "compilations with the rule: 1\n" in out
    assert out.endswith("--- Both agree with plain NumPy ---\n")
