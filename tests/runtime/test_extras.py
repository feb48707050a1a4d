"""If the package of an extra is missing, the error says how to install it."""

import sys

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

HOW = r"pip install 'graphc\[export\]'"


def doubled():
    x = gt.tensor("x", "float32", ("n",))
    return graphc.function([x], x * 2, dims="pad")


@pytest.mark.parametrize("package", ["safetensors.numpy", "flatbuffers"])
def test_a_file_is_not_begun_without_its_packages(tmp_path, monkeypatch, package):
    f = doubled()
    monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / "model"
    with pytest.raises(ModuleNotFoundError, match=f"export needs .*: {HOW}"):
        f.export(path, {"n": [3]})
    assert not path.exists()
    assert f.stats().compilations == []
    of_jax = graphc.jit(lambda x: x + 1)
    with pytest.raises(ModuleNotFoundError, match=HOW):
        of_jax.export(path, [(np.ones(3, "float32"),)])


def test_a_file_is_not_loaded_without_them(tmp_path, monkeypatch):
    path = tmp_path / "model"
    doubled().export(path, {"n": [3]})
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ModuleNotFoundError, match=f"loading a model needs .*: {HOW}"):
        graphc.load(path)
