"""Compilations are reported to the logger `graphc`; long ones also to a terminal."""

import io
import logging
import re
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.config import Config
from graphc.runtime.driver import progress
from graphc.runtime.driver.xla import Event


class Terminal(io.StringIO):
    def isatty(self):
        return True


def squares(**options):
    x = gt.tensor("squared", "float32", ("n",))  # may be older equal graphs' nodes
    return graphc.function([x], gt.sum(x**2) + 1.25, **options)


def numbers(size):
    return np.ones(size, "float32")


def test_compilations_are_logged_with_sizes_and_lines(caplog):
    f = squares(dims="pad")
    with caplog.at_level(logging.INFO, "graphc"):
        f(numbers(3))
        f(numbers(5))
        f(numbers(20))
    told = [r.getMessage() for r in caplog.records if r.name == "graphc"]
    assert [text.partition(" at ")[0] for text in told if "compiling" in text] == [
        "compiling segment 0 for n_capacity = 16",
        "compiling segment 0 for n_capacity = 32",
    ]
    assert all(re.search(r" at \w+\.py:\d+", text) for text in told)
    assert len([text for text in told if text.startswith("compiled ")]) == 2


def test_a_long_compilation_is_a_line_that_goes_away(monkeypatch):
    monkeypatch.setattr(progress, "LONG", 0.0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    line = progress.show_progress(lambda: "compiling segment 0")
    while not terminal.getvalue():
        time.sleep(0.001)
    line.end()
    written = terminal.getvalue()
    assert written.startswith("\r\x1b[Kgraphc: compiling segment 0, 0 s")
    assert written.endswith("\r\x1b[K")


def test_a_call_leaves_no_thread_behind(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    ended = []
    end = progress.ProgressLine.end
    monkeypatch.setattr(
        progress.ProgressLine, "end", lambda line: (end(line), ended.append(line))
    )
    squares(dims="specialize")(numbers(3))
    assert len(ended) == 1
    assert not ended[0]._thread.is_alive()
    assert sys.stderr.getvalue() == ""  # it was short


@pytest.mark.parametrize("how", ["no terminal", "switched off"])
def test_nothing_is_written_where_it_is_not_wanted(monkeypatch, how):
    terminal = io.StringIO() if how == "no terminal" else Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(graphc.config, "progress", how == "no terminal")
    assert progress.show_progress(lambda: "compiling") is None


def test_an_interrupted_compilation_is_not_counted(monkeypatch):
    f = squares(dims="specialize")

    def interrupted(segment, sizes):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stderr", Terminal())
    announced = f._programs.newest.loaded.announced
    monkeypatch.setattr(announced, "teller", lambda: interrupted)
    with pytest.raises(KeyboardInterrupt):
        f(numbers(3))
    monkeypatch.undo()
    assert (f.stats().calls, f.stats().compilations) == (0, [])
    assert f(numbers(3)) == 4.25
    assert [c.sizes for c in f.stats().compilations] == [{"n": 3}]


def test_what_is_compiled_after_an_interrupt_is_told_as_if_there_had_been_none():
    """JAX does not trace again what it has traced, so an event comes unannounced."""
    f = squares(dims="specialize")
    log = f._programs.newest.log
    log.announced.compiling(0, n=3)
    log.interrupt()
    [one] = log.settle([Event(0, "jit(segment_0)", 1.5)])
    assert (one.seconds, one.reason, one.sizes) == (1.5, "first call", {"n": 3})
    [other] = log.settle([Event(0, "jit(segment_0)", 1.5)])
    assert (other.reason, other.sizes) == ("another placement of an argument", {})


def configured(**environment):
    return Config({f"GRAPHC_{name}": text for name, text in environment.items()})


def test_settings_come_from_the_environment():
    config = configured(
        FLOAT="float64", DIMS="pad", CASTING="same_kind", MAX_BYTES="1024", PROGRESS="0"
    )
    assert (config.float, config.dims) == ("float64", "pad")
    assert config.casting == "same_kind"
    assert (config.max_bytes, config.progress, config.cache_dir) == (1024, False, None)
    assert configured(CACHE_DIR="/tmp/x").cache_dir == "/tmp/x"
    assert configured(PROGRESS="").progress is True
    assert configured(PROCESS_WAIT="2.5").process_wait == 2.5
    assert configured().process_wait == 300


WRONG = {
    "FLOAT": ("int32", "cannot be 'int32'"),
    "CASTING": ("none", "expected: one of 'exact', 'safe', 'same_kind'"),
    "MAX_BYTES": ("much", "expected: an integer, at least 16"),
    "PROCESS_WAIT": ("0", "expected: a number of seconds, above 0"),
    "PROGRESS": ("yes", "expected: 0 or 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_variable_is_named(name):
    text, told = WRONG[name]
    with pytest.raises(graphc.GraphError) as error:
        configured(**{name: text})
    named = f"the environment variable GRAPHC_{name} cannot be {text!r}"
    assert named in str(error.value)
    assert told in str(error.value)


def test_a_process_is_told_at_the_import():
    command = [sys.executable, "-c", "import graphc"]
    variable = {"GRAPHC_MAX_BYTES": "3", "PATH": ""}
    ended = subprocess.run(command, env=variable, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "the environment variable GRAPHC_MAX_BYTES cannot be '3'" in ended.stderr


def test_logs_of_jax_carry_the_name_of_the_function(caplog):
    x = gt.tensor("x", "float32", ("n",))
    energy = graphc.function([x], gt.sum(x * x), dims="pad", name="energy")

    def loss(x):
        return jnp.sum(jnp.sin(x))

    jitted = graphc.jit(loss)
    with jax.log_compiles():
        for f in (energy, jitted):
            for n in (3, 4, 40):
                f(np.ones(n, "float32"))
    told = {r.getMessage().split(" with ")[0] for r in caplog.records}
    for name in ("energy.segment_0", "loss", "loss.segment_0"):
        assert f"Compiling jit({name})" in told
    assert any("compiling segment 0 of loss for n" in text for text in told)
    assert [len(f.stats().compilations) for f in (energy, jitted)] == [2, 3]


def test_a_name_is_a_text():
    x = gt.tensor("x", "float32", ("n",))
    with pytest.raises(graphc.GraphError, match="name cannot be 3"):
        graphc.function([x], x, name=3)
