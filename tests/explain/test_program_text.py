"""The texts of programs: the whole text, and the part meant for reading."""

import pickle

import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt


def summed(backend):
    x = gt.tensor("x", "float32", ("n",))
    return graphc.function([x], gt.sum(x * x)[None] * x, backend=backend, dims="pad")


def test_the_model_is_the_program_without_what_all_programs_share():
    for backend in ("jax", "numpy"):
        source = summed(backend).source
        assert source.startswith(source.model)
        assert "def program(" in source.model
        assert "def check_inputs(" not in source.model
        assert "ProgramError" in source.removeprefix(source.model)
        assert pickle.loads(pickle.dumps(source)).model == source.model


def test_the_models_of_several_programs_stand_one_after_another():
    f = graphc.jit(lambda x: jnp.sum(x * x))
    for n in (3, 4, 5):
        f(np.ones(n, "float32"))
    assert "def program(" in f.source.model
    assert "def check_inputs(" not in f.source.model
    assert len(f.source.model) < len(f.source) / 2


def test_the_command_prints_the_model(tmp_path, capsys):
    from graphc.command.main import main

    file = tmp_path / "model.py"
    file.write_text(
        "import graphc\nimport graphc.tensor as gt\n"
        'x = gt.tensor("x", "float32", ("n",))\n'
        "f = graphc.function([x], gt.sum(x))\n"
    )
    assert main(["source", f"{file}:f", "--model"]) == 0
    printed = capsys.readouterr().out
    assert "jnp.sum(x)" in printed
    assert "ProgramError" not in printed
