"""The costs of the current device, measured on little work."""

import sys

import jax

from graphc import __main__ as command
from graphc.runtime import calibrate


def test_the_command_prints_a_row(monkeypatch, capsys):
    little = {"SIDE": 32, "STEPS": 20, "REPEATS": 1, "LARGEST": 2**17, "PASSED": 2**18}
    little |= {
        "CHAINS": (1, 2, 3),
        "WIDTH": 4,
        "MOVED": 2**16,
        "CALLS": 3,
        "LAUNCHES": 2,
    }
    for name, value in little.items():
        monkeypatch.setattr(calibrate, name, value)
    monkeypatch.setattr(sys, "argv", ["graphc", "calibrate"])
    command.main()
    printed = capsys.readouterr().out
    row = eval(printed, {"DeviceCosts": calibrate.DeviceCosts})
    assert row.device == jax.default_backend() == "cpu"
    assert row.temporary in (2**16, 2**17)
    measured = row.products, row.step, row.bandwidth, row.dispatch
    assert min(measured) > 0 and row.read >= 0 == row.launch
    compiling = row.compiled, row.crowded, row.compiled_alike, row.looped
    assert min(compiling) >= 0 and max(compiling) > 0
    assert calibrate._launch_seconds() > 0  # on a CPU, it is no separate cost
