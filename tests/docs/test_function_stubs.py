"""The stubs of functions and methods are the generated ones."""

import importlib.util
import pathlib

PATH = pathlib.Path(__file__).parents[2] / "docs" / "function_stubs.py"
SPEC = importlib.util.spec_from_file_location("function_stubs", PATH)
function_stubs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(function_stubs)


def test_the_stubs_are_the_generated_ones():
    folder = function_stubs.TARGET
    written = {p.name: p.read_text(encoding="utf-8") for p in folder.glob("*.pyi")}
    assert written == function_stubs.stubs(), "run: python docs/function_stubs.py"
