"""The ball: ranges as in SciPy and the textbook, slopes as by finite differences."""

from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "thrown_ball.py"


@pytest.fixture(scope="module")
def programs(example):
    return example.programs()


@pytest.mark.parametrize("angle", [0.2, 0.8, 1.4])
def test_without_air_it_is_the_textbook_s(example, programs, angle):
    reach, slope, bent = map(float, programs[0](angle, 0.0))
    most = example.SPEED**2 / example.GRAVITY
    np.testing.assert_allclose(reach, most * np.sin(2 * angle), rtol=1e-6)
    np.testing.assert_allclose(slope, 2 * most * np.cos(2 * angle), rtol=1e-5)
    np.testing.assert_allclose(bent, -4 * most * np.sin(2 * angle), rtol=1e-4)


@pytest.mark.parametrize("angle", [0.4, 1.1])
def test_with_air_it_is_scipy_s(example, programs, angle):
    reach, slope, _ = map(float, programs[0](angle, example.DRAG))
    near = [example.by_scipy(angle + d, example.DRAG) for d in (-1e-4, 0, 1e-4)]
    np.testing.assert_allclose(reach, near[1], rtol=1e-6)
    np.testing.assert_allclose(slope, (near[2] - near[0]) / 2e-4, rtol=1e-4)


def test_paths_end_below_the_ground_with_their_last_step(example, programs):
    few, many = (programs[1](a, example.DRAG) for a in (0.1, 1.5))
    assert len(few) != len(many)
    for path in (few, many):
        assert path.shape == (len(path), 2)
        assert (path[:, 1] >= 0).all() and (np.diff(path[:, 0]) >= 0).all()


def test_jax_gives_what_numpy_gives(example, programs):
    found = example.programs("jax")[0](0.5, example.DRAG)
    for got, wanted in zip(found, programs[0](0.5, example.DRAG), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-8)


def test_it_tells_its_story(example, programs, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(example.main.__globals__, "programs", lambda: programs)
    assert example.main() == 0
    out = capsys.readouterr().out
    assert "without air: 45.00 degrees, 206.4 m" in out
    assert "with air: 40.25 degrees, 111.3 m" in out
    assert (tmp_path / "thrown_ball.png").read_bytes().startswith(b"\x89PNG")
    assert out.endswith("everything agrees\n")


def test_a_wrong_answer_is_reported(example, programs, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(example.main.__globals__, "programs", lambda: programs)
    monkeypatch.setitem(example.main.__globals__, "best", lambda ranges, drag: 0.75)
    monkeypatch.setitem(example.main.__globals__, "by_scipy", lambda a, drag: 100.0)
    assert example.main() == 1
    assert capsys.readouterr().out.endswith("THEY DIFFER\n")
