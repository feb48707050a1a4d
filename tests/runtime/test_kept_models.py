"""Models of every format since the second are read by the current code."""

from pathlib import Path

import jax
import numpy as np
import pytest

import graphc
import graphc_serving
from graphc_serving import programs
from graphc_serving.manifest import FORMAT, OLDEST
from tests.runtime.kept_models.make import TABLE

pytestmark = pytest.mark.usefixtures("compiled_quickly")
KEPT = Path(__file__).parent / "kept_models"
FORMATS = range(OLDEST, FORMAT + 1)
FIRST_OF_FLOATS = 5


def rows(n):
    return np.random.default_rng(n).normal(size=(n, 3)).astype("float32")


def wanted(x):
    """The results of the padded model, computed by NumPy."""
    carry, stacked = np.zeros(100, "float32"), []
    for row in x @ TABLE:
        stacked.append(carry)
        carry = 0.5 * carry + row
    return carry, np.mean(stacked), np.sum(x > 0)


def compare(model, n):
    found, x = model(rows(n)), rows(n)
    flat = found["last"], *found["mean"]
    for a, b in zip(flat, wanted(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", FORMATS)
def test_a_file_of_each_format_is_kept_and_runs(number):
    model = graphc_serving.load(KEPT / f"format_{number}_padded.model")
    for n in (1, 3, 16):
        compare(model, n)
    more = graphc.load(KEPT / f"format_{number}_padded.model", graph=True)
    for n in (3, 17, 40):
        compare(more, n)
    reads = graphc_serving.load(KEPT / f"format_{number}_reads.model")
    for signs in ([1, 1, -1, -1], [1, 1, 1, -1]):
        x = np.ones((4, 3), "float32") * np.float32(signs)[:, None]
        x[0] *= 5
        best, total = reads(x, 1)
        assert best.tolist() == [5] and total == x.sum()


@pytest.mark.parametrize("number", FORMATS[FIRST_OF_FLOATS - OLDEST :])
def test_a_file_has_floats_of_sizes_of_numpy(number):
    model = graphc_serving.load(KEPT / f"format_{number}_rounds.model")
    for n in (1, 2, 4, 8, 9, 16):
        x = rows(n)
        half, root = model(x)
        np.testing.assert_array_equal(half, x[: int(np.ceil(n / 3)), 0])
        np.testing.assert_array_equal(root, x[: int(np.sqrt(n) + np.log2(n)), 1])


def never(*args):
    raise ValueError("StableHLO of another time")


@pytest.mark.parametrize("number", FORMATS)
def test_a_graph_is_compiled_where_jax_does_not_read_the_programs(monkeypatch, number):
    monkeypatch.setattr(programs, "_read_program", never)
    path = KEPT / f"format_{number}_padded.model"
    model, plain = graphc.load(path, graph=True), graphc.load(path)
    with pytest.warns(UserWarning, match="the graph of the model is compiled instead"):
        compare(model, 3)
    compare(model, 5)  # warned only once
    with pytest.raises(graphc.ModelError) as caught:
        plain(rows(3))
    told = caught.value.args[0]
    assert told.startswith(f"program 0 cannot be read by JAX {jax.__version__}")
    assert told.endswith("graph=True) compiles the graph in the file")


def test_the_kept_files_are_small():
    files = list(KEPT.glob("*.model"))
    assert len(files) == 2 * len(FORMATS) + FORMAT + 1 - FIRST_OF_FLOATS
    assert sum(path.stat().st_size for path in files) < 100_000
