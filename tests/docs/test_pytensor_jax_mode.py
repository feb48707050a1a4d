"""Programs that run in graphc's mode, as docs/pytensor_jax_mode.md says they do."""

import pytest

pytest.importorskip("pytensor")

import graphc.pytensor
from graphc.dev import pytensor_jax_mode
from graphc.dev.clone import ROOT

PAGE = ROOT / "docs" / "pytensor_jax_mode.md"
ROWS = PAGE.read_text(encoding="utf-8").splitlines()
SHOWN = [p for p in pytensor_jax_mode.PROGRAMS if f"| {p.text} | " in "\n".join(ROWS)]


def test_all_rows_are_of_the_script():
    assert len(SHOWN) == sum(row.startswith("| ") for row in ROWS) - 1


def test_programs_of_the_page_run_here():
    """On NumPy, since compiling all takes long; the page's script compiles them."""
    mode = graphc.pytensor.mode(backend="numpy")
    for program in SHOWN:
        ours = pytensor_jax_mode.results_in_mode(program, mode)
        assert pytensor_jax_mode.are_close(ours, pytensor_jax_mode.expected(program))


@pytest.mark.parametrize("program", SHOWN[:3], ids=lambda p: p.text)
def test_and_not_in_the_mode_jax(program):
    assert pytensor_jax_mode.failure_of(program)
