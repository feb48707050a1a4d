"""The command line: what commands print, and to which stream; exit codes; messages."""

import json
import runpy
import sys

import pytest

import graphc
from graphc.command.main import main

MODEL = '''
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt

print("imported")
x = gt.tensor("x", "float32", ("n",))
loss = graphc.function([x], gt.sum(gt.tanh(x) ** 2), dims="pad")
k = gt.tensor("k", "int32", ())
first = graphc.function([x, k], gt.sum(x[:k]))
head = graphc.function([x, k], x[:k] + 1)
by_numpy = graphc.function([x], x * 2, backend="numpy")


@graphc.jit
def step(x, w):
    return jnp.tanh(x @ w).sum()


def plain(x):
    return jnp.sort(x)[::2]


def positive(x):
    return np.sort(x[x > 0])


def broken(x):
    return 1 / len([])


class Model:
    loss = staticmethod(loss)
'''


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("target") / "model.py"
    path.write_text(MODEL)
    return str(path)


def run(capsys, *arguments):
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_data_alone_is_printed_on_stdout(capsys, model):
    code, out, err = run(capsys, "explain", f"{model}:loss")
    assert code == 0 and "padded to 16, 32, 64" in out and "imported" not in out
    assert "imported" in err


def test_a_name_may_have_dots_and_json_is_json(capsys, model):
    code, out, _ = run(capsys, "explain", f"{model}:Model.loss", "--json")
    told = json.loads(out)
    assert code == 0 and "segment 0" in told["explanation"]
    assert told["stats"]["calls"] == 0


@pytest.mark.parametrize("suffix", ["html", "svg", "json"])
def test_a_plan_is_written(capsys, model, tmp_path, suffix):
    out = tmp_path / f"plan.{suffix}"
    more = "--out", str(out), "--no-open"
    code, printed, _ = run(capsys, "show", f"{model}:loss", *more)
    assert code == 0 and printed == f"{out}\n"
    assert "tanh" in out.read_text() or suffix == "html"


def test_the_source_is_a_program(capsys, model):
    code, out, _ = run(capsys, "source", f"{model}:first")
    assert code == 0
    compile(out, "printed", "exec")


def test_a_forecast_counts_what_bench_compiles(capsys, model):
    sizes = "--sizes", "n=1..40:3"
    code, out, _ = run(capsys, "forecast", f"{model}:loss", *sizes, "--json")
    forecast = json.loads(out)
    assert code == 0 and forecast["compilations"] == 3
    code, out, _ = run(capsys, "bench", f"{model}:loss", *sizes, "--json")
    told = json.loads(out)
    assert code == 0 and told["agree"] and told["calls"] == 14
    assert told["graphc"]["compilations"] == forecast["compilations"]
    assert told["jax"]["compilations"] == 14 and told["ratio"] > 0


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("step", ["--args", "float32[n,d]", "float32[d]"], "compiled for all sizes"),
        ("plain", ["--args", "float32[n]", "--dims", "pad"], "padded to 16"),
        ("positive", ["--args", "float64[n]", "--frontend=numpy"], "jit of positive"),
    ],
)
def test_a_function_without_a_plan_is_called_at_the_sizes(
    capsys, model, name, more, told
):
    sizes = "--sizes", "n=3..5", "d=4"
    code, out, _ = run(capsys, "explain", f"{model}:{name}", *sizes, *more)
    assert code == 0 and told in out


def test_results_that_differ_are_a_failed_check(capsys, model, monkeypatch):
    monkeypatch.setattr("graphc.command.bench._are_equal", lambda a, b: False)
    code, out, _ = run(capsys, "bench", f"{model}:loss", "--sizes", "n=4")
    assert code == 1 and "RESULTS DIFFER" in out


MISUSES = [
    ("explain model.py", "does not name a function: write FILE.py:NAME"),
    ("explain absent.py:f", "there is no file absent.py"),
    ("explain absent_module:f", "there is no file or module absent_module"),
    ("explain {}:los", "has no 'los'; it has loss"),
    ("explain {}:Model", "is a class, not a function"),
    ("explain {}:x", "is of type Value, not a function"),
    ("explain {}:loss --dims pad", "is compiled already: leave --dims out"),
    ("explain {}:loss --args float32[n]", "is compiled already: leave --args out"),
    ("explain {}:step --shapes n", "is compiled already: leave --shapes out"),
    ("explain {}:plain --args float33[n]", "unknown dtype 'float33'"),
    ("explain {}:plain --args float32[n+1]", "--args cannot be 'float32[n+1]'"),
    ("explain {}:plain --args float32[n]", "add --sizes n=8"),
    ("explain {}:plain --args float32[n] --sizes n", "--sizes cannot be 'n'"),
    ("explain {}:plain --args float32[n] --sizes n=9..3", "the first is larger"),
    ("explain {}:plain --args float32[n] --sizes n=3 n=4", "--sizes says n twice"),
    ("explain {}:plain --args float32[n] --sizes n=3.", "'3.' is neither a size"),
    ("forecast {}:loss", "n is missing"),
    ("forecast {}:loss --sizes q=3", "expected: n"),
    ("forecast {}:first --sizes n=1,2 k=1,2,3", "2 for n, 3 for k"),
    ("forecast {}:plain --sizes n=3", "has no plan before it is called"),
    ("bench {}:by_numpy --sizes n=3", "is not a function that jax.jit can compile"),
    ("bench {}:loss", "add --sizes n=8"),
    ("bench {}:head --sizes n=3", "the size k is open: add --sizes k=8"),
    (
        "explain {}:step --sizes n=3",
        "is called without x, w: add --args 'float32[n]' for each, and --sizes n=8",
    ),
    ("show {}:loss --out plan.txt", "a path that ends in .html, .svg or .json"),
    ("show {}:loss --out /absent/plan.html", "/absent/plan.html: No such file"),
    ("explain {}:plain --dims padd", "not a policy for sizes; did you mean 'pad'?"),
]


@pytest.mark.parametrize(("line", "told"), MISUSES)
def test_a_line_that_cannot_be_done_says_why(capsys, model, line, told):
    code, out, err = run(capsys, *line.format(model).split())
    assert (code, out) == (2, "") and told in err
    assert "<frozen" not in err


def test_errors_of_the_target_are_its_own(capsys, model, tmp_path):
    code, _, err = run(capsys, "explain", f"{model}:broken", "--args", "float32")
    assert code == 3 and "ZeroDivisionError" in err and "return 1 / len([])" in err
    assert "command/target.py" not in err
    failing = tmp_path / "failing.py"
    failing.write_text("import nothing_of_this_name\n")
    code, _, err = run(capsys, "explain", f"{failing}:f")
    assert code == 3 and "cannot be imported" in err and "nothing_of_this_name" in err


def test_a_size_that_is_an_argument_is_drawn_from_the_sizes(capsys, model):
    code, out, _ = run(capsys, "bench", f"{model}:first", "--sizes", "n=9", "k=2")
    assert code == 0 and "results agree" in out


def test_options_that_are_refused_name_no_line(capsys, model):
    more = ["--dims", "padd", "--args", "float32[n]", "--sizes", "n=3"]
    code, _, err = run(capsys, "explain", f"{model}:plain", *more)
    assert code == 2 and "did you mean 'pad'?" in err and "  at " not in err


def test_doctor_finds_this_installation_well(capsys):
    code, out, _ = run(capsys, "doctor")
    assert code == 0 and "FAULT" not in out
    assert f"graphc: {graphc.__version__}" in out


def test_doctor_tells_a_fault(capsys, monkeypatch):
    def broken():
        raise RuntimeError("no such op")

    monkeypatch.setattr("graphc.command.doctor.TESTS", {"a program": broken})
    code, out, _ = run(capsys, "doctor", "--json")
    faults = [f for f in json.loads(out) if not f["ok"]]
    assert code == 1
    assert faults == [
        {"subject": "a program", "ok": False, "remark": "RuntimeError: no such op"}
    ]


def test_doctor_leaves_out_what_an_extra_brings(capsys, monkeypatch):
    def missing():
        raise ModuleNotFoundError("export needs safetensors")

    monkeypatch.setattr("graphc.command.doctor.TESTS", {"exported file": missing})
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert "ok    exported file: left out: export needs safetensors" in out


def test_help_has_examples_and_codes(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["graphc", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("graphc", run_name="__main__")
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert "graphc bench step.py:step" in printed
    assert "exit codes:" in printed


def test_help_explains_an_entry_and_lists_them(capsys):
    code, out, err = run(capsys, "help", "call-dtype")
    assert code == 0 and err == ""
    assert out.startswith("### input … has another dtype\n")
    assert out.rstrip().endswith("```") and "\n## " not in out and "<a id" not in out
    code, out, _ = run(capsys, "help")
    assert code == 0 and out.startswith("call-dtype ") and "\nfallback " in out
    code, out, _ = run(capsys, "help", "call-dtype", "--json")
    assert list(json.loads(out)) == ["call-dtype"]
    code, out, err = run(capsys, "help", "call-dtyp")
    assert (code, out) == (2, "")
    assert err == (
        "graphc help: there is no entry 'call-dtyp'; did you mean 'call-dtype'?\n"
    )


def test_a_forecast_is_told_in_words(capsys, model):
    code, out, _ = run(capsys, "forecast", f"{model}:loss", "--sizes", "n=1..500")
    first, *others = out.splitlines()
    assert code == 0 and first == "compilations: 6"
    assert others[0] == "computed elements: 1.35 times those that count"


@pytest.mark.parametrize("name", ["explain", "show", "bench", "forecast", "help"])
def test_help_of_a_command_has_an_example(capsys, name):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert f"examples:\n  graphc {name} " in capsys.readouterr().out
