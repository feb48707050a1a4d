"""Each error points to an entry of docs/troubleshooting.md, and each entry occurs."""

import ast
import pathlib
import pickle
import re
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import errors, warning_kinds
from graphc.command.entries import entries
from graphc.entries import ENTRIES, entry_of
from graphc.ir.forks import fork_error
from graphc.ir.text.reader import parse_graph
from tests import parsed

HOUSE = pathlib.Path(graphc.__file__).parent
MAKERS = {"graph_error": "entry", "GraphError": "", "CallError": "", "ForkError": ""}
# Entries of errors of other classes, which do not point to them.
UNPOINTED = {"attribute"}


def library_fails():
    x = gt.tensor("x", "float64", ("n",))
    shown = gt.debug_print("{0.nothing}", x)
    graphc.function([x], shown, backend="numpy")(np.ones(2))


def cache_cannot_be_read():
    warnings.warn("a", graphc.CacheWarning, stacklevel=1)


def pytensor_is_asked():
    pytest.importorskip("pytensor")
    from graphc import pytensor as module

    module.program_of(len)


def pymc_is_asked():
    pytest.importorskip("pymc")
    from graphc import pymc as module

    module.logp_and_grad(3)


ELSEWHERE = {
    "cache": cache_cannot_be_read,
    "call-other": library_fails,
    "call-process": lambda: errors.raise_of_processes(errors.CallError("", "process")),
    "fork": lambda: (_ for _ in ()).throw(fork_error("f")),
    "pymc": pymc_is_asked,
    "pytensor": pytensor_is_asked,
    "text": lambda: parse_graph("nothing"),
}


def sites():
    """Yield each error that the code makes: module, maker, literal entry, and line."""
    for path in HOUSE.rglob("*.py"):
        parts = ("graphc", *path.relative_to(HOUSE).with_suffix("").parts)
        module = ".".join(parts).removesuffix(".__init__")
        for node in parsed.nodes(path):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if name in MAKERS and not name.startswith(("Call", "Fork")):
                yield module, name, literal(node, name), f"{path}:{node.lineno}"


def literal(node, name):
    given = [k.value for k in node.keywords if k.arg == "entry"]
    if name == "GraphError":
        given += node.args[1:2]
    return given[0].value if given and isinstance(given[0], ast.Constant) else None


@pytest.fixture(scope="module")
def page():
    return entries()


def test_each_error_of_the_code_has_an_entry_of_the_page(page):
    count = 0
    for module, name, entry, where in sites():
        if module == "graphc.errors":
            continue  # makes errors for the others
        if name == "GraphError":
            assert entry, f"{where}: say which entry"
        assert (entry or entry_of(module)) in page, where
        count += 1
    assert count > 400


def test_each_kind_of_call_and_each_warning_has_an_entry(page):
    for kind in errors.ERROR_KINDS:
        assert errors.CallError("", kind).entry in page
    classes = [c for c in vars(graphc).values() if isinstance(c, type)]
    told = [c for c in (*classes, graphc.FallbackWarning) if issubclass(c, Warning)]
    assert len(told) >= 8
    for warning in told:
        assert issubclass(warning, warning_kinds.GraphWarning)
        assert warning.entry in page


def test_rooms_of_the_table_exist():
    for room in ENTRIES:
        path = HOUSE.joinpath(*room.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), room


def raised(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except graphc.GraphError as error:
            return str(error)
    return str(caught[0].message)


def test_each_entry_of_the_page_is_met(page):
    """Either tests of pages compare an output that points to it, or a call does."""
    for entry, text in page.items():
        printed = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
        pointer = f"  help: graphc help {entry}\n"
        met = pointer in printed
        assert met != (entry in {*UNPOINTED, *ELSEWHERE}), entry


@pytest.mark.parametrize("entry", ELSEWHERE)
def test_an_entry_without_a_block_is_met(entry):
    assert raised(ELSEWHERE[entry]).endswith(f"\n  help: graphc help {entry}")


def test_errors_of_others_point_nowhere():
    assert str(graphc.GraphError("mine")) == "mine"
    assert entry_of("elsewhere.ops") == entry_of("graphc") == entry_of(__name__) == ""


def test_the_pointer_stays_when_an_error_travels():
    error = errors.CallError("one", "dtype")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "one\n  help: graphc help call-dtype"
    built = errors.GraphError("two", "size")
    assert str(pickle.loads(pickle.dumps(built))) == "two\n  help: graphc help size"
    none = errors.NoCompileError("f.compile() it", {"n": 1}, {}, "f.compile()")
    assert str(pickle.loads(pickle.dumps(none.of("g.f")))) == (
        "g.f.compile() it\n  help: graphc help compilations"
    )
