"""Many threads parse texts into trees at once."""

import ast
import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from graphc.ir.syntax import ATTEMPTS, parsed, source_of

TEXT = "\n".join(f"x{i} = [f(a + {i})(b), {{'k': -{i}}}]" for i in range(300))


@pytest.fixture
def hurried():
    """Switch threads often, also in the Python code that garbage collection runs."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    gc.callbacks.append(callback := lambda *_: sum(range(50)))
    yield
    gc.callbacks.remove(callback)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


class Found:
    """The class that is looked for in this file."""


def test_threads_take_turns(hurried):
    def one(_: int) -> tuple[str, str]:
        return source_of(Found), ast.dump(parsed(TEXT).body[-1])

    with ThreadPoolExecutor(8) as pool:
        (only,) = set(pool.map(one, range(40)))
    assert only[0].startswith("class Found") and "x299" in only[1]


def test_trees_of_others_are_waited_for(monkeypatch):
    answers = [SystemError] * (ATTEMPTS - 1)
    parse = ast.parse

    def late(text: str) -> ast.Module:
        if answers:
            raise answers.pop()
        return parse(text)

    monkeypatch.setattr(ast, "parse", late)
    assert not parsed("").body
