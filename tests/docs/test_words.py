"""One word, one meaning: no name is defined twice, and retired words stay out."""

import ast
import collections
import pathlib
import re

import graphc
from tests import parsed

ROOT = pathlib.Path(graphc.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
RETIRED = {"Pair", "Place", "Region", "Undone"}  # see docs/glossary.md
# Parts of names that only we used, where the field has words (docs/glossary.md).
PRIVATE = {"told", "noting", "noted", "lent", "reopened", "alarm", "alarms", "ladder"}
# Names that are printed into programs, or written as JSON, stay as they are.
PRINTED = {"control/fitting_branches.py", "command/doctor.py"}
SENTENCE = re.compile(r"(?:^|[.!?:]\s+)(What|That|Those of)\b")


def definitions():
    """Yield the classes and type aliases of all modules, each with its definition."""
    for path in FILES:
        module = path.relative_to(ROOT).with_suffix("").as_posix()
        for node in parsed.tree(path).body:
            if isinstance(node, ast.ClassDef):
                yield node.name, module, f"class of {module}"
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if re.match(r"_?[A-Z][a-z]", name):
                    yield name, module, ast.unparse(node.value)


def test_a_name_means_one_thing():
    """An alias may be defined twice if both definitions are the same."""
    meanings = collections.defaultdict(dict)
    for name, module, meaning in definitions():
        meanings[name].setdefault(meaning, module)
    assert {n: list(m.values()) for n, m in meanings.items() if len(m) > 1} == {}


def test_retired_words_stay_out():
    assert {name for name, _, _ in definitions()} & RETIRED == set()


def names_in(path):
    """Yield the names that a file defines or uses."""
    for node in parsed.nodes(path):
        for field in ("id", "attr", "name", "arg"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name


def test_names_are_the_words_of_the_field():
    private = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in FILES
        for name in names_in(path)
        if not PRIVATE.isdisjoint(name.lower().split("_"))
    }
    assert {(file, name) for file, name in private if file not in PRINTED} == set()


def docstrings():
    for path in FILES:
        for node in parsed.nodes(path):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                yield f"{path.relative_to(ROOT)}: {text}"


def test_sentences_name_their_subject():
    """Docstrings of helpers, which are printed into programs, are exempt."""
    printed = ("backends/prelude.py", "backends/entry.py")
    found = [text for text in docstrings() if SENTENCE.search(text)]
    assert [text for text in found if not text.startswith(printed)] == []
