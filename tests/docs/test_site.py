"""The documentation site: its pages, their links, the index for models, the reference.

With mkdocs (`pip install -e '.[docs]'`) the site is built too; warnings are errors.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

import graphc

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
NAV = re.findall(r"^ +- .*?([\w/]+\.md)$", SETTINGS.split("\nnav:")[1], re.MULTILINE)
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]*)\)")
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prose(page):
    """The text of a page without its blocks of code, where `](` is no link."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return "\n".join(x for x in text.splitlines() if not x.startswith(" " * 4))


def anchors(page):
    """The anchors of the headings of a page, as mkdocs makes them."""
    headings = HEADING.findall(prose(page))
    plain = [re.sub(r"[^\w\s-]", "", h).strip().lower() for h in headings]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


def broken_links(page):
    """The relative links of a page that lead to no file, or to no heading of it."""
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", path):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page):
    assert [*broken_links(page)] == []


def test_a_broken_link_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `size` in words\n[a](#a-size-in-words) [b](page.md) [c](https://x.org/y)\n"
        "[d](none.md) [e](#none) [f](page.md#none)\n```python\nx[0](none)\n```\n"
    )
    assert [*broken_links(page)] == ["none.md", "#none", "page.md#none"]


def test_the_site_has_all_pages_once():
    inside = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert len(set(NAV)) == len(NAV) > 30
    assert {*NAV} == inside | {*OUTSIDE.values()}, "see nav in mkdocs.yml"


def test_the_index_for_models_has_the_pages_of_the_site():
    """In the same order, and each in a line with words about it."""
    text = (DOCS / "llms.txt").read_text(encoding="utf-8")
    lines = re.findall(r"^- \[[^]]+\]\(([^)]+)\): .+$", text, re.MULTILINE)
    assert len(lines) == text.count("\n- ")
    paths = [path.removeprefix("../") for path in lines]
    assert [OUTSIDE.get(path, path) for path in paths] == NAV, "see docs/llms.txt"
    sections = re.findall(r"^  - ([^:\n]+):", SETTINGS.split("\nnav:")[1], re.MULTILINE)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == sections


def test_the_reference_has_every_public_name():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: graphc\.(\S+)$", text, re.MULTILINE)
    public = {*graphc.__all__} - {"tensor"}  # which docs/ops.md lists
    assert len(set(names)) == len(names)
    assert public - {*names} == set(), "add them to docs/api.md"
    for name in {*names} - public:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(f"graphc.{module}"), attribute), name


def test_the_site_is_built_without_a_warning(tmp_path):
    packages = ("mkdocs", "material", "mkdocstrings_handlers")
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip("mkdocs is not installed: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "troubleshooting.html").read_text(encoding="utf-8")
    assert 'id="input-has-another-dtype"' in page
    assert 'href="examples/penguins_rule.html"' in (tmp_path / "plan.html").read_text()
    reference = (tmp_path / "api.html").read_text(encoding="utf-8")
    assert 'id="graphc.jit"' in reference and "&gt;&gt;&gt;" in reference
    for html in tmp_path.rglob("*.html"):  # it can be read without a network
        loaded = re.findall(r'(?:src|<link[^>]*href)="https?:[^"]*"', html.read_text())
        assert loaded == [], html
