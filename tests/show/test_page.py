"""The page of a plan: one small file, in which text stays text."""

import base64
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.show.drawing import svg
from graphc.show.folds import rows_of
from graphc.show.page import page
from tests.show.programs import KINDS, chain, counted, looped, masked, of_jax, padded

EVIL = "</script><img src=x onerror=alert(1)>\u2028\"'"


def data_of(text):
    """The data inside a page."""
    packed = re.search(r'<script id="data"[^>]*>([^<]*)</script>', text)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href")]


def test_a_page_needs_nothing_else():
    text = page(masked()._picture().record)
    tags = Tags(text)
    assert tags.addresses == [] and {"link", "img", "iframe"}.isdisjoint(tags.tags)
    assert "default-src 'none'" in text and len(text) < 60_000
    assert "<td>read</td>" in text  # the table needs no script


def test_five_thousand_nodes_fit_into_300_kilobytes():
    """Each has a line of its own and no two are alike; the page holds all of them."""
    text = page(chain(5000, 2500))
    assert len(text) < 300_000
    [program] = data_of(text)["programs"]
    assert len(program["nodes"]["places"]) == 5000 and program["left_out"] == 0


def test_more_nodes_are_folded_and_it_is_said():
    text = page(chain(50_000, 25_000))
    [program] = data_of(text)["programs"]
    assert program["count"] == 50_000
    assert len(program["nodes"]["places"]) + program["left_out"] == 50_000
    assert len(program["nodes"]["places"]) == 5000


def test_many_programs_share_the_room_of_a_page():
    one = chain(1000, 1000)
    text = page(replace(one, programs=one.programs * 40))
    told = data_of(text)
    assert len(told["programs"]) == 16 and len(text) < 300_000
    assert told["notes"] == ["24 earlier programs are not shown here"]
    [room] = {len(p["nodes"]["places"]) for p in told["programs"]}
    assert room == 312


def test_alike_blocks_are_folded_once():
    picture = chain(6000, 6, alike=True)
    [program] = picture.programs
    [row] = rows_of(program.steps[0].nodes, program)
    assert (row.count, len(row.runs), row.nodes) == (1000, 6, 6000)
    text = page(picture)
    [told] = data_of(text)["programs"]
    assert len(told["nodes"]["places"]) == 6 and told["left_out"] == 0


def test_a_line_that_repeats_itself_is_folded():
    [program] = chain(100, 1, alike=True).programs
    [row] = rows_of(program.steps[0].nodes, program)
    assert (row.count, row.nodes) == (100, 100)


def evil():
    """A function whose names and lines contain markup and scripts."""
    lines = f"x = gt.tensor({EVIL!r}, 'float32', ('n',))\ny = gt.tanh(x)  # {EVIL}\n"
    names = {"gt": gt}
    exec(compile(lines, f"{EVIL}.py", "exec"), names)
    return graphc.function([names["x"]], {EVIL: names["y"]})


def test_hostile_names_stay_text():
    f = evil()
    for text in (page(f._picture().record), f._repr_html_(), f.plan._repr_html_()):
        assert "<img" not in text
        assert text.count("<script") == text.count("</script>")
    drawing = f.plan.to_svg()
    assert "<img" not in drawing and "&lt;img" in drawing


def test_an_svg_has_each_step_and_what_it_passes_on():
    text = masked(dims="specialize").plan.to_svg()
    assert text.startswith("<svg") and text.endswith("</svg>\n")
    for part in ("segment 0", "segment 1", "k: int64[] static", "score[score &gt; 1]"):
        assert part in text
    assert svg(chain(3, 3)).count("<rect") == 6


def test_show_writes_what_the_path_asks_for(tmp_path, capsys, monkeypatch):
    f = masked()
    for name, start in (("a.html", "<!DOCTYPE"), ("a.svg", "<svg"), ("a.json", "{")):
        path = f.show(str(tmp_path / name), open=False)
        assert path.read_text(encoding="utf-8").startswith(start)
        assert capsys.readouterr().out == f"the plan is in {path}\n"
    opened = []
    monkeypatch.setenv("BROWSER", "a browser")
    monkeypatch.setattr("webbrowser.open", lambda uri: opened.append(uri) or True)
    path = f.show(tmp_path / "b.html")
    assert opened == [path.as_uri()] and capsys.readouterr().out == ""
    for variable in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    path = f.show()
    assert len(opened) == 1 and str(path) in capsys.readouterr().out
    path.unlink()
    with pytest.raises(graphc.GraphError, match=r"ends in \.html, \.svg or \.json"):
        f.show(tmp_path / "a.pdf")


def test_what_differs_between_two_plans():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.tanh(x))
    assert graphc.diff(f, graphc.function([x], gt.tanh(x))) == "the plans are alike"
    g = graphc.function([x], gt.tanh(x[x > 0]), dims={"n": "pad"})
    told = graphc.diff(f, g.plan).splitlines()
    assert "ops: " in told[-3] or any(line.startswith("ops: ") for line in told)
    assert any(line.startswith("sizes: none -> n padded to 16") for line in told)
    assert any(line.startswith("+ read at ") for line in told)
    with pytest.raises(graphc.GraphError, match="it has no plan to compare"):
        graphc.diff(f, 3)


# ---- in a browser ----


CLICK = "[...document.querySelectorAll({!r})].at({}).click()"


def visit(browser, f, path, **how):
    """Open the page of a function; call `undisturbed` afterwards."""
    f.show(path, open=False)
    browser.visit(path, **how)


def undisturbed(browser, path):
    """Check that nothing went wrong and that no network was asked for anything."""
    assert browser.errors == []
    assert {*browser.requests} <= {path.as_uri()}


def texts(browser, selector):
    script = f"[...document.querySelectorAll({selector!r})].map(e => e.innerText)"
    return browser.run(script)


@pytest.mark.parametrize(("width", "dark"), [(400, True), (1280, False)])
def test_a_page_is_drawn_and_opens_by_clicks(browser, tmp_path, width, dark):
    f, path = masked(dims="specialize"), tmp_path / "plan.html"
    f(np.eye(4, 3, dtype="float32") * 2, 2)
    visit(browser, f, path, width=width, dark=dark)
    heads = texts(browser, "#parts > .stack > .part > .head .name")
    expected = [f"segment {s.index}" for s in f.plan.segments]
    assert [h for h in heads if h.startswith("segment")] == expected
    assert "read one integer from the device" in heads
    assert texts(browser, ".part.results .chip b") == ["best"]
    browser.run(CLICK.format(".segment > .head", 0))
    browser.run(CLICK.format(".part.line > .head", 0))
    assert "matmul" in heads or texts(browser, ".part.node > .head .name")
    browser.run(CLICK.format(".part.node > .head", 0))
    details = texts(browser, "#details")[0]
    assert "emitted code" in details and "compilations" in details
    assert "jnp." in details and "first call" in details
    assert "log1p(sum(" in details  # the rule that applied there
    browser.run(CLICK.format("#code .src[data-line]", -1))
    assert texts(browser, "#details h2")[0].startswith("programs.py:")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.run(wide) <= 0
    paper = "getComputedStyle(document.body).backgroundColor"
    assert (browser.run(paper) != "rgb(255, 255, 255)") == dark
    undisturbed(browser, path)


def test_search_and_jumps_and_the_keyboard(browser, tmp_path):
    path = tmp_path / "plan.html"
    visit(browser, looped(), path)
    browser.run(
        "const s = document.querySelector('#search'); s.value = 'tanh';"
        "s.dispatchEvent(new Event('change'))"
    )
    assert texts(browser, "#details h2")[0].startswith("search: ")
    browser.run(CLICK.format("#details li .link", 0))
    chosen = "document.querySelector('.part.chosen .name').innerText"
    assert browser.run(chosen) == "tanh"
    before = texts(browser, "#details .link")[0]  # the producer
    browser.run(CLICK.format("#details .link", 0))
    assert browser.run(chosen) in before
    browser.run("document.querySelector('#parts .head').focus()")
    event = "new KeyboardEvent('keydown', {{key: {!r}, bubbles: true}})"
    key = f"document.activeElement.dispatchEvent({event})"
    focused = "document.activeElement.innerText"
    first = browser.run(focused)
    browser.run(key.format("ArrowDown"))
    assert browser.run(focused) != first
    browser.run(key.format("ArrowLeft"))
    assert browser.run("document.activeElement.ariaExpanded") == "false"
    browser.run(key.format("ArrowRight"))
    assert browser.run("document.activeElement.ariaExpanded") == "true"
    opened = browser.run(focused)
    browser.run(key.format("ArrowRight"))  # into the open part, and out of it
    assert browser.run(focused) != opened
    browser.run(key.format("ArrowLeft"))
    assert browser.run(focused) == opened
    undisturbed(browser, path)


def test_the_slider_walks_over_the_rules(browser, tmp_path):
    path = tmp_path / "plan.html"
    visit(browser, masked(), path)
    rule = "document.querySelector('#rewrites b').innerText"
    first = browser.run(rule)
    browser.run(
        "const r = document.querySelector('#step'); r.value = r.max;"
        "r.dispatchEvent(new Event('input'))"
    )
    assert browser.run(rule) != first
    undisturbed(browser, path)


def test_what_if_says_what_the_forecast_says(browser, tmp_path):
    f, path = padded(), tmp_path / "plan.html"
    f(np.ones((20, 3), "float32"), np.ones((3, 3), "float32"))
    visit(browser, f, path)

    def ask(**numbers):
        labels = texts(browser, "#whatif label")
        fields = {label.split()[0]: i for i, label in enumerate(labels)}
        for name, number in numbers.items():
            field = f"document.querySelectorAll('#whatif input')[{fields[name]}]"
            browser.run(
                f"{field}.value = '{number}'; {field}.dispatchEvent(new Event('input'))"
            )
        return texts(browser, "#answer")[0]

    seen = set()
    for n, m in ((20, 3), (17, 4), (24, 2), (25, 2), (1000, 30), (1, 5)):
        answer = ask(n=n, m=m)
        own = tuple(map(int, re.findall(r"_capacity = (\d+)", answer)))
        assert ("already compiled" in answer) == (own == (24, 4) or own == (4, 24))
        seen.add(own)
    sizes = {"n": [20, 17, 24, 25, 1000, 1], "m": [3, 4, 2, 2, 30, 5]}
    assert len(seen) == f.plan.forecast(sizes).compilations
    chips = texts(browser, ".chip")
    assert any("[24, 3]" in c or "[16, 3]" in c for c in chips)
    undisturbed(browser, path)


FILL = """[...document.querySelectorAll('#whatif input')].forEach(field => {
  field.value = VALUE; field.dispatchEvent(new Event('input')) })"""


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_asked_for_are_all_that_the_page_must_know(browser, tmp_path, kind):
    path = tmp_path / "plan.html"
    visit(browser, KINDS[kind](), path)
    labels = texts(browser, "#whatif label")
    assert len(labels) == len({*labels})
    browser.run(FILL.replace("VALUE", "3"))
    answer = "".join(texts(browser, "#answer"))
    assert "?" not in answer and "a capacity for" not in answer
    undisturbed(browser, path)


def test_numbers_that_no_size_can_be(browser, tmp_path):
    path = tmp_path / "plan.html"
    visit(browser, counted(), path)
    for number, told in (
        (17, "no bucket has room for m = 17: such a call is an error"),
        (-3, "n: a whole number is asked for, 0 or more"),
        (2.5, "k: a whole number is asked for"),
    ):
        browser.run(FILL.replace("VALUE", str(number)))
        assert told in texts(browser, "#answer")[0]
    undisturbed(browser, path)


def test_a_function_that_was_not_called_has_a_page_too(browser, tmp_path):
    path = tmp_path / "plan.html"
    visit(browser, graphc.jit(lambda x: x + 1), path)
    assert texts(browser, "#notes li") == ["nothing is compiled yet: call it first"]
    undisturbed(browser, path)


def test_facts_say_which_program_serves(browser, tmp_path):
    spread, path = of_jax(), tmp_path / "plan.html"
    visit(browser, spread, path)
    names = texts(browser, "#programs option")
    assert len(names) == len({*names}) and any("x.shape[0]" in n for n in names)

    def served(n):
        browser.run(
            "(() => { const i = document.querySelector('#whatif input');"
            f"i.value = {n}; i.dispatchEvent(new Event('input')) }})()"
        )
        return [t for t in texts(browser, "#answer li") if t.startswith("▶")]

    small, large = served(5), served(12)
    assert small and large and {*small}.isdisjoint(large)
    for i in range(len(names)):
        browser.run(
            f"const p{i} = document.querySelector('#programs'); p{i}.value = {i};"
            f"p{i}.dispatchEvent(new Event('change'))"
        )
    undisturbed(browser, path)


def test_hostile_names_make_no_elements(browser, tmp_path):
    path = tmp_path / "plan.html"
    visit(browser, evil(), path)
    browser.run(CLICK.format(".part.line > .head", 0))
    browser.run(CLICK.format(".part.node > .head", 0))
    assert browser.run("document.querySelectorAll('img, iframe').length") == 0
    assert "<img src=x onerror=alert(1)>" in texts(browser, "#code")[0]
    undisturbed(browser, path)


def test_many_nodes_are_drawn_as_they_are_asked_for(browser, tmp_path):
    path = tmp_path / "plan.html"
    path.write_text(page(chain(5000, 2500)), encoding="utf-8")
    browser.visit(path)
    browser.run(CLICK.format(".segment > .head", 0))
    assert browser.run("document.querySelectorAll('.part.line').length") == 150
    browser.run(CLICK.format(".further", 0))
    assert browser.run("document.querySelectorAll('.part.line').length") == 300
    browser.run("chooseLine(700)")
    assert browser.run("document.querySelector('.part.chosen') !== null")
    undisturbed(browser, path)
