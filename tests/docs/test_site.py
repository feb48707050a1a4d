"""The documentation site: its pages, their links, the index for models, the reference.

With mkdocs (`pip install -e '.[docs]'`) the site is built too; warnings are errors.
With Chromium its pages are opened, narrow and wide.
"""

import functools
import http.server
import importlib.util
import pathlib
import re
import subprocess
import sys
import threading

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
    """The text of a page without blocks of code, in which `](` need not be a link."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return "\n".join(x for x in text.splitlines() if not x.startswith(" " * 4))


def anchors(page):
    """The anchors of the headings of a page, as mkdocs makes them."""
    headings = HEADING.findall(prose(page))
    plain = [re.sub(r"[^\w\s-]", "", h).strip().lower() for h in headings]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


def broken_links(page):
    """Yield the relative links of a page that lead to no file or to no heading."""
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
    """They come in the same order, each on a line that describes it."""
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
    public = {*graphc.__all__} - {"tensor"}  # docs/ops.md lists its contents
    assert len(set(names)) == len(names)
    assert public - {*names} == set(), "add them to docs/api.md"
    for name in {*names} - public:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(f"graphc.{module}"), attribute), name


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site in a folder, with warnings as errors."""
    packages = ("mkdocs", "material", "mkdocstrings_handlers")
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip("mkdocs is not installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_is_built_without_a_warning(site):
    page = (site / "troubleshooting.html").read_text(encoding="utf-8")
    assert 'id="input-has-another-dtype"' in page
    assert 'href="examples/penguins_rule.html"' in (site / "plan.html").read_text()
    reference = (site / "api.html").read_text(encoding="utf-8")
    assert 'id="graphc.jit"' in reference and "&gt;&gt;&gt;" in reference
    for html in site.rglob("*.html"):  # pages load nothing from the network
        loaded = re.findall(r'(?:src|<link[^>]*href)="https?:[^"]*"', html.read_text())
        assert loaded == [], html


# ---- in a browser ----


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    """Serve the site as `mkdocs serve` would, and return its address."""
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


LOADED = "document.readyState === 'complete'"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
PICTURES = "[...document.images].filter(i => i.complete && !i.naturalWidth).length"


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize(
    "page", ["index", "show", "api", "ops", "stories/lengths", "examples/penguins"]
)
def test_pages_fit_and_load_nothing_from_elsewhere(address, browser, page, width):
    browser.open(f"{address}/{page}.html", LOADED, width, dark=width == 400)
    assert browser.run(WIDER) <= 0 and browser.run(PICTURES) == 0
    assert browser.errors == []
    assert [r for r in browser.requests if not r.startswith((address, "data:"))] == []


@pytest.mark.parametrize("served", [True, False])
def test_the_search_of_the_site_knows_its_pages(site, address, browser, served):
    """Also from `file:` pages, where browsers refuse to load a search index."""
    start = address if served else site.as_uri()
    browser.open(f"{start}/index.html", LOADED)
    browser.run(
        "const s = document.querySelector('.md-search__input'); s.focus();"
        "s.value = 'NonConcreteBooleanIndexError';"
        "s.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    first = "document.querySelector('.md-search-result__link')"
    browser.until(f"{first} !== null")
    assert browser.run(f"{first}.href").startswith(start)
    assert browser.errors == []
