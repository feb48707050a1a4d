"""Tests of the script that runs tests for `jax.jit` with `graphc.jit` in its place."""

import pathlib
import re
import subprocess
import sys

from tests.jax_suite import KNOWN, Outcome, Suite, Way, known_differences

HERE = pathlib.Path(__file__).parent
STYLE = HERE / "importers/jax/style"
ONE_KNOWN = """
[[difference]]
tests = ["forms_test.*.test_repr"]
reason = "a repr tells what it is"
"""
FORMS, DIFFERENT = "forms_test.FormsTest", "forms_test.DifferentTest"


def test_classes_are_counted_and_differences_fail(tmp_path):
    known = tmp_path / "known.toml"
    known.write_text(ONE_KNOWN)
    command = [sys.executable, HERE / "jax_suite.py", STYLE, "forms_test"]
    ran = subprocess.run(
        [*command, "--known", known], capture_output=True, text=True, cwd=HERE.parent
    )
    header, different, forms, total, *new = ran.stdout.splitlines()
    assert header.split() == "passed, by class jax.jit graphc.jit known new".split()
    # Tests that count traces pass under either `jit`, but not at another size first.
    assert forms.split() == [FORMS, "11", "11", "0", "0"]
    assert different.split() == [DIFFERENT, "3", "0", "1", "2"]
    assert total.split() == ["all", "14", "11", "1", "2"]
    named = [re.match(r"new: \S+\.(\w+) \((.*)\): (.*)", line).groups() for line in new]
    whys = {test: why for test, _, why in named}
    assert {when for _, when, _ in named} == {"as it is", "at another size first"}
    assert whys.keys() == {"test_attributes", "test_end_of_python"}
    assert whys["test_attributes"].startswith("AssertionError: ")
    assert whys["test_end_of_python"] == "it killed Python: exit status 3"
    assert ran.returncode == 1


def test_a_test_that_does_not_end_is_stopped_and_others_go_on():
    suite = Suite(STYLE, ["sleeping_test"], 1)
    (module,) = suite.modules()
    found = suite.outcomes(module, Way("graphc", False))
    assert found == {
        "sleeping_test.SleepingTest.test_a_long_time": Outcome(
            "stopped", "no end after 1 s"
        ),
        "sleeping_test.SleepingTest.test_afterwards": Outcome("passed"),
    }


def test_known_differences_have_reasons():
    known = known_differences(KNOWN)
    assert known and all(row.tests and row.reason for row in known)
