"""The table of idioms is the generated one, and each gives what NumPy gives."""

import importlib.util
import pathlib

import numpy as np

PATH = pathlib.Path(__file__).parents[2] / "docs" / "idioms_table.py"
SPEC = importlib.util.spec_from_file_location("idioms_table", PATH)
idioms_table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(idioms_table)


def test_the_table_is_the_generated_one():
    written = idioms_table.TARGET.read_text(encoding="utf-8")
    assert written == idioms_table.table(), "run: python docs/idioms_table.py"


def test_each_idiom_gives_what_it_gives_at_true_sizes():
    rng = np.random.default_rng(0)
    for texts in idioms_table.GROUPS.values():
        for text in texts:
            padded, _ = idioms_table.compiled(text, dims="pad", backend="numpy")
            exact, _ = idioms_table.compiled(text, dims="specialize", backend="numpy")
            for n in (9, 20):
                shapes = (n,), (n, 8), (n, n)
                given = [*map(rng.normal, (0, 0, 0), (1, 1, 1), shapes), 4]
                found, expected = padded(*given), exact(*given)
                assert found.shape == expected.shape, text
                np.testing.assert_allclose(
                    found, expected, rtol=1e-9, atol=1e-9, err_msg=text
                )
