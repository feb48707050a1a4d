"""The pages for users run, block by block, and print what they say."""

import pathlib

import pytest

from tests.on_devices import on_devices
from tests.test_readme import blocks, run

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (
    *("ahead", "gradients", "jax_in", "loops_and_branches", "padding", "plan"),
    *("semantics", "serving", "settings", "show", "start", "troubleshooting"),
    *("stories/growing_outputs", "stories/lengths", "stories/repeated_blocks"),
    "stories/stacked_outputs",
)


ON_DEVICES = {"sharding": 4}


@pytest.mark.parametrize("name", ON_DEVICES)
def test_a_page_prints_what_it_says_on_several_devices(name, tmp_path):
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    copy = tmp_path / "page.md"
    copy.write_text(page, encoding="utf-8")
    on_devices(ON_DEVICES[name], str(ROOT / "tests" / "test_readme.py"), str(copy))
    assert copy.read_text(encoding="utf-8") == page, "take what this process printed"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_says(name, tmp_path):
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    found, expected = run(page, tmp_path)
    assert expected
    for i, out in expected:
        assert found[i].language == "text", found[i - 1].body
        assert found[i].body == out, f"run: python tests/test_readme.py docs/{name}.md"
    for drawing in tmp_path.glob("*.svg"):
        assert drawing.read_text() == (DOCS / drawing.name).read_text()


def test_pages_that_run_are_tested():
    """Guides and pages about PyTensor or Orbax have tests of their own."""
    elsewhere = "add_an_op", "add_a_rule", "add_a_pass", "add_a_backend"
    elsewhere += "add_a_step", "add_a_jax_primitive", "add_a_policy", "loops"
    running = {
        page.relative_to(DOCS).with_suffix("").as_posix()
        for page in DOCS.rglob("*.md")
        if any(b.language == "python" for b in blocks(page.read_text(encoding="utf-8")))
    }
    pytensor = "pymc", "pytensor", "stories/selective_jit"
    tested = {*elsewhere, *pytensor, "rewriting", "checkpoints", *ON_DEVICES}
    assert running - tested <= set(PAGES)
