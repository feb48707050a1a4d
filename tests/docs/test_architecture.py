"""docs/architecture.md gives the rooms, their imports and the road as they are."""

import ast
import collections
import pathlib
import re
import sys

import networkx as nx
import numpy as np

import graphc
import graphc.tensor as gt
from tests import parsed

HOUSE = pathlib.Path(graphc.__file__).parent
FILES = sorted([*HOUSE.rglob("*.py"), *(HOUSE.parent / "graphc_serving").rglob("*.py")])
PAGE = (HOUSE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
ROAD, ROOMS = PAGE.split("## The rooms")
ARROW = re.compile(r"^    ([\w/*]+)(?: +-> (.+))?$", re.MULTILINE)
ENTRANCE = re.compile(r"^      ((?:\w+/)+\w+)(?:  |$)", re.MULTILINE)
DOOR = re.compile(r"^In: .+\nOut: .+\nBegin at `(\w+)`", re.MULTILINE)
MOST = 20  # files per room


def room(path):
    """The folder of a file; a file of `graphc/` itself counts as a room."""
    if path.parent == HOUSE:
        return path.stem
    inside = HOUSE if path.is_relative_to(HOUSE) else HOUSE.parent
    return f"{path.parent.relative_to(inside).as_posix()}/"


def statements(body):
    """Yield the statements that run at import, leaving out bodies of functions."""
    for node in body:
        if not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING":
            yield node
            yield from statements(getattr(node, "body", []))


def imported(path):
    """Yield the files of graphc that a file imports."""
    for node in statements(parsed.tree(path).body):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{a.name}" for a in node.names]
        for name in names:
            if name.startswith("graphc"):
                yield file_of(name.split("."))


def file_of(parts):
    """The file of a module, or of the module that contains a name."""
    path = HOUSE.parent.joinpath(*parts)
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return file_of(parts[:-1])


def imports_of_rooms():
    """For each pair of rooms of which one imports the other, a file that does so."""
    examples = {}
    for path in FILES:
        for other in imported(path):
            pair = room(path), room(other)
            if pair[0] != pair[1] and "__init__" not in pair:
                examples[pair] = path.relative_to(HOUSE.parent).as_posix()
    return examples


def arrows():
    """The arrows of the page as a graph of rooms."""
    page, families = nx.DiGraph(), expanded("ops/*/")
    for name, ends in ARROW.findall(ROOMS):
        for start in expanded(name):
            page.add_node(start)
            for end in ends.split():
                page.add_edges_from((start, b) for b in expanded(end))
    assert families <= {*page}
    return page


def expanded(name):
    """The rooms that a name stands for; `ops/*/` stands for every family."""
    if name != "ops/*/":
        return {name}
    families = {f"ops/{p.parent.name}/" for p in HOUSE.glob("ops/*/__init__.py")}
    return families - {"ops/common/"}


def test_the_page_names_every_room():
    there = {room(path) for path in FILES} - {"__init__"}
    assert {*arrows()} == there, "docs/architecture.md, The rooms: a line for each"


def test_imports_follow_the_arrows():
    page, imports = arrows(), imports_of_rooms()
    assert nx.is_directed_acyclic_graph(page)
    reached = nx.transitive_closure(page).edges
    against = {pair: file for pair, file in imports.items() if pair not in reached}
    assert against == {}, "import in the direction of the arrows, or draw another one"
    assert {*page.edges} - imports.keys() == set(), "no import goes these ways"
    short = nx.transitive_reduction(page)
    assert {*page.edges} == {*short.edges}, "others lead there already"


def packages(path):
    """The `__init__` files that run before a file is imported, outermost first."""
    doors = [folder / "__init__.py" for folder in reversed(path.parents)]
    return [door for door in doors if door in BY_FILE and door != path]


BY_FILE = {path: i for i, path in enumerate(FILES)}


def asked_too_early(first, imports):
    """The files asked for a name before they have run, if `first` is imported first.

    `imports` lists for each file, in order, the files that its imports run, and whether
    each is asked for a name.
    """
    begun, done, early = set(), set(), set()

    def run(file):
        begun.add(file)
        for other, asked in imports[file]:
            if other not in begun:
                run(other)
            if asked and other not in done:
                early.add(other)
        done.add(file)

    for file in (*map(BY_FILE.get, packages(FILES[first])), first):
        if file not in begun:
            run(file)
    return early


def test_each_file_can_be_imported_first():
    imports = []
    for path in FILES:
        runs = []
        for other in dict.fromkeys(imported(path)):
            runs += [(BY_FILE[door], False) for door in packages(other)]
            runs.append((BY_FILE[other], True))
        imports.append([*dict.fromkeys(runs)])
    early = {FILES[i]: asked_too_early(i, imports) for i in BY_FILE.values()}
    assert {path: files for path, files in early.items() if files} == {}


def test_rooms_are_not_crowded():
    files = collections.Counter(room(path) for path in FILES)
    crowded = {name: n for name, n in files.items() if n > MOST}
    assert crowded == {}, "divide the room: one idea per room too"


def test_a_room_has_a_door():
    """The families of ops share one door, that of `ops/`."""
    for path in FILES:
        family = path.parent.parent == HOUSE / "ops"
        if path.name == "__init__.py" and path.parent != HOUSE and not family:
            door = DOOR.search(ast.get_docstring(parsed.tree(path)))
            assert door, f"{path}: In: ... Out: ... Begin at `a module`"
            assert is_inside(path.parent, door[1]), f"{path}: there is no {door[1]}"


def is_inside(folder, name):
    return folder.name == name or any(folder.glob(f"{name}*"))


def test_the_road_is_the_one_that_a_program_takes():
    entered = []

    def note(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(f"{HOUSE}/"):
            entered.append(path)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        x = gt.tensor("x", "float32", ("n", 3))
        slope = graphc.grad(gt.sum(gt.special.logsumexp(x, axis=1)), x)
        f = graphc.function([x], slope, backend="jax", dims="pad")
        assert f(np.ones((5, 3), "float32")).shape == (5, 3)
    finally:
        sys.setprofile(before)
    order = [pathlib.Path(f).relative_to(HOUSE) for f in dict.fromkeys(entered)]
    order = [path.with_suffix("").as_posix() for path in order]
    road = ENTRANCE.findall(ROAD)
    assert len(road) > 8 and [name for name in order if name in road] == road
